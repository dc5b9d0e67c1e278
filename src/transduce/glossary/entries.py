"""Glossaries from TSV files or Python."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Self, cast, get_args

from transduce.errors import BadInput, UnsupportedFormat, did_you_mean, printable
from transduce.glossary.matching import Index, find_terms, make_index
from transduce.glossary.terms import Entry, Match, Where
from transduce.text.reading import display_name, read_lines

CASE = "case"
FLAGS = (CASE, *(place for place in get_args(Where) if place != "anywhere"))

MAX_ENTRIES = 1_000_000
MAX_CHARACTERS = 1 << 26  # of a file
MAX_TERM = 1000  # characters of a term
PRIVATE = re.compile("[\U000f0000-\U000ffffd]")  # stand for protected spans in texts


class Glossary:
    """Terms, and how each must be translated.

    >>> from transduce.glossary import Glossary
    >>> glossary = Glossary.of({"file": "Datei", "file server": "Dateiserver"})
    >>> [match.entry.target for match in glossary.find("Two files on a file server")]
    ['Datei', 'Dateiserver']
    """

    def __init__(self, entries: Iterable[Entry], name: str = "glossary") -> None:
        self.entries = tuple(entries)
        self.name = name  # for messages

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TSV: source term, target term and, if any, flags. See docs/terms.md."""
        name = display_name(path)
        checked = _Checked(name)
        characters = 0
        begun = False
        for number, line in enumerate(_lines(path), start=1):
            characters += len(line) + 1
            if characters > MAX_CHARACTERS:
                raise BadInput(
                    f"{name} is larger than {MAX_CHARACTERS >> 20} MiB: expected a glossary"
                )
            if not line.strip() or line.startswith("#"):
                continue
            columns = [column.strip() for column in line.split("\t")]
            is_header = not begun and [one.lower() for one in columns[:2]] == ["source", "target"]
            begun = True
            if is_header:
                continue
            where = f"{name}, line {number:,}"
            if not 2 <= len(columns) <= 3:
                found = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
                raise BadInput(
                    f"{where} has {found}: expected a source term, a target term and, if any, "
                    "flags, with a tab between them"
                )
            flags = parse_flags("".join(columns[2:]), where)
            checked.add(Entry(columns[0], columns[1], *flags), where)
        if not checked.entries:
            raise BadInput(
                f"{name} has no entries: expected a source term, a tab and a target term per line"
            )
        return cls(checked.entries, name)

    @classmethod
    def of(cls, pairs: Mapping[str, str] | Iterable[Entry | tuple[str, str]]) -> Self:
        """Make a glossary from entries, from pairs of source and target term, or from a dict."""
        items = pairs.items() if isinstance(pairs, Mapping) else pairs
        checked = _Checked("the glossary")
        for number, item in enumerate(items, start=1):
            entry = item if isinstance(item, Entry) else Entry(*item)
            checked.add(entry, f"entry {number:,} of the glossary")
        if not checked.entries:
            raise BadInput("the glossary has no entries: expected at least one")
        return cls(checked.entries)

    @cached_property
    def sha256(self) -> str:
        """A hash of all entries, whatever their order and the name of the file."""
        rows = sorted(map(repr, {(e.source, e.target, e.case, e.where) for e in self.entries}))
        return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogatepass")).hexdigest()

    def find(self, text: str) -> list[Match]:
        """Return the terms of a sentence, in order.

        They are whole words and do not overlap: the longest comes first, then the leftmost. Of
        several entries for the same words, the more specific one is used.
        """
        return find_terms(text, self._index)

    @cached_property
    def _index(self) -> Index:
        return make_index(self.entries)


class _Checked:
    """Entries, checked one by one; `where` names an entry in messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self._known: dict[tuple[str, bool, str], tuple[str, str]] = {}

    def add(self, entry: Entry, where: str) -> None:
        """Add an entry unless it is a duplicate; refuse an invalid or contradictory one."""
        source, target = (" ".join(term.split()) for term in (entry.source, entry.target))
        for side, term in (("source", source), ("target", target)):
            if not term:
                raise BadInput(f"{where} has an empty {side} term: expected a word or phrase")
            if len(term) > MAX_TERM:
                raise BadInput(
                    f"{where} has a {side} term of {len(term):,} characters: expected at most "
                    f"{MAX_TERM:,}"
                )
            if PRIVATE.search(term):
                raise BadInput(
                    f"{where} has a private-use character ({printable(term)}): such characters "
                    "stand for placeholders and are never part of a term"
                )
        key = (source if entry.case else source.casefold(), entry.case, entry.where)
        known = self._known.setdefault(key, (target, where))
        if known[0] != target:
            raise BadInput(
                f"{where} translates {printable(source)!r} with {printable(target)!r}, but "
                f"{known[1]} with {printable(known[0])!r}: expected one translation of a term with "
                "the same flags"
            )
        if known[1] != where:
            return
        if len(self.entries) == MAX_ENTRIES:
            raise BadInput(f"{self.name} has more than {MAX_ENTRIES:,} entries")
        self.entries.append(Entry(source, target, entry.case, entry.where))


def _lines(path: str | Path) -> Iterator[str]:
    try:
        yield from read_lines(path)
    except UnsupportedFormat:
        raise BadInput(
            f"{display_name(path)} is no text with tabs: expected a source term, a tab and a "
            "target term per line, such as in terms.tsv"
        ) from None


def parse_flags(column: str, where: str) -> tuple[bool, Where]:
    """Return whether case matters, and where in the sentence; `where` names the entry."""
    flags = [flag for flag in re.split(r"[,\s]+", column.lower()) if flag]
    for flag in flags:
        if flag not in FLAGS:
            raise BadInput(
                f"{where} has an unknown flag {printable(flag)!r}: expected {', '.join(FLAGS)}."
                + did_you_mean(flag, FLAGS)
            )
    places = sorted(set(flags) - {CASE})
    if len(places) > 1:
        raise BadInput(
            f"{where} has the flags {' and '.join(places)}: expected one of start, inside, whole"
        )
    return CASE in flags, cast("Where", places[0]) if places else "anywhere"
