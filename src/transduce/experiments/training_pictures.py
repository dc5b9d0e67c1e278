"""Pictures of training runs: learning rates, losses, BLEU, and means of checkpoints."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transduce.experiments.budget import PAPERS_STEPS
from transduce.experiments.checkpoint_means import Averaged
from transduce.experiments.drawing import panels, plot_estimates
from transduce.experiments.statistics import Estimate
from transduce.experiments.training_rates import (
    PAPER,
    PAPERS_D_MODEL,
    Rate,
    Recorded,
    equation_3,
)
from transduce.inspection.style import COLOURS, MARKERS, QUIET, drawable
from transduce.runs.history import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 400  # of a line
FEW = 60  # points up to which each has a marker
IGNORED = 0.1  # of a run, at its start, may be above the axis of losses

RECORDED: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markersize": 3.5,
    "markerfacecolor": "white",
}

Groups = Mapping[str, Sequence[Recorded]]  # runs that share a panel, by its title


def draw_rates(runs: Sequence[tuple[Recorded, Sequence[Rate]]]) -> "Figure":
    """Draw the paper's schedule, and each run's recorded and computed rates beside Eq. 3."""
    figure, (left, right) = panels(2, 12, 4.6)
    steps = _spread(range(1, PAPERS_STEPS + 1), PAPER.warmup)
    paper = [equation_3(step, PAPERS_D_MODEL, PAPER.warmup) for step in steps]
    left.plot(steps, paper, marker="", color=COLOURS[0])
    left.plot([PAPER.warmup], [max(paper)], marker="o", linestyle="", color=COLOURS[0])
    left.annotate(
        f"{max(paper):.2e} at step {PAPER.warmup:,}",
        (PAPER.warmup, max(paper)),
        (12, -3),
        textcoords="offset points",
    )
    left.set_title(f"The paper's base: Eq. 3, d_model = {PAPERS_D_MODEL}")
    for number, ((run, rates), colour) in enumerate(zip(runs, COLOURS, strict=False)):
        width = 1 + 0.9 * (len(runs) - 1 - number)  # so that lines below others can be seen
        numbers = _spread([rate.step for rate in rates], run.train.warmup)
        chosen = [rate for rate in rates if rate.step in set(numbers)]
        alone = [equation_3(step, run.d_model, run.train.warmup) for step in numbers]
        computed = [rate.computed for rate in chosen]
        label = drawable(run.name)
        right.plot(numbers, alone, color=colour, linestyle=":", marker="")
        right.plot(numbers, computed, color=colour, linewidth=width, marker="", label=label)
        some = chosen[:: max(1, len(chosen) // FEW)]
        steps, recorded = [rate.step for rate in some], [rate.recorded for rate in some]
        right.plot(steps, recorded, color=colour, **RECORDED)
    right.plot([], [], color=QUIET, label="recorded", **RECORDED)
    right.plot([], [], color=QUIET, linewidth=1, marker="", label="computed from the settings")
    right.plot([], [], color=QUIET, linestyle=":", marker="", label="Eq. 3 alone, same warm-up")
    right.set_title("The learning rates here")
    right.legend()
    _finish((left, right))
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    return figure


def draw_losses(groups: Groups) -> "Figure":
    """Draw training loss, as means of windows, and validation loss over steps."""
    figure, row = panels(len(groups), 6 * len(groups) + 1, 4.6)
    for axes, (title, runs) in zip(row, groups.items(), strict=True):
        shown: list[float] = []
        for run, colour, marker in zip(runs, COLOURS, MARKERS, strict=False):
            training, valid = run.history.curve("loss", None), run.history.curve("valid_loss", None)
            means = _window_means(training)
            axes.plot(means.x, means.y, color=colour, linewidth=1, alpha=0.7, marker="")
            axes.plot(valid.x, valid.y, color=colour, marker=marker, label=drawable(run.name))
            begin = IGNORED * run.last_step
            for curve in (means, valid):
                later = [y for x, y in zip(curve.x, curve.y, strict=True) if x >= begin]
                shown += later or curve.y
        above = max(y for run in runs for y in run.history.curve("loss", None).y)
        margin = 0.05 * (max(shown) - min(shown)) or 0.1
        axes.set_ylim(min(shown) - margin, max(shown) + margin)
        starts = f" (starts above, at {above:.1f})" if above > max(shown) + margin else ""
        axes.set_title(f"{title}: loss{starts}")
        axes.set_ylabel("nats per target token")
        axes.plot([], [], color=QUIET, linewidth=0.8, marker="", label="training, with dropout")
        axes.plot([], [], color=QUIET, marker="o", label="validation")
        axes.legend()
    _finish(row)
    return figure


def draw_validations(groups: Groups, measure: str, label: str) -> "Figure":
    """Draw a value of each validation over steps."""
    figure, row = panels(len(groups), 6 * len(groups) + 1, 4.2)
    for axes, (title, runs) in zip(row, groups.items(), strict=True):
        for run in runs:
            curve = run.history.curve(measure, None)
            axes.plot(curve.x, curve.y, label=drawable(run.name))
        axes.set_title(title)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend()
    _finish(row)
    return figure


def draw_means(averaged: Mapping[str, Averaged]) -> "Figure":
    """Draw BLEU of single checkpoints, and what the mean of the last ones gains."""
    figure, (left, right) = panels(2, 12, 4.6)
    for name, each in averaged.items():
        label = drawable(name)
        plot_estimates(left, list(each.single), list(each.single.values()), label)
        gains = [
            Estimate(each.means[count].value - each.last.value, low, high)
            for count, (low, high) in each.differences.items()
        ]
        plot_estimates(right, list(each.differences), gains, label)
    _finish((left,), from_start=False)
    left.set(title="Single checkpoints: BLEU", ylabel="BLEU")
    right.axhline(0, color=QUIET, linewidth=1, marker="")
    right.set(
        title="Mean of the last n minus the last one: BLEU",
        xlabel="n, the number of checkpoints averaged",
        xticks=sorted({count for each in averaged.values() for count in each.means}),
    )
    right.legend()
    return figure


def _spread(steps: Sequence[int], warmup: int) -> list[int]:
    """Return about `MOST_POINTS` of the steps, with those next to the end of the warm-up."""
    every = max(1, len(steps) // MOST_POINTS)
    near = sorted(steps, key=lambda step: abs(step - warmup))[:2]
    return sorted({*steps[::every], steps[-1], *near})


def _window_means(curve: Curve) -> Curve:
    """Return the means of a training loss over at most `FEW` windows: single steps are noisy."""
    windows = min(FEW, len(curve.x))
    parts = [
        slice(number * len(curve.x) // windows, (number + 1) * len(curve.x) // windows)
        for number in range(windows)
    ]
    return Curve([fmean(curve.x[part]) for part in parts], [fmean(curve.y[part]) for part in parts])


def _finish(row: "Sequence[Axes]", *, from_start: bool = True) -> None:
    from matplotlib.ticker import MaxNLocator

    for axes in row:
        axes.set_xlabel("training step")
        if from_start:
            axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axes.xaxis.set_major_formatter("{x:,.10g}")
