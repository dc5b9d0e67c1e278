"""Code shared by the experiments on the paper's claims: one model, trained in several ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.datasets import pocket
from transduce.datasets.pocket.files import write
from transduce.errors import BadRun
from transduce.experiments.budget import Budget, schedule
from transduce.experiments.comparison import Comparison, Setup
from transduce.experiments.experiment_folder import EXPERIMENT
from transduce.experiments.rows import Data, Result, Row
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.training.settings import configure

TEXTS, RUNS = "texts", "runs"  # folders of an experiment
VALIDATIONS, SAVES = 4, 1  # per training run


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Training setup shared by all models that are compared."""

    out: Path
    preset: str = "tiny"
    steps: int
    settings: Mapping[str, str]
    device: str = "auto"

    def require(self) -> None:
        """Refuse unknown settings, and a folder that contains a run or a table."""
        configure(find_preset(self.preset), self.shared(), None)
        choose_device(self.device)
        for name in (EXPERIMENT, "config.json"):
            if (self.out / name).exists():
                raise BadRun(f"{self.out} holds something else ({name}): choose another folder")

    def shared(self) -> dict[str, str]:
        """Return the settings shared by all training runs."""
        config = find_preset(self.preset).train
        return {
            "steps": str(self.steps),
            **schedule(self.steps, config, VALIDATIONS, SAVES),
            "validate_bleu": "0",
            "average": "1",
            "keep": "1",
            **self.settings,
        }

    def describe_scale(self) -> str:
        """Describe what was scaled down, and by how much."""
        model, config = find_preset(self.preset).model, find_preset(self.preset).train
        batch = int(self.settings.get("batch_tokens", config.batch_tokens))
        return (
            f"Size: {pluralize(self.steps, 'step')} of {batch:,} tokens per side (the paper: "
            f"100,000 of 25,000); preset {self.preset}, N = {self.settings.get('N', model.N)} and "
            f"d_model = {self.settings.get('d_model', model.d_model)} (the paper: base, 6 and 512)"
        )


def train_variants(
    name: str,
    trial: Trial,
    data: Data,
    variants: Mapping[str, Mapping[str, str]],
    progress: Progress,
    *,
    folder: str = RUNS,
    keep_checkpoints: Sequence[str] = (),
) -> tuple[Comparison, dict[str, Result]]:
    """Train one model with the settings of each variant; finished ones are not trained again.

    The caller deletes the checkpoints of the variants in `keep_checkpoints`.
    """
    shared = trial.shared()
    setup = Setup(
        out=trial.out / folder,
        data=data,
        budget=Budget(steps=trial.steps),
        device=trial.device,
        keep_weights=True,
        keep_checkpoints=keep_checkpoints,
    )
    comparison = Comparison(name=name, setup=setup, settings=shared)
    rows = [
        Row(name=variant, preset=trial.preset, settings=shared | dict(settings))
        for variant, settings in variants.items()
    ]
    comparison.open_and_run(rows, progress)
    return comparison, comparison.results(rows)


def pocket_texts(folder: Path, pairs: int, held: int) -> Data:
    """Write the built-in corpus: `pairs` for training, `held` for validation and for test each."""
    files = write(folder, pairs, held)
    return Data(**files, languages="-".join(pocket.LANGUAGES))
