"""Label smoothing: the paper says that it hurts perplexity and improves accuracy and BLEU (5.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from transduce.errors import BadSetting
from transduce.experiments.budget import describe_weights
from transduce.experiments.claims import Trial, train_variants
from transduce.experiments.drawing import add_pictures, panels, plot_estimates
from transduce.experiments.findings import Finding, Table
from transduce.experiments.paper_numbers import TABLE_3
from transduce.experiments.rows import Data, Result
from transduce.experiments.statistics import Estimate
from transduce.experiments.teacher_forcing import accuracy, perplexity, score_tokens
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NONE = 0.0
PAPERS_ROWS = {0.0: "D-ls0", 0.1: "base", 0.2: "D-ls0.2"}
SAID = (
    "Label smoothing with eps_ls = 0.1 hurts perplexity, because the model learns to be less sure, "
    "and improves accuracy and BLEU (5.4; Table 3 (D): perplexity 4.67, 4.92 and 5.47, BLEU 25.3, "
    "25.8 and 25.7 for 0, 0.1 and 0.2)."
)
COLUMNS = (
    *("eps_ls", "seed", "perplexity", "accuracy %", "BLEU"),
    *("paper: perplexity", "paper: BLEU"),
)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """One training run."""

    eps: float
    seed: int
    scores: dict[str, Estimate]  # perplexity, accuracy, bleu

    def to_json(self) -> dict[str, float]:
        """Return the numbers."""
        values = {name: estimate.value for name, estimate in self.scores.items()}
        return {"eps_ls": self.eps, "seed": self.seed} | values


def smoothing(
    trial: Trial, data: Data, amounts: Sequence[float], seeds: Sequence[int], progress: Progress
) -> Finding:
    """Train with several amounts of smoothing, and measure each on the test set."""
    if NONE not in amounts or len(set(amounts)) < 2:
        listed = ", ".join(f"{eps:g}" for eps in amounts)
        raise BadSetting(f"--eps {listed}: expected 0, to compare with, and one more at least")
    names = {(eps, seed): f"ls{eps:g}-seed{seed}" for eps in sorted(set(amounts)) for seed in seeds}
    variants = {
        name: {"eps_ls": f"{eps:g}", "seed": str(seed)} for (eps, seed), name in names.items()
    }
    comparison, results = train_variants("smoothing", trial, data, variants, progress)
    resampled = comparison.resample(names.values())
    pairs = comparison.test_pairs()
    measured: list[Smoothed] = []
    for (eps, seed), name in names.items():
        tokens = score_tokens(comparison.folder / name, pairs, trial.device, progress)
        scores = {
            "perplexity": perplexity(tokens),
            "accuracy": accuracy(tokens),
            "bleu": resampled.estimate(name),
        }
        measured.append(Smoothed(eps, seed, scores))
    first = seeds[0]
    differences = {
        eps: resampled.difference(name, names[NONE, first])
        for (eps, seed), name in names.items()
        if seed == first and eps != NONE
    }
    return _finding(trial, next(iter(results.values())), measured, differences)


def _finding(
    trial: Trial,
    result: Result,
    measured: Sequence[Smoothed],
    differences: Mapping[float, tuple[float, float]],
) -> Finding:
    rows = []
    for row in measured:
        paper = TABLE_3.get(PAPERS_ROWS.get(row.eps, ""))
        theirs = (f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}") if paper else ("", "")
        digits = {"perplexity": 2, "accuracy": 1, "bleu": 1}
        ours = (row.scores[name].show(count) for name, count in digits.items())
        rows.append((f"{row.eps:g}", str(row.seed), *ours, *theirs))
    caption = (
        "Perplexity, accuracy and BLEU by the amount of smoothing, one point per training; "
        "whiskers are 95% intervals."
    )
    how = (
        f"Beam 4, alpha 0.6, {describe_weights(result.recipe)}; BLEU by sacreBLEU "
        f"({result.signature}). Perplexity and accuracy are per subword, under teacher forcing; "
        "the perplexity is that of the true word, without smoothing."
    )
    finding = Finding(
        name="smoothing",
        title="Label smoothing: perplexity, accuracy and BLEU",
        said=SAID,
        tables=(Table("On the test set, with 95% intervals", COLUMNS, tuple(rows)),),
        notes=(*_verdicts(measured, differences), f"{trial.describe_scale()}.", how),
        data={"results": [row.to_json() for row in measured], "machine": result.machine},
    )
    return add_pictures(finding, {caption: lambda: draw(measured)})


def _verdicts(
    measured: Sequence[Smoothed], differences: Mapping[float, tuple[float, float]]
) -> list[str]:
    sentences = []
    seeds = len({row.seed for row in measured})
    over = f"the mean of {seeds} seeds" if seeds > 1 else "one seed"
    for eps, (low, high) in differences.items():
        perplexity, accuracy, bleu = (
            _mean(measured, measure, eps) - _mean(measured, measure, NONE)
            for measure in ("perplexity", "accuracy", "bleu")
        )
        verdict = "significant" if low > 0 or high < 0 else "not significant"
        sentences.append(
            f"eps_ls = {eps:g} against none, {over}: perplexity {perplexity:+.2f}, accuracy "
            f"{accuracy:+.1f} points, BLEU {bleu:+.2f}; the difference in BLEU of the first seed, "
            f"{low:+.2f} to {high:+.2f}, is {verdict}."
        )
    if seeds == 1:
        sentences.append("The intervals do not include variation between seeds: see --seeds.")
    return sentences


def _mean(measured: Sequence[Smoothed], measure: str, eps: float) -> float:
    return fmean(row.scores[measure].value for row in measured if row.eps == eps)


def draw(measured: Sequence[Smoothed]) -> "Figure":
    """Draw the three measures side by side."""
    titles = {
        "perplexity": "Perplexity, down is better",
        "accuracy": "Accuracy (%), up is better",
        "bleu": "BLEU, up is better",
    }
    figure, three = panels(len(titles), 11, 3.8)
    seeds = sorted({row.seed for row in measured})
    for axes, (measure, title) in zip(three, titles.items(), strict=True):
        for seed in seeds:
            rows = [row for row in measured if row.seed == seed]
            estimates = [row.scores[measure] for row in rows]
            plot_estimates(axes, [row.eps for row in rows], estimates, f"seed {seed}")
        axes.set(title=title, xlabel="eps_ls", xticks=sorted({row.eps for row in measured}))
    if len(seeds) > 1:
        three[-1].legend()
    return figure
