"""Why dot products are scaled (paper 3.2.1): measured on random vectors and on trained models.

The random queries and keys have d_k independent components with mean 0 and variance 1, as in the
paper's footnote 4.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch

from transduce.errors import BadSetting
from transduce.experiments.claims import Trial, train_variants
from transduce.experiments.drawing import add_pictures, log_y_axis, panels
from transduce.experiments.findings import Finding, Table
from transduce.experiments.rows import Data, Result
from transduce.experiments.statistics import Estimate, Resampled
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
LABELS = {
    "scaled": "dot products / sqrt(d_k)",
    "unscaled": "dot products, unscaled",
    "additive": "additive attention",
}
SAID = (
    "For large d_k the dot products grow large, as their variance is d_k, and push the softmax to "
    "where its gradients are extremely small; dividing by sqrt(d_k) counteracts that. Without it "
    "additive attention outperforms dot products at large d_k (3.2.1)."
)
HOW = (
    f"Random queries and keys, {QUERIES:,} queries over {KEYS} keys each, components "
    "independent with mean 0 and variance 1. The gradient is that of the softmax with respect to "
    "its inputs: the Frobenius norm of diag(p) - p p^T."
)


@dataclass(frozen=True, slots=True)
class Softmax:
    """The softmax over the keys; means over queries."""

    largest: float  # weight
    entropy: float  # nats
    gradient: float  # Frobenius norm of its Jacobian, diag(p) - p p^T
    median: float  # of that norm


@dataclass(frozen=True, slots=True)
class Width:
    """The measurements at one d_k."""

    d_k: int
    variance: float  # of q . k
    scaled: Softmax
    unscaled: Softmax


@dataclass(frozen=True, slots=True)
class Learnt:
    """The result of one training run."""

    name: str
    perplexity: float
    loss: float  # nats per subword of the validation set
    bleu: Estimate
    seconds: float


def measure_softmax(scores: torch.Tensor) -> Softmax:
    """Measure the softmax of scores. (queries, keys)."""
    p = scores.softmax(-1)
    squares = p.square().sum(-1)
    # |diag(p) - p p^T|^2 = sum p_i^2 - 2 sum p_i^3 + (sum p_i^2)^2
    norm = (squares - 2 * p.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()
    entropy = -torch.special.xlogy(p, p).sum(-1)
    largest, spread, gradient = (float(values.mean()) for values in (p.amax(-1), entropy, norm))
    return Softmax(largest, spread, gradient, float(norm.median()))


def measure(widths: Sequence[int]) -> list[Width]:
    """Draw queries and keys of each width, and measure their dot products and the softmax."""
    measured = []
    for d_k in widths:
        if not 1 <= d_k <= MAXIMUM["d_k"]:
            raise BadSetting(f"--widths {f'{d_k}':.60}: expected d_k from 1 to {MAXIMUM['d_k']:,}")
        generator = torch.Generator().manual_seed(1)
        # Groups of queries share keys: separate keys per query would not fit into memory.
        q = torch.randn(GROUPS, QUERIES // GROUPS, d_k, generator=generator)
        k = torch.randn(GROUPS, KEYS, d_k, generator=generator)
        scores = (q @ k.mT).flatten(0, 1).double()  # (queries, keys)
        scaled, unscaled = measure_softmax(scores / math.sqrt(d_k)), measure_softmax(scores)
        measured.append(Width(d_k, float(scores.var()), scaled, unscaled))
    return measured


def scaling(
    widths: Sequence[int], trial: Trial | None, data: Data | None, progress: Progress
) -> Finding:
    """Measure the softmax at several d_k and, with a trial, train at a large one."""
    if data is not None:
        data.require()  # before any slow work
    measured = measure(widths)
    tables = [_softmax_table(measured)]
    caption = (
        f"Softmax over {KEYS} random keys by d_k: the largest weight, and the norm of its "
        "gradient, the mean and the median."
    )
    drawings: dict[str, Callable[[], Figure]] = {caption: lambda: draw(measured)}
    learnt: list[Learnt] = []
    scale: list[str] = []
    if trial is not None:
        assert data is not None
        comparison, results = train_variants("scaling", trial, data, VARIANTS, progress)
        learnt = _learnt(results, comparison.resample(results))
        tables.append(_training_table(learnt, trial))
        caption = "Validation perplexity of the same model at a large d_k, while training."
        drawings[caption] = lambda: draw_curves(results)
        scale = [f"{trial.describe_scale()}; one seed."]
    finding = Finding(
        name="scaling",
        title="Scaled dot products: what 1 / sqrt(d_k) is for",
        said=SAID,
        tables=tuple(tables),
        notes=(*_verdicts(measured, learnt), HOW, *scale),
        data={
            "widths": [asdict(width) for width in measured],
            "trained": [asdict(model) for model in learnt],
        },
    )
    return add_pictures(finding, drawings)


def _learnt(results: Mapping[str, Result], resampled: Resampled) -> list[Learnt]:
    learnt = []
    for name, result in results.items():
        loss, bleu = math.log(result.perplexity), resampled.estimate(name)
        learnt.append(Learnt(name, result.perplexity, loss, bleu, result.seconds))
    return learnt


def _softmax_table(measured: Sequence[Width]) -> Table:
    columns = (
        *("d_k", "variance of q.k", "theory", "largest weight: scaled", "unscaled"),
        *("entropy: scaled", "unscaled", "gradient: scaled", "unscaled"),
        *("its median: scaled", "unscaled"),
    )
    formats = {"largest": ".3f", "entropy": ".2f", "gradient": ".3f", "median": ".2g"}
    rows = tuple(
        (
            *(str(width.d_k), f"{width.variance:,.1f}", str(width.d_k)),
            *(
                format(getattr(softmax, name), style)
                for name, style in formats.items()
                for softmax in (width.scaled, width.unscaled)
            ),
        )
        for width in measured
    )
    title = f"Softmax over {KEYS} random keys (entropy at most {math.log(KEYS):.2f})"
    return Table(title, columns, rows)


def _training_table(learnt: Sequence[Learnt], trial: Trial) -> Table:
    columns = ("attention", "validation loss", "perplexity", "BLEU", "seconds")
    rows = tuple(
        (
            *(LABELS[model.name], f"{model.loss:.3f}", f"{model.perplexity:.2f}"),
            *(model.bleu.show(1), f"{model.seconds:,.0f}"),
        )
        for model in learnt
    )
    h, d_k = trial.settings["h"], trial.settings["d_k"]
    return Table(f"Trained with h = {h}, d_k = {d_k}, the rest equal", columns, rows)


def _verdicts(measured: Sequence[Width], learnt: Sequence[Learnt]) -> list[str]:
    worst = max(abs(width.variance / width.d_k - 1) for width in measured)
    last = max(measured, key=lambda width: width.d_k)
    peak = max(measured, key=lambda width: width.unscaled.gradient)
    weights = [width.scaled.largest for width in measured]
    gradients = [width.scaled.gradient for width in measured]
    sentences = [
        (
            f"The variance of q.k is d_k, within {worst:.1%}. At d_k = {last.d_k} the unscaled "
            f"softmax gives {last.unscaled.largest:.0%} to one of {KEYS} keys; the scaled one "
            f"{last.scaled.largest:.0%} ({min(weights):.0%} to {max(weights):.0%} over all d_k)."
        ),
        (
            f"Unscaled, the mean gradient is largest at d_k = {peak.d_k} "
            f"({peak.unscaled.gradient:.3f}) and {last.unscaled.gradient:.3f} at {last.d_k}, where "
            f"half of the queries have less than {last.unscaled.median:.1g}. Scaled it is "
            f"{min(gradients):.3f} to {max(gradients):.3f} over all d_k."
        ),
    ]
    if learnt:
        loss = {model.name: model.loss for model in learnt}
        changes = [
            f"{LABELS[name]} {loss[name] - loss['scaled']:+.3f}"
            for name in ("unscaled", "additive")
        ]
        sentences.append(
            "Trained for the same steps, validation loss against the scaled model: "
            f"{'; '.join(changes)} nats per subword (more is worse)."
        )
    return sentences


def draw(measured: Sequence[Width]) -> "Figure":
    """Draw the largest weight and the gradient by d_k."""
    figure, (left, right) = panels(2, 11, 4.2)
    d_k = [width.d_k for width in measured]
    for name in ("scaled", "unscaled"):
        softmax: list[Softmax] = [getattr(width, name) for width in measured]
        left.plot(d_k, [each.largest for each in softmax], label=name)
        (line,) = right.plot(d_k, [each.gradient for each in softmax], label=name)
        right.plot(
            d_k,
            [each.median for each in softmax],
            color=line.get_color(),
            marker=line.get_marker(),
            label=f"{name}, median",
            linestyle=":",
        )
    left.set(title="Largest weight: 1 is all on one key", ylim=(0, 1.05))
    right.set(title="Norm of the softmax's gradient")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xticks(d_k)
        axes.set_xlabel("d_k (logarithmic)")
        axes.legend()
    return figure


def draw_curves(results: Mapping[str, Result]) -> "Figure":
    """Draw validation perplexity during each training run."""
    figure, (axes,) = panels(1, 8, 4.2)
    for name, result in results.items():
        steps, perplexities = (
            [point[key] for point in result.curve] for key in ("step", "valid_perplexity")
        )
        axes.plot(steps, perplexities, label=LABELS[name])
    log_y_axis(axes)
    axes.set(xlabel="training step", ylabel="perplexity")
    axes.set_title("Validation perplexity, down is better (logarithmic)")
    axes.legend()
    return figure
