"""`transduce settings`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from transduce.cli import completion, tables
from transduce.cli.declaring import argument, flag

if TYPE_CHECKING:
    from transduce.settings.base import SettingInfo

EXAMPLES = """
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
    name: str | None = argument(
        "A setting, or its name in another toolkit. Default: all settings.",
        default=None,
        autocompletion=completion.setting_names,
    ),
    *,
    json: bool = flag("Print JSON.", "--json"),
) -> None:
    """List the settings: name, default, section of the paper, meaning.

    The defaults are the paper's; presets change some of them. A setting without a section is not
    in the paper. `--set`, recipes and Python also accept the names of other toolkits.
    """
    from transduce.config import all_settings, find_setting

    if name is not None:
        info = find_setting(name)
        if json:
            tables.print_json(info.to_json())
        else:
            typer.echo(_describe(info))
    elif json:
        tables.print_json([info.to_json() for info in all_settings().values()])
    else:
        _print_tables(list(all_settings().values()))


def _describe(info: "SettingInfo") -> str:
    from transduce.settings.base import format_value

    rows = {
        info.name: info.meaning,
        "group": info.group,
        "default": format_value(info.default),
        "values": info.values,
        "paper": info.paper or "not in the paper",
        "aliases": ", ".join(info.aliases) or "none",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


def _print_tables(infos: "Sequence[SettingInfo]") -> None:
    """Print one table per group."""
    from transduce.settings.base import format_value

    for group, title in GROUPS.items():
        rows = [
            (info.name, format_value(info.default), info.paper, info.meaning)
            for info in infos
            if info.group == group
        ]
        tables.show(title, COLUMNS, rows)
        typer.echo()
    typer.echo("transduce settings NAME shows one setting with its values and aliases", err=True)
