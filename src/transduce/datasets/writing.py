"""The texts of a data set, written: line n of one language translates line n of the other.

What is no use is left out, and counted: empty sentences, bytes that are no UTF-8, characters that
other tools take for the end of a line.
"""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from transduce.datasets.catalogue import Cleaning, DataSet, Source
from transduce.datasets.formats import sentences
from transduce.errors import BadData, MissingExtra
from transduce.system.files import atomic_write
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress

Pair = tuple[str, str]
Words = Callable[[str], int]
BROKEN = re.compile("[\r\0]")
UNDECODED = re.compile("[\ud800-\udfff]")
EVERY = 1000  # pairs between two signs of life


def useless(left: str, right: str) -> str | None:
    """Tell why a pair cannot be used, if it cannot."""
    if not left.strip() or not right.strip():
        return "empty on one side or both"
    for text in (left, right):
        if not text.isprintable():  # nearly all are, and that is soon known
            if BROKEN.search(text):
                return "with a carriage return or a NUL inside"
            if UNDECODED.search(text):
                return "with bytes that are no UTF-8"
    return None


def pairs(
    sources: Iterable[Source], archives: Mapping[str, Path], dropped: Counter[str]
) -> Iterator[Pair]:
    """Yield the pairs of some texts, one after the other; what is left out is counted."""
    for source in sources:
        sides = (sentences(source, side, archives) for side in (0, 1))
        for read, (left, right) in enumerate(itertools.zip_longest(*sides)):
            if left is None or right is None:
                names = [f"{place.archive} {place.member}".strip() for place in source.places]
                more, fewer = names if right is None else reversed(names)
                raise BadData(
                    f"{more} goes on after {pluralize(read, 'sentence')}, but {fewer} ends there: "
                    "line n of one must translate line n of the other"
                )
            if why := useless(left, right):
                dropped[why] += 1
            else:
                yield left, right


def cleaned(
    found: Iterable[Pair], clean: Cleaning, words: tuple[Words, Words], dropped: Counter[str]
) -> Iterator[Pair]:
    """Leave out pairs that are too long, or too unlike in length, as Moses' scripts do."""
    for left, right in found:
        one, other = words[0](left), words[1](right)
        if max(one, other) > clean.longest:
            dropped[f"of more than {clean.longest} words"] += 1
        elif max(one, other) > clean.ratio * min(one, other):
            dropped[f"with {clean.ratio:g} times as many words on one side"] += 1
        else:
            yield left, right


def moses(languages: tuple[str, str]) -> tuple[Words, Words]:
    """Return what counts the words of each language as Moses' tokeniser cuts them."""
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise MissingExtra("cleaning as the field does", "sacremoses", "data") from None

    def counter(language: str) -> Words:
        tokenizer = MosesTokenizer(lang=language)
        return lambda text: len(tokenizer.tokenize(text, escape=False))

    return counter(languages[0]), counter(languages[1])


def write(
    data: DataSet, part: str, out: Path, archives: Mapping[str, Path], progress: Progress
) -> dict[str, dict[str, int]]:
    """Write one part; from a part that is cleaned another is held out, and both are written.

    Returns what was written and what was left out, by part.
    """
    dropped: Counter[str] = Counter()
    found = pairs(data.parts[part], archives, dropped)
    if part != "train" or data.clean is None:
        count = _write(found, part, data, out, progress)
        return {part: {"pairs": count, **dropped}}
    found = cleaned(found, data.clean, moses(data.languages), dropped)
    with contextlib.ExitStack() as stack:
        train = stack.enter_context(_files("train", data, out))
        valid = stack.enter_context(_files("valid", data, out))
        counts = Counter({"train": 0, "valid": 0})
        for number, pair in enumerate(_followed(found, "writing train", progress), start=1):
            held = number % data.clean.held_out == 0
            counts["valid" if held else "train"] += 1
            _put(valid if held else train, pair)
        _refuse_empty(counts["train"], "train", data)
    return {"train": {"pairs": counts["train"], **dropped}, "valid": {"pairs": counts["valid"]}}


def _write(found: Iterable[Pair], part: str, data: DataSet, out: Path, progress: Progress) -> int:
    count = 0
    with _files(part, data, out) as files:
        for pair in _followed(found, f"writing {part}", progress):
            _put(files, pair)
            count += 1
        _refuse_empty(count, part, data)
    return count


def _refuse_empty(count: int, part: str, data: DataSet) -> None:
    """Refuse a part without a pair, while its files are not in their places yet."""
    if not count:
        raise BadData(f"{data.name} has no pair for {part} that can be used")


def _followed(found: Iterable[Pair], what: str, progress: Progress) -> Iterator[Pair]:
    with progress.track(what, None, "pairs") as advance:
        for number, pair in enumerate(found, start=1):
            yield pair
            if number % EVERY == 0:
                advance(EVERY)


@contextlib.contextmanager
def _files(part: str, data: DataSet, out: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """Open the two files of a part; they take their places only if all goes well."""
    with contextlib.ExitStack() as stack:
        paths = [
            stack.enter_context(atomic_write(out / f"{part}.{language}"))
            for language in data.languages
        ]
        # Within those, so that they are closed before they are moved.
        files = [
            stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths
        ]
        yield files[0], files[1]


def _put(files: tuple[IO[str], IO[str]], pair: Pair) -> None:
    for file, text in zip(files, pair, strict=True):
        file.write(f"{text}\n")
