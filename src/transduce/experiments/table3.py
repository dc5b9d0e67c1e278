"""Table 3: which parts of the Transformer matter; every row is a preset with the same budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from transduce.config import TrainConfig
from transduce.errors import BadSetting, did_you_mean
from transduce.experiments.budget import Budget, describe_schedule, describe_weights, schedule
from transduce.experiments.comparison import Comparison, Setup
from transduce.experiments.drawing import add_pictures
from transduce.experiments.findings import Finding, Table
from transduce.experiments.paper_numbers import TABLE_3 as PAPER
from transduce.experiments.paper_numbers import Variation
from transduce.experiments.rows import Result, Row
from transduce.experiments.statistics import LEAST_ROWS, Estimate, Resampled, spearman
from transduce.inspection.style import COLOURS, QUIET, drawable
from transduce.presets import TABLE_3, Preset
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = "base"
FIRST_SEED = TrainConfig().seed
SHRUNK = ("d_model", "d_ff", "d_k", "d_v")
VARIED = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls", "positions")
# About 1 BLEU or more in the paper.
LARGE_EFFECTS = {"C-N2": "N = 2", "A-h1": "h = 1", "C-d256": "d_model = 256"}
TITLE = "Table 3: variations on the Transformer"
SAID = (
    "Changing one part of the base model at a time, on English to German (newstest2013): a single "
    "head is 0.9 BLEU worse than eight and too many are worse too; smaller keys hurt; bigger "
    "models are better; dropout helps against overfitting; learned positions do as well as "
    "sinusoids."
)
COLUMNS = (
    *(
        "row",
        "what differs",
        "seeds",
        "steps",
        "PPL",
        "BLEU",
        "95% interval",
        "to base",
        "interval",
    ),
    *("params (M)", "paper: PPL", "paper: BLEU", "paper: to base", "paper: params (M)"),
)


def table3(
    setup: Setup,
    rows: Sequence[str],
    progress: Progress,
    *,
    shrink: int = 1,
    seeds: int = 1,
) -> Finding:
    """Train rows of Table 3 (all by default) that are not finished; report all finished rows.

    `rows` contains preset names or group letters; `shrink` divides widths. Each row is trained
    with each of the seeds 1 to `seeds`. The settings of the setup apply to every row, except where
    the row itself changes them.
    """
    chosen = row_names(rows)
    if shrink < 1:
        raise BadSetting(f"--shrink {shrink}: expected 1 or more, to divide widths by")
    if seeds > 1 and "seed" in setup.settings:
        seed = setup.settings["seed"]
        raise BadSetting(f"--seeds {seeds} with --seed {seed}: give one; the seeds are 1, 2, …")
    budget = setup.budget
    if setup.jobs > 1 and budget.is_time:
        raise BadSetting(
            f"--jobs {setup.jobs} with --time: rows that share the machine would each get less of "
            "it than their time says; give the budget as --steps"
        )
    shared = {"average": "1", "keep": "1", "validate_bleu": "0"} | budget.settings()
    if not budget.is_time:
        shared |= schedule(budget.steps, TABLE_3[BASE].train, 2, 2)
    shared |= setup.settings
    widths = {"shrink": str(shrink)} if shrink > 1 else {}
    comparison = Comparison(name="table3", setup=setup, settings=shared | widths)
    numbers = range(1, seeds + 1)
    every = {
        (seed, name): row_of(name, shared, shrink, seed) for seed in numbers for name in TABLE_3
    }
    # All rows with the first seed come first: an unfinished table then has all of them.
    comparison.open_and_run([every[seed, name] for seed in numbers for name in chosen], progress)
    results = comparison.results(
        row_of(name, shared, shrink, seed)
        for name in TABLE_3
        for seed in sorted({*numbers, *seeds_in(setup.out)})
    )
    if not results:
        return Finding(name="table3", title=TITLE, said=SAID, notes=("No row is finished yet.",))
    if len(results) > 1:
        progress.say(f"comparing {len(results)} rows on samples of the test sentences")
    return make_finding(results, comparison.resample(results), budget, shrink)


def seeds_in(folder: Path) -> set[int]:
    """Return the seeds after the first with which rows in a folder were trained."""
    return {int(path.name.rpartition("-seed")[2]) for path in folder.glob("*-seed[1-9]*")}


def row_names(rows: Sequence[str]) -> list[str]:
    """Expand names and group letters to preset names, in the order given."""
    groups = {name.partition("-")[0] for name in TABLE_3 if "-" in name}
    names: list[str] = []
    for name in rows or list(TABLE_3):
        matching = [row for row in TABLE_3 if name == row or (name in groups and row[0] == name)]
        if not matching:
            known = [*sorted(groups), *TABLE_3]
            raise BadSetting(
                f"there is no row {name}.{did_you_mean(name, known)} "
                f"The groups and rows are: {', '.join(known)}"
            )
        names += matching
    return list(dict.fromkeys(names))


def row_of(name: str, shared: Mapping[str, str], shrink: int, seed: int = FIRST_SEED) -> Row:
    """Return a row: shared settings apply to the columns that the paper leaves blank in it.

    With the first seed, the row is the same as without seeds, so that others can be added later.
    """
    preset = TABLE_3[name]
    changed = set(changes(preset))
    settings = {key: value for key, value in shared.items() if key not in changed}
    if seed != FIRST_SEED:
        settings["seed"] = str(seed)
    if shrink > 1:
        for key in SHRUNK:
            settings.setdefault(key, str(shrunk(getattr(preset.model, key), shrink)))
    row = name if seed == FIRST_SEED else f"{name}-seed{seed}"
    return Row(name=row, preset=name, settings=settings)


def shrunk(width: int, by: int) -> int:
    """Divide a width; the result is even, because positions are sine and cosine pairs."""
    return max(2, width // by // 2 * 2)


def changes(preset: Preset) -> dict[str, object]:
    """Return the columns in which a row differs from the base model."""
    base, values = (row.model.to_json() | row.train.to_json() for row in (TABLE_3[BASE], preset))
    return {key: values[key] for key in VARIED if values[key] != base[key]}


@dataclass(frozen=True, slots=True)
class Variant:
    """A row of the table: the results of its training runs, which differ in their seed."""

    name: str
    runs: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """The first run; all have the same settings but for the seed."""
        return self.runs[0]

    @property
    def bleu(self) -> float:
        """The mean BLEU."""
        return fmean(run.bleu for run in self.runs)

    @property
    def perplexity(self) -> float:
        """The geometric mean of the perplexities: the perplexity of the mean loss."""
        return geometric_mean([run.perplexity for run in self.runs])


def make_finding(
    results: Mapping[str, Result], resampled: Resampled, budget: Budget, shrink: int
) -> Finding:
    """Compare the rows with the paper's."""
    variants = group_by_row(results.values())
    means = resampled.over_seeds(
        {name: [run.name for run in variant.runs] for name, variant in variants.items()}
    )
    rows = tuple(_cells(variant, variants, means) for variant in variants.values())
    correlation = means.correlation({name: paper.bleu for name, paper in PAPER.items()})
    caption = (
        "Distance of each row from base, here and in the paper. If both marks of a row are on the "
        "same side, both say that the change helps, or that it hurts."
    )
    finding = Finding(
        name="table3",
        title=TITLE,
        said=SAID,
        tables=(Table(f"Each row trained for {budget}", COLUMNS, rows),),
        notes=(
            _agreement(variants, correlation, means),
            *_large_effects(variants, means),
            *_scale(results, budget, shrink),
        ),
        data={
            "results": {name: result.brief for name, result in results.items()},
            "correlation": None if correlation is None else correlation.value,
            "machine": next(iter(results.values())).machine,
        },
    )
    return add_pictures(finding, {caption: lambda: draw(variants, means)})


