"""The paper's Figures 3 to 5 from a trained model: what heads of its upper layers look at.

Sentences are given or found; heads are chosen by the measures of `phenomena`. Layers and heads
count from 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transduce.errors import BadInput
from transduce.experiments.drawing import svg
from transduce.experiments.findings import Finding, Picture, Table
from transduce.experiments.phenomena import (
    DISTANT,
    Jobs,
    Link,
    anaphora,
    different_jobs,
    long_distance,
    to_antecedent,
    to_distant,
    upper_layers,
)
from transduce.experiments.words import PRONOUNS
from transduce.inspection.attention_drawing import Panel, panels
from transduce.inspection.head_jobs import jobs_of
from transduce.inspection.inspector import Inspector
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import drawable
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.reading import language_code

# The sentences of the paper's own figures, from the news of its test sets.
OF_THE_PAPER = (
    (
        "It is in this spirit that a majority of American governments have passed new laws since "
        "2009 making the registration or voting process more difficult."
    ),
    (
        "The Law will never be perfect, but its application should be just - this is what we are "
        "missing, in my opinion."
    ),
)
COLUMNS = (
    *("figure", "layer", "head", "looks", "share", "uniform head"),
    *("from other words", "median head", "on all sentences", "uniform there"),
)
# Words of a sentence that is looked for: with fewer little is distant, more are too small to read.
SHORTEST, LONGEST = 12, 40

Measure = Callable[[AttentionMatrices, str], tuple[Any, float, int]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure: its picture, its lines of the table, what is to be said, and its figures."""

    picture: Picture
    rows: tuple[tuple[str, ...], ...]
    note: str
    data: dict[str, Any]


