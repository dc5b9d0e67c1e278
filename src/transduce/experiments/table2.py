"""Table 2: the Transformer versus earlier models, on the same data for the same time or steps.

All models are trained by the same trainer, decoded by the same search and scored the same way.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import BadSetting
from transduce.experiments.budget import Budget, describe_schedule, describe_weights, schedule
from transduce.experiments.comparison import Comparison, Setup
from transduce.experiments.drawing import add_pictures, log_y_axis, panels
from transduce.experiments.findings import Finding, Table
from transduce.experiments.further_tests import further_notes, further_table
from transduce.experiments.paper_numbers import EN_FR, TABLE_2, Pair, System, papers_pair
from transduce.experiments.rows import Result, Row
from transduce.experiments.statistics import Resampled
from transduce.experiments.two_pairs import Side, beside_table, describe_beside, read_side
from transduce.inspection.style import COLOURS, drawable
from transduce.presets import find_preset
from transduce.system.devices import choose_device
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress
from transduce.text.languages import language_code

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


def table2(
    setup: Setup, systems: Sequence[str], progress: Progress, *, beside: Path | None = None
) -> Finding:
    """Train the systems, which are presets; the others are compared with the first.

    `beside` is the folder of another Table 2, for another pair of languages: both are shown in one
    table.
    """
    names = list(dict.fromkeys(systems or systems_for(setup.device)))
    if len(names) > len(COLOURS):
        raise BadSetting(f"{len(names)} systems: expected at most {len(COLOURS)}, to draw them")
    languages = setup.data.pair()
    other = read_side(beside, languages) if beside is not None else None
    shared = {"average": str(AVERAGED), "keep": str(AVERAGED), "timed": "steps"}
    shared |= setup.budget.settings() | papers_subwords(languages, setup.settings)
    shared |= dict(setup.settings)
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
        return Finding(
            name=finding_name(languages), title=_title(languages), said=SAID, notes=(note,)
        )
    return make_finding(comparison, results, setup.budget, other)


def finding_name(languages: Sequence[str]) -> str:
    """Return the name of the finding: both of the paper's pairs may be in one report."""
    return "table2_en_fr" if papers_pair(languages) == EN_FR else "table2"


