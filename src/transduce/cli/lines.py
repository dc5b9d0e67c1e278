"""Line-by-line input and output for `transduce translate`."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from transduce.cli.remarks import Remarks
from transduce.errors import BadInput
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress, Silent
from transduce.text import reading as text
from transduce.translation.alignment import to_pharaoh
from transduce.translation.translation import Candidate, Translation
from transduce.translation.translator import Translator

SCORED = 1000  # number of given translations to score at once

Form = Callable[[int, Translation], Iterable[str]]  # the output lines of translation n


class Input:
    """An input to translate: a file, standard input, or text given as an argument.

    A file is read once here, to refuse an unreadable file before a model is loaded. A pipe is not
    checked, because it can be read only once.
    """

    def __init__(self, argument: str, *, is_text: bool = False, as_text: bool = False) -> None:
        self.argument, self.is_text, self.as_text = argument, is_text, as_text
        self.name = "the text" if is_text else text.display_name(argument)
        self.count: int | None = None
        if is_text:
            self.count = len(_lines_of(argument))
        elif not _is_pipe(argument):
            self.count = sum(1 for _ in text.read_lines(argument, as_text=as_text))

    def lines(self) -> tuple[Iterator[str], Callable[[], bool]]:
        """Return the lines, and a function that returns whether the next line is available."""
        if self.is_text:
            return iter(_lines_of(self.argument)), lambda: True
        lines = text.LineReader(self.argument, as_text=self.as_text)
        return lines, lines.ready


@dataclass(frozen=True, slots=True)
class Texts:
    """All inputs: texts, prefixes and given translations."""

    sources: list[Input]
    prefixes: Input | None
    given: Input | None

    @classmethod
    def read(
        cls, arguments: Sequence[str], prefixes: str | None, given: str | None, *, as_text: bool
    ) -> Self:
        """Open the inputs; refuse missing and empty ones."""
        if arguments.count(text.STDIN) > 1:
            raise BadInput("- is given twice: standard input can be read only once")
        for argument in arguments:
            if not argument:
                raise BadInput("an argument is empty: expected a file, text in quotes, or -")
            if (
                argument != text.STDIN
                and text.is_file_argument(argument)
                and not text.path_exists(argument)
            ):
                raise BadInput(
                    f"{argument} does not exist: expected a text file, or text that has a space or "
                    'ends with a punctuation mark, such as "Two dogs run."'
                )
        sources = [
            Input(argument, is_text=not text.is_file_argument(argument), as_text=as_text)
            for argument in arguments
        ]
        for source in sources:
            if source.count == 0:
                raise BadInput(f"{source.name} is empty: there is nothing to translate")
        files = (
            path if path is None else Input(path, as_text=as_text) for path in (prefixes, given)
        )
        texts = cls(sources, *files)
        if texts.given is not None:  # in pipes, a mismatch is found only at the end
            _require_same_length(sources[0], texts.given, "translate")
        return texts


def _require_same_length(left: Input, right: Input, verb: str) -> None:
    """Refuse files of different lengths before anything is written; pipes are not counted."""
    if None not in (left.count, right.count) and left.count != right.count:
        raise _mismatch(left, pluralize(left.count or 0, "line"), right, f"{right.count:,}", verb)


def _mismatch(left: Input, lines: str, right: Input, others: str, verb: str) -> BadInput:
    return BadInput(
        f"{left.name} has {lines} but {right.name} has {others}: "
        f"line n of one must {verb} line n of the other"
    )


def _lines_of(argument: str) -> list[str]:
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the text {argument!a:.60} is not UTF-8: expected text in UTF-8") from None
    return [line.removesuffix("\r") for line in argument.removesuffix("\n").split("\n")]


def results(
    translator: Translator,
    texts: Texts,
    prefix: str | None,
    progress: Progress,
    *,
    bar: bool,
    **options: Any,
) -> Iterator[Iterator[Translation]]:
    """Yield the translations of each input, or the given translations with their scores."""
    for source in texts.sources:
        if texts.given is None:
            lines = None if texts.prefixes is None else _Prefixes(texts.prefixes, source)
            prefixes = lines if prefix is None else itertools.repeat(prefix)
            yield translate_lines(translator, source, prefixes, progress, bar=bar, **options)
        else:
            chosen = {name: options[name] for name in ("alpha", "align", "tag") if name in options}
            yield score_lines(translator, source, texts.given, **chosen)


def translate_lines(
    translator: Translator,
    source: Input,
    prefixes: Iterable[str] | None,
    progress: Progress,
    *,
    bar: bool,
    **options: Any,
) -> Iterator[Translation]:
    """Translate the lines of an input as they arrive, with their prefixes."""
    lines, ready = source.lines()
    longest = translator.config.model.max_len
    remarks = Remarks("line", longest, split=options.get("split", True))
    shown = progress if bar else Silent()
    with shown.track("translating", source.count, "lines") as advance:
        for translation in translator.stream(
            lines, prefixes=prefixes, ready=ready, advance=advance, **options
        ):
            remarks.add(translation)
            yield translation
    if isinstance(prefixes, _Prefixes):
        prefixes.end()
    remarks.report(progress)


def score_lines(
    translator: Translator, source: Input, target: Input, **options: Any
) -> Iterator[Translation]:
    """Score given translations line by line."""
    first = 1
    pairs = text.read_pairs(source.argument, target.argument, as_text=source.as_text)
    while block := _next_pairs(pairs, first):
        candidates = translator.score(block, first=first, **options)
        for (sentence, _), candidate in zip(block, candidates, strict=True):
            yield Translation(sentence, (candidate,))
        first += len(block)


def _next_pairs(pairs: Iterator[tuple[str, str]], first: int) -> list[tuple[str, str]]:
    """Read the next pairs; in pipes, a mismatch is found only at the end."""
    try:
        return list(itertools.islice(pairs, SCORED))
    except BadInput as error:
        if first == 1:
            raise
        raise BadInput(f"{error}; only the first {first - 1:,} lines were scored") from None


def form(*, nbest: bool, given: bool, json: bool) -> Form:
    """Return the output format."""
    if json:
        return partial(as_json, candidates=nbest)
    return with_score if given else ranked if nbest else plain


def plain(number: int, translation: Translation) -> Iterable[str]:
    """Format the best translation."""
    yield _columns(translation.candidates[0])


def ranked(number: int, translation: Translation) -> Iterable[str]:
    """Format all candidates with the line number and their scores."""
    for candidate in translation.candidates:
        yield f"{number}\t{candidate.score:.4f}\t{_columns(candidate)}"


def with_score(number: int, translation: Translation) -> Iterable[str]:
    """Format the best translation after its score."""
    yield f"{translation.score:.4f}\t{_columns(translation.candidates[0])}"


def as_json(number: int, translation: Translation, *, candidates: bool) -> Iterable[str]:
    """Format one JSON object: the best translation; with `candidates`, all of them."""
    value = {"line": number, **translation.to_json(candidates=candidates)}
    line = json.dumps(value, ensure_ascii=False)
    # JSON allows these, but some tools treat them as line ends.
    yield re.sub("[\x85\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", line)


def _columns(candidate: Candidate) -> str:
    if candidate.alignment is None:
        return candidate.text
    return f"{candidate.text}\t{to_pharaoh(candidate.alignment)}"


class _Prefixes(Iterator[str]):
    """The lines of a prefix file: one prefix for each line of the text."""

    VERB = "begin the translation of"

    def __init__(self, prefixes: Input, source: Input) -> None:
        if prefixes.argument == source.argument == text.STDIN:
            raise BadInput("text and prefixes cannot both be standard input: give one as a file")
        _require_same_length(prefixes, source, self.VERB)
        self._file, self._source = prefixes, source
        self._lines = text.read_lines(prefixes.argument, as_text=prefixes.as_text)
        self._number = 0

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            lines = pluralize(self._number, "line")
            raise _mismatch(self._file, lines, self._source, "more", self.VERB)
        self._number += 1
        return line

    def end(self) -> None:
        """Refuse remaining lines."""
        if next(self._lines, None) is not None:
            raise _mismatch(self._file, "more lines", self._source, f"{self._number:,}", self.VERB)


def _is_pipe(path: str) -> bool:
    """Return whether a path can be read only once: standard input, a named pipe, a device."""
    if path == text.STDIN:
        return True
    return text.path_exists(path) and not (Path(path).is_file() or Path(path).is_dir())
