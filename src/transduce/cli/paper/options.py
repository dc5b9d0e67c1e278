"""Options that several `transduce paper` commands share: texts, budget and settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import panel, parse_settings, parse_time
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.budget import Budget
    from transduce.experiments.claims import Trial
    from transduce.experiments.rows import Data

# --valid, --valid-tsv, --test, --test-tsv, --languages
HeldOut = tuple[tuple[str, str] | None, str | None, tuple[str, str] | None, str | None, str | None]

PAIRS, HELD = 20_000, 500
# For the built-in corpus: the model sees each pair a few times within a minute.
POCKET_SETTINGS = {"vocabulary": "3000", "batch_tokens": "1000", "P_drop": "0"}

of_texts, of_budget = panel("Texts"), panel("Budget and settings")

Source = Annotated[
    str, typer.Argument(help="Source text (plain, gz, xz, zst), or a TSV of both sides.")
]
SourceOrPocket = Annotated[
    str | None,
    typer.Argument(
        help="Source text (plain, gz, xz, zst), or a TSV of both sides. Default: the built-in "
        "corpus."
    ),
]
Target = Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")]
Valid = Annotated[
    tuple[str, str] | None,
    of_texts(help="Validation text, both sides. Default: 1% held out, at most 2,000 pairs."),
]
ValidTsv = Annotated[str | None, of_texts(help="Validation text, one TSV.")]
Test = Annotated[
    tuple[str, str] | None,
    of_texts(help="Test text, both sides. Default: the validation text."),
]
TestTsv = Annotated[str | None, of_texts(help="Test text, one TSV.")]
Languages = Annotated[
    str | None, of_texts(metavar="en-de", help="Default: from the names of the files.")
]
Pairs = Annotated[int, of_texts(min=100, help="Training pairs of the built-in corpus.")]
Held = Annotated[
    int,
    of_texts(min=20, help="Validation pairs of the built-in corpus; as many are for the test."),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Folder for runs and findings; the same command continues there."
    ),
]
Preset = Annotated[str, of_budget(help="The preset to train.")]
Set = Annotated[
    list[str] | None,
    of_budget(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of all trainings; `transduce settings` lists them. Repeatable.",
    ),
]
Steps = Annotated[int | None, of_budget(min=1, help="Steps of each training.")]
ClaimSteps = Annotated[int, of_budget(min=1, help="Steps of each training.")]
Time = Annotated[str | None, of_budget(help="Time of each training: 90s, 30m.")]
Seed = Annotated[int | None, of_budget(help="The random seed. Default: 1.")]
KeepWeights = Annotated[
    bool,
    panel("Machine")(
        "--keep-weights",
        help="Keep the models of finished rows; otherwise they are deleted with their checkpoints.",
    ),
]
Gather = Annotated[
    bool, typer.Option("--gather", help="Train nothing: report the finished rows of the folder.")
]


def settings_of(set_: list[str] | None, seed: int | None) -> dict[str, str]:
    """Return the settings of all trainings."""
    settings = parse_settings(set_ or [])
    for name in ("steps", "seconds", "epochs"):
        if name in settings:
            raise BadInput(f"--set {name}={settings[name]}: give the budget as --steps or --time")
    if seed is not None:
        settings["seed"] = str(seed)
    return settings


def seconds_of(steps: int | None, time: str | None) -> float | None:
    """Return --time in seconds; refuse --steps beside it."""
    if steps is not None and time is not None:
        raise BadInput("--steps and --time are two budgets: give one")
    return None if time is None else parse_time(time)


def data_of(source: str, target: str | None, held_out: HeldOut) -> "Data":
    """Return the texts."""
    from transduce.experiments.rows import Data

    valid, valid_tsv, test, test_tsv, languages = held_out
    return Data(
        train=(source, target),
        valid=_either(valid, valid_tsv, "--valid"),
        test=_either(test, test_tsv, "--test"),
        languages=languages,
    )


def budget_of(steps: int | None, time: str | None) -> "Budget":
    """Return the budget of each training."""
    from transduce.experiments.budget import Budget

    return Budget(steps=steps, seconds=seconds_of(steps, time))


def trial_of(
    out: Path,
    source: str | None,
    preset: str,
    steps: int,
    set_: list[str] | None,
    seed: int | None,
    device: str,
) -> "Trial":
    """Return how to train for a claim, in a folder that holds nothing else."""
    from transduce.experiments.claims import Trial

    defaults = POCKET_SETTINGS if source is None else {}
    settings = defaults | settings_of(set_, seed)
    trial = Trial(out=out, preset=preset, steps=steps, settings=settings, device=device)
    trial.require()
    return trial


def data_or_pocket(
    out: Path, source: str | None, target: str | None, held_out: HeldOut, pairs: int, held: int
) -> "Data":
    """Return the given texts or, without any, write the built-in corpus."""
    from transduce.experiments.claims import TEXTS, pocket_texts

    if source is not None:
        return data_of(source, target, held_out)
    if any(held_out):
        raise BadInput("--valid, --test and --languages go with a text of your own: give one")
    return pocket_texts(out / TEXTS, pairs, held)


def listed(names: str | None) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def whole_numbers(option: str, text: str, example: str) -> list[int]:
    """Read whole numbers with commas between them."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise BadInput(f"{option} {text}: expected numbers such as {example}") from None


def _either(
    files: tuple[str, str] | None, tsv: str | None, option: str
) -> tuple[str, str | None] | None:
    if files and tsv:
        raise BadInput(f"{option} and {option}-tsv are two texts: give one")
    return (tsv, None) if tsv else files
