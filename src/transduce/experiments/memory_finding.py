"""The finding of `memory`: errors by the number of hops, and where the hops look."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transduce.datasets.stories import KINDS, LONGEST, SHORTEST, Story
from transduce.experiments.drawing import add_pictures, panels, plot_estimates
from transduce.experiments.findings import Finding, Table
from transduce.experiments.memory_training import BATCH, STARTING, STARTS, D
from transduce.experiments.statistics import Estimate, mean_over_seeds
from transduce.system.formatting import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS = ("all", "1", "2", "3")  # all questions, and by the number of facts they need
HEADINGS = {"all": "all questions", "1": "one fact", "2": "two facts", "3": "three facts"}
SAID = (
    "End-to-end memory networks are based on a recurrent attention mechanism instead of "
    "sequence-aligned recurrence and perform well on simple-language question answering (2). Their "
    "authors (Sukhbaatar et al. 2015) found that several computational hops over the memory "
    "improve the results."
)
ABOUT_BASELINES = (
    "Without a memory: the most frequent answer to each kind of question, and a network of one "
    "hidden layer that sees how often each word occurs in the question and in the story."
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One trained model, measured on the test stories."""

    hops: int  # 0: the bag of words
    seed: int
    errors: dict[str, float]  # percent: of all questions, by number of facts, by kind
    valid_loss: float
    parameters: int
    seconds: float
    walk: list[list[float]]  # [hop][fact]: percent of the "thing" questions where it weighs most
    attention: list[list[float]]  # [hop][sentence] of the example
    answer: str  # to the question of the example
    machine: dict[str, Any]


def make_finding(
    measured: Sequence[Measured],
    majority: Mapping[str, float],
    example: Story,
    *,
    steps: int,
    stories: Mapping[str, int],
) -> Finding:
    """Compare the numbers of hops."""
    by_hops: dict[int, list[Measured]] = {}
    for row in measured:
        by_hops.setdefault(row.hops, []).append(row)
    networks = {hops: rows for hops, rows in by_hops.items() if hops}
    most = max(networks)
    chosen = min(networks[most], key=lambda row: row.valid_loss)
    scale = _describe_scale(networks, steps, stories)
    drawings: dict[str, Callable[[], Figure]] = {
        "Wrong answers by the number of hops; whiskers are 95% intervals over seeds, the dotted "
        "line is the bag of words.": lambda: draw_errors(by_hops)
    }
    drawings[
        f"Attention of each hop over the sentences of the first test story with a question of that "
        f"kind, by the model with {pluralize(most, 'hop')} and the lowest validation loss. "
        "Supporting sentences are bold."
    ] = lambda: draw_attention(chosen, example)
    finding = Finding(
        name="memory",
        title="Memory networks: how many hops a question needs",
        said=SAID,
        tables=_tables(by_hops, majority),
        notes=(
            *_verdicts(networks),
            *_seed_by_seed(most, networks[most]),
            _walk_verdict(most, networks[most]),
            scale,
            ABOUT_BASELINES,
        ),
        data={
            "majority": dict(majority),
            "models": [asdict(row) for row in measured],
            "steps": steps,
            "stories": dict(stories),
            "machine": measured[-1].machine,
        },
    )
    return add_pictures(finding, drawings)


def _tables(
    by_hops: Mapping[int, Sequence[Measured]], majority: Mapping[str, float]
) -> tuple[Table, ...]:
    networks = {hops: models for hops, models in by_hops.items() if hops}
    most = max(networks)
    seeds = len(networks[most])
    interval = "with 95% intervals over seeds" if seeds > 1 else "one seed"
    title = f"Wrong answers, % of the test questions, {interval}"
    tables = [_errors_table(title, GROUPS, by_hops, majority)]
    if len(networks) > 1 and seeds > 1:
        tables.append(_differences_table(networks))
    kinds = _errors_table("By kind of question, %", KINDS, by_hops, majority, intervals=False)
    return (*tables, kinds, _walk_table(most, networks[most]))


def _describe_scale(
    networks: Mapping[int, Sequence[Measured]], steps: int, stories: Mapping[str, int]
) -> str:
    """Describe what was scaled down, and what is not the original."""
    parameters = ", ".join(f"{models[0].parameters:,}" for models in networks.values())
    return (
        "Scaled down, and not the original: our own generated stories of "
        f"{SHORTEST} to {LONGEST} sentences instead of the bAbI tasks, whose figures cannot be "
        f"compared with these; {stories['train']:,} training stories, {stories['test']:,} test "
        f"stories; d = {D}; {parameters} parameters; {pluralize(steps, 'step')} of {BATCH} stories "
        f"with Adam. Of {STARTS} initial weights, the best on the {stories['valid']:,} validation "
        f"stories after {STARTING:.0%} of the steps was trained further (the authors: the best of "
        "ten on the training set)."
    )


def _name(hops: int) -> str:
    return pluralize(hops, "hop") if hops else "bag of words"


def _errors_table(
    title: str,
    groups: Sequence[str],
    by_hops: Mapping[int, Sequence[Measured]],
    majority: Mapping[str, float],
    *,
    intervals: bool = True,
) -> Table:
    columns = ("model", *(HEADINGS.get(group, group) for group in groups))
    rows = [("most frequent answer", *(f"{majority[group]:.1f}" for group in groups))]
    for hops, models in by_hops.items():
        means = [_mean(models, group) for group in groups]
        show = intervals and len(models) > 1
        cells = (mean.show(1) if show else f"{mean.value:.1f}" for mean in means)
        rows.append((_name(hops), *cells))
    return Table(title, columns, tuple(rows))