def papers_subwords(languages: Sequence[str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the setting for the subwords of the paper: word pieces for French (5.1).

    Settings that choose the subwords, or that need byte pairs, take precedence.
    """
    chosen = {"subwords", "bpe_dropout"} & settings.keys()
    word_pieces = papers_pair(languages) == EN_FR and not chosen
    return {"subwords": "wordpiece"} if word_pieces else {}


def row_of(name: str, shared: Mapping[str, str], budget: Budget) -> Row:
    """Return the row of a system, with its own schedule that fits the budget."""
    fitting: dict[str, str] = {}
    if not budget.is_time:
        fitting = schedule(budget.steps, find_preset(name).train, VALIDATIONS, SAVES)
    return Row(name=name, preset=name, settings=fitting | dict(shared))


def make_finding(
    comparison: Comparison,
    results: Mapping[str, Result],
    budget: Budget,
    other: Side | None = None,
) -> Finding:
    """Compare the systems with each other and with the paper's systems."""
    first, languages = next(iter(results)), comparison.data.pair()
    pair, resampled = papers_pair(languages), comparison.resample(results)
    quality = Table(
        f"How well each translates, trained for {budget}",
        (
            *("system", "BLEU", "95% interval", f"to {first}", "interval", "PPL"),
            *(("the paper's", f"paper: BLEU {pair.name}") if pair else ()),
            *(("paper: to its Transformer",) if pair else ()),
        ),
        tuple(_quality(result, results[first], resampled, pair) for result in results.values()),
    )
    cost = Table(
        "What that took",
        (
            *("system", "params (M)", "steps", "time", "target tokens/s"),
            *("FLOPs, counted", "FLOPs, time x rate"),
            *((f"paper: FLOPs {pair.name}",) if pair else ()),
        ),
        tuple(_cost(result, pair) for result in results.values()),
    )
    tables, notes = [quality, cost], _verdict(first, results, resampled)
    if further := comparison.further_tests.names:
        tables.insert(1, further_table(comparison.further_tests, results, languages[1]))
        notes += further_notes(comparison.further_tests, results, further)
    if other is not None:
        ours = Side(languages, dict(results), resampled)
        tables.insert(1, beside_table(ours, other, papers_system))
        notes += describe_beside(ours, other)
    caption = "Perplexity and BLEU (greedy) of the validation set over the time spent in steps."
    finding = Finding(
        name=finding_name(languages),
        title=_title(languages),
        said=SAID,
        tables=(*tables, papers_table()),
        notes=(*notes, *_notes(results, budget, languages)),
        data={
            "results": {name: result.brief for name, result in results.items()},
            "curves": {name: result.curve for name, result in results.items()},
            "machine": results[first].machine,
        },
    )
    return add_pictures(finding, {caption: lambda: draw(results)})


def _title(languages: Sequence[str]) -> str:
    if papers_pair(languages) != EN_FR:
        return TITLE
    return TITLE.replace("Table 2:", "Table 2 for English and French:")


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


def _quality(
    result: Result, first: Result, resampled: Resampled, pair: Pair | None
) -> tuple[str, ...]:
    difference = interval = ""
    if result.name != first.name:
        difference = f"{result.bleu - first.bleu:+.2f}"
        low, high = resampled.difference(result.name, first.name)
        interval = f"{low:+.2f} to {high:+.2f}"
    ours = (
        *(result.name, f"{result.bleu:.2f}", f"{result.low:.2f} to {result.high:.2f}"),
        *(difference, interval, f"{result.perplexity:.2f}"),
    )
    if pair is None:
        return ours
    paper, papers_first = papers_system(result), papers_system(first)
    bleu, of_first, gap = pair.bleu(paper), pair.bleu(papers_first), ""
    if paper != papers_first and bleu and of_first:
        gap = f"{bleu - of_first:+.2f}"
    return (*ours, paper.name, _number(bleu), gap)


def _cost(result: Result, pair: Pair | None) -> tuple[str, ...]:
    return (
        *(result.name, f"{result.parameters / 1e6:.1f}", f"{result.steps:,}"),
        *(format_duration(result.seconds), f"{result.tokens_per_second:,.0f}"),
        *(_flops(result.flops), _flops(estimate_flops(result))),
        *((_flops(pair.flops(papers_system(result))),) if pair else ()),
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


def _notes(results: Mapping[str, Result], budget: Budget, languages: tuple[str, str]) -> list[str]:
    """Describe what was scaled down and how the numbers were counted."""
    first, pair = next(iter(results.values())), papers_pair(languages)
    equal = (
        f"Equal time: {budget} of steps each; validating, saving and translating do not count, "
        "compiling kernels does."
        if budget.is_time
        else f"Equal steps: {budget} each; their time differs."
    )
    passes = [result.epochs for result in results.values()]
    scaled = (
        f"Scaled down: {first.recipe['batch_tokens']:,} tokens per side in a step (the paper: "
        f"25,000), {_range(passes)} passes over the training text, a "
        f"vocabulary of {first.model['target_vocabulary']:,}"
        f"{f' ({pair.vocabulary:,})' if pair else ''}; the paper's base model trained for 12 hours "
        "on 8 GPUs."
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
    scheduled = describe_schedule(first.recipe, budget)
    others = _about_papers_numbers(languages, str(first.recipe["subwords"]))
    return [equal, scaled, scheduled, evaluated, counted, *others, *_about_neural_gpu(results)]


def _range(values: Sequence[float]) -> str:
    """Write the lowest and the highest of some values, or one if they are about equal."""
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _about_papers_numbers(languages: tuple[str, str], subwords: str) -> list[str]:
    """Say how far the paper's numbers can be compared with ours."""
    pair, between = papers_pair(languages), "-".join(languages)
    unknown = (
        "None of the paper's numbers is next to ours, because the languages of the texts are not "
        "known: give them, such as `--languages en-de`."
    )
    other = (
        f"The paper has no numbers for {between}: it translates English to German and English to "
        "French."
    )
    if pair is None:
        return [unknown if languages == ("src", "tgt") else other]
    notes = []
    if pair == EN_FR:
        kind = "word pieces" if subwords == "wordpiece" else "byte pairs"
        agree = "as in the paper" if subwords == "wordpiece" else "the paper: word pieces"
        notes.append(f"The subwords are {kind} ({agree}, for French).")
    if language_code(languages[0]) != "en":
        notes.append(f"The paper's numbers are for {pair.name}, the opposite direction.")
    return [
        *notes,
        "The paper's numbers are from other data: compare ranks and gaps, not values.",
    ]


def _about_neural_gpu(results: Mapping[str, Result]) -> list[str]:
    """Say why the Neural GPU has no number of the paper, and how its FLOPs are counted."""
    if all(papers_system(result).name != NEURAL_GPU for result in results.values()):
        return []
    note = (
        f"The paper names the {NEURAL_GPU} among earlier models (2) but gives no number for it. "
        "Its authors report 29.6 BLEU English to French on newstest2014 (Kaiser and Bengio 2016); "
        "that number is not from the paper. It rewrites a whole image for each token, so its FLOPs "
        "per token grow with the length of a sentence; they are counted from the lengths of the "
        "training text."
    )
    return [note]


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
