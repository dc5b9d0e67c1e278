"""Print JSON, and tables: with rich on a terminal, as plain columns in a pipe."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer

Rows = Sequence[Sequence[str]]


def show(title: str, columns: Sequence[str], rows: Rows) -> None:
    """Print a table to stdout; the last column may wrap on a terminal."""
    if sys.stdout.isatty():
        _draw(title, columns, rows)
    else:
        typer.echo("\n".join(filter(None, [title, *_align([columns, *rows])])))


def print_json(value: Any) -> None:
    """Print JSON to stdout, in ASCII."""
    typer.echo(json.dumps(value, indent=2))


def _align(rows: Rows) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _draw(title: str, columns: Sequence[str], rows: Rows) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(Text(column), no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
