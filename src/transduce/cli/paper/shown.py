"""How a finding is shown on a terminal, or piped."""

import dataclasses
import datetime as dt
import shlex
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from transduce.paper.finding import Finding

WIDE = 160  # columns where nobody looks: a line of a table shall stay one


def show(finding: Finding, out: Path | None) -> None:
    """Print a finding; write its files if a folder is given."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    console.print(Text(finding.title, style="bold"))
    for table in finding.tables:
        drawn = Drawn(box=box.SIMPLE, title=Text(table.title), title_justify="left", pad_edge=False)
        for number, column in enumerate(table.columns):
            left = number == 0 or table.is_of_words(number)
            drawn.add_column(column, justify="left" if left else "right")
        for row in table.rows:
            drawn.add_row(*map(Text, row))
        console.print(drawn)
    for note in finding.notes:
        console.print(Text(f"- {note}"))
    if out is not None:
        written = ", ".join(map(str, stamped(finding).save(out)))
        print(f"written: {written}", file=sys.stderr)  # noqa: T201


def stamped(finding: Finding) -> Finding:
    """Return a finding that says by what command it was made, and when."""
    command = shlex.join(["transduce", *sys.argv[1:]])
    now = dt.datetime.now(tz=dt.UTC).isoformat(sep=" ", timespec="minutes")
    made = {"command": command, "date": now}
    return dataclasses.replace(finding, data=finding.data | made)
