"""How a finding is shown on a terminal, or piped."""

import dataclasses
import datetime as dt
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from transduce.errors import BadInput, printable
from transduce.experiments.findings import Finding, Table, refuse_foreign

WIDE = 160  # letters of a line of text where nobody looks
WORDS = 16  # letters that a column of words keeps: a cell that is longer may be broken
SHORT = 9  # letters of a column's name that is not
EDGES, GAP = 2, 3  # spaces around a table, and between two columns


def show(finding: Finding, out: Path | None) -> None:
    """Print a finding; write its files if a folder is given."""
    console = Console(highlight=False)
    if seen := sys.stdout.isatty():
        tables = [part for table in finding.tables for part in parts(table, console.width)]
    else:  # a line of a table stays one, however long
        tables = list(finding.tables)
        console.width = max([WIDE, *(_total(_widest(table)) for table in tables)])
    console.print(Text(finding.title, style="bold"))
    for table in tables:
        if table.title:
            console.print(Text(table.title))
        console.print(_drawn(table, console.width))
    for note in finding.notes:
        console.print(Text(_hanging(note, console.width if seen else WIDE)), soft_wrap=True)
    if out is not None:
        written = ", ".join(map(str, stamped(finding).save(out)))
        print(printable(f"wrote {written}"), file=sys.stderr)  # noqa: T201


def require(out: Path | None, name: str) -> None:
    """Refuse what cannot be the folder of a finding of this name, before anything is measured."""
    if out is not None and out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file: expected a folder")
    if out is not None:
        refuse_foreign(out, name)


def parts(table: Table, width: int) -> list[Table]:
    """Cut a table that is too wide into several, each with the columns that name its rows."""
    least = _least(table)
    if _total(least) <= width:
        return [table]
    names = list(range(_names(table)))
    cuts = [list(names)]
    for column in range(len(names), len(table.columns)):
        if cuts[-1] != names and _total([least[one] for one in (*cuts[-1], column)]) > width:
            cuts.append(list(names))
        cuts[-1].append(column)
    return [
        Table(
            "" if number else table.title,
            tuple(table.columns[column] for column in cut),
            tuple(tuple(row[column] for column in cut) for row in table.rows),
        )
        for number, cut in enumerate(cuts)
    ]


def stamped(finding: Finding) -> Finding:
    """Return a finding that says by what command it was made, and when."""
    command = shlex.join(["transduce", *sys.argv[1:]])
    now = dt.datetime.now(tz=dt.UTC).isoformat(sep=" ", timespec="minutes")
    made = {"command": command, "date": now}
    return dataclasses.replace(finding, data=finding.data | made)


def _drawn(table: Table, width: int) -> Drawn:
    """Lay a table out: what its columns do not need goes to those that would be broken."""
    least, widest = _least(table), _widest(table)
    spare = max(0, width - _total(least))
    for column in sorted(range(len(least)), key=lambda one: not table.is_of_words(one)):
        more = min(spare, widest[column] - least[column])
        least[column] += more
        spare -= more
    drawn = Drawn(box=box.SIMPLE, pad_edge=False)
    for column, name in enumerate(table.columns):
        left = column == 0 or table.is_of_words(column)
        drawn.add_column(Text(name), justify="left" if left else "right", width=least[column])
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def _names(table: Table) -> int:
    """Return how many of the first columns tell the rows apart."""
    count = len(table.columns)
    rows = len(table.rows)
    found = (one for one in range(1, count) if len({row[:one] for row in table.rows}) == rows)
    return next(found, 1)


def _widest(table: Table) -> list[int]:
    """Return the width of each column that breaks nothing."""
    cells = zip(table.columns, *table.rows, strict=True)
    return [max(map(cell_len, column)) for column in cells]


def _least(table: Table) -> list[int]:
    """Return the width of each column that breaks long names and cells of words, and no number."""
    found = []
    for column, (name, widest) in enumerate(zip(table.columns, _widest(table), strict=True)):
        whole = [name] if len(name) <= SHORT else name.split()
        cells = [row[column] for row in table.rows]
        if table.is_of_words(column):
            cells = [word for cell in cells for word in cell.split()]
            whole.append(" " * min(widest, WORDS))
        found.append(max(map(cell_len, [*whole, *cells])))
    return found


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1) + EDGES


def _hanging(note: str, width: int) -> str:
    """Break a note into lines, those after its dash aligned."""
    return textwrap.fill(
        f"- {note}",
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
