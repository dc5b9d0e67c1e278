"""`transduce settings`."""

import json as json_module
from collections.abc import Sequence
from typing import Annotated

import typer

from transduce.cli import completion, tables
from transduce.config import all_settings, find_setting
from transduce.settings.base import SettingInfo, format_value

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
        one = find_setting(name)
        typer.echo(json_module.dumps(one.to_json(), indent=2) if json else _one(one))
    elif json:
        typer.echo(json_module.dumps([one.to_json() for one in all_settings().values()], indent=2))
    else:
        _all(list(all_settings().values()))


def _one(one: SettingInfo) -> str:
    facts = {
        one.name: one.meaning,
        "group": one.group,
        "default": format_value(one.default),
        "values": one.values,
        "paper": one.paper or "not in the paper",
        "aliases": ", ".join(one.aliases) or "none",
    }
    width = max(map(len, facts))
    return "\n".join(f"{name:{width}}  {value}" for name, value in facts.items())


def _all(every: Sequence[SettingInfo]) -> None:
    """Print a table for each group."""
    for group, title in GROUPS.items():
        rows = [
            (one.name, format_value(one.default), one.paper, one.meaning)
            for one in every
            if one.group == group
        ]
        tables.show(title, COLUMNS, rows)
        typer.echo()
    typer.echo("transduce settings NAME shows one setting with its values and aliases", err=True)
