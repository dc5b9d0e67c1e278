"""Table 3: which parts of the Transformer matter; every row a preset, each for the same budget."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from transduce.errors import BadSetting, did_you_mean
from transduce.experiments.budget import PAPERS_STEPS, Budget, averaged, schedule, scheduled
from transduce.experiments.comparison import Experiment
from transduce.experiments.drawing import pictures
from transduce.experiments.findings import Finding, Table
from transduce.experiments.paper_numbers import TABLE_3 as PAPER
from transduce.experiments.rows import Data, Result, Row
from transduce.experiments.statistics import FEWEST, Correlation, Resampled, spearman
from transduce.inspection.style import COLOURS, QUIET, drawable
from transduce.presets import TABLE_3, Preset
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASE = "base"
SHRUNK = ("d_model", "d_ff", "d_k", "d_v")
COLUMNS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls", "positions")
# Effects of about a BLEU or more.
LARGE = {"C-N2": "N = 2", "A-h1": "h = 1", "C-d256": "d_model = 256"}
TITLE = "Table 3: variations on the Transformer"
SAID = (
    "Changing one part of the base model at a time, on English to German (newstest2013): a single "
    "head is 0.9 BLEU worse than eight and too many are worse too; smaller keys hurt; bigger "
    "models are better; dropout helps against overfitting; learned positions do as well as "
    "sinusoids."
)


def table3(
    data: Data,
    *,
    out: Path,
    rows: Sequence[str] = (),
    budget: Budget,
    shrink: int = 1,
    settings: Mapping[str, str] | None = None,
    device: str = "auto",
    keep_weights: bool = False,
    gather: bool = False,
    until: float | None = None,
    progress: Progress,
) -> Finding:
    """Train rows of Table 3 (all by default) that are not finished, and tell what all gave.

    `rows` are names of presets, or letters of their groups; `shrink` divides widths; `settings`
    are for every row, but what a row itself changes stands. With `gather` nothing is trained.
    """
    chosen = named(rows)
    if shrink < 1:
        raise BadSetting(f"--shrink {shrink}: expected 1 or more, to divide widths by")
    shared = {"average": "1", "keep": "1", "validate_bleu": "0"}
    shared |= budget.settings()
    if not budget.is_time:
        shared |= schedule(budget.steps or PAPERS_STEPS, TABLE_3[BASE].train, 2, 2)
    shared |= settings or {}
    experiment = Experiment(
        name="table3",
        folder=out,
        data=data,
        settings=shared | ({"shrink": str(shrink)} if shrink > 1 else {}),
        budget=budget,
        device=device,
        keep_weights=keep_weights,
    )
    every = {name: row_of(name, shared, shrink) for name in TABLE_3}
    experiment.open([every[name] for name in chosen])
    if not gather:
        experiment.run([every[name] for name in chosen], progress, until)
    results = {name: result for name, row in every.items() if (result := experiment.finished(row))}
    if not results:
        return Finding(name="table3", title=TITLE, said=SAID, notes=("No row is finished yet.",))
    if len(results) > 1:
        progress.say(f"comparing {len(results)} rows on samples of the test sentences")
    translations = {name: experiment.translations(every[name]) for name in results}
    resampled = Resampled(translations, experiment.references(), data.pair()[1])
    return found(results, resampled, budget, shrink)


def named(rows: Sequence[str]) -> list[str]:
    """Return the presets that names and letters of groups mean, in the order of these."""
    groups = {name.partition("-")[0] for name in TABLE_3 if "-" in name}
    wanted: list[str] = []
    for name in rows or list(TABLE_3):
        own = [one for one in TABLE_3 if name == one or (name in groups and one[0] == name)]
        if not own:
            known = [*sorted(groups), *TABLE_3]
            raise BadSetting(
                f"there is no row {name}.{did_you_mean(name, known)} "
                f"The groups and rows are: {', '.join(known)}"
            )
        wanted += own
    return list(dict.fromkeys(wanted))


def row_of(name: str, shared: Mapping[str, str], shrink: int) -> Row:
    """Return a row: the shared settings fill what the paper leaves blank in it."""
    preset = TABLE_3[name]
    own = set(changes(preset))
    settings = {key: value for key, value in shared.items() if key not in own}
    if shrink > 1:
        for key in SHRUNK:
            settings.setdefault(key, str(shrunk(getattr(preset.model, key), shrink)))
    return Row(name=name, preset=name, settings=settings)


def shrunk(width: int, by: int) -> int:
    """Divide a width; an even one, for positions are sine and cosine pairs."""
    return max(2, width // by // 2 * 2)


def changes(preset: Preset) -> dict[str, object]:
    """Return the columns in which a row differs from the base model."""
    base = TABLE_3[BASE]
    found = {}
    for key in COLUMNS:
        part = "train" if key == "eps_ls" else "model"
        value = getattr(getattr(preset, part), key)
        if value != getattr(getattr(base, part), key):
            found[key] = value
    return found


def found(
    results: Mapping[str, Result], resampled: Resampled, budget: Budget, shrink: int
) -> Finding:
    """Put the rows beside the paper's."""
    columns = (
        *("row", "what differs", "steps", "PPL", "BLEU", "95% interval", "to base", "interval"),
        *("params (M)", "paper: PPL", "paper: BLEU", "paper: to base", "paper: params (M)"),
    )
    rows = tuple(_line(result, results, resampled) for result in results.values())
    correlation = resampled.correlation({name: one.bleu for name, one in PAPER.items()})
    picture = pictures(
        "How far each row lies from base, here and in the paper. Where the two marks of a row are "
        "on the same side, both say that the change helps, or that it hurts.",
        lambda: draw(results, resampled),
    )
    notes = [*_agreement(results, correlation), *_effects(results, resampled)]
    notes += _scaled(results, budget, shrink) + picture.notes
    return Finding(
        name="table3",
        title=TITLE,
        said=SAID,
        tables=(Table(f"Each row trained for {budget}", columns, rows),),
        pictures=picture.pictures,
        notes=tuple(notes),
        data={
            "results": {name: result.brief for name, result in results.items()},
            "correlation": None if correlation is None else correlation.value,
            "machine": next(iter(results.values())).machine,
        },
    )


