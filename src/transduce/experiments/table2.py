"""Table 2: the Transformer against what it replaced, on the same data for the same time or steps.

The others are trained by the same trainer, searched by the same search, scored the same way.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import BadSetting
from transduce.experiments.budget import PAPERS_STEPS, Budget, averaged, schedule, scheduled
from transduce.experiments.comparison import Experiment
from transduce.experiments.drawing import logarithmic, pictures
from transduce.experiments.findings import Finding, Table
from transduce.experiments.paper_numbers import TABLE_2, System
from transduce.experiments.rows import Data, Result, Row
from transduce.experiments.statistics import Resampled
from transduce.inspection.style import COLOURS, MARKERS, drawable
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Table 2: the Transformer against recurrent and convolutional models"
SAID = (
    "On newstest2014 the Transformer translates better than every model before it, ensembles "
    "included (28.4 BLEU English to German, 41.8 English to French with the big model), at a "
    "fraction of their training cost."
)
KINDS = {  # what stands for which system of the paper's
    "transformer": "Transformer, base",
    "recurrent": "GNMT + RL",
    "convs2s": "ConvS2S",
    "bytenet": "ByteNet",
}
SYSTEMS = {
    "cuda": ("base", "recurrent", "convs2s", "bytenet"),
    "cpu": ("tiny", "recurrent-tiny", "convs2s-tiny", "bytenet-tiny"),
}
AVERAGED = 5  # checkpoints (6.1)
VALIDATIONS, SAVES = 8, 15  # of a training: the last 5 checkpoints are of its last third


def systems_for(device: str) -> Sequence[str]:
    """Return the systems that this machine can train."""
    return SYSTEMS["cuda" if choose_device(device).type == "cuda" else "cpu"]


def table2(
    data: Data,
    *,
    out: Path,
    systems: Sequence[str] = (),
    budget: Budget,
    settings: Mapping[str, str] | None = None,
    device: str = "auto",
    keep_weights: bool = False,
    gather: bool = False,
    until: float | None = None,
    progress: Progress,
) -> Finding:
    """Train the systems, presets of which the first is what others are compared with."""
    names = list(dict.fromkeys(systems or systems_for(device)))
    if len(names) > len(COLOURS):
        raise BadSetting(f"{len(names)} systems: expected at most {len(COLOURS)}, to draw them")
    shared = {"average": str(AVERAGED), "keep": str(AVERAGED), "timed": "steps"}
    shared |= budget.settings() | dict(settings or {})
    experiment = Experiment(
        name="table2",
        folder=out,
        data=data,
        settings=shared,
        budget=budget,
        validations=VALIDATIONS,
        saves=SAVES,
        rated=True,
        device=device,
        keep_weights=keep_weights,
    )
    rows = [row_of(name, shared, budget) for name in names]
    experiment.open(rows)
    if not gather:
        experiment.run(rows, progress, until)
    results = {row.name: result for row in rows if (result := experiment.finished(row))}
    if names[0] not in results:
        note = f"{names[0]}, which the others are compared with, is not finished yet."
        return Finding(name="table2", title=TITLE, said=SAID, notes=(note,))
    translations = {row.name: experiment.translations(row) for row in rows if row.name in results}
    resampled = Resampled(translations, experiment.references(), data.pair()[1])
    return found(results, resampled, budget)


def row_of(name: str, shared: Mapping[str, str], budget: Budget) -> Row:
    """Return a system, with a schedule of its own that fits the budget."""
    recipe = find_preset(name).train
    own: dict[str, str] = {}
    if not budget.is_time:
        own = schedule(budget.steps or PAPERS_STEPS, recipe, VALIDATIONS, SAVES)
    return Row(name=name, preset=name, settings=own | dict(shared))


def found(results: Mapping[str, Result], resampled: Resampled, budget: Budget) -> Finding:
    """Put the systems beside each other, and the paper's beside them."""
    first = next(iter(results))
    better = Table(
        f"How well each translates, trained for {budget}",
        (
            *("system", "BLEU", "95% interval", f"to {first}", "interval", "PPL"),
            *("the paper's", "paper: BLEU en-de", "paper: to its Transformer"),
        ),
        tuple(_quality(result, first, results, resampled) for result in results.values()),
    )
    cost = Table(
        "What that took",
        (
            *("system", "params (M)", "steps", "time", "target tokens/s"),
            *("FLOPs, counted", "FLOPs, time x rate", "paper: FLOPs en-de"),
        ),
        tuple(map(_cost, results.values())),
    )
    drawn = pictures(
        "Perplexity and BLEU (greedy) of the validation set over the time spent on steps.",
        lambda: draw(results),
    )
    return Finding(
        name="table2",
        title=TITLE,
        said=SAID,
        tables=(better, cost, papers_table()),
        pictures=drawn.pictures,
        notes=(*_verdict(first, results, resampled), *_notes(results, budget), *drawn.notes),
        data={
            "results": {name: result.brief for name, result in results.items()},
            "curves": {name: result.curve for name, result in results.items()},
            "machine": results[first].machine,
        },
    )