class Studio:
    """A trained model and sentences that it has read, to draw from."""

    def __init__(
        self, inspector: Inspector, sentences: Sequence[str], layer: int | None, progress: Progress
    ) -> None:
        self.language = language_code(inspector.config.languages[0])
        self.name, self.sentences = inspector.name, list(sentences)
        self.views: list[AttentionMatrices] = []
        with progress.track("reading", len(sentences), "sentences") as advance:
            for sentence in sentences:
                self.views.append(
                    AttentionMatrices.of(inspector.read(sentence), "encoder", words=True)
                )
                advance(1)
        if layer is not None:
            self.views[0].layer(layer)
        self.layers = upper_layers(self.views[0].layers, layer)

    def long_distance(self) -> Drawn | str:
        """Draw Figure 3: one word, and the heads that look from it at a distant one."""
        found = [long_distance(view, self.layers, self.language) for view in self.views]
        best = _best(found)
        if best is None:
            return f"Figure 3 is missing: no two words that name something are {DISTANT} apart."
        number, link = best
        view = self.views[number]
        word, there = view.queries[link.word], _spelled(view, link.at)
        heads = ", ".join(f"{h} ({s:.0%})" for h, s in zip(link.heads, link.shares, strict=True))
        title = f"A long-distance dependency: “{word}” looks at “{there}”"
        note = f"layer {link.layer} of {view.layers}; head (and its share): {heads}"
        figure = panels(
            *(view, link.layer, [Panel(link.heads, [link.word])]),
            *(drawable(title), drawable(note)),
        )
        steps = min(abs(place - link.word) for place in link.at)
        caption = (
            f"Figure 3. {_count(link.heads)} of layer {link.layer} from “{word}” to “{there}”, "
            f"{steps} words away: {heads}. Sentence: {self.sentences[number]}"
        )
        rows = self._rows("3, long distance", link, view, to_distant)
        return Drawn(Picture(caption, svg(figure)), rows, _judged("3", link), asdict(link))

    def anaphora(self) -> Drawn | str:
        """Draw Figure 4: all that a head looks at, and what it does from a pronoun."""
        if self.language not in PRONOUNS:
            known = ", ".join(PRONOUNS)
            return f"Figure 4 is missing: pronouns are known of {known}, not of {self.language}."
        found = [anaphora(view, self.layers, self.language) for view in self.views]
        best = _best(found)
        if best is None:
            return "Figure 4 is missing: no sentence has a pronoun some words after a noun."
        number, link = best
        view = self.views[number]
        word, there = view.queries[link.word], _spelled(view, link.at)
        first, both = link.heads[0], _heads(link.heads)
        parts = [
            Panel([first], None, f"all that head {first} looks at"),
            Panel(link.heads, [link.word], f"from “{drawable(word)}” alone: {both}"),
        ]
        shares = " and ".join(f"{share:.0%}" for share in link.shares)
        title = f"Anaphora: “{word}” looks back at “{there}”"
        note = f"layer {link.layer} of {view.layers}; {both} give it {shares}"
        figure = panels(view, link.layer, parts, drawable(title), drawable(note))
        caption = (
            f"Figure 4. Layer {link.layer}: all attention of head {first}, then that from “{word}” "
            f"alone, of {both}; “{there}” gets {shares}. Sentence: {self.sentences[number]}"
        )
        rows = self._rows("4, anaphora", link, view, to_antecedent)
        note = (
            _judged("4", link) + " Whether that is what the pronoun means is for the reader: "
            "no head was told."
        )
        return Drawn(Picture(caption, svg(figure)), rows, note, asdict(link))

    def different_jobs(self) -> Drawn | str:
        """Draw Figure 5: two heads of a layer, each by itself."""
        best = _best([different_jobs(view, self.layers) for view in self.views])
        if best is None:
            return "Figure 5 is missing: a layer has one head, or no sentence has two words."
        number, jobs = best
        view = self.views[number]
        here = [jobs_of([view], jobs.layer, head) for head in jobs.heads]
        named = [max(one, key=lambda job: one[job][0] - one[job][1]) for one in here]
        words = [
            f"head {head}: {job}, {shares[job][0]:.0%}"
            for head, job, shares in zip(jobs.heads, named, here, strict=True)
        ]
        parts = [Panel([h], None, text) for h, text in zip(jobs.heads, words, strict=True)]
        title = "Two heads of one layer with different jobs"
        note = f"layer {jobs.layer} of {view.layers}; they look apart {jobs.apart:.0%} of the time"
        figure = panels(view, jobs.layer, parts, title, note)
        caption = f"Figure 5. Layer {jobs.layer}, {'; '.join(words)}. {self.sentences[number]}"
        rows = []
        for head, job, shares in zip(jobs.heads, named, here, strict=True):
            general = jobs_of(self.views, jobs.layer, head)[job]
            where = ("5, different jobs", str(jobs.layer), str(head), job)
            rows.append((*where, *map(_part, shares[job]), "", "", *map(_part, general)))
        said = (
            f"Figure 5: the two heads put {jobs.apart:.0%} of their weight on different words; the "
            f"median pair of that layer, {jobs.typical:.0%}. The job named is the one that a head "
            "does most beyond a uniform one."
        )
        data = asdict(jobs) | {"jobs": named}
        return Drawn(Picture(caption, svg(figure)), tuple(rows), said, data)

    def _rows(
        self, figure: str, link: Link, view: AttentionMatrices, measure: Measure
    ) -> tuple[tuple[str, ...], ...]:
        """Return a line for each head of a link: there, and what it does on all sentences."""
        measured = [measure(one, self.language) for one in self.views]
        words = max(1, sum(count for _, _, count in measured))
        general = sum(shares for shares, _, _ in measured) / words
        alike = sum(chance for _, chance, _ in measured) / words
        looks = f"{view.queries[link.word]} → {_spelled(view, link.at)}"
        return tuple(
            (
                *(figure, str(link.layer), str(head), looks),
                *(_part(share), _part(link.alike), _part(link.others), _part(link.median)),
                *(_part(float(general[link.layer - 1, head - 1])), _part(alike)),
            )
            for head, share in zip(link.heads, link.shares, strict=True)
        )