def _line(result: Result, results: Mapping[str, Result], resampled: Resampled) -> tuple[str, ...]:
    name, paper = result.name, PAPER[result.name]
    difference = interval = theirs = ""
    if name != BASE:
        theirs = f"{paper.bleu - PAPER[BASE].bleu:+.1f}"
        if BASE in results:
            difference = f"{result.bleu - results[BASE].bleu:+.2f}"
            low, high = resampled.difference(name, BASE)
            interval = f"{low:+.2f} to {high:+.2f}"
    millions = PAPER[BASE].parameters if paper.parameters is None else paper.parameters
    return (
        *(name, _words(result), f"{result.steps:,}", f"{result.perplexity:.2f}"),
        *(f"{result.bleu:.2f}", f"{result.low:.2f} to {result.high:.2f}", difference, interval),
        f"{result.parameters / 1e6:.1f}",
        *(f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}", theirs, f"{millions:.0f}"),
    )


def _words(result: Result) -> str:
    """Say what a row changes, as it was trained here."""
    own = {**result.model, **result.recipe}
    words = [f"{key} {own[key]}" for key in changes(TABLE_3[result.name]) if key != "positions"]
    if own["positions"] != TABLE_3[BASE].model.positions:
        words.append(f"{own['positions']} positions")
    return ", ".join(words)


def _agreement(results: Mapping[str, Result], correlation: Correlation | None) -> list[str]:
    if correlation is None:
        return [f"Ranks are compared of {FEWEST} rows or more that differ."]
    perplexity = spearman(
        [one.perplexity for one in results.values()],
        [PAPER[name].perplexity for name in results],
    )
    said = (
        f"Rank correlation (Spearman) with the paper's BLEU over {correlation.rows} rows: "
        f"{correlation}, by resampling the test sentences; of perplexity: {perplexity:.2f}. "
        "What another seed would change is in neither."
    )
    return [said]


