"""Word alignment from the decoder's attention. T target words, S source words.

Words are separated by white space, as in `str.split`. A link is a pair of word indices (source,
target), counted from 0. Links are in target order, as fast_align writes them.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

Links = tuple[tuple[int, int], ...]
NO_WORD = -1  # the word index of a subword that is only white space


def link_words(
    weights: npt.NDArray[np.float32], source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int]]:
    """Link each target word to the source word that it attends to most.

    `weights` is the attention of target subwords (rows) to source subwords (columns), with or
    without </s>; `source` and `target` give the word index of each subword. Attention to the
    subwords of a source word is summed; attention from the subwords of a target word is averaged.
    """
    weights = weights[: len(target), : len(source)].astype(np.float64)
    rows, columns = np.array(target, dtype=int), np.array(source, dtype=int)
    words = np.unique(columns[columns != NO_WORD])
    if not len(words):
        return []
    received = weights @ (columns[:, None] == words)  # (target subwords, S)
    return [
        (int(words[received[rows == word].mean(0).argmax()]), int(word))
        for word in np.unique(rows[rows != NO_WORD])
    ]


def word_indices(units: Iterable[Sequence[bytes]], gaps: Iterable[str]) -> list[list[int]]:
    """Return the word index, or NO_WORD, of each subword in a text.

    The text consists of units, such as sentences. Each unit is given as its subwords; `gaps` has
    the white space before each unit. Without white space, a unit continues the previous unit's last
    word.
    """
    indices = []
    words_before = 0
    for pieces, gap in zip(units, gaps, strict=True):
        within = piece_words(pieces, words_of_characters)
        count = max(within, default=NO_WORD) + 1
        first = words_before - int(bool(words_before and count and not gap))
        indices.append([word if word == NO_WORD else first + word for word in within])
        words_before = first + count
    return indices


def to_pharaoh(links: Links) -> str:
    """Write links as Pharaoh, Moses and fast_align do: 0-0 1-2."""
    return " ".join(f"{source}-{target}" for source, target in links)


def piece_words(pieces: Sequence[bytes], number: Callable[[str], Sequence[int]]) -> list[int]:
    """Return for each subword the index of the word that contains its first character, or NO_WORD.

    `number` returns the word index of each character in a text.
    """
    text = b"".join(pieces).decode("utf-8", errors="surrogateescape")
    byte_words: list[int] = []
    for character, word in zip(text, number(text), strict=True):
        byte_words.extend(repeat(word, len(character.encode("utf-8", errors="surrogateescape"))))
    indices = []
    begin = 0
    for piece in pieces:
        words = byte_words[begin : begin + len(piece)]
        indices.append(next((word for word in words if word != NO_WORD), NO_WORD))
        begin += len(piece)
    return indices


def words_of_characters(text: str) -> list[int]:
    """Return the word index of each character, or NO_WORD for white space."""
    indices: list[int] = []
    word, inside = NO_WORD, False
    for character in text:
        word += int(not inside and not character.isspace())
        inside = not character.isspace()
        indices.append(word if inside else NO_WORD)
    return indices
