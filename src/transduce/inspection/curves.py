"""Training curves of runs in one picture: losses, BLEU, source use, learning rate and speed.

A run has the same colour and marker in every panel. Values are drawn as logged, not smoothed; if an
axis hides some of them, its title says so.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from transduce.errors import BadInput, BadRun, did_you_mean
from transduce.inspection.style import COLOURS, MARKERS, QUIET, drawable, drawing_style
from transduce.runs.history import Curve, History, read_histories

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

BY = ("step", "time")
UNITS = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}  # of a time axis

NAME_WIDTH = 24  # letters per line of a run's name


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One part of the picture: the logged values it shows, and how they are summarised."""

    title: str
    unit: str
    training: str | None = None
    validation: str | None = None
    summary: str  # describes the number next to a run's name, from validation if available
    summarise: Callable[[Sequence[float]], float]
    digits: int | None = None  # after the decimal point; None: three significant digits
    is_loss: bool = False
    logarithmic: bool = False
    height: int = 1


PANELS = {
    "loss": Panel(
        title="Loss, lower is better",
        unit="nats per target token",
        training="loss",
        validation="valid_loss",
        summary="lowest validation loss",
        summarise=min,
        digits=3,
        is_loss=True,
        height=2,
    ),
    "perplexity": Panel(
        title="Perplexity, lower is better (logarithmic)",
        unit="perplexity",
        training="perplexity",
        validation="valid_perplexity",
        summary="lowest perplexity",
        summarise=min,
        digits=2,
        logarithmic=True,
    ),
    "bleu": Panel(
        title="Translation of the validation set (greedy), higher is better",
        unit="BLEU",
        validation="valid_bleu",
        summary="highest BLEU",
        summarise=max,
        digits=1,
    ),
    "source": Panel(
        title="Source use, higher is better",
        unit="nats per target token",
        validation="valid_source_use",
        summary="highest source use",
        summarise=max,
        digits=2,
    ),
    "rate": Panel(
        title="Learning rate",
        unit="learning rate",
        training="learning_rate",
        summary="highest rate",
        summarise=max,
    ),
    "speed": Panel(
        title="Speed of training, higher is better",
        unit="target tokens/s",
        training="target_tokens_per_second",
        summary="median tokens/s",
        summarise=median,
        digits=0,
    ),
}
DEFAULT = ("loss", "bleu", "speed")  # six panels at once are too small to read
ALL = "all"


def draw_runs(
    runs: Sequence[str | Path], *, what: Sequence[str] = (), by: str = "step"
) -> "Figure":
    """Draw the curves of the runs in these folders; see `draw`."""
    return draw(read_histories([Path(run) for run in runs]), what=what, by=by)


def draw(histories: Sequence[History], *, what: Sequence[str] = (), by: str = "step") -> "Figure":
    """Draw runs in the same panels: loss, BLEU and speed, or those named in `what`.

    By default, and for "all", panels that no run has logged are left out.
    """
    if len(histories) > len(COLOURS):
        raise BadInput(
            f"{len(histories)} runs in one picture cannot be told apart: "
            f"give at most {len(COLOURS)}"
        )
    if by not in BY:
        raise BadInput(f"--by {by}: expected {' or '.join(BY)}.{did_you_mean(by, BY)}")
    panels = _choose(histories, what)
    axis, unit = _time_axis(histories) if by == "time" else ("training step", None)
    with drawing_style():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
        from matplotlib.ticker import MaxNLocator

        margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)  # inches
        inches = max(8, 2 * sum(panel.height for panel in panels))
        figure = Figure(figsize=(12, inches), dpi=100, layout=margins)
        rows = figure.subplots(
            len(panels),
            sharex=True,
            squeeze=False,
            height_ratios=[panel.height for panel in panels],
        )
        for axes, panel in zip(rows.flat, panels, strict=True):
            _fill(axes, panel, histories, unit, named=axes is rows.flat[0])
        lowest = rows.flat[-1]
        lowest.set_xlabel(axis)
        lowest.set_xlim(left=0)
        lowest.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=unit is None))
        lowest.xaxis.set_major_formatter("{x:,.10g}")
        figure.align_ylabels()
        _explain(figure, histories, panels)
    return figure


def _choose(histories: Sequence[History], what: Sequence[str]) -> list[Panel]:
    logged = {name for history in histories for row in history.rows for name in row}
    known = {name for name, panel in PANELS.items() if {panel.training, panel.validation} & logged}
    if list(what) == [ALL]:
        return [panel for name, panel in PANELS.items() if name in known]
    for name in what:
        if name not in PANELS:
            hint = did_you_mean(name, PANELS)
            raise BadInput(f"--what {name}: expected {ALL}, or some of {', '.join(PANELS)}.{hint}")
        if name not in known:
            runs = ", ".join(str(history.run) for history in histories)
            raise BadRun(f"--what {name}: {runs} logged nothing of it")
    wanted = known & set(what or DEFAULT)
    return [panel for name, panel in PANELS.items() if name in wanted]