def group_by_row(results: Iterable[Result]) -> dict[str, Variant]:
    """Return the rows by name, each with all its runs."""
    runs: dict[str, list[Result]] = {}
    for result in results:
        runs.setdefault(result.preset, []).append(result)
    return {name: Variant(name, tuple(each)) for name, each in runs.items()}


def _cells(variant: Variant, variants: Mapping[str, Variant], means: Resampled) -> tuple[str, ...]:
    name, paper, first = variant.name, PAPER[variant.name], variant.first
    difference = interval = papers_difference = ""
    if name != BASE:
        papers_difference = f"{paper.bleu - PAPER[BASE].bleu:+.1f}"
        if BASE in variants:
            difference = f"{variant.bleu - variants[BASE].bleu:+.2f}"
            low, high = means.difference(name, BASE)
            interval = f"{low:+.2f} to {high:+.2f}"
    estimate = means.estimate(name)
    millions = PAPER[BASE].parameters if paper.parameters is None else paper.parameters
    return (
        *(name, _differences(first), f"{len(variant.runs)}", f"{first.steps:,}"),
        *(f"{variant.perplexity:.2f}", f"{variant.bleu:.2f}"),
        *(f"{estimate.low:.2f} to {estimate.high:.2f}", difference, interval),
        *(f"{first.parameters / 1e6:.1f}", f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}"),
        *(papers_difference, f"{millions:.0f}"),
    )


def _differences(result: Result) -> str:
    """Describe what a row changes, with the values used in training."""
    values = {**result.model, **result.recipe}
    preset = TABLE_3[result.preset]
    texts = [f"{key} {values[key]}" for key in changes(preset) if key != "positions"]
    if values["positions"] != TABLE_3[BASE].model.positions:
        texts.append(f"{values['positions']} positions")
    return ", ".join(texts)


