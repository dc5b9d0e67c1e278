"""What the claims of the paper's text share: one corpus, and one model trained in several ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transduce.corpus.token_files import Corpus, open_corpus
from transduce.datasets import pocket
from transduce.datasets.pocket_texts import write
from transduce.errors import BadRun
from transduce.experiments.budget import Budget, schedule
from transduce.experiments.comparison import CORPUS, EXPERIMENT, Experiment
from transduce.experiments.rows import Data, Result, Row
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.training.settings import settled

TEXTS, RUNS = "texts", "runs"  # folders of an experiment
VALIDATIONS, SAVES = 4, 1  # of each training


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """How to train: the same for all that are compared."""

    out: Path
    preset: str = "tiny"
    steps: int
    settings: Mapping[str, str]
    device: str = "auto"

    def require(self) -> None:
        """Refuse settings that do not exist, and the folder of a run or of rows of a table."""
        settled(find_preset(self.preset), self.shared(), None)
        choose_device(self.device)
        for name in (EXPERIMENT, "config.json"):
            if (self.out / name).exists():
                raise BadRun(f"{self.out} holds something else ({name}): choose another folder")

    def shared(self) -> dict[str, str]:
        """Return the settings of all trainings."""
        recipe = find_preset(self.preset).train
        return {
            "steps": str(self.steps),
            **schedule(self.steps, recipe, VALIDATIONS, SAVES),
            "validate_bleu": "0",
            "average": "1",
            "keep": "1",
            **self.settings,
        }

    def said(self) -> str:
        """Tell what was scaled down, and by how much."""
        model, recipe = find_preset(self.preset).model, find_preset(self.preset).train
        batch = int(self.settings.get("batch_tokens", recipe.batch_tokens))
        return (
            f"Size: {pluralize(self.steps, 'step')} of {batch:,} tokens a side (the paper: 100,000 "
            f"of 25,000); preset {self.preset}, N = {self.settings.get('N', model.N)} and "
            f"d_model = {self.settings.get('d_model', model.d_model)} (the paper: base, 6 and 512)"
        )


@dataclass(frozen=True, slots=True)
class Trained:
    """Models that were trained in several ways on one corpus."""

    experiment: Experiment
    rows: dict[str, Row]
    results: dict[str, Result]

    def run(self, name: str) -> Path:
        """Return the run folder of one of them."""
        return self.experiment.folder / name

    def corpus(self) -> Corpus:
        """Return the token files that all of them share."""
        return open_corpus(self.experiment.folder / CORPUS)

    def test(self) -> list[tuple[str, str]]:
        """Return the sentences that they were tested with, and their translations."""
        return self.experiment.test(self.corpus())


def trained(
    name: str,
    trial: Trial,
    data: Data,
    variants: Mapping[str, Mapping[str, str]],
    progress: Progress,
    *,
    folder: str = RUNS,
) -> Trained:
    """Train the same model in several ways, each by its own settings; what is finished stays."""
    shared = trial.shared()
    experiment = Experiment(
        name=name,
        folder=trial.out / folder,
        data=data,
        settings=shared,
        budget=Budget(steps=trial.steps),
        validations=VALIDATIONS,
        saves=SAVES,
        device=trial.device,
        keep_weights=True,
    )
    rows = {
        one: Row(name=one, preset=trial.preset, settings=shared | dict(own))
        for one, own in variants.items()
    }
    experiment.open(list(rows.values()))
    experiment.run(list(rows.values()), progress)
    results = {one: experiment.finished(row) for one, row in rows.items()}
    return Trained(
        experiment, rows, {one: result for one, result in results.items() if result is not None}
    )


def pocket_texts(folder: Path, pairs: int, held: int, seed: int = 1) -> Data:
    """Write the corpus that comes along: so many pairs to train on, and so many of each other."""
    files = write(folder, pairs, held, seed)
    return Data(**files, languages="-".join(pocket.LANGUAGES))
