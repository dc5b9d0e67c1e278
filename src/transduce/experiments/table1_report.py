"""Table 1 as it is shown: exponents beside the paper's, times, paths, and the picture."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from transduce.experiments.costs import Measured, Row
from transduce.experiments.drawing import logarithmic
from transduce.experiments.findings import Table
from transduce.experiments.fits import POINTS, Power, power, upper
from transduce.experiments.measuring import Passed
from transduce.experiments.table1_layers import D_K, TABLE_1
from transduce.inspection.style import COLOURS, MARKERS
from transduce.system.formatting import pluralize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = 0.25  # of the paper's power
MIB = 2**20


def tables(found: Measured) -> tuple[Table, ...]:
    """Return the tables, the one beside the paper's first."""
    return (
        _exponents(found),
        _paths(found),
        _sizes(found, "Milliseconds, forward and backward", lambda one: one.seconds * 1000),
        _sizes(found, _memory(found), lambda one: one.memory / MIB),
        _operations(found),
    )


def _exponents(found: Measured) -> Table:
    columns = (
        *("layer", "d", "paper: operations", "paper: sequential"),
        *("paper: power of n", "time", "forward", "backward", "memory", "fitted for n"),
    )
    rows = []
    for row in found.rows:
        said = TABLE_1[row.kind]
        fitted = row.power("seconds")
        rows.append(
            (
                *(row.name, str(row.d)),
                f"O({said.complexity})" if not row.projected else "",
                f"O({said.sequential})" if not row.projected else "",
                str(said.n) if not row.projected else "",
                _shown(fitted),
                *(_short(row.power(what)) for what in ("forward", "backward", "memory")),
                _range(fitted),
            )
        )
    title = "Growth with n: the exponents of large n (95% interval), beside the paper's"
    return Table(title, columns, tuple(rows))


def _paths(found: Measured) -> Table:
    ns = found.paths[0].n
    columns = (
        *("longest path", "paper", *(f"n = {n:,}" for n in ns)),
        "power of n",
    )
    rows = tuple(
        (one.name, f"O({one.said})", *map(str, one.lengths), _short(upper(one.n, one.lengths)))
        for one in found.paths
    )
    title = "Path length by gradient reach: layers; of the recurrent layer, steps"
    return Table(title, columns, rows)


def _sizes(found: Measured, title: str, value: Callable[[Passed], float]) -> Table:
    ns = found.plan.n
    columns = ("layer", "d", *(f"n = {n:,}" for n in ns))
    rows = []
    for row in found.rows:
        values = {n: _readable(value(one)) for n, one in zip(row.n, row.passes, strict=True)}
        rows.append((row.name, str(row.d), *(values.get(n, "") for n in ns)))
    return Table(title, columns, tuple(rows))


