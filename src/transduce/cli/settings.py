"""`transduce settings`."""

import json as json_module
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import completion
from transduce.config import described, find
from transduce.settings import Described, written

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
[bold]Examples[/bold]

transduce settings

transduce settings P_drop

transduce train train.en train.de --out run --set P_drop=0.3 --set N=4
"""
GROUPS = {
    "model": "Model: --set when training, settings={...} in Python",
    "training": "Training: --set when training, settings={...} in Python",
    "search": "Search: options of translate, arguments of translate() in Python",
}
COLUMNS = ("setting", "default", "paper", "meaning")


def settings(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One setting, or its name in another toolkit. Default: all settings.",
            autocompletion=completion.setting_names,
        ),
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """List the settings: name, default, section of the paper, meaning.

    The defaults are the paper's; presets change some of them. A setting without a section is not
    in the paper. `--set`, recipes and Python accept the names that other toolkits have for them.
    """
    if name is not None:
        one = find(name)
        typer.echo(json_module.dumps(one.to_json(), indent=2) if json else _one(one))
    elif json:
        typer.echo(json_module.dumps([one.to_json() for one in described().values()], indent=2))
    else:
        _all(list(described().values()))


def _one(one: Described) -> str:
    facts = {
        one.name: one.meaning,
        "group": one.group,
        "default": written(one.default),
        "values": one.values,
        "paper": one.paper or "not in the paper",
        "aliases": ", ".join(one.aliases) or "none",
    }
    width = max(map(len, facts))
    return "\n".join(f"{name:{width}}  {value}" for name, value in facts.items())


def _all(every: Sequence[Described]) -> None:
    """Draw a table for each group on a terminal; else print plain columns."""
    from rich.console import Console

    console = Console(highlight=False) if sys.stdout.isatty() else None
    for group, title in GROUPS.items():
        rows = [
            (one.name, written(one.default), one.paper, one.meaning)
            for one in every
            if one.group == group
        ]
        if console:
            _drawn(console, title, rows)
        else:
            typer.echo(f"{title}\n{_plain(rows)}\n")
    typer.echo("transduce settings NAME shows one setting with its values and aliases", err=True)


def _drawn(console: "Console", title: str, rows: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column == "setting", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)
    console.print()


def _plain(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(len(COLUMNS) - 1)]
    lines = []
    for *cells, last in (COLUMNS, *rows):
        shown = [f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)]
        lines.append("  ".join([*shown, last]))
    return "\n".join(lines)
