"""Table 2: the Transformer versus earlier models, on the same data for the same time or steps.

All models are trained by the same trainer, decoded by the same search and scored the same way.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from transduce.errors import BadSetting
from transduce.experiments.budget import Budget, describe_schedule, describe_weights, schedule
from transduce.experiments.comparison import Comparison, Setup
from transduce.experiments.drawing import add_pictures, log_y_axis, panels
from transduce.experiments.findings import Finding, Table
from transduce.experiments.paper_numbers import TABLE_2, System
from transduce.experiments.rows import Result, Row
from transduce.experiments.statistics import Resampled
from transduce.inspection.style import COLOURS, drawable
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Table 2: the Transformer against recurrent and convolutional models"
SAID = (
    "On newstest2014 the Transformer translates better than every model before it, ensembles "
    "included (28.4 BLEU English to German, 41.8 English to French with the big model), at a "
    "fraction of their training cost."
)
NEURAL_GPU = "Extended Neural GPU"  # named in section 2 ([16]); Table 2 has no row for it
PAPERS_SYSTEM = {  # the paper's system to compare with, by architecture
    "transformer": "Transformer, base",
    "recurrent": "GNMT + RL",
    "convs2s": "ConvS2S",
    "bytenet": "ByteNet",
    "neural-gpu": NEURAL_GPU,
}
SYSTEMS = {
    "cuda": ("base", "recurrent", "convs2s", "bytenet", "neural-gpu"),
    "cpu": ("tiny", "recurrent-tiny", "convs2s-tiny", "bytenet-tiny", "neural-gpu-tiny"),
}
AVERAGED = 5  # checkpoints (6.1)
VALIDATIONS, SAVES = 8, 15  # per training run: the last 5 checkpoints are from its last third


def systems_for(device: str) -> Sequence[str]:
    """Return the systems that this machine can train."""
    return SYSTEMS["cuda" if choose_device(device).type == "cuda" else "cpu"]


def table2(setup: Setup, systems: Sequence[str], progress: Progress) -> Finding:
    """Train the systems, which are presets; the others are compared with the first."""
    names = list(dict.fromkeys(systems or systems_for(setup.device)))
    if len(names) > len(COLOURS):
        raise BadSetting(f"{len(names)} systems: expected at most {len(COLOURS)}, to draw them")
    shared = {"average": str(AVERAGED), "keep": str(AVERAGED), "timed": "steps"}
    shared |= setup.budget.settings() | dict(setup.settings)
    comparison = Comparison(
        name="table2",
        setup=setup,
        settings=shared,
        validations=VALIDATIONS,
        saves=SAVES,
        rated=True,
    )
    rows = [row_of(name, shared, setup.budget) for name in names]
    comparison.open_and_run(rows, progress)
    results = comparison.results(rows)
    if names[0] not in results:
        note = f"{names[0]}, which the others are compared with, is not finished yet."
        return Finding(name="table2", title=TITLE, said=SAID, notes=(note,))
    return make_finding(results, comparison.resample(results), setup.budget)


def row_of(name: str, shared: Mapping[str, str], budget: Budget) -> Row:
    """Return the row of a system, with its own schedule that fits the budget."""
    fitting: dict[str, str] = {}
    if not budget.is_time:
        fitting = schedule(budget.steps, find_preset(name).train, VALIDATIONS, SAVES)
    return Row(name=name, preset=name, settings=fitting | dict(shared))


def make_finding(results: Mapping[str, Result], resampled: Resampled, budget: Budget) -> Finding:
    """Compare the systems with each other and with the paper's systems."""
    first = next(iter(results))
    quality = Table(
        f"How well each translates, trained for {budget}",
        (
            *("system", "BLEU", "95% interval", f"to {first}", "interval", "PPL"),
            *("the paper's", "paper: BLEU en-de", "paper: to its Transformer"),
        ),
        tuple(_quality(result, results[first], resampled) for result in results.values()),
    )
    cost = Table(
        "What that took",
        (
            *("system", "params (M)", "steps", "time", "target tokens/s"),
            *("FLOPs, counted", "FLOPs, time x rate", "paper: FLOPs en-de"),
        ),
        tuple(map(_cost, results.values())),
    )
    caption = "Perplexity and BLEU (greedy) of the validation set over the time spent in steps."
    finding = Finding(
        name="table2",
        title=TITLE,
        said=SAID,
        tables=(quality, cost, papers_table()),
        notes=(*_verdict(first, results, resampled), *_notes(results, budget)),
        data={
            "results": {name: result.brief for name, result in results.items()},
            "curves": {name: result.curve for name, result in results.items()},
            "machine": results[first].machine,
        },
    )
    return add_pictures(finding, {caption: lambda: draw(results)})


