"""What speed costs: models as points, how fast each translates and how well."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.errors import BadInput
from transduce.inspection.style import COLOURS, MARKERS, QUIET, drawable, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Measured:
    """A model, or one way to run it."""

    name: str
    speed: float  # sentences a second
    bleu: float


def draw(measured: Sequence[Measured], *, where: str = "") -> "Figure":
    """Draw models by speed and BLEU; `where` says on what text and machine they were measured.

    A line joins those that no other beats in both. `look.style.save` writes the picture.
    """
    if not 1 <= len(measured) <= len(COLOURS):
        raise BadInput(f"{len(measured)} models in one picture: expected 1 to {len(COLOURS)}")
    for one in measured:
        if not one.speed > 0:
            raise BadInput(f"{one.name} at {one.speed} sentences/s: expected more than 0")
    with house_style():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
        from matplotlib.ticker import LogLocator, NullFormatter

        margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)  # inches
        figure = Figure(figsize=(10, 5), dpi=100, layout=margins)
        axes = figure.subplots()
        best = unbeaten(measured)
        (line,) = axes.plot(
            [one.speed for one in best], [one.bleu for one in best], color=QUIET, linestyle=":"
        )
        handles, labels = [], []
        for one, colour, marker in zip(measured, COLOURS, MARKERS, strict=False):
            (point,) = axes.plot(
                one.speed, one.bleu, color=colour, marker=marker, markersize=11, linestyle=""
            )
            handles.append(point)
            labels.append(
                f"{drawable(one.name)}\n{one.bleu:.1f} BLEU, {one.speed:,.4g} sentences/s"
            )
        handles.append(line)
        labels.append("beaten by none in both")
        axes.set_xscale("log")
        slowest, fastest = (f(one.speed for one in measured) for f in (min, max))
        axes.set_xlim(slowest / 1.5, fastest * 1.5)
        lowest, highest = (f(one.bleu for one in measured) for f in (min, max))
        axes.set_ylim(lowest - max(1.0, 0.2 * (highest - lowest)), highest + 1)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,.10g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("sentences/s (logarithmic)")
        axes.set_ylabel("BLEU")
        axes.set_title(
            "Right is faster, up is better; the axis of BLEU does not begin at 0"
            + (f"\n{where}" if where else "")
        )
        figure.suptitle("What speed costs", x=0.01, ha="left", weight="bold")
        axes.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderpad=0,
            borderaxespad=0,
            labelspacing=0.8,
        )
    return figure


def unbeaten(measured: Sequence[Measured]) -> list[Measured]:
    """Return those than which no other is both faster and better, slowest first."""
    found: list[Measured] = []
    for one in sorted(measured, key=lambda one: (-one.speed, -one.bleu)):
        if not found or one.bleu > found[-1].bleu:
            found.append(one)
    return found[::-1]
