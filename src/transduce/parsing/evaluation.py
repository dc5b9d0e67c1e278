"""Labelled brackets, right and wrong: what EVALB counts with Collins' settings (COLLINS.prm).

The rules, each as EVALB has it:
- A word whose tag is deleted (punctuation, traces) does not count and takes up no place.
- Of a label counts what stands before the first - or =; PRT counts as ADVP. Brackets around
  nothing that counts, and TOP, are left out; any other root counts, one without a label too.
- Gold and guess must have the same words, else the sentence is an error and counts nowhere; a
  guess without any words that count is skipped.
- A sentence's length is all its words, punctuation included.
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
CUTOFF = 40  # words of a sentence that also counts among the short ones
NO_TREE = re.compile(r"\s*\(\s*(\(\s*\)\s*)?\)\s*")  # what some parsers write on failure
AFTER_LABEL = re.compile("[-=].*", re.DOTALL)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TreeScore:
    """What EVALB tells of one sentence."""

    length: int
    status: int = 0  # 1: not the same words, 2: no words to score
    matched: int = 0
    gold: int = 0
    guessed: int = 0
    crossing: int = 0  # brackets of the guess that cross one of gold
    words: int = 0
    tags: int = 0  # that are right

    @property
    def exact(self) -> bool:
        """Whether all brackets are right."""
        return self.status == 0 and self.matched == self.gold == self.guessed


@dataclass(frozen=True, slots=True)
class Parseval:
    """What EVALB tells of many sentences, in percent but for counts."""

    sentences: int
    errors: int
    skipped: int
    recall: float
    precision: float
    f1: float
    exact: float
    crossing: float  # a sentence
    no_crossing: float
    few_crossing: float  # two or less
    tagging: float


@dataclass(frozen=True, slots=True)
class _Read:
    """The brackets and words of a tree that count."""

    brackets: Counter[tuple[Span, str]]
    words: list[str]
    tags: list[str]
    length: int


def score_tree(gold: Tree, guess: Tree | None) -> TreeScore:
    """Compare a tree with the one that a person drew; None is no tree at all."""
    one = _read(gold)
    if guess is None:
        return TreeScore(one.length, status=2)
    other = _read(guess)
    if not other.words:
        return TreeScore(one.length, status=2)
    if one.words != other.words:
        return TreeScore(one.length, status=1)
    return TreeScore(
        length=one.length,
        matched=(one.brackets & other.brackets).total(),
        gold=one.brackets.total(),
        guessed=other.brackets.total(),
        crossing=_crossing(one, other),
        words=len(one.words),
        tags=sum(a == b for a, b in zip(one.tags, other.tags, strict=True)),
    )


def score_files(guesses: str | Path, gold: str | Path) -> list[TreeScore]:
    """Compare the trees of two files, tree by tree.

    Where the guesses are one a line, an empty line or (()) is a sentence without a tree.
    """
    expected = list(read_trees(gold))
    name = display_name(guesses)
    lines = ["" if NO_TREE.fullmatch(line) else line for line in read_lines(guesses)]
    found: list[Tree | None] = list(parse_trees(lines, name))
    if len(found) < len(expected) == len(lines):
        found = [next(parse_trees([line], name)) if line.strip() else None for line in lines]
    if len(found) != len(expected):
        raise BadInput(
            f"{name} has {pluralize(len(found), 'tree')} but {display_name(gold)} has "
            f"{len(expected):,}: tree n of one must be of the same sentence as tree n of the other"
        )
    return [score_tree(one, other) for one, other in zip(expected, found, strict=True)]


def summarize(marks: Iterable[TreeScore], cutoff: int | None = None) -> Parseval:
    """Add up what was found of sentences, of those up to `cutoff` words if it is given."""
    chosen = [one for one in marks if cutoff is None or one.length <= cutoff]
    valid = [one for one in chosen if one.status == 0]
    matched = sum(one.matched for one in valid)
    recall = _percent(matched, sum(one.gold for one in valid))
    precision = _percent(matched, sum(one.guessed for one in valid))
    return Parseval(
        sentences=len(chosen),
        errors=sum(one.status == 1 for one in chosen),
        skipped=sum(one.status == 2 for one in chosen),
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / (precision + recall) if matched else 0.0,
        exact=_percent(sum(one.exact for one in valid), len(valid)),
        crossing=_percent(sum(one.crossing for one in valid), len(valid)) / 100,
        no_crossing=_percent(sum(one.crossing == 0 for one in valid), len(valid)),
        few_crossing=_percent(sum(one.crossing <= 2 for one in valid), len(valid)),
        tagging=_percent(sum(one.tags for one in valid), sum(one.words for one in valid)),
    )


def _read(tree: Tree) -> _Read:
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
    return _Read(brackets, words, tags, length)


def _crossing(gold: _Read, guess: _Read) -> int:
    """Count the brackets of a guess that begin inside a gold one and end outside, or reverse."""
    spans = {span for span, _ in gold.brackets}
    crossed: dict[Span, bool] = {}
    for begin, end in {span for span, _ in guess.brackets}:
        crossed[begin, end] = any(a < begin < b < end or begin < a < end < b for a, b in spans)
    return sum(count for (span, _), count in guess.brackets.items() if crossed[span])


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
