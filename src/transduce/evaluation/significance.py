"""Paired significance tests for several systems on one test set, as in sacreBLEU.

The first system is the baseline. The p-value of each other system is the probability of a
difference from the baseline at least this large if the two were equally good.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from transduce.errors import BadInput, BadSetting
from transduce.evaluation.bootstrap import MIN_SAMPLES
from transduce.evaluation.metrics import DEFAULT_METRICS, References, check_lines, make_metrics
from transduce.system.progress import Advance, Progress, Silent, track_if_slow

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Test = Literal["bs", "ar"]  # paired bootstrap, approximate randomisation; sacrebleu's names
SAMPLES: dict[Test, int] = {"bs": 1_000, "ar": 10_000}  # sacrebleu's defaults
MEMORY = 8 << 30  # bytes a test may use; sacrebleu keeps all samples of all lines in memory
MAX_STATISTICS = 24  # per line; chrF++ has the most
SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemScore:
    """The score of one system."""

    system: str
    value: float
    mean: float | None = None  # of the bootstrap samples
    interval: float | None = None  # half the width of the 95% interval around the mean
    p: float | None = None  # None for the baseline

    @property
    def significant(self) -> bool:
        """Whether the difference from the baseline is significant."""
        return self.p is not None and self.p < SIGNIFICANT


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The scores of all systems by one metric; the first system is the baseline."""

    name: str  # of the metric
    signature: str
    test: Test
    samples: int
    systems: tuple[SystemScore, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return dataclasses.asdict(self)


def compare(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    language: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    test: Test = "bs",
    samples: int = 0,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Score systems and test their differences from the first one; options are as for `score`.

    `test` is bs (paired bootstrap, by default 1,000 samples) or ar (approximate randomisation, by
    default 10,000 trials); `samples` overrides the default. The results equal those of
    `sacrebleu -i A B --paired-bs`.
    """
    if len(systems) < 2:
        raise BadInput(f"there are {len(systems)} systems to compare: expected two or more")
    if test not in SAMPLES:
        raise BadSetting(f"test = {test!r}: expected 'bs' or 'ar'")
    samples = samples or SAMPLES[test]
    measures = make_metrics(metrics, language, lowercase, tokenize)
    lines = {name: check_lines(hypotheses, references) for name, hypotheses in systems.items()}
    several = next(iter(lines.values()))[1]
    _check(samples, len(several[0]))
    return [
        _compare(
            metric,
            {name: hypotheses for name, (hypotheses, _) in lines.items()},
            several,
            test,
            samples,
            progress or Silent(),
        )
        for metric in measures
    ]


def _check(samples: int, lines: int) -> None:
    """Refuse a number of samples that is too small for an interval, or too large for memory."""
    most = MEMORY // (lines * (4 * MAX_STATISTICS + 8))
    if not MIN_SAMPLES <= samples <= most:
        raise BadSetting(
            f"samples = {samples}: expected at least {MIN_SAMPLES}, and at most {most:,} for "
            f"{lines:,} lines, as all samples are in memory at once"
        )


def _compare(
    metric: "Metric",
    systems: Mapping[str, list[str]],
    references: list[list[str]],
    test: Test,
    samples: int,
    progress: Progress,
) -> Comparison:
    """Run sacrebleu's paired test with one metric."""
    from sacrebleu.significance import PairedTest, Result

    total = len(systems) * len(references[0])
    with (
        track_if_slow(progress, f"comparing by {type(metric).__name__}", total, "lines") as advance,
        warnings.catch_warnings(),
    ):
        # A sample of few lines may have no n-grams; sacrebleu then divides 0 by 0.
        warnings.simplefilter("ignore", RuntimeWarning)
        named: list[tuple[str, Sequence[str]]]
        named = [(name, _TrackedLines(lines, advance)) for name, lines in systems.items()]
        run = PairedTest(named, {"": metric}, references, test, samples)
        signatures, scores = run()
    (name,) = signatures
    return Comparison(
        name=name,
        signature=str(signatures[name]),
        test=test,
        samples=samples,
        systems=tuple(
            SystemScore(
                system=system,
                value=float(result.score),
                mean=None if result.mean is None else float(result.mean),
                interval=None if result.ci is None else float(result.ci),
                p=None if result.p_value is None else float(result.p_value),
            )
            for system, result in zip(systems, scores[name], strict=True)
            if isinstance(result, Result)
        ),
    )


class _TrackedLines(list[str]):
    """Lines that call `advance` as they are read, because sacrebleu does not report progress."""

    def __init__(self, lines: Sequence[str], advance: Advance) -> None:
        super().__init__(lines)
        self._advance = advance

    def __iter__(self) -> Iterator[str]:
        for line in super().__iter__():
            yield line
            self._advance(1)
