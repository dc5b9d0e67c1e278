"""Options that several commands have."""

import inspect
import math
import shlex
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo, ParameterInfo

from transduce.config import alias_notes, canonical_settings
from transduce.errors import BadSetting
from transduce.settings.base import MAX_INT
from transduce.system.formatting import parse_duration, pluralize


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


def command(*words: str | Path) -> str:
    """Write a command of this program, quoted, that works when it is pasted into this shell."""
    return f"{_program()} {shlex.join(map(str, words))}"


def _program() -> str:
    """Return how this program can be started from here: by its name, its path or its module."""
    started = Path(sys.argv[0])
    by_name = shutil.which("transduce")
    if started == Path("transduce"):
        return "transduce"
    if by_name is not None:
        here = Path(sys.executable).absolute().parent
        if Path(by_name).absolute().parent == here or Path(by_name).absolute() == started:
            return "transduce"
    if started.stem == "transduce" and started.suffix in ("", ".exe"):
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m transduce"


def parameters(app: typer.Typer) -> Iterator[tuple[str, ParameterInfo]]:
    """Yield the name and the declaration of every parameter of every command."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from parameters(group.typer_instance)
    for one in app.registered_commands:
        for name, hint in inspect.get_annotations(one.callback).items() if one.callback else ():
            for info in getattr(hint, "__metadata__", ()):
                if isinstance(info, ParameterInfo):
                    yield name, info


def check_values(app: typer.Typer) -> None:
    """Have every option refuse values that no option can mean."""
    for _, info in parameters(app):
        if isinstance(info, OptionInfo) and info.callback is None:
            info.callback = check_value


def check_value(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Refuse numbers that torch cannot hold, and the name of an option where a value is expected.

    In `--valid dev.en --out run` the parser takes --out for the second file of --valid, and would
    then report that --out is missing.
    """
    names = {name for one in context.command.params for name in one.opts}
    known = {name for name in names if name.startswith("-")}  # an argument's has none
    values = value if isinstance(value, list | tuple) else (value,)
    flat = [part for one in values for part in (one if isinstance(one, tuple) else (one,))]
    for place, part in enumerate(flat):
        if isinstance(part, int) and abs(part) > MAX_INT:
            raise typer.BadParameter(f"expected at most {MAX_INT:,}")
        if isinstance(part, float) and not math.isfinite(part):
            raise typer.BadParameter(f"{part} is not a finite number")
        if isinstance(part, str | Path) and str(part) in known:
            before = flat[place - 1] if place else "it"
            many = pluralize(param.nargs, "value")
            raise typer.BadParameter(f"it takes {many}, but after {before} comes the option {part}")
    return value


def those_given(**asked: Any) -> dict[str, Any]:
    """Return the options that were given; the configurations have the defaults of the others."""
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
    return canonical_settings(settings)


def parse_time(text: str) -> float:
    """Read a length of time such as 90s, 30m or 1h30m as seconds."""
    return parse_duration(text, "--time")
