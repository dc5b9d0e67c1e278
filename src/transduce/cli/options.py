"""Options that several commands have."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from transduce.config import alias_notes, canonical
from transduce.errors import BadSetting
from transduce.progress import seconds_of


def panel(name: str) -> Any:
    """Return `typer.Option` for the options that --help shows together, under this name."""
    return partial(typer.Option, rich_help_panel=name)


on_machine, of_search, of_access = panel("Machine"), panel("Search"), panel("Access")

TrainedRun = Annotated[Path, typer.Argument(help="The run folder of a trained model.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting; `transduce settings` lists them. Repeatable.",
    ),
]
Device = Annotated[str, on_machine(help="auto, cpu, cuda, cuda:1 or mps.")]
EngineName = Annotated[
    str, on_machine(help="auto, torch or ctranslate2; auto: the fastest there is.")
]
Quantize = Annotated[
    str,
    on_machine(help="How ctranslate2 holds matrices: none, int8 …, or auto for this processor."),
]
Host = Annotated[
    str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")]
Browser = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]
KeyFile = Annotated[
    Path | None,
    of_access(
        metavar="FILE",
        help="Keys, one on each line, of which every request needs one; or set TRANSDUCE_KEY. "
        "Never an argument: every user of a machine sees those of all its programs.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    of_access(
        metavar="NAME",
        help="A further name that is answered to, such as translate.example.org; * is any.",
    ),
]
AllowOrigin = Annotated[
    list[str] | None,
    of_access(
        metavar="ORIGIN", help="Another site whose pages may ask, such as https://example.org."
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    of_access(
        metavar="ADDRESS", help="A proxy whose X-Forwarded-For tells the address of a client."
    ),
]
AccessLog = Annotated[bool, of_access("--access-log", help="Write a line for each request.")]


def those_given(**asked: Any) -> dict[str, Any]:
    """Return the settings that were asked for: a default is left to whom it belongs."""
    return {name: value for name, value in asked.items() if value is not None}


def parse_settings(texts: list[str]) -> dict[str, str]:
    """Read NAME=VALUE options; replace aliases and report each on stderr."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadSetting(f"--set {text}: expected NAME=VALUE, such as --set d_ff=4096")
        settings[name.strip()] = value.strip()
    for line in alias_notes(settings):
        typer.echo(f"--set {line}", err=True)
    return canonical(settings)


def parse_time(text: str) -> float:
    """Read a length of time such as 90s, 30m or 1h30m as seconds."""
    return seconds_of(text, "--time")