def _agreement(
    variants: Mapping[str, Variant], correlation: Estimate | None, means: Resampled
) -> str:
    if correlation is None:
        return f"A rank correlation needs {LEAST_ROWS} rows or more that differ."
    perplexity = spearman(
        [variant.perplexity for variant in variants.values()],
        [PAPER[name].perplexity for name in variants],
    )
    return (
        f"Rank correlation (Spearman) with the paper's BLEU over {len(variants)} rows: "
        f"{correlation.value:.2f} (95% interval {correlation.low:.2f} to {correlation.high:.2f}), "
        f"by resampling the test sentences; of perplexity: {perplexity:.2f}. "
        + _variation_between_seeds(variants, means)
    )


def _variation_between_seeds(variants: Mapping[str, Variant], means: Resampled) -> str:
    if means.seed_deviation is None:
        return "Neither includes variation between seeds."
    counts = sorted({len(variant.runs) for variant in variants.values()})
    seeds = " or ".join(map(str, counts))
    return (
        f"Each row is the mean of {seeds} seeds. BLEU differs between the seeds of a row by a "
        f"standard deviation of {means.seed_deviation:.2f}, estimated from all rows; all intervals "
        "include it."
    )


def _large_effects(variants: Mapping[str, Variant], means: Resampled) -> list[str]:
    """List which of the paper's large effects are significant here."""
    measured = [name for name in LARGE_EFFECTS if name in variants and BASE in variants]
    if not measured:
        return []
    effects = []
    for name in measured:
        low, high = means.difference(name, BASE)
        verdict = "below base" if high < 0 else "above base" if low > 0 else "not significant"
        effects.append(f"{LARGE_EFFECTS[name]}: {verdict} ({low:+.2f} to {high:+.2f})")
    return [f"The paper's large effects, 95% intervals of the difference: {'; '.join(effects)}."]


def _scale(results: Mapping[str, Result], budget: Budget, shrink: int) -> list[str]:
    """Describe what was scaled down, and by how much."""
    first = next(iter(results.values()))
    recipe = first.recipe
    fewest_passes = min(result.epochs for result in results.values())
    spent = f"{budget} of steps" if budget.is_time else f"{budget}"
    notes = [
        (
            f"Scaled down: {spent} of {recipe['batch_tokens']:,} tokens per side for every row, "
            f"{fewest_passes:.1f} passes over the training text or more, instead of 100,000 steps "
            "of 25,000 tokens (300,000 for big); a vocabulary of "
            f"{first.model['target_vocabulary']:,} instead of 37,000."
        )
    ]
    if shrink > 1:
        notes.append(f"d_model, d_ff, d_k and d_v are divided by {shrink} in every row.")
    notes.append(describe_schedule(recipe, budget))
    notes.append(
        f"Beam 4, alpha 0.6, {describe_weights(recipe)} (the paper: no averaging); BLEU by "
        f"sacreBLEU ({first.signature}), the paper's is tokenised."
    )
    steps = sorted({result.steps for result in results.values()})
    if not budget.is_time and len(steps) > 1:
        notes.append(f"Not the same budget: rows made {steps[0]:,} to {steps[-1]:,} steps.")
    return notes


def draw(variants: Mapping[str, Variant], means: Resampled) -> "Figure":
    """Draw each row's difference from base, here and in the paper: one line per row.

    Without base, the difference is from the mean of the rows.
    """
    from matplotlib.figure import Figure

    names = list(variants)[::-1]  # the first row on top
    y = range(len(names))
    reference = [BASE] if BASE in variants else names
    to = "base" if BASE in variants else "the mean of these rows"
    figure = Figure(figsize=(10, 2 + 0.3 * len(names)), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    here: dict[str, Any] = {"marker": "o", "color": COLOURS[0], "markersize": 7, "label": "here"}
    paper = {"marker": "D", "color": COLOURS[1], "fillstyle": "none", "label": "in the paper"}
    if BASE in variants:
        lows, highs = zip(*(means.difference(name, BASE) for name in names), strict=True)
        left.hlines(y, lows, highs, color=COLOURS[0], linewidth=1.2)
        here["label"] = "here, with its 95% interval"
    sources: list[tuple[Mapping[str, Variant | Variation], dict[str, Any]]]
    sources = [(variants, here), (PAPER, paper)]
    for rows, style in sources:
        bleu = fmean(rows[name].bleu for name in reference)
        perplexity = fmean(rows[name].perplexity for name in reference)
        left.plot([rows[name].bleu - bleu for name in names], y, linestyle="", **style)
        right.plot([rows[name].perplexity / perplexity for name in names], y, linestyle="", **style)
    left.set(title=f"BLEU, from {to}: right is better", xlabel="BLEU", yticks=y)
    left.set_yticklabels([drawable(name) for name in names])
    left.set_ylim(-0.7, len(names) - 0.3)
    right.set(title=f"Perplexity, times {to}: left is better", xlabel="times")
    for axes, x in ((left, 0), (right, 1)):
        axes.axvline(x, color=QUIET, linewidth=0.8)
        axes.margins(x=0.08)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return figure
