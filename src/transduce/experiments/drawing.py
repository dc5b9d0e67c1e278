"""Pictures of findings: SVG text in the house style, and none where matplotlib is missing."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from transduce.errors import MissingExtra
from transduce.experiments.findings import Picture
from transduce.inspection.style import METADATA, drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Drawn(NamedTuple):
    """A picture, or the note that says why there is none."""

    pictures: tuple[Picture, ...]
    notes: list[str]


def pictures(caption: str, draw: Callable[[], "Figure"]) -> Drawn:
    """Draw a picture; what took hours to find is told without one too."""
    try:
        with drawing_style():
            return Drawn((Picture(caption, svg(draw())),), [])
    except MissingExtra as error:
        return Drawn((), [f"There is no picture: {error}."])


def svg(figure: "Figure") -> str:
    """Return a picture as SVG, equal for equal pictures."""
    with drawing_style(), io.StringIO() as file:
        figure.savefig(file, format="svg", metadata=METADATA[".svg"])
        return file.getvalue()


def logarithmic(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, its ticks written as people write numbers."""
    from matplotlib.ticker import LogLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # others where these are too far apart
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.yaxis.set_minor_formatter("")
