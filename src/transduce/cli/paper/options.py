"""What the commands that train share: the texts, and the budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import parse_settings, parse_time
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.rows import Data

# --valid, --valid-tsv, --test, --test-tsv, --languages
Others = tuple[tuple[str, str] | None, str | None, tuple[str, str] | None, str | None, str | None]

TEXTS, BUDGET, MACHINE = "Texts", "Budget and settings", "Machine"

Source = Annotated[
    str, typer.Argument(help="Source text (plain, gz, xz, zst), or a TSV of both sides.")
]
Target = Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")]
Valid = Annotated[
    tuple[str, str] | None,
    typer.Option(
        rich_help_panel=TEXTS,
        help="Validation text, both sides. Default: 1% held out, at most 2,000 pairs.",
    ),
]
ValidTsv = Annotated[
    str | None, typer.Option(rich_help_panel=TEXTS, help="Validation text, one TSV.")
]
Test = Annotated[
    tuple[str, str] | None,
    typer.Option(
        rich_help_panel=TEXTS, help="Text to score, both sides. Default: the validation text."
    ),
]
TestTsv = Annotated[str | None, typer.Option(rich_help_panel=TEXTS, help="Text to score, one TSV.")]
Languages = Annotated[
    str | None,
    typer.Option(rich_help_panel=TEXTS, metavar="en-de", help="Default: from the files' endings."),
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="A folder for runs and findings; the same again goes on."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        rich_help_panel=BUDGET,
        metavar="NAME=VALUE",
        help="Change a setting of all trainings; `transduce settings` lists them. Repeatable.",
    ),
]
Steps = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=BUDGET, help="Updates that each makes.")
]
Time = Annotated[
    str | None, typer.Option(rich_help_panel=BUDGET, help="Time that each trains: 90s, 30m.")
]
Seed = Annotated[
    int | None, typer.Option(rich_help_panel=BUDGET, help="Of everything random. Default: 1.")
]
KeepWeights = Annotated[
    bool,
    typer.Option(
        "--keep-weights",
        rich_help_panel=MACHINE,
        help="Keep the models of what is finished; else they are deleted with their checkpoints.",
    ),
]
Gather = Annotated[
    bool, typer.Option("--gather", help="Train nothing: tell what is finished in the folder.")
]


def settings_of(
    set_: list[str] | None, steps: int | None, time: str | None, seed: int | None
) -> tuple[dict[str, str], int | None, float | None]:
    """Return the settings, and the budget as steps or as seconds."""
    if steps is not None and time is not None:
        raise BadInput("--steps and --time are two budgets: give one")
    settings = parse_settings(set_ or [])
    for name in ("steps", "seconds", "epochs"):
        if name in settings:
            raise BadInput(f"--set {name}={settings[name]}: give the budget as --steps or --time")
    if seed is not None:
        settings["seed"] = str(seed)
    return settings, steps, None if time is None else parse_time(time)


def data_of(
    source: str,
    target: str | None,
    valid: tuple[str, str] | None,
    valid_tsv: str | None,
    test: tuple[str, str] | None,
    test_tsv: str | None,
    languages: str | None,
) -> "Data":
    """Return the texts."""
    from transduce.experiments.rows import Data

    return Data(
        train=(source, target),
        valid=one_of(valid, valid_tsv, "--valid"),
        test=one_of(test, test_tsv, "--test"),
        languages=languages,
    )


def listed(names: str | None) -> list[str]:
    """Return names with commas between them."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def one_of(
    files: tuple[str, str] | None, tsv: str | None, option: str
) -> tuple[str, str | None] | None:
    """Return a text that is given as two files or as a TSV, but not as both."""
    if files and tsv:
        raise BadInput(f"{option} and {option}-tsv name two texts: give one")
    return (tsv, None) if tsv else files
