"""Paired significance tests for several systems on one test set, as in sacreBLEU.

The first system is the baseline. Two tests answer different questions about each other system:

- The **paired bootstrap** (bs) draws test sets from the sentences, with replacement. Its p-value
  is the share of samples in which the difference deviates from its mean by more than the observed
  difference. It asks whether other sentences would give the same result. It is one-sided: of two
  equally good systems about one pair in eight has p < 0.05.
- **Approximate randomisation** (ar) exchanges the outputs of the two systems at random, sentence
  by sentence. Its p-value is the share of trials with a larger difference than the observed one.
  Of two equally good systems one pair in twenty has p < 0.05.

Both draw the same random numbers every time (seed 12345, as sacreBLEU), so p-values repeat.
"""

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from transduce.errors import BadInput, BadSetting
from transduce.evaluation.bootstrap import (
    MAX_SAMPLES,
    MIN_SAMPLES,
    SEED,
    LineStatistics,
    percentile_interval,
)
from transduce.evaluation.comet import Comet
from transduce.evaluation.metrics import DEFAULT_METRICS, References, check_lines, make_metrics
from transduce.system.progress import Progress, Silent, track_if_slow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sacrebleu.metrics.base import Metric

    from transduce.evaluation.resampling import Outputs, SeedErrors

    Numbers = npt.NDArray[np.float64]

Test = Literal["bs", "ar", "both"]  # paired bootstrap, approximate randomisation
SAMPLES: dict[str, int] = {"bs": 1_000, "ar": 10_000}  # sacrebleu's defaults
SIGNIFICANT = 0.05
Lines = Sequence[str] | Sequence[Sequence[str]]  # one output of a system, or several


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemScore:
    """The score of one system: with several outputs, their mean."""

    system: str
    value: float
    mean: float | None = None  # of the bootstrap samples
    interval: float | None = None  # half the width of the 95% interval around the mean
    p: float | None = None  # the larger one of p_bs and p_ar; None for the baseline
    p_bs: float | None = None  # of the paired bootstrap
    p_ar: float | None = None  # of approximate randomisation
    outputs: tuple[float, ...] = ()  # the score of each output, if there are several

    @property
    def significant(self) -> bool:
        """Whether the difference from the baseline is significant in every test."""
        return self.p is not None and self.p < SIGNIFICANT


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The scores of all systems by one metric; the first system is the baseline."""

    name: str  # of the metric
    signature: str
    test: Test
    samples: Mapping[str, int] = field(default_factory=dict)  # of each test: bs, ar
    systems: tuple[SystemScore, ...]
    seed_deviation: float | None = None  # between outputs; None if every system has one

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return dataclasses.asdict(self)


def compare(
    systems: Mapping[str, Lines],
    references: References,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    language: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    test: Test = "both",
    samples: int = 0,
    comet: Comet | None = None,
    progress: Progress | None = None,
) -> list[Comparison]:
    """Score systems and test their differences from the first one; options are as for `score`.

    A system is a list of lines, or several lists: the outputs of runs with different seeds. Its
    score is then their mean, and intervals and p-values include the variation between seeds. One
    system with several outputs has no p-value.

    `test` is bs (paired bootstrap, by default 1,000 samples), ar (approximate randomisation, by
    default 10,000 trials) or both; `samples` overrides the default. With one output per system the
    results equal those of `sacrebleu -i A B --paired-bs` and `--paired-ar`. `comet` adds COMET.
    """
    outputs = {name: _outputs(name, system) for name, system in systems.items()}
    if len(systems) < 2 and not any(len(each) > 1 for each in outputs.values()):
        raise BadInput(f"there are {len(systems)} systems to compare: expected two or more")
    if test not in (*SAMPLES, "both"):
        raise BadSetting(f"test = {test!r}: expected 'bs', 'ar' or 'both'")
    if samples and not MIN_SAMPLES <= samples <= MAX_SAMPLES:
        raise BadSetting(
            f"samples = {samples}: expected at least {MIN_SAMPLES} and at most {MAX_SAMPLES:,}"
        )
    counts = {name: samples or SAMPLES[name] for name in SAMPLES if test in (name, "both")}
    measures = make_metrics(metrics, language, lowercase, tokenize)
    checked = {
        name: [check_lines(lines, references) for lines in each] for name, each in outputs.items()
    }
    read = {name: [lines for lines, _ in each] for name, each in checked.items()}
    several = next(iter(checked.values()))[0][1]
    shown = progress or Silent()
    results = [_compare(metric, read, several, counts, shown) for metric in measures]
    if comet:
        results.append(_compare_comet(comet, read, several, counts, shown))
    return [dataclasses.replace(result, test=test) for result in results]


def _outputs(name: str, system: Lines) -> list[Sequence[str]]:
    """Return the outputs of a system: a list of lines is one output."""
    several = [lines for lines in system if not isinstance(lines, str)]
    if not several:
        return [system]  # type: ignore[list-item]
    if len(several) < len(system):
        raise BadInput(f"the system {name} mixes lines and lists of lines: expected one of them")
    return several


def _compare(
    metric: "Metric",
    systems: Mapping[str, list[list[str]]],
    references: list[list[str]],
    counts: Mapping[str, int],
    progress: Progress,
) -> Comparison:
    """Compare by one of sacrebleu's metrics."""
    name = type(metric).__name__
    lines = len(references[0]) * sum(map(len, systems.values()))
    with track_if_slow(progress, f"comparing by {name}", lines, "lines") as advance:
        each = {
            system: [LineStatistics.of(metric, output, references, advance) for output in outputs]
            for system, outputs in systems.items()
        }
    total = next(iter(each.values()))[0].total()  # its references are known to the signature now
    signature = metric.get_signature()
    for test, count in counts.items():
        signature.update(test, count)
    signature.update("seed", str(SEED))
    return _test(total.name, str(signature), each, counts, progress)


