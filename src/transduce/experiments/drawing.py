"""Pictures of findings: SVG in the shared drawing style, or a note if matplotlib is missing."""

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from transduce.errors import MissingExtra
from transduce.experiments.findings import Finding, Picture
from transduce.experiments.statistics import Estimate
from transduce.inspection.style import COLOURS, MARKERS, METADATA, drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def add_pictures(finding: Finding, drawings: Mapping[str, Callable[[], "Figure"]]) -> Finding:
    """Draw a picture for each caption; without matplotlib, add a note instead."""
    try:
        with drawing_style():
            pictures = [Picture(caption, to_svg(draw())) for caption, draw in drawings.items()]
    except MissingExtra as error:
        note = f"There is no picture: {error}."
        return dataclasses.replace(finding, notes=(*finding.notes, note))
    return dataclasses.replace(finding, pictures=tuple(pictures))


def to_svg(figure: "Figure") -> str:
    """Return a figure as SVG; equal figures give equal text."""
    with drawing_style(), io.StringIO() as file:
        figure.savefig(file, format="svg", metadata=METADATA[".svg"])
        return file.getvalue()


def panels(count: int, width: float, height: float) -> "tuple[Figure, Sequence[Axes]]":
    """Return a figure with this many panels side by side; sizes are in inches.

    Each line drawn in a panel has its own colour and marker.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    row = figure.subplots(1, count, squeeze=False)[0]
    for axes in row:
        axes.set_prop_cycle(color=COLOURS, marker=MARKERS)
    return figure, row


def log_y_axis(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, with ticks at 1, 2, 5, 10, … as plain numbers."""
    from matplotlib.ticker import LogLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # matplotlib adds others if needed
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.yaxis.set_minor_formatter("")


def plot_estimates(
    axes: "Axes", x: Sequence[float], estimates: Sequence[Estimate], label: str
) -> None:
    """Plot values with their 95% intervals as whiskers."""
    below = [estimate.value - estimate.low for estimate in estimates]
    above = [estimate.high - estimate.value for estimate in estimates]
    values = [estimate.value for estimate in estimates]
    axes.errorbar(x, values, [below, above], capsize=3, label=label)
