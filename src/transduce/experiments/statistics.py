"""Statistics for small numbers of runs: bootstrap intervals, rank correlation, power-law fits.

Bootstrap intervals resample the test sentences (Koehn 2004): they contain 95% of the
values on other samples of the same sentences. They include the variation between seeds only if
systems were trained with several (`Resampled.over_seeds`).
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from transduce.evaluation.bootstrap import (
    bleu_statistics,
    bootstrap_samples,
    percentile_interval,
)
from transduce.evaluation.resampling import SeedErrors
from transduce.parsing.evaluation import TreeScore

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Interval = tuple[float, float]

SAMPLES = 1000
LEAST_ROWS = 3  # for a rank correlation
LAST_POINTS = 4  # points of a measurement that `fit_largest` uses
# Student's t for a 95% interval, by degrees of freedom: 1, 2, …
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95% bootstrap interval."""

    value: float
    low: float
    high: float

    def show(self, digits: int = 2) -> str:
        """Write the value and its interval."""
        return f"{self.value:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def ranks(values: Sequence[float] | Numbers) -> Numbers:
    """Return the rank of each value, 1 for the lowest; ties share their mean rank."""
    array = np.asarray(values, dtype=np.float64)
    lower = (array[:, None] > array).sum(1)
    equal = (array[:, None] == array).sum(1)  # including itself
    return np.asarray(lower + (equal + 1) / 2)


def spearman(a: Sequence[float] | Numbers, b: Sequence[float] | Numbers) -> float:
    """Return the rank correlation of two columns, -1 to 1; NaN if one is constant."""
    left, right = (column - column.mean() for column in (ranks(a), ranks(b)))
    scale = math.sqrt(float(left @ left) * float(right @ right))
    return float(left @ right) / scale if scale else math.nan


class LineCounts(Protocol):
    """A metric's counts for each line of a test set, from which any sample can be scored."""

    def score(self, times: Counts, /) -> float:
        """Score a sample in which line i occurs times[i] times."""


@dataclass(frozen=True, slots=True)
class BracketCounts:
    """The brackets of each sentence, from which the labelled F1 of any sample can be computed."""

    matrix: Numbers  # (sentences, 2): matched brackets; those of both trees

    @classmethod
    def of(cls, scores: Sequence[TreeScore]) -> Self:
        """Count the brackets that EVALB counts: a sentence that is an error has none."""
        rows = [(score.matched, score.gold + score.guessed) for score in scores]
        return cls(np.array(rows, dtype=np.float64).reshape(-1, 2))

    def score(self, times: Counts, /) -> float:
        """Return the F1 in percent: the harmonic mean of precision and recall."""
        matched, brackets = (times @ self.matrix).tolist()
        return float(200 * matched / brackets) if brackets else 0.0