def _readable(number: float) -> str:
    """Write a number with three digits, a large one whole."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _memory(found: Measured) -> str:
    if found.device == "cuda":
        return "MiB held at the most, beyond what was there before"
    return "MiB kept for the backward pass"


def _operations(found: Measured) -> Table:
    columns = ("layer", "n", "formula", "counted by torch", "power of n: formula", "counted")
    rows = tuple(
        (
            *(one.kind, f"{one.n[-1]:,}", f"{one.formula[-1]:.4g}", f"{one.torch[-1]:.4g}"),
            *(_short(power(one.n, values)) for values in (one.formula, one.torch)),
        )
        for one in found.counted
    )
    d = found.plan.d[0]
    return Table(f"Operations of one sentence's forward pass, d = {d}", columns, rows)


def notes(found: Measured) -> list[str]:
    """Return what it comes to, and how it was measured."""
    plan = found.plan
    how = (
        f"{pluralize(found.batch, 'sentence')} of n tokens, {found.precision}, "
        f"{found.device}, k = {plan.k}, r = {plan.r}, heads of about {D_K}; median of warm passes, "
        f"weights' gradients included. Attention goes by {found.attention}, which keep no n x n "
        "matrix: so its memory grows with n."
    )
    parts = (
        "The paper's O(n^2 d) is Eq. 1 itself, and so are the first rows of both attentions; the "
        "rows below them have the four projections too, O(n d^2), which dominate while n is less "
        "than about d."
    )
    fits = f"Exponents are fitted to the {POINTS} largest n of a row: below, calls cost most."
    reach = (
        "Paths: the fewest layers through which the gradient of one end by the other is not 0, in "
        f"float64, up to n = {max(found.paths[0].n):,}; convolutions read nothing ahead there."
    )
    blocks = (
        "torch counts more than r n d of restricted self-attention: it is computed by whole blocks "
        "of tokens, each with those on both its sides."
    )
    verdicts = [*(_verdict(found, d) for d in plan.d), *_widths(found)]
    return [*verdicts, how, parts, fits, blocks, reach, *_ended(found)]


def _ended(found: Measured) -> list[str]:
    """Tell which rows did not reach the largest n, for want of what."""
    said = []
    for want in ("memory", "time"):
        rows = [row for row in found.rows if row.ended == want]
        names = (f"{row.name} of d = {row.d} after {row.n[-1] if row.n else 0:,}" for row in rows)
        if rows:
            said.append(f"For want of {want} these ended before the largest n: {', '.join(names)}.")
    return said


def _verdict(found: Measured, d: int) -> str:
    fitted = {
        row.kind: row.power("seconds") for row in found.rows if row.d == d and not row.projected
    }
    known = {kind: one.exponent for kind, one in fitted.items() if one is not None}
    if not known:
        return f"At d = {d} too few n were measured to tell how time grows."
    said = [f"{kind} {one:.2f} (paper {TABLE_1[kind].n})" for kind, one in known.items()]
    far = [kind for kind, one in known.items() if abs(one - TABLE_1[kind].n) > NEAR]
    ends = [f"farther than {NEAR} from it: {', '.join(far)}" if far else f"all within {NEAR}"]
    if unknown := [kind for kind in fitted if kind not in known]:
        ends.append(f"too few n were measured of: {', '.join(unknown)}")
    return f"Time at d = {d} grows with n to the power of: {', '.join(said)}; {'; '.join(ends)}."


def _widths(found: Measured) -> list[str]:
    """Compare the widths at the largest n that all rows of a kind have."""
    if len(found.plan.d) < 2:
        return []
    said = []
    for kind, paper in TABLE_1.items():
        rows = [row for row in found.rows if row.kind == kind and not row.projected and row.n]
        if len(rows) < len(found.plan.d):
            continue
        n = min(row.n[-1] for row in rows)
        times = [row.passes[row.n.index(n)].seconds for row in rows]
        fitted = power([row.d for row in rows], times)
        said.append(f"{kind} {_short(fitted)} (paper {paper.d}) at n = {n:,}")
    return [f"And with d: {', '.join(said)}."] if said else []


def draw(found: Measured) -> "Figure":
    """Draw time over n for each width, and path lengths."""
    from matplotlib.figure import Figure

    widths = found.plan.d
    count = len(widths) + 1
    figure = Figure(figsize=(4.6 * count, 6.2), dpi=100, layout="constrained")
    panels = figure.subplots(1, count, squeeze=False)[0]
    for axes, d in zip(panels, widths, strict=False):
        _draw_times(axes, [row for row in found.rows if row.d == d])
        axes.set(title=f"Milliseconds, d = {d}")
        axes.sharey(panels[0])
    _draw_paths(panels[-1], found)
    for axes in panels:
        axes.set_xscale("log", base=2)
        logarithmic(axes)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.tick_params(axis="x", rotation=45)
        axes.set_xlabel("n (logarithmic)")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=9)
    return figure


def _draw_times(axes: "Axes", rows: Sequence[Row]) -> None:
    kinds = list(TABLE_1)
    for row in rows:
        place = kinds.index(row.kind)
        fitted = row.power("seconds")
        axes.plot(
            row.n,
            [1000 * one.seconds for one in row.passes],
            color=COLOURS[place],
            marker=MARKERS[place],
            markersize=5,
            linestyle=":" if row.projected else "-",
            label=f"{row.name}: n^{_short(fitted)}" if fitted else row.name,
        )


def _draw_paths(axes: "Axes", found: Measured) -> None:
    for place, one in enumerate(found.paths):
        axes.plot(
            one.n,
            one.lengths,
            color=COLOURS[place],
            marker=MARKERS[place],
            markersize=5,
            label=f"{one.name}: O({one.said})",
        )
    axes.set(title="Longest path: layers, or steps")


def _shown(fitted: Power | None) -> str:
    return "" if fitted is None else str(fitted)


def _short(fitted: Power | None) -> str:
    return "" if fitted is None else f"{fitted.exponent:.2f}"


def _range(fitted: Power | None) -> str:
    return "" if fitted is None else f"{fitted.first:,.0f} to {fitted.last:,.0f}"
