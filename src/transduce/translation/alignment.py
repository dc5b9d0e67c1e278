"""Which word translates which, by what the decoder attended to. T target, S source words.

Words are what `str.split` finds in a text: what stands between white space. Links are pairs of a
source and a target word, counted from 0, in the order of the target, as fast_align writes them.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

Links = tuple[tuple[int, int], ...]
NO_WORD = -1  # of a piece that is white space alone


def links(
    weights: npt.NDArray[np.float32], source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """Link each target word to the source word that it attended to most.

    `weights` are those of target pieces (rows) to source pieces, </s> of both sides left out or
    not; `source` and `target` tell which word each piece is in. What a word's pieces receive adds
    up, what its pieces attend to is averaged.
    """
    found = weights[: len(target), : len(source)].astype(np.float64)
    rows, columns = np.array(target, dtype=int), np.array(source, dtype=int)
    words = np.unique(columns[columns != NO_WORD])
    if not len(words):
        return []
    received = found @ (columns[:, None] == words)  # (pieces of the target, S)
    return [
        (int(words[received[rows == word].mean(0).argmax()]), int(word))
        for word in np.unique(rows[rows != NO_WORD])
    ]


def words_of(units: Iterable[Sequence[bytes]], gaps: Iterable[str]) -> list[list[int]]:
    """Tell for each piece of a text which of its words it is in, or NO_WORD.

    The text is made of units, such as sentences, with the gap before each; where that is nothing,
    a unit goes on with the word that the one before has begun.
    """
    found = []
    begun = 0  # words
    for pieces, gap in zip(units, gaps, strict=True):
        own = of_pieces(pieces, _between_spaces)
        count = max(own, default=NO_WORD) + 1
        first = begun - int(bool(begun and count and not gap))
        found.append([word if word == NO_WORD else first + word for word in own])
        begun = first + count
    return found


def pharaoh(found: Links) -> str:
    """Write links as Pharaoh, Moses and fast_align do: 0-0 1-2."""
    return " ".join(f"{source}-{target}" for source, target in found)


def of_pieces(pieces: Sequence[bytes], number: Callable[[str], Sequence[int]]) -> list[int]:
    """Tell for each piece the word that its first letter is in, or NO_WORD.

    `number` tells the word of each letter of a text.
    """
    text = b"".join(pieces).decode("utf-8", errors="surrogateescape")
    of_bytes: list[int] = []
    for letter, word in zip(text, number(text), strict=True):
        of_bytes.extend(repeat(word, len(letter.encode("utf-8", errors="surrogateescape"))))
    found = []
    begin = 0
    for piece in pieces:
        own = of_bytes[begin : begin + len(piece)]
        found.append(next((word for word in own if word != NO_WORD), NO_WORD))
        begin += len(piece)
    return found


def _between_spaces(text: str) -> list[int]:
    found: list[int] = []
    word, inside = NO_WORD, False
    for letter in text:
        word += int(not inside and not letter.isspace())
        inside = not letter.isspace()
        found.append(word if inside else NO_WORD)
    return found