def _time_axis(histories: Sequence[History]) -> tuple[str, float]:
    longest = max(max(run.seconds([row["step"] for row in run.rows])) for run in histories)
    word = next((word for word, unit in UNITS.items() if longest >= 2 * unit), "seconds")
    return f"training time ({word})", UNITS[word]


def _fill(
    axes: "Axes", panel: Panel, histories: Sequence[History], unit: float | None, *, named: bool
) -> None:
    """Draw one panel, with a legend of the runs and a number that summarises each."""
    handles, labels = [], []
    for history, colour, marker in zip(histories, COLOURS, MARKERS, strict=False):
        training = history.curve(panel.training, unit)
        validation = history.curve(panel.validation, unit)
        thin, thick = _training(training, colour), _validation(validation, colour, marker)
        if training.x:
            axes.add_line(thin)
        if validation.x:
            axes.add_line(thick)
            best = validation.y.index(panel.summarise(validation.y))
            axes.add_line(_best(validation.x[best], validation.y[best], colour))
        values = validation.y if panel.validation else training.y
        number = _number(panel.summarise(values), panel.digits) if values else "none"
        handles.append(thick if panel.validation else thin)
        labels.append(f"{number}  {_label(history.name)}" if named else number)
    axes.autoscale_view()
    title = panel.title
    if panel.is_loss:
        title += _comparability(histories) + _crop(axes, histories)
    else:
        if panel.logarithmic:
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.1 * axes.dataLim.ymax or 1)
        for line in axes.lines:
            line.set_clip_on(False)  # so that markers at 0 are not cut off
    axes.set_title(title)
    axes.set_ylabel(panel.unit)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.legend(
        handles,
        labels,
        title=panel.summary,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        alignment="left",
        borderpad=0,
        borderaxespad=0,
        labelspacing=0.15,
    )


def _number(value: float, digits: int | None) -> str:
    return f"{value:.3g}" if digits is None else f"{value:,.{digits}f}"


def _comparability(histories: Sequence[History]) -> str:
    """Return a warning if the losses are not comparable."""
    differing = [
        name
        for name in ("eps_ls", "vocabulary")
        if len({run.measure[name] for run in histories if name in run.measure}) > 1
    ]
    words = " and ".join(differing)
    return f", but not comparable between these runs: they differ in {words}" if words else ""


def _crop(axes: "Axes", histories: Sequence[History]) -> str:
    """Crop the first twentieth of each run, if that at least doubles the scale.

    A loss falls from 10 to 4 within a few steps; after that, differences of tenths matter.
    """
    everything: list[float] = []
    wanted: list[float] = []
    for history in histories:
        start = max(row["step"] for row in history.rows) / 20
        for name in ("loss", "valid_loss"):
            curve = history.curve(name, None)
            everything += curve.y
            wanted += [y for x, y in zip(curve.x, curve.y, strict=True) if x > start]
            # The best value may be in the first twentieth.
            wanted += [min(curve.y)] if curve.y else []
    lowest, highest, top = min(everything), max(everything), max(wanted)
    if top == lowest or highest - lowest < 2 * (top - lowest):
        return ""
    margin = 0.05 * (top - lowest)
    axes.set_ylim(lowest - margin, top + margin)
    return f" (it starts above the axis, at {highest:.1f})"


def _training(curve: Curve, colour: str) -> "Line2D":
    marker = "." if len(curve.x) == 1 else ""  # a line of one point is invisible
    return _line(curve, colour, linewidth=1, alpha=0.7, marker=marker)


def _validation(curve: Curve, colour: str, marker: str) -> "Line2D":
    size = 6 if len(curve.x) <= 25 else 3.5
    return _line(curve, colour, linewidth=1.8, marker=marker, markersize=size, zorder=3)


def _best(x: float, y: float, colour: str) -> "Line2D":
    ring = {"markersize": 14, "markerfacecolor": "none", "markeredgewidth": 1.8}
    return _line(Curve([x], [y]), colour, linestyle="", marker="o", zorder=4, **ring)


def _line(curve: Curve, colour: str, **style: Any) -> "Line2D":
    from matplotlib.lines import Line2D

    return Line2D(curve.x, curve.y, color=colour, **style)


def _explain(figure: "Figure", histories: Sequence[History], panels: Sequence[Panel]) -> None:
    """Write the title, and a legend of the kinds of lines."""
    names = [history.name for history in histories]
    figure.suptitle(
        f"How training went: {_label(names[0])}" if len(names) == 1 else "How training went",
        x=0.01,
        ha="left",
        weight="bold",
    )
    sample, kinds = Curve([], []), {}
    if any(panel.training for panel in panels):
        kinds["training"] = _training(sample, QUIET)
    if any(panel.validation for panel in panels):
        kinds["validation"] = _validation(sample, QUIET, "o")
        kinds["best validation"] = _best(0, 0, QUIET)
    figure.legend(list(kinds.values()), list(kinds), loc="outside lower left", ncols=len(kinds))


def _label(name: str) -> str:
    """Return a name that can be drawn, wrapped into short lines."""
    return drawable("\n".join(textwrap.wrap(name, NAME_WIDTH)))
