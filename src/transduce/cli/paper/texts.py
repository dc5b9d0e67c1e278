"""What the commands for the claims of the text share: a text, or the corpus that comes along."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.paper import options
from transduce.cli.paper.options import BUDGET, TEXTS, settings_of
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.claims import Trial
    from transduce.experiments.rows import Data

PAIRS, HELD = 20_000, 500
# Of a model that sees each pair of the corpus that comes along a few times, within a minute.
POCKET = {"vocabulary": "3000", "batch_tokens": "1000", "P_drop": "0"}

Source = Annotated[
    str | None,
    typer.Argument(
        help="Source text (plain, gz, xz, zst), or a TSV of both sides. Default: the corpus that "
        "comes along."
    ),
]
Pairs = Annotated[
    int,
    typer.Option(
        min=100, rich_help_panel=TEXTS, help="Of the corpus that comes along, to train on."
    ),
]
Held = Annotated[
    int,
    typer.Option(
        min=20, rich_help_panel=TEXTS, help="Of the same, to validate on; as many again to test on."
    ),
]
Preset = Annotated[str, typer.Option(rich_help_panel=BUDGET, help="What is trained.")]
Steps = Annotated[int, typer.Option(min=1, rich_help_panel=BUDGET, help="Updates that each makes.")]


def data_of(
    out: Path,
    source: str | None,
    target: str | None,
    others: options.Others,
    pairs: int,
    held: int,
) -> "Data":
    """Return the texts that are given or, where none are, write the corpus that comes along."""
    from transduce.experiments.claims import TEXTS as FOLDER
    from transduce.experiments.claims import pocket_texts

    if source is not None:
        return options.data_of(source, target, *others)
    if any(others):
        raise BadInput("--valid, --test and --languages go with a text of your own: give one")
    return pocket_texts(out / FOLDER, pairs, held)


def trial_of(
    out: Path,
    source: str | None,
    preset: str,
    steps: int,
    set_: list[str] | None,
    seed: int | None,
    device: str,
) -> "Trial":
    """Return how to train, in a folder that holds nothing else."""
    from transduce.experiments.claims import Trial

    settings, _, _ = settings_of(set_, None, None, seed)
    usual = POCKET if source is None else {}
    trial = Trial(out=out, preset=preset, steps=steps, settings=usual | settings, device=device)
    trial.require()
    return trial
