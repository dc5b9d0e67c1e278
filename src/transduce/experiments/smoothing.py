"""Label smoothing (paper 5.4): said to raise the perplexity, and the accuracy and BLEU with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.errors import BadSetting
from transduce.experiments.budget import averaged
from transduce.experiments.claims import Trained, Trial, trained
from transduce.experiments.drawing import pictures
from transduce.experiments.findings import Finding, Table
from transduce.experiments.paper_numbers import TABLE_3
from transduce.experiments.rows import Data
from transduce.experiments.statistics import Resampled
from transduce.experiments.teacher_forcing import Estimate, accuracy, forced, perplexity
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NONE = 0.0
OF_THE_PAPER = {0.0: "D-ls0", 0.1: "base", 0.2: "D-ls0.2"}
SAID = (
    "Label smoothing with eps_ls = 0.1 hurts perplexity, for the model learns to be less sure, "
    "and improves accuracy and BLEU (5.4; Table 3 (D): perplexity 4.67, 4.92 and 5.47, BLEU 25.3, "
    "25.8 and 25.7 for 0, 0.1 and 0.2)."
)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """One training."""

    eps: float
    seed: int
    perplexity: Estimate
    accuracy: Estimate
    bleu: Estimate


def smoothing(
    trial: Trial, data: Data, eps: Sequence[float], seeds: Sequence[int], progress: Progress
) -> Finding:
    """Train with several amounts of smoothing, and measure each on the test set."""
    if NONE not in eps or len(set(eps)) < 2:
        listed = ", ".join(f"{one:g}" for one in eps)
        raise BadSetting(f"--eps {listed}: expected 0, to compare with, and one more at least")
    names = {(one, seed): f"ls{one:g}-seed{seed}" for one in sorted(set(eps)) for seed in seeds}
    variants = {
        name: {"eps_ls": f"{one:g}", "seed": str(seed)} for (one, seed), name in names.items()
    }
    done = trained("smoothing", trial, data, variants, progress)
    resampled = Resampled(
        {name: done.experiment.translations(row) for name, row in done.rows.items()},
        done.experiment.references(),
        data.pair()[1],
    )
    pairs = done.test()
    found: list[Smoothed] = []
    for (one, seed), name in names.items():
        judged = forced(done.run(name), pairs, trial.device, progress)
        bleu = Estimate(resampled.whole[name], *resampled.interval(name))
        found.append(Smoothed(one, seed, perplexity(judged), accuracy(judged), bleu))
    differences = _differences(names, resampled, seeds[0])
    return _finding(trial, done, found, differences)


def _differences(
    names: Mapping[tuple[float, int], str], resampled: Resampled, seed: int
) -> dict[float, tuple[float, float]]:
    """Return by how much each amount changes BLEU of the first seed, as an interval."""
    return {
        eps: resampled.difference(name, names[NONE, seed])
        for (eps, own), name in names.items()
        if own == seed and eps != NONE
    }


def _finding(
    trial: Trial,
    done: Trained,
    found: Sequence[Smoothed],
    differences: Mapping[float, tuple[float, float]],
) -> Finding:
    columns = (
        "eps_ls",
        "seed",
        "perplexity",
        "accuracy %",
        "BLEU",
        "paper: perplexity",
        "paper: BLEU",
    )
    rows = []
    for one in found:
        paper = TABLE_3.get(OF_THE_PAPER.get(one.eps, ""))
        theirs = (f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}") if paper else ("", "")
        ours = (one.perplexity.show(), one.accuracy.show(1), one.bleu.show(1))
        rows.append((f"{one.eps:g}", str(one.seed), *ours, *theirs))
    picture = pictures(
        "Perplexity, accuracy and BLEU by the amount of smoothing, a point a training; whiskers "
        "are 95% intervals.",
        lambda: draw(found),
    )
    result = next(iter(done.results.values()))
    how = (
        f"Beam 4, alpha 0.6, {averaged(result.recipe)}; BLEU by sacreBLEU ({result.signature}). "
        "Perplexity and accuracy are per subword, after the true words; the perplexity is that of "
        "the true word, without smoothing."
    )
    return Finding(
        name="smoothing",
        title="Label smoothing: perplexity, accuracy and BLEU",
        said=SAID,
        tables=(Table("On the test set, with 95% intervals", columns, tuple(rows)),),
        pictures=picture.pictures,
        notes=(
            *_verdicts(found, differences),
            f"{trial.said()}.",
            how,
            *picture.notes,
        ),
        data={
            "results": [
                {
                    "eps_ls": one.eps,
                    "seed": one.seed,
                    "perplexity": one.perplexity.value,
                    "accuracy": one.accuracy.value,
                    "bleu": one.bleu.value,
                }
                for one in found
            ],
            "machine": result.machine,
        },
    )


def _verdicts(
    found: Sequence[Smoothed], differences: Mapping[float, tuple[float, float]]
) -> list[str]:
    said = []
    seeds = len({one.seed for one in found})
    for eps in differences:
        means = []
        for measure in ("perplexity", "accuracy", "bleu"):
            own, none = (_mean(found, measure, which) for which in (eps, NONE))
            means.append(own - none)
        low, high = differences[eps]
        told = "is told apart from 0" if low > 0 or high < 0 else "is not told apart from 0"
        over = f"the mean of {seeds} seeds" if seeds > 1 else "one seed"
        said.append(
            f"eps_ls = {eps:g} against none, {over}: perplexity {means[0]:+.2f}, accuracy "
            f"{means[1]:+.1f} points, BLEU {means[2]:+.2f}; of the first seed the difference in "
            f"BLEU, {low:+.2f} to {high:+.2f}, {told} by these sentences."
        )
    if seeds == 1:
        said.append("What another seed would change is not in the intervals: see --seeds.")
    return said


def _mean(found: Sequence[Smoothed], measure: str, eps: float) -> float:
    values = [getattr(one, measure).value for one in found if one.eps == eps]
    return float(sum(values) / len(values))


def draw(found: Sequence[Smoothed]) -> "Figure":
    """Draw the three measures beside each other."""
    from matplotlib.figure import Figure

    from transduce.inspection.style import COLOURS, MARKERS

    figure = Figure(figsize=(11, 3.8), dpi=100, layout="constrained")
    titles = {
        "perplexity": "Perplexity, down is better",
        "accuracy": "Accuracy (%), up is better",
        "bleu": "BLEU, up is better",
    }
    seeds = sorted({one.seed for one in found})
    for axes, (measure, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for place, seed in enumerate(seeds):
            own = [one for one in found if one.seed == seed]
            values: list[Estimate] = [getattr(one, measure) for one in own]
            whiskers = [
                [one.value - one.low for one in values],
                [one.high - one.value for one in values],
            ]
            axes.errorbar(
                [one.eps for one in own],
                [one.value for one in values],
                whiskers,
                color=COLOURS[place % len(COLOURS)],
                marker=MARKERS[place % len(MARKERS)],
                capsize=3,
                label=f"seed {seed}",
            )
        axes.set(title=title, xlabel="eps_ls", xticks=sorted({one.eps for one in found}))
    if len(seeds) > 1:
        axes.legend()
    return figure
