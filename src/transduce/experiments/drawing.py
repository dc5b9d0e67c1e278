"""Pictures of findings: SVG in the shared drawing style, or a note where matplotlib is missing."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from transduce.errors import MissingExtra
from transduce.experiments.findings import Picture
from transduce.experiments.statistics import Estimate
from transduce.inspection.style import COLOURS, MARKERS, METADATA, drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Drawn(NamedTuple):
    """A picture, or the note that says why there is none."""

    pictures: tuple[Picture, ...]
    notes: list[str]


def draw_picture(caption: str, draw: Callable[[], "Figure"]) -> Drawn:
    """Draw a picture; without matplotlib, return a note, so that no result is lost."""
    try:
        with drawing_style():
            return Drawn((Picture(caption, to_svg(draw())),), [])
    except MissingExtra as error:
        return Drawn((), [f"There is no picture: {error}."])


def to_svg(figure: "Figure") -> str:
    """Return a figure as SVG; equal figures give equal text."""
    with drawing_style(), io.StringIO() as file:
        figure.savefig(file, format="svg", metadata=METADATA[".svg"])
        return file.getvalue()


def panels(count: int, width: float, height: float) -> "tuple[Figure, Sequence[Axes]]":
    """Return a figure of this many panels side by side; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def log_y_axis(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, with ticks at 1, 2, 5, 10, … as plain numbers."""
    from matplotlib.ticker import LogLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # matplotlib adds others if needed
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.yaxis.set_minor_formatter("")


def plot_line(
    axes: "Axes", x: Sequence[float], y: Sequence[float], series: int, label: str
) -> None:
    """Plot a line in the colour and with the marker of a series."""
    axes.plot(x, y, color=COLOURS[series], marker=MARKERS[series], label=label)


def plot_estimates(
    axes: "Axes", x: Sequence[float], estimates: Sequence[Estimate], series: int, label: str
) -> None:
    """Plot values with their 95% intervals as whiskers."""
    axes.errorbar(
        x,
        [estimate.value for estimate in estimates],
        [
            [estimate.value - estimate.low for estimate in estimates],
            [estimate.high - estimate.value for estimate in estimates],
        ],
        color=COLOURS[series % len(COLOURS)],
        marker=MARKERS[series % len(MARKERS)],
        capsize=3,
        label=label,
    )
