"""COMET, a neural metric (Rei et al. 2020), if the library unbabel-comet and a model are there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import BadInput, BadSetting, summarize_error
from transduce.evaluation.bootstrap import SEED, bootstrap_samples, percentile_interval
from transduce.evaluation.scores import Score
from transduce.system.progress import Progress

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

BATCH = 8
CHECKPOINT = Path("checkpoints") / "model.ckpt"  # in a downloaded model's folder


@dataclass(frozen=True)
class MeanStatistics:
    """The COMET score of each line; a sample's score is their mean."""

    matrix: "Numbers"  # (lines, 2): the score times 100, and 1

    def score_sums(self, sums: "Numbers") -> float:
        """Return the mean of the lines in a sample."""
        return float(sums[0] / sums[1])


class Comet:
    """A COMET model from a checkpoint on disk."""

    def __init__(self, path: str | Path, sources: Sequence[str], device: str = "auto") -> None:
        """Load the model. A checkpoint can execute code when loaded: use only trusted ones."""
        file = Path(path)
        file = file / CHECKPOINT if file.is_dir() else file
        if not file.is_file():
            raise BadInput(
                f"there is no COMET model {file}: expected a file such as "
                f"wmt22-comet-da/{CHECKPOINT.as_posix()}, downloaded beforehand"
            )
        try:
            from comet import load_from_checkpoint
        except ImportError:
            raise BadSetting(
                "COMET needs unbabel-comet, which is not installed: pip install unbabel-comet, "
                "in an environment of its own because it needs older versions of transformers"
            ) from None
        try:
            self.model: Any = load_from_checkpoint(str(file), local_files_only=True)
        except Exception as error:  # whatever torch, lightning and transformers raise
            raise BadInput(
                f"{file} cannot be loaded as a COMET model: {summarize_error(error)}"
            ) from None
        self.sources, self.device = list(sources), device
        inside = file.parent.name == CHECKPOINT.parent.name
        self.name = (file.parents[1] if inside else file.with_suffix("")).name

    @property
    def signature(self) -> str:
        """The library's version, the model's name, and the scale."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("unbabel-comet")
        except PackageNotFoundError:
            number = "unknown"
        return f"model:{self.name}|scale:100|version:{number}"

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[str], progress: Progress
    ) -> MeanStatistics:
        """Score each line."""
        import numpy as np

        if len(self.sources) != len(hypotheses):
            raise BadInput(
                f"there are {len(self.sources):,} sources but {len(hypotheses):,} translations: "
                "line n of one must be the source of line n of the other"
            )
        samples = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(
                self.sources, hypotheses, references, strict=True
            )
        ]
        progress.say(f"COMET scores {len(samples):,} lines")
        gpus = int(_has_gpu() if self.device == "auto" else self.device.startswith("cuda"))
        predicted = self.model.predict(samples, batch_size=BATCH, gpus=gpus, progress_bar=False)
        values = 100 * np.asarray(predicted.scores, dtype=np.float64)
        return MeanStatistics(np.stack([values, np.ones(len(values))], axis=1))

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        confidence: int,
        progress: Progress,
    ) -> Score:
        """Return the mean over lines, with a bootstrap interval if requested."""
        statistics = self.statistics(hypotheses, references, progress)
        signature, low, high = self.signature, None, None
        if confidence:
            samples = bootstrap_samples(len(hypotheses), confidence)
            scores = [statistics.score_sums(times @ statistics.matrix) for times in samples]
            low, high = percentile_interval(scores)
            signature += f"|bs:{confidence}|seed:{SEED}"
        value = statistics.score_sums(statistics.matrix.sum(0))
        return Score(name="COMET", value=value, signature=signature, low=low, high=high)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
