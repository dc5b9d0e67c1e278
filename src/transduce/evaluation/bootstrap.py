"""Bootstrap confidence intervals: statistics are computed once per line and summed per sample.

sacrebleu's public functions draw the same samples, but report the mean and half the width of the
interval, which may extend below 0 or above 100, and version 2.6 fails if a small sample has no
score. So two private methods of its metrics are used here; a test names them if they disappear.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from transduce.evaluation.metrics import References, check_lines, make_training_bleu
from transduce.system.progress import Advance

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sacrebleu.metrics.base import Metric

    Numbers = npt.NDArray[np.float64]
    Counts = npt.NDArray[np.int64]

PRIVATE_METHODS = ("_extract_corpus_statistics", "_compute_score_from_stats")  # of sacrebleu
SEED = 12345  # sacrebleu's default seed, so that the bootstrap samples are the same
MIN_SAMPLES, MAX_SAMPLES = 40, 1_000_000  # with fewer than 40, 2.5% is less than one sample


class Statistics(Protocol):
    """A metric's statistics for each line, from which any sample of lines can be scored."""

    @property
    def matrix(self) -> "Numbers":
        """The statistics, (lines, statistics)."""

    def score_sums(self, sums: "Numbers") -> float:
        """Score a sample of lines whose statistics have these sums."""


@dataclass(frozen=True, slots=True)
class LineStatistics:
    """The statistics of one of sacrebleu's metrics."""

    metric: "Metric"
    counts: list[list[float]]  # one list per line, as sacrebleu returns them
    matrix: "Numbers"  # the same, (lines, statistics)

    @classmethod
    def of(
        cls,
        metric: "Metric",
        hypotheses: Iterable[str],
        references: Sequence[Sequence[str]],
        advance: Advance = lambda lines: None,
    ) -> Self:
        """Compute the statistics of every line; `advance` is called after each line."""
        import numpy as np

        def tracked() -> Iterator[str]:
            for line in hypotheses:
                yield line
                advance(1)

        counts = metric._extract_corpus_statistics(tracked(), references)  # type: ignore[arg-type]  # noqa: SLF001
        return cls(metric, counts, np.array(counts, dtype=np.float64))

    def total(self) -> Any:
        """Return sacrebleu's score for all lines."""
        from sacrebleu.utils import sum_of_lists

        sums: list[float] = sum_of_lists(self.counts)  # type: ignore[no-untyped-call]
        return self.metric._compute_score_from_stats(sums)  # noqa: SLF001

    def score_sums(self, sums: "Numbers") -> float:
        """Score a sample of lines whose statistics have these sums."""
        return float(self.metric._compute_score_from_stats(sums.tolist()).score)  # noqa: SLF001

    def score(self, times: "Counts") -> float:
        """Score a sample in which line i occurs times[i] times."""
        return self.score_sums(times @ self.matrix)

    def interval(self, samples: int, advance: Advance) -> tuple[float, float]:
        """Return the 95% interval: the 2.5th and 97.5th percentiles of the samples' scores."""
        scores = []
        for times in bootstrap_samples(len(self.counts), samples):
            scores.append(self.score(times))
            advance(1)
        return percentile_interval(scores)


def bleu_statistics(
    hypotheses: Sequence[str], references: References, language: str | None = None
) -> LineStatistics:
    """Return statistics for BLEU, to compare systems on the same samples of lines."""
    lines, several = check_lines(hypotheses, references)
    return LineStatistics.of(make_training_bleu(language), lines, several)


def bootstrap_samples(lines: int, samples: int) -> Iterator["Counts"]:
    """Yield how often each line occurs in each sample; the samples are always the same."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    for _ in range(samples):
        yield np.bincount(generator.choice(lines, size=lines, replace=True), minlength=lines)


def percentile_interval(values: Iterable[float]) -> tuple[float, float]:
    """Return the smallest and largest values after cutting 2.5% from each end."""
    ordered = sorted(values)
    cut = len(ordered) // 40
    return ordered[cut], ordered[-1 - cut]