class ResampledScores:
    """Scores of several systems on the same bootstrap samples of one test set."""

    def __init__(
        self, counts: Mapping[str, LineCounts], lines: int, samples: int = SAMPLES
    ) -> None:
        draws = list(bootstrap_samples(lines, samples))
        every_line_once = np.ones(lines, dtype=np.int64)
        self.whole = {name: system.score(every_line_once) for name, system in counts.items()}
        self.seed_deviation: float | None = None  # of BLEU; None if every system has one run
        self.samples = {  # by system, (samples,)
            name: np.array([system.score(times) for times in draws])
            for name, system in counts.items()
        }

    def over_seeds(self, runs: Mapping[str, Sequence[str]]) -> Self:
        """Return the means of systems that were trained with several seeds. `runs` names them.

        The samples then include the variation between seeds. Its standard deviation is estimated
        from the runs of all systems together, because two or three runs of one say little. If no
        system has several runs, nothing changes.
        """
        scores = {name: [self.whole[run] for run in each] for name, each in runs.items()}
        drawn = len(next(iter(self.samples.values())))
        seed_errors = SeedErrors(scores, drawn)
        means = copy.copy(self)
        means.whole = {name: fmean(values) for name, values in scores.items()}
        means.samples = {}
        for name, each in runs.items():
            sampled = np.mean([self.samples[run] for run in each], axis=0)
            means.samples[name] = sampled + seed_errors.draw(len(each))
        means.seed_deviation = seed_errors.deviation
        return means

    def estimate(self, name: str) -> Estimate:
        """Return a system's score on the whole test set, with its interval."""
        return Estimate(self.whole[name], *percentile_interval(self.samples[name].tolist()))

    def difference(self, name: str, base: str) -> Interval:
        """Return the 95% interval of a system's score minus another's.

        Rounded to two digits, as printed: a bound that prints as 0 counts as 0.
        """
        low, high = percentile_interval((self.samples[name] - self.samples[base]).tolist())
        return round(low, 2) + 0.0, round(high, 2) + 0.0  # -0.0 becomes 0.0

    def correlation(self, paper: Mapping[str, float]) -> Estimate | None:
        """Return the rank correlation with the paper's numbers; None if undefined."""
        names = [name for name in self.samples if name in paper]
        theirs = [paper[name] for name in names]
        value = spearman([self.whole[name] for name in names], theirs) if names else math.nan
        if len(names) < LEAST_ROWS or math.isnan(value):
            return None
        samples = np.stack([self.samples[name] for name in names])  # (rows, samples)
        correlations = [spearman(column, theirs) for column in samples.T]
        low, high = percentile_interval(number for number in correlations if not math.isnan(number))
        return Estimate(value, low, high)


class Resampled(ResampledScores):
    """BLEU of several systems on the same bootstrap samples of one test set."""

    def __init__(
        self,
        translations: Mapping[str, Sequence[str]],
        references: Sequence[str],
        language: str | None = None,
        samples: int = SAMPLES,
    ) -> None:
        counts = {
            name: bleu_statistics(lines, references, language)
            for name, lines in translations.items()
        }
        super().__init__(counts, len(references), samples)


class ResampledF1(ResampledScores):
    """Labelled F1 of several parsers on the same bootstrap samples of one set of trees."""

    def __init__(self, scores: Mapping[str, Sequence[TreeScore]], samples: int = SAMPLES) -> None:
        (sentences,) = {len(each) for each in scores.values()}
        counts = {name: BracketCounts.of(each) for name, each in scores.items()}
        super().__init__(counts, sentences, samples)


@dataclass(frozen=True, slots=True)
class Power:
    """y grows as x^exponent between `first` and `last`."""

    exponent: float
    low: float  # end of the 95% interval; NaN for two points
    high: float
    first: float  # x
    last: float

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ({self.low:.2f} to {self.high:.2f})"


def fit_power(x: Sequence[float], y: Sequence[float]) -> Power | None:
    """Fit a power law by least squares on the logarithms; None for fewer than two points.

    The interval uses Student's t and only the residuals.
    """
    if len(x) < 2:
        return None
    log_x, log_y = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    centred = log_x - log_x.mean()
    exponent = float(centred @ log_y / (centred @ centred))
    residuals = log_y - log_y.mean() - exponent * centred
    freedom = len(x) - 2
    half_width = math.nan
    if freedom:
        error = math.sqrt(float(residuals @ residuals) / freedom / float(centred @ centred))
        half_width = error * T_95[min(freedom, len(T_95)) - 1]
    return Power(exponent, exponent - half_width, exponent + half_width, min(x), max(x))


def fit_largest(x: Sequence[float], y: Sequence[float]) -> Power | None:
    """Fit a power law to the last points, where constant costs matter least."""
    return fit_power(x[-LAST_POINTS:], y[-LAST_POINTS:])


def mean_over_seeds(values: Sequence[float]) -> Estimate:
    """Return the mean of several seeds with its 95% interval by Student's t; of one, the value."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Estimate(mean, mean, mean)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    half_width = error * T_95[min(count - 1, len(T_95)) - 1]
    return Estimate(mean, mean - half_width, mean + half_width)