def _compare_comet(
    comet: Comet,
    systems: Mapping[str, list[list[str]]],
    references: list[list[str]],
    counts: Mapping[str, int],
    progress: Progress,
) -> Comparison:
    each = {
        system: [comet.statistics(output, references[0], progress) for output in outputs]
        for system, outputs in systems.items()
    }
    used = "|".join(f"{test}:{count}" for test, count in counts.items())
    return _test("COMET", f"{comet.signature}|{used}|seed:{SEED}", each, counts, progress)


def _test(
    name: str,
    signature: str,
    statistics: Mapping[str, Sequence[Any]],
    counts: Mapping[str, int],
    progress: Progress,
) -> Comparison:
    """Run the tests from the statistics of each output of each system."""
    from transduce.evaluation.resampling import Outputs, SeedErrors

    systems = {system: Outputs.of(each) for system, each in statistics.items()}
    scores = {system: outputs.scores() for system, outputs in systems.items()}
    tested: dict[str, dict[str, Any]] = {system: {} for system in systems}
    with warnings.catch_warnings():
        # A sample of few lines may have no n-grams; sacrebleu then divides 0 by 0.
        warnings.simplefilter("ignore", RuntimeWarning)
        for test, count in counts.items():
            run = _bootstrap if test == "bs" else _randomise
            errors = SeedErrors(scores, count)
            for system, values in run(name, systems, count, errors, progress).items():
                tested[system] |= values
    return Comparison(
        name=name,
        signature=signature,
        test="both",
        samples=dict(counts),
        seed_deviation=SeedErrors(scores, 1).deviation,
        systems=tuple(
            SystemScore(
                system=system,
                value=fmean(scores[system]),
                p=max((values[key] for key in ("p_bs", "p_ar") if key in values), default=None),
                outputs=tuple(scores[system]) if len(scores[system]) > 1 else (),
                **values,
            )
            for system, values in tested.items()
        ),
    )


def _bootstrap(
    name: str,
    systems: "Mapping[str, Outputs]",
    samples: int,
    errors: "SeedErrors",
    progress: Progress,
) -> dict[str, dict[str, float]]:
    """Return means, intervals and p-values of the paired bootstrap."""
    from transduce.evaluation.resampling import bootstrap_p, bootstrap_scores

    with track_if_slow(progress, f"bootstrap of {name}", samples, "samples") as advance:
        scores = bootstrap_scores(list(systems.values()), samples, advance)
    whole = [outputs.score(outputs.mean.sum(0)) for outputs in systems.values()]
    results: dict[str, dict[str, float]] = {}
    for number, (system, outputs) in enumerate(systems.items()):
        scores[number] += errors.draw(len(outputs.each))
        low, high = percentile_interval(scores[number].tolist())
        values = {"mean": float(scores[number].mean()), "interval": (high - low) / 2}
        if number:
            observed = whole[number] - whole[0]
            values["p_bs"] = bootstrap_p(scores[number] - scores[0], observed)
        results[system] = values
    return results


def _randomise(
    name: str,
    systems: "Mapping[str, Outputs]",
    trials: int,
    errors: "SeedErrors",
    progress: Progress,
) -> dict[str, dict[str, float]]:
    """Return the p-values of approximate randomisation."""
    from transduce.evaluation.resampling import randomisation_p, shuffled_differences

    baseline, *others = systems.items()
    outputs = baseline[1]
    total = trials * len(others)
    results: dict[str, dict[str, float]] = {}
    with track_if_slow(progress, f"randomisation of {name}", total, "trials") as advance:
        for system, other in others:
            shuffled = shuffled_differences(outputs, other, trials, advance)
            per_mean = 1 / (1 / len(outputs.each) + 1 / len(other.each))
            shuffled += errors.draw(1) / math.sqrt(per_mean)
            observed = outputs.score(outputs.mean.sum(0)) - other.score(other.mean.sum(0))
            results[system] = {"p_ar": randomisation_p(shuffled, observed)}
    return results
