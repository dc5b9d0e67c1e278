"""Table 1, measured: exponents next to the paper's, times, paths, and the picture."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from transduce.experiments.drawing import add_pictures, log_y_axis, panels
from transduce.experiments.findings import Finding, Table
from transduce.experiments.statistics import LAST_POINTS, Power, fit_largest, fit_power
from transduce.experiments.table1_layers import D_K, TABLE_1, Cost
from transduce.experiments.table1_measurement import LayerCosts, Measured, Plan, measure_table1
from transduce.inspection.style import COLOURS, MARKERS
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOLERANCE = 0.25  # maximum difference from the paper's exponent
MIB = 2**20
SAID = (
    "A self-attention layer takes O(n^2 d) operations, a recurrent one O(n d^2), a convolutional "
    "one O(k n d^2), restricted self-attention O(r n d); the recurrent one O(n) of them in "
    "sequence. The longest path between two positions is O(1), O(n), O(log_k n) with dilated "
    "kernels (O(n/k) with contiguous ones) and O(n/r)."
)
ABOUT_PROJECTIONS = (
    "The paper's O(n^2 d) is Eq. 1 itself, and so is the first row of either attention; the row "
    "below it includes the four projections, O(n d^2), which dominate while n is less than about d."
)
ABOUT_FITS = (
    f"Exponents are fitted to the {LAST_POINTS} largest n of a row: below, the cost of calls "
    "dominates."
)
ABOUT_BLOCKS = (
    "torch counts more than r n d for restricted self-attention: it is computed in blocks of "
    "tokens, each with the tokens on both sides."
)


def table1(plan: Plan, device: str, progress: Progress) -> Finding:
    """Measure every layer, fit exponents, and compare with the paper's table."""
    measured = measure_table1(plan, device, progress)
    caption = (
        "Left: time of a layer, forward and backward, over n, with the exponents at large n. "
        "Right: the longest path between two positions."
    )
    finding = Finding(
        name="table1",
        title="Table 1: what a layer costs, and how long its paths are",
        said=SAID,
        tables=tables(measured),
        notes=tuple(notes(measured)),
        data=measured.to_json(),
    )
    return add_pictures(finding, {caption: lambda: draw(measured)})


def tables(measured: Measured) -> tuple[Table, ...]:
    """Return the tables; the first has the paper's numbers next to ours."""
    memory = (
        "MiB held at the most, beyond what was there before"
        if measured.device == "cuda"
        else "MiB kept for the backward pass"
    )
    return (
        _exponents(measured),
        _paths(measured),
        _costs(measured, "Milliseconds, forward and backward", lambda cost: cost.seconds * 1000),
        _costs(measured, memory, lambda cost: cost.memory / MIB),
        _operations(measured),
    )


def _exponents(measured: Measured) -> Table:
    columns = (
        *("layer", "d", "paper: operations", "paper: sequential"),
        *("paper: power of n", "time", "forward", "backward", "memory", "fitted for n"),
    )
    rows = []
    for row in measured.rows:
        paper = TABLE_1[row.kind]
        theirs = (f"O({paper.complexity})", f"O({paper.sequential})", str(paper.n))
        fitted = row.power("seconds")
        rows.append(
            (
                *(row.name, str(row.d)),
                *(("", "", "") if row.projected else theirs),
                "" if fitted is None else str(fitted),
                *(_exponent(row.power(what)) for what in ("forward", "backward", "memory")),
                "" if fitted is None else f"{fitted.first:,.0f} to {fitted.last:,.0f}",
            )
        )
    title = "Growth with n: exponents at large n (95% interval), beside the paper's"
    return Table(title, columns, tuple(rows))


def _paths(measured: Measured) -> Table:
    ns = (f"n = {n:,}" for n in measured.paths[0].n)
    rows = tuple(
        (
            *(paths.name, f"O({paths.said})", *map(str, paths.lengths)),
            _exponent(fit_largest(paths.n, paths.lengths)),
        )
        for paths in measured.paths
    )
    title = "Path length by reach of the gradient: layers; for the recurrent layer, steps"
    return Table(title, ("longest path", "paper", *ns, "power of n"), rows)


def _costs(measured: Measured, title: str, value: Callable[[Cost], float]) -> Table:
    ns = measured.plan.n
    rows = []
    for row in measured.rows:
        cells = {n: _readable(value(cost)) for n, cost in row.costs.items()}
        rows.append((row.name, str(row.d), *(cells.get(n, "") for n in ns)))
    return Table(title, ("layer", "d", *(f"n = {n:,}" for n in ns)), tuple(rows))