def papers_table() -> Table:
    """Return the paper's own table."""
    rows = tuple(
        (
            *(one.name, _number(one.en_de), _number(one.en_fr)),
            *(_flops(one.flops_en_de), _flops(one.flops_en_fr)),
        )
        for one in TABLE_2
    )
    columns = ("system", "BLEU en-de", "BLEU en-fr", "FLOPs en-de", "FLOPs en-fr")
    return Table("The paper's, newstest2014", columns, rows)


def theirs(result: Result) -> System:
    """Return the system of the paper that a result stands beside."""
    name = KINDS[str(result.model.get("architecture", "transformer"))]
    return next(one for one in TABLE_2 if one.name == name)


def estimate(result: Result) -> float | None:
    """Return training FLOPs as the paper estimates them: time x what the machine sustains."""
    rate = result.machine.get("matrix", {}).get("flops_per_second")
    return None if rate is None else result.seconds * float(rate)


def _quality(
    result: Result, first: str, results: Mapping[str, Result], resampled: Resampled
) -> tuple[str, ...]:
    difference = interval = gap = ""
    paper, papers_first = theirs(result), theirs(results[first])
    if result.name != first:
        difference = f"{result.bleu - results[first].bleu:+.2f}"
        low, high = resampled.difference(result.name, first)
        interval = f"{low:+.2f} to {high:+.2f}"
    if paper != papers_first and paper.en_de and papers_first.en_de:
        gap = f"{paper.en_de - papers_first.en_de:+.2f}"
    return (
        *(result.name, f"{result.bleu:.2f}", f"{result.low:.2f} to {result.high:.2f}"),
        *(difference, interval, f"{result.perplexity:.2f}"),
        *(paper.name, _number(paper.en_de), gap),
    )


def _cost(result: Result) -> tuple[str, ...]:
    return (
        *(result.name, f"{result.parameters / 1e6:.1f}", f"{result.steps:,}"),
        *(format_duration(result.seconds), f"{result.tokens_per_second:,.0f}"),
        *(_flops(result.flops), _flops(estimate(result)), _flops(theirs(result).flops_en_de)),
    )


def _verdict(first: str, results: Mapping[str, Result], resampled: Resampled) -> list[str]:
    said = []
    for name in results:
        if name != first:
            low, high = resampled.difference(first, name)
            verdict = "ahead of" if low > 0 else "behind" if high < 0 else "not told apart from"
            lead = results[first].bleu - results[name].bleu
            said.append(f"{verdict} {name}: {lead:+z.2f} BLEU ({low:+.2f} to {high:+.2f})")
    return [f"{first} is {'; '.join(said)}; 95% intervals of paired samples."] if said else []


def _notes(results: Mapping[str, Result], budget: Budget) -> list[str]:
    """Tell what was scaled down, and how things were counted."""
    one = next(iter(results.values()))
    equal = (
        f"Equal time: {budget} of steps each; validating, saving and translating do not count, "
        "compiling kernels does."
        if budget.is_time
        else f"Equal steps: {budget} each; their time differs."
    )
    passes = [result.epochs for result in results.values()]
    scaled = (
        f"Scaled down: {one.recipe['batch_tokens']:,} tokens a side in a step (the paper: 25,000), "
        f"{min(passes):.1f} to {max(passes):.1f} passes over the training text, a vocabulary of "
        f"{one.model['target_vocabulary']:,} (37,000); the paper's base model trained for 12 hours "
        "on 8 GPUs."
    )
    evaluated = (
        f"Beam 4, alpha 0.6, {averaged(one.recipe)} (of the first, one every "
        f"{one.recipe['save_every']:,} steps); BLEU by sacreBLEU "
        f"({one.signature}), the paper's is tokenised. Perplexity is of the last weights."
    )
    counted = (
        "FLOPs are counted from the matrices that each real token meets, forward and backward; and "
        "estimated as the paper does, time x a sustained rate, here that of a large matrix product "
        "on this machine."
    )
    others = "The paper's numbers are of other data: compare ranks and gaps, not values."
    return [equal, scaled, scheduled(one.recipe, budget), evaluated, counted, others]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _flops(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}".replace("e+", "e")


def draw(results: Mapping[str, Result]) -> "Figure":
    """Draw perplexity and BLEU over time, a line a system."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    panels: tuple[tuple[Axes, str], ...] = ((left, "valid_perplexity"), (right, "valid_bleu"))
    for axes, measure in panels:
        for result, colour, marker in zip(results.values(), COLOURS, MARKERS, strict=False):
            points = [one for one in result.curve if measure in one]
            x, y = ([one[name] for one in points] for name in ("seconds", measure))
            axes.plot(x, y, color=colour, marker=marker, label=drawable(result.name))
        axes.set_xlabel("seconds of training")
        axes.set_xlim(left=0)
    logarithmic(left)
    left.set(title="Perplexity (logarithmic), down is better")
    right.set(title="BLEU (greedy), up is better")
    right.set_ylim(bottom=0)
    right.legend()
    return figure
