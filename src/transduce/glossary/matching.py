"""Terms in sources, and whether outputs contain their translations."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from transduce.glossary.terms import Entry, Match
from transduce.glossary.words import (
    Token,
    fold,
    in_compound,
    inflects,
    is_form,
    is_word,
    keeps_capitals,
    plain,
    stems,
    tokenize,
)
from transduce.text.words import HAS_UNSPACED, TOKEN


class Index(NamedTuple):
    """The entries by their words without case, and the beginnings of these keys."""

    entries: dict[str, list[tuple[Entry, list[str]]]]  # with their words
    beginnings: set[str]
    first_words: set[str]


class Finder(Protocol):
    """A glossary: it finds its terms in a sentence."""

    def find(self, text: str, /) -> list[Match]:
        """Return the terms of a sentence."""


@dataclass(frozen=True, slots=True)
class TermAccuracy:
    """How many terms of the sources have their translation in the outputs."""

    matched: int  # occurrences in sources
    found: int  # of which the output contains the target term

    @property
    def share(self) -> float:
        """The share of the matched terms that were found; 1 if none matched."""
        return self.found / self.matched if self.matched else 1.0


def make_index(entries: Iterable[Entry]) -> Index:
    """Return an index of some entries."""
    index = Index({}, set(), set())
    for entry in entries:
        key, tokens = "", tokenize(entry.source)
        for token in tokens:
            if key:
                index.beginnings.add(key)
            key = _extend(key, fold(token.text), spaced=token.spaced)
        words = [token.text for token in tokens]
        index.first_words.add(fold(words[0]))
        index.entries.setdefault(key, []).append((entry, words))
    return index


def find_terms(text: str, index: Index) -> list[Match]:
    """Return the terms of a sentence: see `Glossary.find`."""
    candidates = list(_candidates(text, index))
    if len(candidates) > 1:
        candidates.sort(key=_preference)
    taken = bytearray(len(text))
    matches = []
    for match, _ in candidates:
        if not any(taken[match.start : match.end]):
            taken[match.start : match.end] = b"\1" * (match.end - match.start)
            matches.append(match)
    return sorted(matches, key=lambda match: match.start)


def contains(output: str, target: str, *, case: bool = False) -> int:
    """Return how often an output contains a target term, in any of its forms.

    `words.inflects` and `words.in_compound` say which forms count. In a script without spaces, a
    term is counted wherever its characters occur.
    """
    if HAS_UNSPACED.search(target):
        if case:
            return output.count(target)
        return output.casefold().count(target.casefold())
    words, term = tokenize(output), tokenize(target)
    folded = [plain(token.text, case=case) for token in words]
    wanted = [plain(token.text, case=case) for token in term]
    count = index = 0
    while index + len(wanted) <= len(words):
        if _occurs(words, folded, index, term, wanted) or (
            len(term) == 1 and in_compound(words[index].text, target, case=case)
        ):
            count += 1
            index += len(wanted)
        else:
            index += 1
    return count


def missing(matches: Sequence[Match], output: str) -> list[Match]:
    """Return the matches of a source whose target terms an output lacks."""
    left: dict[tuple[str, bool], int] = {}
    lacking = []
    for match in matches:
        key = match.entry.target, match.entry.case
        if key not in left:
            left[key] = contains(output, key[0], case=key[1])
        left[key] -= 1
        if left[key] < 0:
            lacking.append(match)
    return lacking


def accuracy(pairs: Iterable[tuple[str, str]], glossary: Finder) -> TermAccuracy:
    """Count the terms of sources, and those that the outputs translate as the glossary says."""
    counts: Counter[str] = Counter()
    for source, output in pairs:
        matches = glossary.find(source)
        counts["matched"] += len(matches)
        counts["found"] += len(matches) - len(missing(matches, output))
    return TermAccuracy(counts["matched"], counts["found"])


def _extend(key: str, word: str, *, spaced: bool) -> str:
    """Append a word to a key of the index; white space between words makes a difference."""
    return f"{key}{' ' if spaced else chr(0)}{word}" if key else word


def _candidates(text: str, index: Index) -> Iterator[tuple[Match, int]]:
    """Yield all matches, which may overlap, each with whether its words differ from the entry's."""
    tokens = list(TOKEN.finditer(text))
    texts = [token[0] for token in tokens]
    forms = [stems(word) for word in texts]
    for first, first_forms in enumerate(forms):
        if index.first_words.isdisjoint(first_forms):
            continue
        last, keys = first, first_forms
        while True:
            for key in keys:
                for entry, terms in index.entries.get(key, ()):
                    words = texts[first : last + 1]
                    if _applies(entry, terms, words, texts, first):
                        match = Match(entry, tokens[first].start(), tokens[last].end())
                        yield match, int(words != terms)
            begun = [key for key in keys if key in index.beginnings]
            last += 1
            if not begun or last == len(tokens):
                break
            spaced = tokens[last].start() > tokens[last - 1].end()
            keys = tuple(_extend(key, form, spaced=spaced) for key in begun for form in forms[last])


def _applies(
    entry: Entry, terms: list[str], words: list[str], texts: list[str], first: int
) -> bool:
    """Return whether an entry with these words may be used for some words of a text."""
    if words != terms and (entry.case or not all(map(is_form, words, terms))):
        return False
    if entry.where == "anywhere":
        return True
    at_start = not any(map(is_word, texts[:first]))
    if entry.where == "whole":
        return at_start and not any(map(is_word, texts[first + len(words) :]))
    return at_start == (entry.where == "start")


def _preference(candidate: tuple[Match, int]) -> tuple[object, ...]:
    match, differs = candidate
    entry = match.entry
    specific = ("whole", "start", "inside", "anywhere").index(entry.where)
    return (
        *(match.start - match.end, match.start, differs, not entry.case, specific),
        *(entry.source, entry.target),
    )


def _occurs(
    words: list[Token], folded: list[str], index: int, term: list[Token], wanted: list[str]
) -> bool:
    """Return whether a term begins at a word of an output."""
    return all(
        inflects(folded[index + number], wanted[number])
        and keeps_capitals(words[index + number].text, term[number].text)
        and (number == 0 or words[index + number].spaced == term[number].spaced)
        for number in range(len(term))
    )
