"""What an independent reader finds in a document, and how two readings differ.

The frame must be the same after a translation, in the same order. So must the words and the loose
parts of each block, such as a paragraph, except for their order; words are compared with the
formatting around them, after `fake.word` has been applied to those of the source.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from document_corpus import fake

DONE = "Fertig"  # begins translations that a file has already, and that stay
INSIDE = "\0"  # between the names of an element and of those inside it


@dataclass
class Block:
    """A part of a document whose text is translated as one."""

    texts: list[tuple[str, str]] = field(default_factory=list)  # formatting, text
    loose: Counter[str] = field(default_factory=Counter)

    def add(self, formatting: str, text: str) -> None:
        """Add a text; neighbours with the same formatting are one text."""
        if self.texts and self.texts[-1][0] == formatting:
            text = self.texts.pop()[1] + text
        self.texts.append((formatting, text))

    def has_words(self) -> bool:
        return any(letter.isalpha() for _, text in self.texts for letter in text)


@dataclass
class Reading:
    """The content of a document."""

    frame: list[str] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    # Elements that are dropped where a model leaves nothing between them.
    droppable: frozenset[str] = frozenset()

    def block(self, name: str) -> Block:
        return self.blocks.setdefault(name, Block())


@dataclass
class Verdict:
    """The differences between a document and its translation, and the spans that were counted."""

    faults: list[str] = field(default_factory=list)
    blocks: int = 0
    spans: int = 0
    broken_spans: int = 0
    emptied: int = 0  # texts of which a model wrote nothing
    moved: int = 0  # codes that a model put into another element, or outside of one


def compare(before: Reading, after: Reading, spans: Collection[str], *, exact: bool) -> Verdict:
    """Compare a document with its translation; `exact` if the fake translator made it."""
    verdict = Verdict()
    if before.frame != after.frame:
        verdict.faults.append(f"frame: {_first_difference(before.frame, after.frame)}")
    if [*before.blocks] != [*after.blocks]:
        names = _first_difference([*before.blocks], [*after.blocks])
        verdict.faults.append(f"blocks: {names}")
    for name, block in before.blocks.items():
        other = after.blocks.get(name, Block())
        verdict.blocks += 1
        if exact:
            _compare_loose(verdict, name, block.loose, other.loose)
        else:
            verdict.moved += (block.loose - other.loose).total()
            loose = [_inner(each.loose, before.droppable) for each in (block, other)]
            _compare_loose(verdict, name, *loose)
        _compare_words(verdict, name, block, other, spans, exact=exact)
    return verdict


def _inner(loose: Counter[str], droppable: Collection[str]) -> Counter[str]:
    """Return codes without the elements around them."""
    result = Counter[str]()
    for name, count in loose.items():
        if (inner := name.rpartition(INSIDE)[2]) not in droppable:
            result[inner] += count
    return result


def _compare_loose(verdict: Verdict, name: str, before: Counter[str], after: Counter[str]) -> None:
    if before != after:
        lost, new = before - after, after - before
        verdict.faults.append(f"{name}: lost {[*lost][:3]}, new {[*new][:3]}")


def _compare_words(
    verdict: Verdict,
    name: str,
    before: Block,
    after: Block,
    spans: Collection[str],
    *,
    exact: bool,
) -> None:
    old, new_words = Counter(_tokens(before, spans)), Counter(_tokens(after, spans))
    kept, found = _spans_of(old, spans), _spans_of(new_words, spans)
    verdict.spans += kept.total()
    broken = ((kept - found) + (found - kept)).total()
    verdict.broken_spans += broken
    if broken:
        verdict.faults.append(f"{name}: spans {kept - found} lost, {found - kept} new")
    if not exact:
        if before.has_words() and not new_words:
            verdict.emptied += 1
        return
    expected = Counter[tuple[str, str]]()
    for (formatting, token), count in old.items():
        for made in [token] if token in spans else fake.tokens(token):
            expected[formatting, made] += count
    if expected != new_words:
        lost_words, new = [*(expected - new_words)][:4], [*(new_words - expected)][:4]
        verdict.faults.append(f"{name}: words {lost_words} lost, {new} new")


def _tokens(block: Block, spans: Collection[str]) -> Iterator[tuple[str, str]]:
    for formatting, text in block.texts:
        for token in split(text, spans):
            yield formatting, token


def split(text: str, spans: Collection[str]) -> list[str]:
    """Return the spans, words and other characters of a text."""
    text = " ".join(text.split())
    present = sorted((span for span in spans if span in text), key=len, reverse=True)
    return re.findall("|".join([*map(re.escape, present), r"[^\W\d_]+", r"\S"]), text)


def _spans_of(tokens: Counter[tuple[str, str]], spans: Collection[str]) -> Counter[str]:
    found = Counter[str]()
    for (_, token), count in tokens.items():
        if token in spans:
            found[token] += count
    return found


def _first_difference(before: list[str], after: list[str]) -> str:
    for old, new in zip(before, after, strict=False):
        if old != new:
            at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
            start = max(0, at - 60)
            return f"{old[start : at + 100]!r} became {new[start : at + 100]!r}"
    longer = before[len(after) :] or after[len(before) :]
    return f"{len(before)} became {len(after)}: {longer[:2]!r:.200}"
