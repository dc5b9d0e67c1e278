"""Options that several `transduce paper` commands share: texts, budget and settings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import Device, parse_settings, parse_time
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.claims import Trial
    from transduce.experiments.comparison import Setup
    from transduce.experiments.rows import Data

Number = TypeVar("Number", int, float)
TEXTS, BUDGET = "Texts", "Budget and settings"
# For the built-in corpus: with these, the model sees each pair a few times within a minute.
POCKET_SETTINGS = {"vocabulary": "3000", "batch_tokens": "1000", "P_drop": "0"}

Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Folder for runs and findings; the same command continues there."
    ),
]
Seed = Annotated[
    int | None, typer.Option(rich_help_panel=BUDGET, help="The random seed. Default: 1.")
]


@option_group(TEXTS)
class HeldOut:
    """The held-out texts, and the languages."""

    valid: tuple[str, str] | None = option(
        "Validation text, both sides. Default: 1% held out, at most 2,000 pairs."
    )
    valid_tsv: str | None = option("Validation text, one TSV.")
    test: tuple[str, str] | None = option("Test text, both sides. Default: the validation text.")
    test_tsv: str | None = option("Test text, one TSV.")
    languages: str | None = option("Default: from the names of the files.", metavar="en-de")

    def with_train(self, source: str, target: str | None) -> "Data":
        """Return all texts."""
        from transduce.experiments.rows import Data

        return Data(
            train=(source, target),
            valid=_either(self.valid, self.valid_tsv, "--valid"),
            test=_either(self.test, self.test_tsv, "--test"),
            languages=self.languages,
        )


@option_group(TEXTS)
class Texts(HeldOut):
    """All texts."""

    source: str = argument("Source text (plain, gz, xz, zst), or a TSV of both sides.")
    target: str | None = argument("Target text; none for a TSV.", default=None)

    def data(self) -> "Data":
        """Return the texts."""
        return self.with_train(self.source, self.target)


@option_group(TEXTS)
class TextsOrPocket(HeldOut):
    """All texts, or the size of the built-in corpus."""

    source: str | None = argument(
        "Source text (plain, gz, xz, zst), or a TSV of both sides. Default: the built-in corpus.",
        default=None,
    )
    target: str | None = argument("Target text; none for a TSV.", default=None)
    pairs: int = option("Training pairs of the built-in corpus.", default=20_000, min=100)
    held: int = option(
        "Validation pairs of the built-in corpus; as many are for the test.", default=500, min=20
    )

    def data(self, out: Path) -> "Data":
        """Return the given texts or, without any, write the built-in corpus."""
        from transduce.experiments.claims import TEXTS, pocket_texts

        if self.source is not None:
            return self.with_train(self.source, self.target)
        if self.valid or self.valid_tsv or self.test or self.test_tsv or self.languages:
            raise BadInput("--valid, --test and --languages go with a text of your own: give one")
        return pocket_texts(out / TEXTS, self.pairs, self.held)


def _either(
    files: tuple[str, str] | None, tsv: str | None, option: str
) -> tuple[str, str | None] | None:
    if files and tsv:
        raise BadInput(f"{option} and {option}-tsv are two texts: give one")
    return (tsv, None) if tsv else files


@option_group(BUDGET)
class Settings:
    """Settings for all training runs."""

    set_: list[str] | None = option(
        "Change a setting of all training runs; `transduce settings` lists them. Repeatable.",
        "--set",
        metavar="NAME=VALUE",
    )
    device: Device = "auto"

    def settings(self, seed: int | None) -> dict[str, str]:
        """Return the settings; refuse a budget among them."""
        settings = parse_settings(self.set_ or [])
        for name in ("steps", "seconds", "epochs"):
            if name in settings:
                raise BadInput(
                    f"--set {name}={settings[name]}: give the budget as --steps or --time"
                )
        if seed is not None:
            settings["seed"] = str(seed)
        return settings


@option_group(BUDGET)
class Budget:
    """The budget for each training run: steps or time."""

    steps: int | None = option("Steps per training run.", min=1)
    time: str | None = option("Time per training run: 90s, 30m.")

    @property
    def seconds(self) -> float | None:
        """The time in seconds; --steps with --time is refused."""
        if self.steps is not None and self.time is not None:
            raise BadInput("--steps and --time are two budgets: give one")
        return None if self.time is None else parse_time(self.time)


@option_group(BUDGET)
class Training(Settings, Budget):
    """The budget and settings for each training run."""

    seed: Seed = None


@option_group("Machine")
class Rows(Training, Texts):
    """The folder, the texts and the training options for a table."""

    out: Out
    gather: Annotated[
        bool,
        typer.Option("--gather", help="Train nothing: report the finished rows of the folder."),
    ] = False
    keep_weights: bool = flag(
        "Keep the models of finished rows; otherwise they are deleted with their checkpoints.",
        "--keep-weights",
    )

    def setup(self, jobs: int = 1) -> "Setup":
        """Return the setup of the table; `jobs` rows are trained side by side."""
        from transduce.experiments.budget import PAPERS_STEPS, Budget
        from transduce.experiments.comparison import Setup

        return Setup(
            out=self.out,
            data=self.data(),
            budget=Budget(steps=self.steps or PAPERS_STEPS, seconds=self.seconds),
            settings=self.settings(self.seed),
            device=self.device,
            keep_weights=self.keep_weights,
            gather=self.gather,
            jobs=jobs,
        )


@option_group(BUDGET)
class Claim(Settings, TextsOrPocket):
    """The texts and training options for an experiment on one of the paper's claims."""

    preset: str = option("The preset to train.", default="tiny")
    steps: int = option("Steps per training run.", default=500, min=1)

    def prepare(self, out: Path, settings: dict[str, str]) -> "tuple[Trial, Data]":
        """Return the trial and the texts; refuse the folder of a run or a table."""
        from transduce.experiments.claims import Trial

        defaults = POCKET_SETTINGS if self.source is None else {}
        trial = Trial(
            out=out,
            preset=self.preset,
            steps=self.steps,
            settings=defaults | settings,
            device=self.device,
        )
        trial.require()
        return trial, self.data(out)


def listed(names: str | None) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def numbers(kind: Callable[[str], Number], option: str, text: str, example: str) -> list[Number]:
    """Parse comma-separated numbers of a kind, int or float."""
    try:
        return [kind(number) for number in text.split(",")]
    except ValueError:
        raise BadInput(f"{option} {text}: expected numbers such as {example}") from None
