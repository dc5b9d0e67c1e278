"""The paper's Figures 3 to 5 from a trained model: where heads in its upper layers attend.

Sentences are given or searched for; heads are chosen by the measures of `phenomena`. Layers and
heads count from 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from transduce.errors import BadInput
from transduce.experiments.drawing import to_svg
from transduce.experiments.findings import Finding, Picture, Table
from transduce.experiments.phenomena import (
    DISTANT,
    PRONOUNS,
    Jobs,
    Link,
    anaphora,
    different_jobs,
    long_distance,
    to_antecedent,
    to_distant,
    upper_layers,
)
from transduce.inspection.attention_drawing import Panel, panels
from transduce.inspection.head_jobs import jobs_of
from transduce.inspection.inspector import Inspector
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import drawable
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.languages import language_code

# The sentences in the paper's figures, from its news test sets.
PAPERS_SENTENCES = [
    (
        "It is in this spirit that a majority of American governments have passed new laws since "
        "2009 making the registration or voting process more difficult."
    ),
    (
        "The Law will never be perfect, but its application should be just - this is what we are "
        "missing, in my opinion."
    ),
]
COLUMNS = (
    *("figure", "layer", "head", "looks", "share", "uniform head"),
    *("from other words", "median head", "on all sentences", "uniform there"),
)
# Sentence lengths to search, in words: shorter ones have few distant words, longer ones are
# unreadable.
SHORTEST, LONGEST = 12, 40

Measure = Callable[[AttentionMatrices, str], tuple[Any, float, int]]
Phenomenon = TypeVar("Phenomenon", Link, Jobs)


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One figure: its picture, its table rows, a note and its numbers.

    If no sentence shows the phenomenon, there is only the note.
    """

    number: str
    note: str
    pictures: tuple[Picture, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    data: dict[str, Any] = field(default_factory=dict)


class SentenceReader:
    """The encoder attention of a trained model for some sentences, used to draw figures."""

    def __init__(
        self, inspector: Inspector, sentences: Sequence[str], layer: int | None, progress: Progress
    ) -> None:
        self.language = language_code(inspector.config.languages[0])
        self.sentences = list(sentences)
        self.attention: list[AttentionMatrices] = []
        with progress.track("reading", len(sentences), "sentences") as advance:
            for sentence in sentences:
                inspection = inspector.read(sentence)
                self.attention.append(AttentionMatrices.of(inspection, "encoder", words=True))
                advance(1)
        if layer is not None:
            self.attention[0].layer(layer)
        self.layers = upper_layers(self.attention[0].layers, layer)

    def figure_3(self) -> PaperFigure:
        """Draw one word, and the heads that attend from it to a distant word."""
        links = [long_distance(each, self.layers, self.language) for each in self.attention]
        best = _strongest(links)
        if best is None:
            note = f"Figure 3 is missing: no two content words are {DISTANT} words apart."
            return PaperFigure("3", note)
        number, link = best
        attention = self.attention[number]
        word, there = attention.queries[link.word], _keys(attention, link)
        heads = ", ".join(f"{h} ({s:.0%})" for h, s in zip(link.heads, link.shares, strict=True))
        distance = min(abs(key - link.word) for key in link.at)
        picture = self._draw(
            number,
            link.layer,
            [Panel(link.heads, [link.word])],
            title=f"A long-distance dependency: “{word}” looks at “{there}”",
            detail=f"head (and its share): {heads}",
            caption=f"Figure 3. {pluralize(len(link.heads), 'head')} of layer {link.layer} from "
            f"“{word}” to “{there}”, {distance} words away: {heads}.",
        )
        rows = self._rows("3, long distance", link, attention, to_distant)
        return PaperFigure("3", _verdict("3", link), (picture,), rows, asdict(link))

    def figure_4(self) -> PaperFigure:
        """Draw all attention of a head, and its attention from a pronoun."""
        if self.language not in PRONOUNS:
            known = ", ".join(PRONOUNS)
            note = f"Figure 4 is missing: pronouns are known for {known}, not {self.language}."
            return PaperFigure("4", note)
        links = [anaphora(each, self.layers, self.language) for each in self.attention]
        best = _strongest(links)
        if best is None:
            note = "Figure 4 is missing: no sentence has a pronoun some words after a noun."
            return PaperFigure("4", note)
        number, link = best
        attention = self.attention[number]
        word, there = attention.queries[link.word], _keys(attention, link)
        first = link.heads[0]
        noun = "head" if len(link.heads) == 1 else "heads"
        head_names = f"{noun} {' and '.join(map(str, link.heads))}"
        shares = " and ".join(f"{share:.0%}" for share in link.shares)
        picture = self._draw(
            number,
            link.layer,
            [
                Panel([first], None, f"all that head {first} looks at"),
                Panel(link.heads, [link.word], f"from “{drawable(word)}” alone: {head_names}"),
            ],
            title=f"Anaphora: “{word}” looks back at “{there}”",
            detail=f"{head_names} give it {shares}",
            caption=f"Figure 4. Layer {link.layer}: all attention of head {first}, then that from "
            f"“{word}” alone, of {head_names}; “{there}” gets {shares}.",
        )
        rows = self._rows("4, anaphora", link, attention, to_antecedent)
        judge = "Whether the pronoun refers to that word is for the reader to judge."
        return PaperFigure("4", f"{_verdict('4', link)} {judge}", (picture,), rows, asdict(link))

    def figure_5(self) -> PaperFigure:
        """Draw two heads of a layer separately."""
        best = _strongest([different_jobs(each, self.layers) for each in self.attention])
        if best is None:
            note = "Figure 5 is missing: a layer has one head, or no sentence has two words."
            return PaperFigure("5", note)
        number, pair = best
        attention = self.attention[number]
        names, labels, rows = [], [], []
        for head in pair.heads:
            shares = jobs_of([attention], pair.layer, head)
            job = max(shares, key=lambda name: shares[name][0] - shares[name][1])
            everywhere = jobs_of(self.attention, pair.layer, head)[job]
            names.append(job)
            labels.append(f"head {head}: {job}, {shares[job][0]:.0%}")
            where = ("5, different jobs", str(pair.layer), str(head), job)
            rows.append((*where, *map(_percent, shares[job]), "", "", *map(_percent, everywhere)))
        picture = self._draw(
            number,
            pair.layer,
            [Panel([h], None, label) for h, label in zip(pair.heads, labels, strict=True)],
            title="Two heads of one layer with different jobs",
            detail=f"they look apart {pair.apart:.0%} of the time",
            caption=f"Figure 5. Layer {pair.layer}, {'; '.join(labels)}.",
        )
        note = (
            f"Figure 5: the two heads put {pair.apart:.0%} of their weight on different words; the "
            f"median pair of that layer, {pair.typical:.0%}. The job named is the one with the "
            "largest share beyond that of a uniform head."
        )
        return PaperFigure("5", note, (picture,), tuple(rows), asdict(pair) | {"jobs": names})

    def _draw(
        self,
        number: int,
        layer: int,
        drawings: Sequence[Panel],
        *,
        title: str,
        detail: str,
        caption: str,
    ) -> Picture:
        """Draw heads of a layer on one of the sentences."""
        attention = self.attention[number]
        subtitle = f"layer {layer} of {attention.layers}; {detail}"
        figure = panels(attention, layer, drawings, drawable(title), drawable(subtitle))
        return Picture(f"{caption} Sentence: {self.sentences[number]}", to_svg(figure))

    def _rows(
        self, figure: str, link: Link, attention: AttentionMatrices, measure: Measure
    ) -> tuple[tuple[str, ...], ...]:
        """Return a row for each head of a link: its share in this sentence and in all."""
        measured = [measure(each, self.language) for each in self.attention]
        words = max(1, sum(count for _, _, count in measured))
        everywhere = sum(shares for shares, _, _ in measured) / words
        uniform = sum(chance for _, chance, _ in measured) / words
        looks = f"{attention.queries[link.word]} → {_keys(attention, link)}"
        return tuple(
            (
                *(figure, str(link.layer), str(head), looks),
                *map(_percent, (share, link.alike, link.others, link.median)),
                *(_percent(float(everywhere[link.layer - 1, head - 1])), _percent(uniform)),
            )
            for head, share in zip(link.heads, link.shares, strict=True)
        )


def figures(
    run: Path,
    sentences: Sequence[str],
    progress: Progress,
    *,
    search: bool = False,
    layer: int | None = None,
    to: str | None = None,
    source: str | None = None,
) -> Finding:
    """Draw Figures 3 to 5, each from the sentence that shows it best.

    With `search`, sentences that are empty or too long are skipped. Without sentences, the paper's
    own are used. A model of several pairs of languages needs `to`, its target language.
    """
    inspector = Inspector.load(run).directed(to=to, source=source)
    if search or not sentences:
        sentences = _suitable(inspector, sentences or _papers_sentences(inspector))
    reader = SentenceReader(inspector, sentences, layer, progress)
    three = [reader.figure_3(), reader.figure_4(), reader.figure_5()]
    drawn = [figure for figure in three if figure.pictures]
    if not drawn:
        raise BadInput("no given sentence shows anything: expected one of several words or more")
    model = inspector.config.model
    rows = tuple(row for figure in drawn for row in figure.rows)
    return Finding(
        name="figures",
        title=f"Figures 3 to 5: what heads of {inspector.name} look at",
        said="Heads of encoder layer 5 of 6 follow long-distance dependencies, find what a pronoun "
        "means, and have clearly learnt different jobs (appendix, Figures 3 to 5).",
        tables=(Table("Shares of attention", COLUMNS, rows),),
        pictures=tuple(picture for figure in drawn for picture in figure.pictures),
        notes=(
            *(figure.note for figure in three),
            _scale(len(sentences), reader.layers, model.N, model.h),
        ),
        data={
            "run": str(run),
            "sentences": len(sentences),
            **{figure.number: figure.data for figure in drawn},
        },
    )


def _papers_sentences(inspector: Inspector) -> list[str]:
    language = language_code(inspector.config.languages[0])
    if language != "en":
        raise BadInput(
            f"the paper's own sentences are English, and {inspector.name} reads {language}: give a "
            "sentence of your own, or --text FILE to find some in"
        )
    return PAPERS_SENTENCES


def _suitable(inspector: Inspector, sentences: Sequence[str]) -> list[str]:
    """Return the sentences that the model can read, preferring those of a suitable length."""
    fitting = [sentence for sentence in sentences if inspector.fits(sentence)]
    if not fitting:
        raise BadInput("no sentence can be inspected: all are empty or too long")
    readable = [text for text in fitting if SHORTEST <= len(text.split()) <= LONGEST]
    return readable or fitting


def _strongest(candidates: Sequence[Phenomenon | None]) -> tuple[int, Phenomenon] | None:
    """Return the strongest phenomenon, with the number of its sentence."""
    present = [(number, link) for number, link in enumerate(candidates) if link is not None]
    return max(present, key=lambda candidate: candidate[1].strength, default=None)


def _keys(attention: AttentionMatrices, link: Link) -> str:
    return " ".join(attention.keys[key] for key in link.at)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _verdict(figure: str, link: Link) -> str:
    """Describe how strong a link is."""
    share = link.shares[0]
    times = share / link.alike
    if times < 2:
        verdict = "not shown: the strongest head gives little more than a uniform one"
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
        f"Chosen, not typical: the strongest of {where} of {N}, {h} heads each, in "
        f"{pluralize(sentences, 'sentence')}; the last two columns are the same heads on all "
        "of these. A uniform head gives every word the same weight. The paper drew layer 5 of 6 "
        "of a model trained on 4.5 million pairs."
    )