def _readable(number: float) -> str:
    """Format a number with three digits, a large one without decimals."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _operations(measured: Measured) -> Table:
    columns = ("layer", "n", "formula", "counted by torch", "power of n: formula", "counted")
    rows = tuple(
        (
            *(row.kind, f"{row.n[-1]:,}", f"{row.formula[-1]:.4g}", f"{row.torch[-1]:.4g}"),
            *(_exponent(fit_power(row.n, values)) for values in (row.formula, row.torch)),
        )
        for row in measured.operations
    )
    d = measured.plan.d[0]
    return Table(f"Operations of one sentence's forward pass, d = {d}", columns, rows)


def notes(measured: Measured) -> list[str]:
    """Return the result in sentences, and how it was measured."""
    plan = measured.plan
    how = (
        f"{pluralize(measured.batch, 'sentence')} of n tokens, {measured.precision}, "
        f"{measured.device}, k = {plan.k}, r = {plan.r}, heads of about {D_K}; median of warm "
        f"passes, weights' gradients included. Attention uses {measured.attention}, which keep no "
        "n x n matrix: so its memory grows with n."
    )
    reach = (
        "Paths: the fewest layers through which the gradient between both ends is not 0, in "
        f"float64, up to n = {max(measured.paths[0].n):,}; convolutions are causal there."
    )
    verdicts = [*(_verdict(measured, d) for d in plan.d), *_growth_with_d(measured)]
    return [
        *(*verdicts, how, ABOUT_PROJECTIONS, ABOUT_FITS, ABOUT_BLOCKS, reach),
        *_unfinished(measured),
    ]


def _unfinished(measured: Measured) -> list[str]:
    """List the rows that did not reach the largest n, and why."""
    sentences = []
    for cause in ("memory", "time"):
        rows = [row for row in measured.rows if row.ended == cause]
        names = (f"{row.name} of d = {row.d} after {max(row.costs, default=0):,}" for row in rows)
        if rows:
            listed = ", ".join(names)
            sentences.append(f"Out of {cause}, these ended before the largest n: {listed}.")
    return sentences


def _verdict(measured: Measured, d: int) -> str:
    fitted = {
        row.kind: row.power("seconds") for row in measured.rows if row.d == d and not row.projected
    }
    known = {kind: power.exponent for kind, power in fitted.items() if power is not None}
    if not known:
        return f"At d = {d} too few n were measured to fit how time grows."
    exponents = [
        f"{kind} {exponent:.2f} (paper {TABLE_1[kind].n})" for kind, exponent in known.items()
    ]
    far = [kind for kind, value in known.items() if abs(value - TABLE_1[kind].n) > TOLERANCE]
    agreement = f"farther than {TOLERANCE} from it: {', '.join(far)}" if far else ""
    ends = [agreement or f"all within {TOLERANCE}"]
    if unknown := [kind for kind in fitted if kind not in known]:
        ends.append(f"too few n were measured of: {', '.join(unknown)}")
    return (
        f"Time at d = {d} grows with n to the power of: {', '.join(exponents)}; {'; '.join(ends)}."
    )


def _growth_with_d(measured: Measured) -> list[str]:
    """Compare the widths at the largest n that all rows of a kind have."""
    if len(measured.plan.d) < 2:
        return []
    exponents = []
    for kind, paper in TABLE_1.items():
        rows = [
            row for row in measured.rows if row.kind == kind and not row.projected and row.costs
        ]
        if len(rows) < len(measured.plan.d):
            continue
        n = min(max(row.costs) for row in rows)
        times = [row.costs[n].seconds for row in rows]
        fitted = fit_power([row.d for row in rows], times)
        exponents.append(f"{kind} {_exponent(fitted)} (paper {paper.d}) at n = {n:,}")
    return [f"And with d: {', '.join(exponents)}."] if exponents else []


def draw(measured: Measured) -> "Figure":
    """Draw time over n for each width, and path lengths."""
    widths = measured.plan.d
    count = len(widths) + 1
    figure, every = panels(count, 4.6 * count, 6.2)
    kinds = list(TABLE_1)
    for axes, d in zip(every, widths, strict=False):
        for row in measured.rows:
            if row.d == d:
                _draw_times(axes, row, kinds.index(row.kind))
        axes.set(title=f"Milliseconds, d = {d}")
        axes.sharey(every[0])
    for paths in measured.paths:
        label = f"{paths.name}: O({paths.said})"
        every[-1].plot(paths.n, paths.lengths, label=label, markersize=5)
    every[-1].set(title="Longest path: layers, or steps")
    for axes in every:
        axes.set_xscale("log", base=2)
        log_y_axis(axes)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.tick_params(axis="x", rotation=45)
        axes.set_xlabel("n (logarithmic)")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), fontsize=9)
    return figure


def _draw_times(axes: "Axes", row: LayerCosts, series: int) -> None:
    fitted = row.power("seconds")
    label = f"{row.name}: n^{_exponent(fitted)}" if fitted else row.name
    axes.plot(
        list(row.costs),
        [1000 * cost.seconds for cost in row.costs.values()],
        color=COLOURS[series],
        marker=MARKERS[series],
        markersize=5,
        linestyle=":" if row.projected else "-",
        label=label,
    )


def _exponent(fitted: Power | None) -> str:
    return "" if fitted is None else f"{fitted.exponent:.2f}"
