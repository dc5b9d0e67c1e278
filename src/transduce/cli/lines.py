"""Lines in, lines out: what `transduce translate` reads and writes."""

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from transduce import text
from transduce.alignment import pharaoh
from transduce.errors import BadInput
from transduce.progress import Progress, Silent, counted
from transduce.translation import Candidate, Translation
from transduce.translator import Translator

SCORED = 1000  # given translations that are scored at once

Form = Callable[[int, Translation], Iterable[str]]  # the lines of the nth translation


def require(*files: str | None) -> None:
    """Refuse files that cannot be read, before a model is loaded for them."""
    for file in files:
        # A pipe would lose what is read of it here.
        if file not in (None, text.STDIN) and (Path(file).is_file() or not Path(file).exists()):
            next(text.open_lines(file), None)


def translated(
    translator: Translator,
    file: str,
    prefix: str | None,
    prefixes: str | None,
    progress: Progress,
    **options: Any,
) -> Iterator[Translation]:
    """Translate the lines of a file as they come; each begins with the prefix or with its own."""
    source = text.Lines(file)
    count = _count(file)
    if count == 0:
        raise BadInput(f"{file} is empty: there is nothing to translate")
    begins = None if prefixes is None else _Beginnings(prefixes, file, count)
    typed = file == text.STDIN and sys.stdin.isatty()
    shown = Silent() if typed or sys.stdout.isatty() else progress  # the lines themselves tell
    cut = 0
    with shown.track("translating", count, "lines") as advance:
        for one in translator.stream(
            source,
            prefixes=begins if prefix is None else itertools.repeat(prefix),
            ready=source.ready,
            advance=advance,
            **options,
        ):
            cut += one.cut
            yield one
    if begins is not None:
        begins.end()
    if cut:
        progress.say(
            f"{cut:,} line{' was' if cut == 1 else 's were'} longer than the model's "
            f"{translator.config.model.max_len:,} subwords: cut, translated in parts and joined; "
            "--split cuts at the ends of sentences"
        )


def scored(
    translator: Translator, source: str, target: str, **options: Any
) -> Iterator[Translation]:
    """Score given translations line by line."""
    first = 1
    pairs = text.read_pairs(source, target)
    while block := list(itertools.islice(pairs, SCORED)):
        candidates = translator.score(block, first=first, **options)
        for (sentence, _), candidate in zip(block, candidates, strict=True):
            yield Translation(sentence, (candidate,))
        first += len(block)


def write(translations: Iterable[Translation], form: Form) -> None:
    """Write translations to stdout, each at once: somebody may be waiting for it."""
    for number, translation in enumerate(translations, start=1):
        sys.stdout.writelines(f"{line}\n" for line in form(number, translation))
        sys.stdout.flush()


def plain(number: int, translation: Translation) -> Iterable[str]:
    """Write the best translation."""
    yield _columns(translation.candidates[0])


def ranked(number: int, translation: Translation) -> Iterable[str]:
    """Write all candidates with the number of the line and their scores."""
    for one in translation.candidates:
        yield f"{number}\t{one.score:.4f}\t{_columns(one)}"


def with_score(number: int, translation: Translation) -> Iterable[str]:
    """Write the best translation after its score."""
    yield f"{translation.score:.4f}\t{_columns(translation.candidates[0])}"


def as_json(*, candidates: bool = False) -> Form:
    """Write one object: the best translation, and all of them with `candidates`."""

    def written(number: int, translation: Translation) -> Iterable[str]:
        value = {"line": number, **translation.to_json(candidates=candidates)}
        line = json.dumps(value, ensure_ascii=False)
        # JSON lets these stand, but some tools take them for the end of a line.
        yield re.sub("[\x85\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", line)

    return written


def _columns(candidate: Candidate) -> str:
    if candidate.alignment is None:
        return candidate.text
    return f"{candidate.text}\t{pharaoh(candidate.alignment)}"


class _Beginnings(Iterator[str]):
    """The lines of a file of prefixes, which must be as many as those of the text."""

    def __init__(self, path: str, source: str, expected: int | None) -> None:
        if path == source == text.STDIN:
            raise BadInput("text and prefixes cannot both be standard input: give a file of one")
        self._lines = text.open_lines(path)
        self._path, self._source = text.name_of(path), text.name_of(source)
        self._number = 0
        count = _count(path)
        if None not in (count, expected) and count != expected:
            raise self._error(counted(count or 0, "line"), f"{expected:,}")

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            raise self._error(counted(self._number, "line"), "more")
        self._number += 1
        return line

    def end(self) -> None:
        """Refuse lines that are left."""
        if next(self._lines, None) is not None:
            raise self._error("more lines", f"{self._number:,}")

    def _error(self, lines: str, expected: str) -> BadInput:
        return BadInput(
            f"{self._path} has {lines} but {self._source} has {expected}: "
            "line n of one must begin the translation of line n of the other"
        )


def _count(file: str) -> int | None:
    """Count the lines of a file; a stream has no count."""
    if file == text.STDIN or not Path(file).is_file():
        return None
    return sum(1 for _ in text.open_lines(file))