def papers_table() -> Table:
    """Return the paper's own table."""
    rows = tuple(
        (
            *(system.name, _number(system.en_de), _number(system.en_fr)),
            *(_flops(system.flops_en_de), _flops(system.flops_en_fr)),
        )
        for system in TABLE_2
    )
    columns = ("system", "BLEU en-de", "BLEU en-fr", "FLOPs en-de", "FLOPs en-fr")
    return Table("The paper's, newstest2014", columns, rows)


def papers_system(result: Result) -> System:
    """Return the paper's system that a result is compared with; without a row: no numbers."""
    name = PAPERS_SYSTEM[str(result.model.get("architecture", "transformer"))]
    return next((system for system in TABLE_2 if system.name == name), System(name))


def estimate_flops(result: Result) -> float | None:
    """Return training FLOPs as estimated in the paper: time x the machine's sustained rate."""
    rate = result.machine.get("matrix", {}).get("flops_per_second")
    return None if rate is None else result.seconds * float(rate)


def _quality(result: Result, first: Result, resampled: Resampled) -> tuple[str, ...]:
    difference = interval = gap = ""
    paper, papers_first = papers_system(result), papers_system(first)
    if result.name != first.name:
        difference = f"{result.bleu - first.bleu:+.2f}"
        low, high = resampled.difference(result.name, first.name)
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
        *(_flops(result.flops), _flops(estimate_flops(result))),
        _flops(papers_system(result).flops_en_de),
    )


def _verdict(first: str, results: Mapping[str, Result], resampled: Resampled) -> list[str]:
    comparisons = []
    for name in results:
        if name != first:
            low, high = resampled.difference(first, name)
            verdict = (
                "ahead of" if low > 0 else "behind" if high < 0 else "not significantly apart from"
            )
            lead = results[first].bleu - results[name].bleu
            comparisons.append(f"{verdict} {name}: {lead:+z.2f} BLEU ({low:+.2f} to {high:+.2f})")
    if not comparisons:
        return []
    return [f"{first} is {'; '.join(comparisons)}; 95% intervals of paired samples."]


def _notes(results: Mapping[str, Result], budget: Budget) -> list[str]:
    """Describe what was scaled down and how the numbers were counted."""
    first = next(iter(results.values()))
    equal = (
        f"Equal time: {budget} of steps each; validating, saving and translating do not count, "
        "compiling kernels does."
        if budget.is_time
        else f"Equal steps: {budget} each; their time differs."
    )
    passes = [result.epochs for result in results.values()]
    scaled = (
        f"Scaled down: {first.recipe['batch_tokens']:,} tokens per side in a step (the paper: "
        f"25,000), {min(passes):.1f} to {max(passes):.1f} passes over the training text, a "
        f"vocabulary of {first.model['target_vocabulary']:,} (37,000); the paper's base model "
        "trained for 12 hours on 8 GPUs."
    )
    evaluated = (
        f"Beam 4, alpha 0.6, {describe_weights(first.recipe)} (of the first, one every "
        f"{first.recipe['save_every']:,} steps); BLEU by sacreBLEU ({first.signature}), the "
        "paper's is tokenised. Perplexity is of the last weights."
    )
    counted = (
        "FLOPs are counted from the matrices that each real token meets, forward and backward; and "
        "estimated as in the paper, time x a sustained rate, here that of a large matrix product "
        "on this machine."
    )
    others = "The paper's numbers are from other data: compare ranks and gaps, not values."
    notes = [equal, scaled, describe_schedule(first.recipe, budget), evaluated, counted, others]
    if any(papers_system(result).name == NEURAL_GPU for result in results.values()):
        notes.append(
            f"The paper names the {NEURAL_GPU} among earlier models (2) but gives no number for "
            "it. Its authors report 29.6 BLEU English to French on newstest2014 (Kaiser and Bengio "
            "2016); that number is not from the paper. It rewrites a whole image for each token, "
            "so its FLOPs per token grow with the length of a sentence; they are counted from the "
            "lengths of the training text."
        )
    return notes


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _flops(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}".replace("e+", "e")


def draw(results: Mapping[str, Result]) -> "Figure":
    """Draw perplexity and BLEU over time, one line per system."""
    figure, (left, right) = panels(2, 11, 4.6)
    for axes, measure in ((left, "valid_perplexity"), (right, "valid_bleu")):
        for result in results.values():
            points = [point for point in result.curve if measure in point]
            x, y = ([point[name] for point in points] for name in ("seconds", measure))
            axes.plot(x, y, label=drawable(result.name))
        axes.set_xlabel("seconds of training")
        axes.set_xlim(left=0)
    log_y_axis(left)
    left.set(title="Perplexity (logarithmic), down is better")
    right.set(title="BLEU (greedy), up is better")
    right.set_ylim(bottom=0)
    right.legend()
    return figure
