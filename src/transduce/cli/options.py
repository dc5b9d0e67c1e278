"""Options that several commands share."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.declaring import option, option_group
from transduce.errors import BadSetting
from transduce.system.formatting import parse_duration

if TYPE_CHECKING:
    from transduce.runs.folder import RunConfig

TrainedRun = Annotated[Path, typer.Argument(help="Run folder of a trained model.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting (see `transduce settings`). Repeatable.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        rich_help_panel="Machine", help="Where to compute: auto, cpu, cuda, cuda:1 or mps."
    ),
]


@option_group("Languages")
class LanguageOptions:
    """The direction, for models of several pairs of languages."""

    to: str | None = option(
        "Target language, of a model that translates to several.", metavar="LANGUAGE"
    )
    from_: str | None = option(
        "Source language, for sentence splitting and checks. Default: unknown if the model has "
        "several.",
        "--from",
        metavar="LANGUAGE",
    )

    def config(self, run: Path) -> "RunConfig":
        """Return the configuration of a run with the chosen languages."""
        from transduce.runs.folder import RunConfig

        return RunConfig.load(run).directed(self.to, self.from_)


@option_group("Machine")
class EngineOptions:
    """The device and engine; options are named like the arguments of `Translator.load`."""

    device: Device = "auto"
    engine: str = option(
        "Engine: auto (the fastest available), torch or ctranslate2.", default="auto"
    )
    quantize: str = option(
        "Quantisation of ctranslate2: none, int8 …, or auto (the fastest on this CPU).",
        default="none",
    )


@option_group()
class SettingOptions:
    """Settings of a training run: --set, and shorthand options for common settings."""

    set_: Set = None
    steps: int | None = option("Number of updates.")
    epochs: int | None = option("Number of passes over the data.")
    time: str | None = option("Time to train: 90s, 30m, 1h30m.")
    seed: int | None = option("Seed of all random numbers. Default: 1.")

    def parsed(self, batch: str | None = None) -> dict[str, str]:
        """Return the settings, with the batch size if it is given."""
        from transduce.recipes.recipe import settings_of

        return parse_settings(self.set_ or []) | settings_of(
            steps=self.steps,
            epochs=self.epochs,
            seed=self.seed,
            seconds=None if self.time is None else parse_time(self.time),
            batch=batch,
        )


def command(*words: str | Path) -> str:
    """Return a `transduce` command line, quoted for pasting into a shell."""
    return f"{_program()} {shlex.join(map(str, words))}"


def _program() -> str:
    """Return how to start this program: by its name, its path or its module."""
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


def without_none(**options: Any) -> dict[str, Any]:
    """Return the options that are not None; the configuration classes hold the defaults."""
    return {name: value for name, value in options.items() if value is not None}


def parse_settings(texts: list[str]) -> dict[str, str]:
    """Parse NAME=VALUE options; replace aliases and report each on stderr."""
    from transduce.config import alias_notes, canonical_settings

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
    """Convert a duration such as 90s, 30m or 1h30m into seconds."""
    return parse_duration(text, "--time")