def figures(
    run: Path,
    sentences: Sequence[str],
    progress: Progress,
    *,
    found: bool = False,
    layer: int | None = None,
) -> Finding:
    """Draw Figures 3 to 5, each from the sentence that shows it best.

    With `found`, those sentences that are too long to be looked at, or empty, are passed over.
    """
    inspector = Inspector.load(run)
    found = found or not sentences
    sentences = list(sentences) or _usual(inspector)
    if found:
        fitting = [one for one in sentences if inspector.fits(one)]
        if not fitting:
            raise BadInput("there is no sentence that can be looked at: all are empty or too long")
        sentences = [one for one in fitting if SHORTEST <= len(one.split()) <= LONGEST] or fitting
    studio = Studio(inspector, sentences, layer, progress)
    drawn = [studio.long_distance(), studio.anaphora(), studio.different_jobs()]
    there = [one for one in drawn if isinstance(one, Drawn)]
    if not there:
        raise BadInput("no sentence given shows anything: expected one of several words or more")
    model = inspector.config.model
    return Finding(
        name="figures",
        title=f"Figures 3 to 5: what heads of {inspector.name} look at",
        said="Heads of encoder layer 5 of 6 follow long-distance dependencies, find what a pronoun "
        "means, and have clearly learnt different jobs (appendix, Figures 3 to 5).",
        tables=(
            Table("Shares of attention", COLUMNS, tuple(r for one in there for r in one.rows)),
        ),
        pictures=tuple(one.picture for one in there),
        notes=(
            *(one if isinstance(one, str) else one.note for one in drawn),
            _scale(len(sentences), studio.layers, model.N, model.h),
        ),
        data={
            "run": str(run),
            "sentences": len(sentences),
            **{one.rows[0][0][0]: one.data for one in there},
        },
    )


def _usual(inspector: Inspector) -> list[str]:
    language = language_code(inspector.config.languages[0])
    if language != "en":
        raise BadInput(
            f"the paper's own sentences are English, and {inspector.name} reads {language}: give a "
            "sentence of your own, or --text FILE to find some in"
        )
    return list(OF_THE_PAPER)


def _best(found: Sequence[Link | None] | Sequence[Jobs | None]) -> tuple[int, Any] | None:
    """Return the strongest, and of which sentence it is."""
    there = [(number, one) for number, one in enumerate(found) if one is not None]
    return max(there, key=lambda one: one[1].strength, default=None)


def _spelled(view: AttentionMatrices, places: Sequence[int]) -> str:
    return " ".join(view.keys[place] for place in places)


def _heads(heads: Sequence[int]) -> str:
    """Name one head or two."""
    return ("head " if len(heads) == 1 else "heads ") + " and ".join(map(str, heads))


def _count(heads: Sequence[int]) -> str:
    return pluralize(len(heads), "head")


def _part(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _judged(figure: str, link: Link) -> str:
    """Say how strong a link is, in one sentence."""
    share = link.shares[0]
    times = share / link.alike
    if times < 2:
        verdict = "no phenomenon: the strongest head gives little more than a uniform one"
    elif share < 0.3:
        verdict = "weak"
    else:
        verdict = "clear" if link.median < share / 3 else "clear, and common to most heads"
    return (
        f"Figure {figure} is {verdict}: {share:.0%} at its strongest, {times:.1f} times what a "
        f"uniform head would give; from other words {link.others:.1%} go there, "
        f"and the median head of the layer gives {link.median:.1%}."
    )


def _scale(sentences: int, layers: Sequence[int], N: int, h: int) -> str:
    where = f"layer {layers[0]}" if len(layers) == 1 else f"layers {layers[0]} to {layers[-1]}"
    return (
        f"Chosen, not typical: the strongest of {where} of {N}, {h} heads each, in {sentences:,} "
        f"sentence{'s' if sentences > 1 else ''}; the last two columns are the same heads on all "
        "of these. A uniform head looks at everything alike. The paper drew layer 5 of 6 "
        "of a model trained on 4.5 million pairs."
    )
