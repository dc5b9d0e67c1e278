"""Write the texts of a data set: line n of one language translates line n of the other.

Pairs are left out and counted if a side is empty, is not UTF-8, or has characters that other tools
treat as line ends.
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
CountWords = Callable[[str], int]
LINE_BREAKS = re.compile("[\r\0]")
NOT_UTF8 = re.compile("[\ud800-\udfff]")
REPORTED = 1000  # pairs between progress reports


def reason_to_drop(left: str, right: str) -> str | None:
    """Return why a pair cannot be used, or None."""
    if not left.strip() or not right.strip():
        return "empty on one side or both"
    for text in (left, right):
        if not text.isprintable():  # a fast check that nearly all texts pass
            if LINE_BREAKS.search(text):
                return "with a carriage return or a NUL inside"
            if NOT_UTF8.search(text):
                return "with bytes that are no UTF-8"  # a key in data.json
    return None


def pairs(
    sources: Iterable[Source], archives: Mapping[str, Path], dropped: Counter[str]
) -> Iterator[Pair]:
    """Yield the pairs from some texts, and count those that are left out."""
    for source in sources:
        sides = (sentences(source, side, archives) for side in (0, 1))
        for read, (left, right) in enumerate(itertools.zip_longest(*sides)):
            if left is None or right is None:
                names = [f"{side.archive} {side.member}".strip() for side in source.locations]
                longer, shorter = names if right is None else reversed(names)
                raise BadData(
                    f"{longer} has more than the {pluralize(read, 'sentence')} of {shorter}: "
                    "line n of one must translate line n of the other"
                )
            if reason := reason_to_drop(left, right):
                dropped[reason] += 1
            else:
                yield left, right


def clean_pairs(
    pairs: Iterable[Pair],
    clean: Cleaning,
    counters: tuple[CountWords, CountWords],
    dropped: Counter[str],
) -> Iterator[Pair]:
    """Yield the pairs that are neither too long nor too different in length, as Moses does."""
    for left, right in pairs:
        lengths = counters[0](left), counters[1](right)
        if max(lengths) > clean.longest:
            dropped[f"of more than {clean.longest} words"] += 1
        elif max(lengths) > clean.ratio * min(lengths):
            dropped[f"with {clean.ratio:g} times as many words on one side"] += 1
        else:
            yield left, right


def word_counters(languages: tuple[str, str]) -> tuple[CountWords, CountWords]:
    """Return functions that count the words of each language with Moses' tokenizer."""
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise MissingExtra("cleaning like Moses", "sacremoses", "data") from None

    def counter(language: str) -> CountWords:
        tokenizer = MosesTokenizer(lang=language)
        return lambda text: len(tokenizer.tokenize(text, escape=False))

    return counter(languages[0]), counter(languages[1])


def write_split(
    data: DataSet, split: str, out: Path, archives: Mapping[str, Path], progress: Progress
) -> dict[str, dict[str, int]]:
    """Write a split; if train is cleaned, valid is held out from it and written too.

    Returns the number of pairs written and left out, by split.
    """
    dropped: Counter[str] = Counter()
    usable = pairs(data.sources[split], archives, dropped)
    held_out = 0  # every held_out-th pair goes to valid
    if split == "train" and data.clean is not None:
        held_out = data.clean.held_out
        usable = clean_pairs(usable, data.clean, word_counters(data.languages), dropped)
    counts = {split: 0, "valid": 0} if held_out else {split: 0}
    with contextlib.ExitStack() as stack, progress.track(f"writing {split}", None, "pairs") as done:
        files = {name: stack.enter_context(_open_pair(name, data, out)) for name in counts}
        for number, pair in enumerate(usable, start=1):
            name = "valid" if held_out and number % held_out == 0 else split
            counts[name] += 1
            for file, text in zip(files[name], pair, strict=True):
                file.write(f"{text}\n")
            if number % REPORTED == 0:
                done(REPORTED)
        if not counts[split]:  # the files have not replaced the old ones yet
            raise BadData(f"{data.name} has no usable pair for {split}")
    return {
        name: {"pairs": count, **(dropped if name == split else {})}
        for name, count in counts.items()
    }


@contextlib.contextmanager
def _open_pair(split: str, data: DataSet, out: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """Open the two files of a split; they replace older ones only if the block succeeds."""
    with contextlib.ExitStack() as stack:
        paths = [
            stack.enter_context(atomic_write(out / f"{split}.{language}"))
            for language in data.languages
        ]
        # Entered last, so that they are closed before they are renamed.
        files = [
            stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths
        ]
        yield files[0], files[1]