def _effects(results: Mapping[str, Result], resampled: Resampled) -> list[str]:
    """Tell which of the paper's large effects hold here beyond the interval."""
    there = [name for name in LARGE if name in results and BASE in results]
    if not there:
        return []
    said = []
    for name in there:
        low, high = resampled.difference(name, BASE)
        verdict = "below base" if high < 0 else "above base" if low > 0 else "not told apart"
        said.append(f"{LARGE[name]}: {verdict} ({low:+.2f} to {high:+.2f})")
    return [f"The paper's large effects, 95% intervals of the difference: {'; '.join(said)}."]


def _scaled(results: Mapping[str, Result], budget: Budget, shrink: int) -> list[str]:
    """Tell what was scaled down, and by how much."""
    one = next(iter(results.values()))
    recipe = one.recipe
    batch, vocabulary = recipe["batch_tokens"], one.model["target_vocabulary"]
    spent = f"{budget} of steps" if budget.is_time else f"{budget}"
    first = (
        f"Scaled down: {spent} of {batch:,} tokens a side for every row, "
        f"{min(r.epochs for r in results.values()):.1f} passes over the training text or more, "
        "instead of 100,000 steps of 25,000 tokens (300,000 for big); "
        f"a vocabulary of {vocabulary:,} instead of 37,000."
    )
    notes = [first]
    if shrink > 1:
        notes.append(f"d_model, d_ff, d_k and d_v are divided by {shrink} in every row.")
    notes.append(scheduled(recipe, budget))
    notes.append(
        f"Beam 4, alpha 0.6, {averaged(recipe)} (the paper: no averaging); BLEU by sacreBLEU "
        f"({one.signature}), the paper's is tokenised."
    )
    steps = sorted({r.steps for r in results.values()})
    if not budget.is_time and len(steps) > 1:
        notes.append(f"Not the same budget: rows made {steps[0]:,} to {steps[-1]:,} steps.")
    return notes


def draw(results: Mapping[str, Result], resampled: Resampled) -> "Figure":
    """Draw how far each row lies from base, here and in the paper: a line a row.

    Where base is not among them, it is how far they lie from their mean.
    """
    from matplotlib.figure import Figure

    names = list(results)[::-1]  # the first on top
    middle = [BASE] if BASE in results else names
    figure = Figure(figsize=(10, 2 + 0.3 * len(names)), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    ours, papers = (
        [source[name].bleu - fmean(source[one].bleu for one in middle) for name in names]
        for source in (results, PAPER)
    )
    spans = [resampled.difference(name, BASE) for name in names] if middle == [BASE] else None
    _points(left, ours, papers, spans)
    ours, papers = (
        [
            source[name].perplexity / fmean(source[one].perplexity for one in middle)
            for name in names
        ]
        for source in (results, PAPER)
    )
    _points(right, ours, papers)
    to = "base" if middle == [BASE] else "the mean of these rows"
    left.set(title=f"BLEU, from {to}: right is better", xlabel="BLEU", yticks=range(len(names)))
    left.set_yticklabels([drawable(name) for name in names])
    left.set_ylim(-0.7, len(names) - 0.3)
    right.set(title=f"Perplexity, times {to}: left is better", xlabel="times")
    for axes, x in ((left, 0), (right, 1)):
        axes.axvline(x, color=QUIET, linewidth=0.8)
        axes.margins(x=0.08)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return figure


def _points(
    axes: "Axes",
    ours: Sequence[float],
    papers: Sequence[float],
    spans: Sequence[tuple[float, float]] | None = None,
) -> None:
    """Draw our points with their intervals, if they have any, and the paper's."""
    places = range(len(ours))
    if spans is not None:
        lows, highs = zip(*spans, strict=True)
        axes.hlines(places, lows, highs, color=COLOURS[0], linewidth=1.2)
    label = "here" if spans is None else "here, with its 95% interval"
    axes.plot(ours, places, "o", color=COLOURS[0], markersize=7, label=label)
    axes.plot(papers, places, "D", color=COLOURS[1], fillstyle="none", label="in the paper")
