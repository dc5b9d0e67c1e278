"""A self-contained page with the sentences in which two systems differ most, side by side."""

import difflib
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from transduce import __version__, pages
from transduce.evaluation.bootstrap import LineStatistics
from transduce.evaluation.metrics import make_metrics
from transduce.system.files import refuse_foreign_file, write_text_file
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress, Silent, track_if_slow

FOLDER = Path(__file__).parent / "page"
SENTENCES = 300  # shown for each pair of systems
MAX_WORDS = 400  # longer lines are shown without marks: comparing words takes quadratic time


@dataclass(frozen=True, slots=True)
class Difference:
    """One sentence in two outputs."""

    number: int  # of the line, from 1
    outputs: tuple[str, str]
    scores: tuple[float, float]  # sentence chrF

    @property
    def difference(self) -> float:
        """How much better the second output is."""
        return self.scores[1] - self.scores[0]


def largest_differences(
    outputs: tuple[Sequence[str], Sequence[str]],
    scores: tuple[Sequence[float], Sequence[float]],
    most: int = SENTENCES,
) -> list[Difference]:
    """Return the sentences with different outputs, by the size of the difference in chrF."""
    sentences = [
        Difference(number, (a, b), (score_a, score_b))
        for number, (a, b, score_a, score_b) in enumerate(
            zip(*outputs, *scores, strict=True), start=1
        )
        if a != b
    ]
    sentences.sort(key=lambda each: (-abs(each.difference), each.number))
    return sentences[:most]


def sentence_chrf(
    systems: Mapping[str, Sequence[str]], references: list[list[str]], progress: Progress
) -> dict[str, list[float]]:
    """Return the chrF of each sentence of each system."""
    (metric,) = make_metrics(["chrf"], None, lowercase=False, tokenize=None)
    total = len(systems) * len(references[0])
    scores = {}
    with track_if_slow(progress, "chrF of each sentence", total, "lines") as advance:
        for name, lines in systems.items():
            statistics = LineStatistics.of(metric, lines, references, advance)
            scores[name] = [statistics.score_sums(line) for line in statistics.matrix]
    return scores


def write_page(
    path: Path,
    systems: Mapping[str, Sequence[str]],
    references: list[list[str]],
    sources: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the page: each system beside the first one, which is the baseline."""
    refuse_foreign_file(path)
    scores = sentence_chrf(systems, references, progress or Silent())
    baseline, *others = systems
    sections = []
    for name in others:
        pair = systems[baseline], systems[name]
        sentences = largest_differences(pair, (scores[baseline], scores[name]))
        different = sum(a != b for a, b in zip(*pair, strict=True))
        cards = [_card(each, (baseline, name), references, sources) for each in sentences]
        sections.append(_section(name, cards, different, len(references[0])))
    page = Template(pages.read(FOLDER / "differences.html")).substitute(
        head=pages.render_head("Systems side by side", FOLDER / "differences.css"),
        script=pages.read(FOLDER / "differences.js"),
        baseline=html.escape(baseline),
        choices="".join(
            f'<option value="{number}">{html.escape(name)}</option>'
            for number, name in enumerate(others)
        ),
        sections="\n".join(sections),
        foot=f"Written by transduce {__version__}.",
    )
    write_text_file(path, page, errors="backslashreplace")


def _section(name: str, cards: Sequence[str], different: int, lines: int) -> str:
    shown = "all of them" if len(cards) == different else f"the {len(cards):,} that differ most"
    about = f"{different:,} of {pluralize(lines, 'line')} differ; {shown} are here."
    if not different:
        about = f"No line of {lines:,} differs."
    return (
        f'<section aria-label="{html.escape(name)}"><p class="quiet">{about}</p>'
        f'<ol class="cards">\n{"".join(cards)}</ol></section>'
    )


def _card(
    sentence: Difference,
    names: tuple[str, str],
    references: list[list[str]],
    sources: Sequence[str] | None,
) -> str:
    line = sentence.number - 1
    right = [side[line].split() for side in references]
    marked = mark_differences(*sentence.outputs, right)
    texts = [("source", sources[line], "")] if sources else []
    texts += [("reference", side[line], "") for side in references]
    rows = "".join(_row(name, html.escape(text), "") for name, text, _ in texts)
    rows += "".join(
        _row(name, text, f"{score:.1f}")
        for name, text, score in zip(names, marked, sentence.scores, strict=True)
    )
    words = max(1, *(len(side) for side in right))
    return (
        f'<li data-number="{sentence.number}" data-difference="{sentence.difference:.4f}" '
        f'data-words="{words}"><p class="top"><b>line {sentence.number:,}</b> '
        f"<span>chrF {sentence.difference:+.1f}</span></p><dl>{rows}</dl></li>\n"
    )


def _row(name: str, text: str, score: str) -> str:
    shown = f" <small>{score}</small>" if score else ""
    return f'<dt>{html.escape(name)}{shown}</dt><dd dir="auto">{text}</dd>'


def mark_differences(a: str, b: str, references: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return both outputs as HTML; words that differ are marked as in a reference or not."""
    ours, theirs = a.split(), b.split()
    if max(len(ours), len(theirs)) > MAX_WORDS:
        return html.escape(a), html.escape(b)
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    common = matcher.get_matching_blocks()
    same_a = {block.a + place for block in common for place in range(block.size)}
    same_b = {block.b + place for block in common for place in range(block.size)}
    return _mark(ours, same_a, references), _mark(theirs, same_b, references)


def _mark(words: Sequence[str], same: set[int], references: Sequence[Sequence[str]]) -> str:
    right = {place for side in references for place in _matched(words, side)}
    marked = []
    for place, word in enumerate(words):
        text = html.escape(word)
        if place not in same:
            kind = "in" if place in right else "out"
            text = f'<mark class="{kind}">{text}</mark>'
        marked.append(text)
    return " ".join(marked) or "<i>empty</i>"


def _matched(words: Sequence[str], reference: Sequence[str]) -> set[int]:
    """Return the places of the words that occur in the reference in the same order."""
    if len(reference) > MAX_WORDS:
        return set()
    matcher = difflib.SequenceMatcher(None, words, reference, autojunk=False)
    return {
        block.a + place for block in matcher.get_matching_blocks() for place in range(block.size)
    }
