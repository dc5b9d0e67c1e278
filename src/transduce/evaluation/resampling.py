"""Scores of one or several outputs of a system on random samples, for significance tests.

Outputs of several training runs differ by seed. The variation between seeds is estimated from all
systems together, because two or three runs of one system say little, and is added to each sample.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from transduce.evaluation.bootstrap import SEED, Statistics, bootstrap_samples
from transduce.system.progress import Advance

Numbers = npt.NDArray[np.float64]
TOLERANCE = 1e-9  # for scores that are equal except for rounding
BLOCK = 512  # trials drawn at once; a multiple of 32 gives the same bits as one draw of all


class SeedErrors:
    """Random errors of systems' means, as the variation between seeds causes them.

    They follow Student's t: a normal error over the square root of a chi-square that all systems
    share, because they share the estimated deviation.
    """

    def __init__(self, scores: Mapping[str, Sequence[float]], samples: int) -> None:
        """Estimate the deviation between seeds from the scores of each system's outputs."""
        self.freedom = sum(len(values) - 1 for values in scores.values())
        squares = sum(len(values) * float(np.var(values)) for values in scores.values())
        deviation = math.sqrt(squares / self.freedom) if self.freedom else 0.0
        self.deviation = deviation if self.freedom else None  # None: every system has one output
        self._random, self._samples = np.random.default_rng(SEED), samples
        self._spread: Numbers | float = 0.0
        if self.freedom:
            chi_square = self._random.chisquare(self.freedom, samples)
            self._spread = deviation * np.sqrt(self.freedom / chi_square)

    def draw(self, outputs: int) -> Numbers:
        """Return an error of the mean of so many outputs for each sample."""
        errors = self._random.standard_normal(self._samples) * self._spread
        return np.asarray(errors / math.sqrt(outputs))


@dataclass(frozen=True)
class Outputs:
    """The outputs of one system: statistics of each, and their mean for each line."""

    each: Sequence[Statistics]
    mean: Numbers  # (lines, statistics)

    @classmethod
    def of(cls, each: Sequence[Statistics]) -> Self:
        """Average the statistics of each line over the outputs."""
        total = each[0].matrix
        for statistics in each[1:]:
            total = total + statistics.matrix
        return cls(each, total / len(each))

    def scores(self) -> list[float]:
        """Return the score of each output."""
        return [statistics.score_sums(statistics.matrix.sum(0)) for statistics in self.each]

    def score(self, sums: Numbers) -> float:
        """Score sums of the mean statistics."""
        return self.each[0].score_sums(sums)


def bootstrap_scores(
    systems: Sequence[Outputs], samples: int, advance: Advance = lambda samples: None
) -> Numbers:
    """Score each system on the same bootstrap samples of lines: (systems, samples)."""
    scores = np.empty((len(systems), samples))
    for number, times in enumerate(bootstrap_samples(len(systems[0].mean), samples)):
        for row, system in zip(scores, systems, strict=True):
            row[number] = system.score(times @ system.mean)
        advance(1)
    return scores


def shuffled_differences(
    a: Outputs, b: Outputs, trials: int, advance: Advance = lambda trials: None
) -> Numbers:
    """Score differences after exchanging the outputs of random lines: (trials,)."""
    whole = a.mean.sum(0) + b.mean.sum(0)
    differences = np.empty(trials)
    number = 0
    for keep in _selections(len(a.mean), trials):
        ours = keep @ (a.mean - b.mean) + b.mean.sum(0)  # (block, statistics)
        for sums in ours:
            # Sums of integers are exact, sums of means are not: round away what is below 1e-6.
            other = np.round(whole - sums, 6)
            differences[number] = a.score(np.round(sums, 6)) - a.score(other)
            number += 1
        advance(len(ours))
    return differences


def _selections(lines: int, trials: int) -> Iterator[Numbers]:
    """Yield blocks of which lines keep their output in each trial: 1 or 0, (block, lines).

    These are the trials of sacrebleu, which draws all at once.
    """
    random = np.random.default_rng(SEED)
    for begin in range(0, trials, BLOCK):
        size = min(BLOCK, trials - begin)
        yield random.integers(2, size=(size, lines), dtype=bool).astype(np.float64)


def bootstrap_p(differences: Numbers, observed: float) -> float:
    """Return the p-value of an observed difference, as sacrebleu and Moses compute it."""
    sizes = np.abs(differences)
    return _share_from(sizes - sizes.mean(), abs(observed))


def randomisation_p(differences: Numbers, observed: float) -> float:
    """Return the share of trials whose difference is at least the observed one."""
    return _share_from(np.abs(differences), abs(observed))


def _share_from(values: Numbers, limit: float) -> float:
    """Return the share of values from a limit on; counting the observation keeps it above 0.

    Differs: sacrebleu leaves out values equal to the limit. Equal systems, and systems that differ
    in one line, then have the smallest possible p.
    """
    return (int(np.sum(values >= limit - TOLERANCE)) + 1) / (len(values) + 1)
