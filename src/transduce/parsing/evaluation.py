"""Labelled bracket scores as EVALB computes them with Collins' settings (COLLINS.prm).

EVALB's rules:
- A word whose tag is deleted (punctuation, traces) is ignored and has no position.
- A label is compared up to its first - or =; PRT equals ADVP. TOP and brackets that contain only
  ignored words are left out; any other root counts, even without a label.
- Gold and guess must have the same words; otherwise the sentence is an error and not scored. A
  guess without any words to score is skipped.
- The length of a sentence is the number of its words, including punctuation.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import BadInput
from transduce.parsing.trees import TRACE, Tree, parse_trees, read_trees
from transduce.system.formatting import pluralize
from transduce.text.reading import display_name, read_lines

DELETED = frozenset({"TOP", TRACE, ",", ":", "``", "''", "."})
EQUAL = {"PRT": "ADVP"}
CUTOFF = 40  # words; sentences up to this length are also scored separately
NO_TREE = re.compile(r"\s*\(\s*(\(\s*\)\s*)?\)\s*")  # written by some parsers on failure
AFTER_LABEL = re.compile("[-=].*", re.DOTALL)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TreeScore:
    """EVALB's counts for one sentence."""

    length: int
    status: int = 0  # 1: not the same words, 2: no words to score
    matched: int = 0
    gold: int = 0
    guessed: int = 0
    crossing: int = 0  # guessed brackets that cross a gold bracket
    words: int = 0
    tags: int = 0  # number of correct tags

    @property
    def exact(self) -> bool:
        """Whether all brackets are correct."""
        return self.status == 0 and self.matched == self.gold == self.guessed


@dataclass(frozen=True, slots=True)
class Parseval:
    """EVALB's scores for many sentences, in percent except for counts."""

    sentences: int
    errors: int
    skipped: int
    recall: float
    precision: float
    f1: float
    exact: float
    crossing: float  # mean per sentence, not in percent
    no_crossing: float
    few_crossing: float  # two or fewer
    tagging: float


@dataclass(frozen=True, slots=True)
class _Content:
    """The brackets and words of a tree that are scored."""

    brackets: Counter[tuple[Span, str]]
    words: list[str]
    tags: list[str]
    length: int


def score_tree(gold: Tree, guess: Tree | None) -> TreeScore:
    """Compare a guessed tree with a gold tree; None is a missing guess."""
    expected = _content(gold)
    guessed = None if guess is None else _content(guess)
    if guessed is None or not guessed.words:
        return TreeScore(expected.length, status=2)
    if expected.words != guessed.words:
        return TreeScore(expected.length, status=1)
    return TreeScore(
        length=expected.length,
        matched=(expected.brackets & guessed.brackets).total(),
        gold=expected.brackets.total(),
        guessed=guessed.brackets.total(),
        crossing=_crossing(expected, guessed),
        words=len(expected.words),
        tags=sum(a == b for a, b in zip(expected.tags, guessed.tags, strict=True)),
    )


def score_files(guesses: str | Path, gold: str | Path) -> list[TreeScore]:
    """Compare the trees in two files, tree by tree.

    If there is one guess per line, an empty line or (()) is a missing guess.
    """
    expected = list(read_trees(gold))
    name = display_name(guesses)
    lines = ["" if NO_TREE.fullmatch(line) else line for line in read_lines(guesses)]
    guessed: list[Tree | None] = list(parse_trees(lines, name))
    if len(guessed) < len(expected) == len(lines):
        guessed = [next(parse_trees([line], name)) if line.strip() else None for line in lines]
    if len(guessed) != len(expected):
        raise BadInput(
            f"{name} has {pluralize(len(guessed), 'tree')} but {display_name(gold)} has "
            f"{len(expected):,}: tree n of one must be of the same sentence as tree n of the other"
        )
    return [score_tree(*pair) for pair in zip(expected, guessed, strict=True)]


def summarize(scores: Iterable[TreeScore], cutoff: int | None = None) -> Parseval:
    """Return the scores for all sentences, or only those with up to `cutoff` words."""
    chosen = [score for score in scores if cutoff is None or score.length <= cutoff]
    valid = [score for score in chosen if score.status == 0]
    matched = sum(score.matched for score in valid)
    recall = _percent(matched, sum(score.gold for score in valid))
    precision = _percent(matched, sum(score.guessed for score in valid))
    return Parseval(
        sentences=len(chosen),
        errors=sum(score.status == 1 for score in chosen),
        skipped=sum(score.status == 2 for score in chosen),
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / (precision + recall) if matched else 0.0,
        exact=_percent(sum(score.exact for score in valid), len(valid)),
        crossing=_percent(sum(score.crossing for score in valid), len(valid)) / 100,
        no_crossing=_percent(sum(score.crossing == 0 for score in valid), len(valid)),
        few_crossing=_percent(sum(score.crossing <= 2 for score in valid), len(valid)),
        tagging=_percent(sum(score.tags for score in valid), sum(score.words for score in valid)),
    )


def _content(tree: Tree) -> _Content:
    brackets: Counter[tuple[Span, str]] = Counter()
    words: list[str] = []
    tags: list[str] = []
    begins: list[int] = []
    length = 0
    for node, entered in tree.visits():
        if node.word is not None:
            length += node.label != TRACE
            if node.label not in DELETED:
                words.append(node.word)
                tags.append(EQUAL.get(node.label, node.label))
        elif entered:
            begins.append(len(words))
        else:
            span = begins.pop(), len(words)
            label = AFTER_LABEL.sub("", node.label)
            if span[0] < span[1] and label not in DELETED:
                brackets[span, EQUAL.get(label, label)] += 1
    return _Content(brackets, words, tags, length)


def _crossing(gold: _Content, guess: _Content) -> int:
    """Count the guessed brackets that overlap a gold bracket without nesting."""
    spans = {span for span, _ in gold.brackets}
    crossed: dict[Span, bool] = {}
    for begin, end in {span for span, _ in guess.brackets}:
        crossed[begin, end] = any(a < begin < b < end or begin < a < end < b for a, b in spans)
    return sum(count for (span, _), count in guess.brackets.items() if crossed[span])


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
