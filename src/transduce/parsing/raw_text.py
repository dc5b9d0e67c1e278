"""Read raw text, one sentence per line, as words to parse; lines that cannot be parsed are counted.

A line is left out if it is blank, too long for the parser, or equal to a held-out sentence, so that
no sentence of the test trees is trained on, not even without its tree.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.errors import BadInput
from transduce.parsing.parser import Parser
from transduce.parsing.trees import Tree, unescape
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.reading import read_lines

MAX_CHARACTERS = 20_000  # a longer line is not a sentence; it is left out before it is tokenised

LeftOut = Literal["blank", "too_long", "held_out"]


@dataclass(frozen=True)
class RawText:
    """A text to parse: a file (plain, gz, xz, zst) with one sentence per line."""

    path: Path
    words: bool = False  # whether words are separated by spaces already
    gold: Path | None = None  # trees of the same sentences, to measure the parsers only


def count_lines(path: Path, progress: Progress) -> int:
    """Return the number of lines of a text; refuse one that has no words."""
    lines = blank = 0
    with progress.track(f"reading {path}", None, "lines") as advance:
        for line in read_lines(path):
            lines += 1
            blank += not line.strip()
            advance(1)
    if lines == blank:
        content = f"has only {pluralize(lines, 'blank line')}" if lines else "is empty"
        raise BadInput(f"{path} {content}: expected sentences to parse, one per line")
    return lines


def read_texts(texts: Iterable[RawText]) -> Iterator[tuple[RawText, str]]:
    """Yield the lines of all texts, each with its text; of a line too long to parse, the beginning.

    So a block of lines fits into memory, whatever the text is.
    """
    for text in texts:
        for line in read_lines(text.path):
            yield text, line[: MAX_CHARACTERS + 1]


def words_of(
    text: RawText, line: str, parser: Parser, held_out: Collection[str]
) -> list[str] | LeftOut:
    """Return the words of a line, or why it is left out.

    `held_out` are sentences as `sentence_key` writes them.
    """
    if len(line) > MAX_CHARACTERS:
        return "too_long"
    words = parser.words(line, cut=text.words)
    if not words:
        return "blank"
    if sentence_key(words) in held_out:
        return "held_out"
    return words if parser.fits(words) else "too_long"


def sentence_key(words: Iterable[str]) -> str:
    """Return the text by which sentences are compared, however their words are separated.

    Raw text and trees differ in spaces, escapes and quotation marks.
    """
    text = "".join(map(unescape, words)).replace("\\/", "/").replace("\\*", "*")
    return text.replace("``", '"').replace("''", '"')


def keys_of(trees: Iterable[Tree]) -> set[str]:
    """Return the keys of the sentences of some trees."""
    return {sentence_key(tree.words()) for tree in trees}
