"""Print a finding to a terminal or a pipe."""

import dataclasses
import datetime as dt
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from transduce.errors import BadInput, printable
from transduce.experiments.findings import Finding, Table, refuse_foreign

PIPE_WIDTH = 160  # characters per line of text in a pipe
LEAST_TEXT_WIDTH = 16  # minimum width of a text column, whose longer cells may be wrapped
UNBROKEN = 9  # column names of up to this many characters are not wrapped
MARGIN, GAP = 2, 3  # spaces around a table, and between two columns


def show(finding: Finding, out: Path | None) -> None:
    """Print a finding; write its files if a folder is given."""
    console = Console(highlight=False)
    if terminal := sys.stdout.isatty():
        tables = [part for table in finding.tables for part in split(table, console.width)]
    else:  # in a pipe, a row stays on one line
        tables = list(finding.tables)
        console.width = max([PIPE_WIDTH, *(_total(_full_widths(table)) for table in tables)])
    console.print(Text(finding.title, style="bold"))
    for table in tables:
        if table.title:
            console.print(Text(table.title))
        console.print(_rich_table(table, console.width))
    width = console.width if terminal else PIPE_WIDTH
    for note in finding.notes:
        lines = textwrap.fill(
            f"- {note}",
            width,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        console.print(Text(lines), soft_wrap=True)
    if out is not None:
        written = ", ".join(map(str, stamped(finding).save(out)))
        print(printable(f"wrote {written}"), file=sys.stderr)  # noqa: T201


def require_folder(out: Path | None, name: str) -> None:
    """Before anything is measured, refuse a folder where this finding cannot be written."""
    if out is not None and out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file: expected a folder")
    if out is not None:
        refuse_foreign(out, name)


def split(table: Table, width: int) -> list[Table]:
    """Split a table that is too wide; each part repeats the columns that identify the rows."""
    least = _least_widths(table)
    if _total(least) <= width:
        return [table]
    keys = list(range(_key_columns(table)))
    parts = [list(keys)]
    for column in range(len(keys), len(table.columns)):
        if parts[-1] != keys and _total([least[c] for c in (*parts[-1], column)]) > width:
            parts.append(list(keys))
        parts[-1].append(column)
    return [
        Table(
            "" if number else table.title,
            tuple(table.columns[column] for column in part),
            tuple(tuple(row[column] for column in part) for row in table.rows),
        )
        for number, part in enumerate(parts)
    ]


def stamped(finding: Finding) -> Finding:
    """Add the command and the date to a finding."""
    command = shlex.join(["transduce", *sys.argv[1:]])
    now = dt.datetime.now(tz=dt.UTC).isoformat(sep=" ", timespec="minutes")
    return dataclasses.replace(finding, data=finding.data | {"command": command, "date": now})


def _rich_table(table: Table, width: int) -> RichTable:
    """Lay out a table; columns that would be wrapped get the spare width, text columns first."""
    widths, full = _least_widths(table), _full_widths(table)
    spare = max(0, width - _total(widths))
    for column in sorted(range(len(widths)), key=lambda column: not table.is_text(column)):
        more = min(spare, full[column] - widths[column])
        widths[column] += more
        spare -= more
    laid_out = RichTable(box=box.SIMPLE, pad_edge=False)
    for column, name in enumerate(table.columns):
        to_left = column == 0 or table.is_text(column)
        justify: JustifyMethod = "left" if to_left else "right"
        laid_out.add_column(Text(name), justify=justify, width=widths[column])
    for row in table.rows:
        laid_out.add_row(*map(Text, row))
    return laid_out


def _key_columns(table: Table) -> int:
    """Return how many of the first columns identify the rows."""
    for count in range(1, len(table.columns)):
        if len({row[:count] for row in table.rows}) == len(table.rows):
            return count
    return 1


def _full_widths(table: Table) -> list[int]:
    """Return the widths at which nothing is wrapped."""
    cells = zip(table.columns, *table.rows, strict=True)
    return [max(map(cell_len, column)) for column in cells]


def _least_widths(table: Table) -> list[int]:
    """Return the minimum widths: long names and text cells are wrapped, numbers never are."""
    widths = []
    for column, (name, full) in enumerate(zip(table.columns, _full_widths(table), strict=True)):
        unbroken = [name] if len(name) <= UNBROKEN else name.split()
        cells = [row[column] for row in table.rows]
        if table.is_text(column):
            cells = [word for cell in cells for word in cell.split()]
            unbroken.append(" " * min(full, LEAST_TEXT_WIDTH))
        widths.append(max(map(cell_len, [*unbroken, *cells])))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1) + MARGIN