def _mean(models: Sequence[Measured], group: str) -> Estimate:
    return mean_over_seeds([model.errors[group] for model in models])


def _difference(
    networks: Mapping[int, Sequence[Measured]], fewer: int, more: int, group: str
) -> Estimate:
    """Return the mean change of the error, paired by seed, with its interval."""
    before = {model.seed: model.errors[group] for model in networks[fewer]}
    return mean_over_seeds([model.errors[group] - before[model.seed] for model in networks[more]])


def _differences_table(networks: Mapping[int, Sequence[Measured]]) -> Table:
    rows = []
    for fewer, more in pairwise(networks):
        changes = (_difference(networks, fewer, more, group) for group in GROUPS)
        cells = (
            f"{change.value:+.1f} ({change.low:+.1f} to {change.high:+.1f})" for change in changes
        )
        rows.append((f"{_name(more)} - {_name(fewer)}", *cells))
    columns = ("change", *(HEADINGS[group] for group in GROUPS))
    return Table("Change of the error in points, paired by seed", columns, tuple(rows))


def _walk_table(hops: int, models: Sequence[Measured]) -> Table:
    columns = ("hop", "content", "who took or left it", "move", "another")
    rows = []
    for hop in range(hops):
        shares = [fmean(model.walk[hop][fact] for model in models) for fact in range(3)]
        cells = (f"{share:.1f}" for share in (*shares, 100 - sum(shares)))
        rows.append((str(hop + 1), *cells))
    title = (
        "The sentence with the largest weight, % of the “thing” questions (where is the coin ?), "
        f"{pluralize(hops, 'hop')}, all seeds"
    )
    return Table(title, columns, tuple(rows))


def _verdicts(networks: Mapping[int, Sequence[Measured]]) -> list[str]:
    sentences = []
    seeds = len(next(iter(networks.values())))
    for fewer, more in pairwise(networks):
        parts = []
        for group in ("all", "3"):
            before, after = _mean(networks[fewer], group), _mean(networks[more], group)
            change = _difference(networks, fewer, more, group)
            text = f"{HEADINGS[group]} {before.value:.1f}% to {after.value:.1f}%"
            if seeds > 1:
                text += f" ({_significance(change)})"
            parts.append(text)
        sentences.append(f"From {_name(fewer)} to {more}, wrong answers: {', '.join(parts)}.")
    if seeds == 1:
        sentences.append("One seed: the variation between seeds is unknown; see --seeds.")
    return sentences


def _significance(change: Estimate) -> str:
    if change.high < 0:
        return "fewer, significant"
    return "more, significant" if change.low > 0 else "not significant"


def _seed_by_seed(hops: int, models: Sequence[Measured]) -> list[str]:
    """List the errors of the seeds: some initial weights never learn to use the last hop."""
    if len(models) < 2:
        return []
    errors = ", ".join(f"{model.errors['all']:.1f}" for model in models)
    seeds = ", ".join(str(model.seed) for model in models)
    return [f"Wrong answers with {_name(hops)}, seeds {seeds}: {errors}%."]


def _walk_verdict(hops: int, models: Sequence[Measured]) -> str:
    parts = []
    for fact, name in enumerate(("content", "holder", "move")):
        shares = [fmean(model.walk[hop][fact] for model in models) for hop in range(hops)]
        best = max(range(hops), key=lambda hop: shares[hop])
        parts.append(f"its {name} in hop {best + 1} ({shares[best]:.0f}%)")
    return f"Asked for a thing, {_name(hops)} most often attend most to {', '.join(parts)}."


def draw_errors(by_hops: Mapping[int, Sequence[Measured]]) -> "Figure":
    """Draw the errors by the number of hops, for questions of each number of facts."""
    figure, (axes,) = panels(1, 7, 4.6)
    networks = {hops: models for hops, models in by_hops.items() if hops}
    for group in GROUPS:
        estimates = [_mean(models, group) for models in networks.values()]
        plot_estimates(axes, list(networks), estimates, HEADINGS[group])
    if 0 in by_hops:
        axes.axhline(
            _mean(by_hops[0], "all").value, color="#606060", linestyle=":", marker="", zorder=1
        )
    axes.set(title="Wrong answers (%), down is better", xlabel="hops", xticks=list(networks))
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def draw_attention(model: Measured, story: Story) -> "Figure":
    """Draw the attention over one story: a row for each sentence, a column for each hop."""
    from matplotlib.figure import Figure

    count = len(story.sentences)
    figure = Figure(
        figsize=(4.6 + 0.7 * model.hops, 1.7 + 0.3 * count), dpi=100, layout="constrained"
    )
    axes = figure.subplots()
    weights = list(zip(*model.attention, strict=True))  # [sentence][hop]
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.grid(visible=False)
    axes.set_xticks(range(model.hops), [f"hop {hop + 1}" for hop in range(model.hops)])
    axes.xaxis.tick_top()
    labels = [f"{number} {text}" for number, text in enumerate(story.sentences, start=1)]
    axes.set_yticks(range(count), labels, color="black")
    axes.tick_params(length=0)
    for fact in story.facts:
        axes.get_yticklabels()[fact].set_fontweight("bold")
    for row, cells in enumerate(weights):
        for column, weight in enumerate(cells):
            if weight >= 0.05:
                colour = "white" if weight > 0.5 else "black"
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=colour)
    axes.set_title(
        f"{story.question} {model.answer}"
        + (f" (correct: {story.answer})" * (model.answer != story.answer)),
        pad=12,
    )
    return figure
