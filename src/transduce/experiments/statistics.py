"""What numbers of few runs can say: ranks that agree, and differences beyond chance.

Chance here is which sentences were tested (Koehn 2004): intervals hold 95% of what other samples of
the same sentences give. How much another seed would change they do not know.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transduce.evaluation.bootstrap import (
    LineStatistics,
    bleu_statistics,
    bootstrap_samples,
    percentile_interval,
)

Numbers = npt.NDArray[np.float64]
Interval = tuple[float, float]

SAMPLES = 1000
FEWEST = 3  # rows whose ranks are worth comparing


def ranks(values: Sequence[float] | Numbers) -> Numbers:
    """Return the rank of each value, 1 for the lowest; equal ones share the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    different, place, times = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(times)  # the highest rank of each different value
    means: Numbers = last - (times - 1) / 2
    return means[place] if len(different) else array


def spearman(one: Sequence[float] | Numbers, other: Sequence[float] | Numbers) -> float:
    """Return the rank correlation of two columns, -1 to 1; none (NaN) where one is constant."""
    left, right = (column - column.mean() for column in (ranks(one), ranks(other)))
    scale = math.sqrt(float(left @ left) * float(right @ right))
    return float(left @ right) / scale if scale else math.nan


@dataclass(frozen=True, slots=True)
class Correlation:
    """How well two columns agree in rank, over so many rows."""

    value: float
    low: float
    high: float
    rows: int

    def __str__(self) -> str:
        return f"{self.value:.2f} (95% interval {self.low:.2f} to {self.high:.2f})"


class Resampled:
    """BLEU of several systems on the same samples of the same test sentences."""

    def __init__(
        self,
        translations: Mapping[str, Sequence[str]],
        references: Sequence[str],
        language: str | None = None,
        samples: int = SAMPLES,
    ) -> None:
        counted = {
            name: bleu_statistics(lines, references, language)
            for name, lines in translations.items()
        }
        draws = list(bootstrap_samples(len(references), samples))
        everything = np.ones(len(references), dtype=np.int64)
        self.whole = {name: one.score(everything) for name, one in counted.items()}
        self.of = {name: _scores(one, draws) for name, one in counted.items()}  # (samples,)

    def interval(self, name: str) -> Interval:
        """Return the 95% interval of a system's BLEU."""
        return percentile_interval(self.of[name].tolist())

    def difference(self, name: str, base: str) -> Interval:
        """Return the 95% interval of how far a system lies above another.

        In the decimals that are told: what would read as 0 is no difference.
        """
        low, high = percentile_interval((self.of[name] - self.of[base]).tolist())
        return round(low, 2) + 0.0, round(high, 2) + 0.0  # and -0.0 is 0.0

    def correlation(self, paper: Mapping[str, float]) -> Correlation | None:
        """Return the rank correlation with what the paper has, or nothing where there is none."""
        names = [name for name in self.of if name in paper]
        theirs = [paper[name] for name in names]
        value = spearman([self.whole[name] for name in names], theirs) if names else math.nan
        if len(names) < FEWEST or math.isnan(value):
            return None
        samples = np.stack([self.of[name] for name in names])  # (rows, samples)
        found = [spearman(column, theirs) for column in samples.T]
        low, high = percentile_interval(one for one in found if not math.isnan(one))
        return Correlation(value, low, high, len(names))


def _scores(counted: LineStatistics, draws: Sequence[npt.NDArray[np.int64]]) -> Numbers:
    return np.array([counted.score(times) for times in draws])
