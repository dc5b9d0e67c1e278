"""Why dot products are scaled (paper 3.2.1): measured on random vectors, and on trained models.

n keys of d_k components, independent with mean 0 and variance 1 as in the paper's footnote 4.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch

from transduce.errors import BadSetting
from transduce.experiments.claims import Trained, Trial, trained
from transduce.experiments.drawing import logarithmic, pictures
from transduce.experiments.findings import Finding, Table
from transduce.experiments.rows import Data, Result
from transduce.experiments.statistics import Resampled
from transduce.experiments.teacher_forcing import Estimate
from transduce.settings.base import MAXIMUM
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS = (4, 16, 64, 128, 256, 512, 1024)
KEYS, QUERIES, GROUPS = 64, 2_000, 100
VARIANTS: dict[str, dict[str, str]] = {
    "scaled": {},
    "unscaled": {"scaled": "false"},
    "additive": {"attention": "additive"},
}
WORDS = {
    "scaled": "dot products / sqrt(d_k)",
    "unscaled": "dot products, unscaled",
    "additive": "additive attention",
}
SAID = (
    "For large d_k the dot products grow large, their variance being d_k, and push the softmax to "
    "where its gradients are extremely small; dividing by sqrt(d_k) counteracts that. Without it "
    "additive attention outperforms dot products at large d_k (3.2.1)."
)


@dataclass(frozen=True, slots=True)
class Softmax:
    """What the softmax over the keys does, the mean over queries."""

    largest: float  # weight
    entropy: float  # nats
    gradient: float  # the Frobenius norm of its Jacobian, diag(p) - p p^T
    median: float  # of the same: half of the queries have less


@dataclass(frozen=True, slots=True)
class Width:
    """One d_k."""

    d_k: int
    variance: float  # of q . k
    scaled: Softmax
    unscaled: Softmax


@dataclass(frozen=True, slots=True)
class Learnt:
    """One training."""

    name: str
    perplexity: float
    loss: float  # nats per subword of the validation set
    bleu: Estimate
    seconds: float


def softmax_of(scores: torch.Tensor) -> Softmax:
    """Measure the softmax of some scores. (queries, keys)."""
    p = scores.softmax(-1)
    squares = p.square().sum(-1)
    # |diag(p) - p p^T|^2 = sum p_i^2 - 2 sum p_i^3 + (sum p_i^2)^2
    norm = (squares - 2 * p.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()
    entropy = -torch.special.xlogy(p, p).sum(-1)
    largest, spread, gradient = (float(one.mean()) for one in (p.amax(-1), entropy, norm))
    return Softmax(largest, spread, gradient, float(norm.median()))


def measure(widths: Sequence[int], keys: int = KEYS, seed: int = 1) -> list[Width]:
    """Draw queries and keys of each width, and measure their dot products and the softmax."""
    found = []
    for d_k in widths:
        if not 1 <= d_k <= MAXIMUM["d_k"]:
            raise BadSetting(f"--widths {f'{d_k}':.60}: expected d_k from 1 to {MAXIMUM['d_k']:,}")
        draw = torch.Generator().manual_seed(seed)
        # In groups that share their keys, for each query with its own would not fit.
        q = torch.randn(GROUPS, QUERIES // GROUPS, d_k, generator=draw)
        k = torch.randn(GROUPS, keys, d_k, generator=draw)
        scores = (q @ k.mT).flatten(0, 1).double()  # (queries, keys)
        scaled, unscaled = softmax_of(scores / math.sqrt(d_k)), softmax_of(scores)
        found.append(Width(d_k, float(scores.var()), scaled, unscaled))
    return found


def scaling(
    widths: Sequence[int], trial: Trial | None, data: Data | None, progress: Progress
) -> Finding:
    """Measure the softmax at several d_k and, with a trial, train at a large one."""
    if data is not None:
        data.require()  # before anything that takes long
    measured = measure(widths)
    tables = [_numbers(measured)]
    drawn = [
        pictures(
            f"Softmax over {KEYS} random keys by d_k: the largest weight, and the norm of its "
            "gradient, the mean and the median.",
            lambda: draw(measured),
        )
    ]
    learnt: list[Learnt] = []
    if trial is not None:
        assert data is not None
        done = trained("scaling", trial, data, VARIANTS, progress)
        learnt = _learnt(done, data)
        tables.append(_trainings(learnt, trial))
        caption = "Validation perplexity of the same model at a large d_k, while training."
        drawn.append(pictures(caption, lambda: draw_curves(done.results)))
    how = (
        f"Random queries and keys, {QUERIES:,} of them over {KEYS} keys each, components "
        "independent with mean 0 and variance 1. The gradient is that of the softmax by its "
        "inputs: the Frobenius norm of diag(p) - p p^T."
    )
    return Finding(
        name="scaling",
        title="Scaled dot products: what 1 / sqrt(d_k) is for",
        said=SAID,
        tables=tuple(tables),
        pictures=tuple(picture for one in drawn for picture in one.pictures),
        notes=(
            *_verdicts(measured, learnt),
            how,
            *([f"{trial.said()}; one seed."] if trial else []),
            *drawn[0].notes,
        ),
        data={
            "widths": [asdict(one) for one in measured],
            "trained": [asdict(one) for one in learnt],
        },
    )


def _learnt(done: Trained, data: Data) -> list[Learnt]:
    resampled = Resampled(
        {name: done.experiment.translations(row) for name, row in done.rows.items()},
        done.experiment.references(),
        data.pair()[1],
    )
    return [
        Learnt(
            name,
            result.perplexity,
            math.log(result.perplexity),
            Estimate(resampled.whole[name], *resampled.interval(name)),
            result.seconds,
        )
        for name, result in done.results.items()
    ]


def _numbers(measured: Sequence[Width]) -> Table:
    columns = (
        *("d_k", "variance of q.k", "theory", "largest weight: scaled", "unscaled"),
        *("entropy: scaled", "unscaled", "gradient: scaled", "unscaled"),
        *("its median: scaled", "unscaled"),
    )
    rows = tuple(
        (
            *(str(one.d_k), f"{one.variance:,.1f}", str(one.d_k)),
            *(f"{side.largest:.3f}" for side in (one.scaled, one.unscaled)),
            *(f"{side.entropy:.2f}" for side in (one.scaled, one.unscaled)),
            *(f"{side.gradient:.3f}" for side in (one.scaled, one.unscaled)),
            *(f"{side.median:.2g}" for side in (one.scaled, one.unscaled)),
        )
        for one in measured
    )
    title = f"Softmax over {KEYS} random keys (entropy at most {math.log(KEYS):.2f})"
    return Table(title, columns, rows)


def _trainings(learnt: Sequence[Learnt], trial: Trial) -> Table:
    columns = ("attention", "validation loss", "perplexity", "BLEU", "seconds")
    rows = tuple(
        (
            *(WORDS[one.name], f"{one.loss:.3f}", f"{one.perplexity:.2f}"),
            *(one.bleu.show(1), f"{one.seconds:,.0f}"),
        )
        for one in learnt
    )
    h, d_k = trial.settings["h"], trial.settings["d_k"]
    return Table(f"Trained with h = {h}, d_k = {d_k}, the rest equal", columns, rows)


def _verdicts(measured: Sequence[Width], learnt: Sequence[Learnt]) -> list[str]:
    worst = max(abs(one.variance / one.d_k - 1) for one in measured)
    last = max(measured, key=lambda one: one.d_k)
    peak = max(measured, key=lambda one: one.unscaled.gradient)
    weights = [one.scaled.largest for one in measured]
    gradients = [one.scaled.gradient for one in measured]
    variance = (
        f"The variance of q.k is d_k, within {worst:.1%}. At d_k = {last.d_k} the unscaled softmax "
        f"gives {last.unscaled.largest:.0%} to one of {KEYS} keys; the scaled one "
        f"{last.scaled.largest:.0%} ({min(weights):.0%} to {max(weights):.0%} over all d_k)."
    )
    gradient = (
        f"Unscaled, the mean gradient is largest at d_k = {peak.d_k} "
        f"({peak.unscaled.gradient:.3f}) and {last.unscaled.gradient:.3f} at {last.d_k}, where "
        f"half of the queries have less than {last.unscaled.median:.1g}. Scaled it is "
        f"{min(gradients):.3f} to {max(gradients):.3f} over all d_k."
    )
    said = [variance, gradient]
    found = {one.name: one for one in learnt}
    if found:
        base = found["scaled"]
        others = [found[name] for name in ("unscaled", "additive")]
        more = [f"{WORDS[one.name]} {one.loss - base.loss:+.3f}" for one in others]
        said.append(
            "Trained for the same steps, validation loss against the scaled model: "
            f"{'; '.join(more)} nats per subword (more is worse)."
        )
    return said


def draw(measured: Sequence[Width]) -> "Figure":
    """Draw the largest weight and the gradient by d_k."""
    from matplotlib.figure import Figure

    from transduce.inspection.style import COLOURS, MARKERS

    figure = Figure(figsize=(11, 4.2), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    d_k = [one.d_k for one in measured]
    for place, name in enumerate(("scaled", "unscaled")):
        own: list[Softmax] = [getattr(one, name) for one in measured]
        look = {"color": COLOURS[place], "marker": MARKERS[place], "label": name}
        left.plot(d_k, [one.largest for one in own], **look)
        right.plot(d_k, [one.gradient for one in own], **look)
        median = {"linestyle": ":", "linewidth": 1.2, "markersize": 4}
        right.plot(d_k, [one.median for one in own], **look | {"label": f"{name}, median"} | median)
    left.set(title="Largest weight: 1 is all on one key", ylim=(0, 1.05))
    right.set(title="Norm of the softmax's gradient")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xticks(d_k)
        axes.set_xlabel("d_k (logarithmic)")
    left.legend()
    right.legend()
    return figure


def draw_curves(results: Mapping[str, Result]) -> "Figure":
    """Draw how the perplexity fell in each training."""
    from matplotlib.figure import Figure

    from transduce.inspection.style import COLOURS, MARKERS

    figure = Figure(figsize=(8, 4.2), dpi=100, layout="constrained")
    axes = figure.subplots()
    for place, (name, result) in enumerate(results.items()):
        axes.plot(
            [one["step"] for one in result.curve],
            [one["valid_perplexity"] for one in result.curve],
            color=COLOURS[place],
            marker=MARKERS[place],
            label=WORDS[name],
        )
    logarithmic(axes)
    axes.set(xlabel="training step", ylabel="perplexity")
    axes.set_title("Validation perplexity, down is better (logarithmic)")
    axes.legend()
    return figure
