"""BPE with dropout for many words at once (Provilkov et al. 2020, "BPE-Dropout").

`tokenizers` has dropout too, but without a seed. Here the words are rows of arrays, and numpy
applies one merge to every row at a time. In shapes, R is the number of words and W the number of
symbols in each of them.

A "word" is a sequence of tokens whose symbols are never merged with those of other words. Any
segmentation of its bytes into tokens decodes to the same text.
"""

import contextlib
import functools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transduce.subwords.base import SPECIAL
from transduce.subwords.learned import Subwords

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

NONE = np.iinfo(np.int32).max  # the rank of a pair that has no merge
# The classes of characters that the rule for words distinguishes (`learned.WORDS`), as bits.
LETTER, MARK, NUMBER, OTHER = 1, 2, 4, 8
ANY = LETTER | MARK | NUMBER | OTHER
# A character of a class may be followed by one of these classes within a word.
FOLLOWED_BY = {
    LETTER: LETTER | MARK,
    MARK: LETTER | MARK,
    NUMBER: NUMBER,
    OTHER: OTHER | MARK,
    ANY: ANY,  # part of a character: its class is unknown
    0: 0,  # white space
}


@dataclass(frozen=True)
class Ragged:
    """Sequences of different lengths, one after another in one array."""

    flat: npt.NDArray[np.integer]
    offsets: Ints

    @classmethod
    def of(cls, flat: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]) -> "Ragged":
        """Return sequences with the given lengths."""
        return cls(flat, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    @functools.cached_property
    def lengths(self) -> Ints:
        """The length of each sequence."""
        return np.diff(self.offsets)

    def take(self, indices: npt.NDArray[np.integer]) -> "Ragged":
        """Return the sequences at the given indices."""
        lengths = self.lengths[indices]
        return Ragged.of(self.flat[ranges(self.offsets[indices], lengths)], lengths)


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return starts[0], starts[0] + 1, and so on, `lengths[0]` numbers; then those of starts[1]."""
    before = lengths.cumsum() - lengths
    numbers: Ints = np.arange(lengths.sum())
    numbers += np.repeat(starts - before, lengths)
    return numbers


class Merges:
    """The merges of BPE subwords, for words given as arrays."""

    def __init__(self, subwords: Subwords) -> None:
        assert subwords.kind == "bpe"
        self.size = len(subwords)
        ids = {name: number for number, name in enumerate(subwords.names)}
        merges = subwords.to_json()["model"]["merges"]
        pairs = np.array([(ids[a], ids[b]) for a, b in merges], np.int64).reshape(-1, 2)
        self.merged = np.array([ids[a + b] for a, b in merges], np.int32)  # by rank
        keys = pairs[:, 0] * self.size + pairs[:, 1]
        order = np.argsort(keys, kind="stable")
        # The last entry is for pairs after all others.
        self.keys = np.append(keys[order], self.size**2)
        self.order = np.append(order, NONE).astype(np.int32)
        # Special tokens, tags, markers, and any other without bytes of the alphabet, are symbols
        # themselves.
        symbols = [
            [ids[letter] for letter in name]
            if len(SPECIAL) <= number < subwords.first_tag and all(letter in ids for letter in name)
            else [number]
            for number, name in enumerate(subwords.names)
        ]
        self.symbols = Ragged.of(
            np.array([symbol for token in symbols for symbol in token], np.int32),
            np.array([len(token) for token in symbols]),
        )
        texts = subwords.piece_bytes(range(self.size))
        texts[: len(SPECIAL)] = [b""] * len(SPECIAL)
        # By token: the class of its first character, and the classes that may follow its last one.
        # A single space belongs to the word after it.
        self.begins = np.array([_first_class(text) for text in texts], np.uint8)
        self.followers = np.array(
            [ANY if text == b" " else FOLLOWED_BY[_last_class(text)] for text in texts], np.uint8
        )

    def joined(self, tokens: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return, for each token but the last, whether the next one belongs to the same word.

        This is the rule of `learned.WORDS` as far as two tokens tell. A boundary too many only
        makes for less variety. If one is missing, a merge may cross it; `Words` notices.
        """
        shared: npt.NDArray[np.uint8] = self.followers[tokens[:-1]] & self.begins[tokens[1:]]
        return shared.astype(bool)

    def decompose(self, tokens: npt.NDArray[np.integer]) -> Ids:
        """Return the symbols of all tokens, one after another."""
        return self.symbols.take(tokens).flat.astype(np.int32)

    def ranks(self, left: Ids, right: Ids) -> Ids:
        """Return the rank of the merge of each pair of symbols, or NONE."""
        wanted = left.astype(np.int64) * self.size + right
        places = np.searchsorted(self.keys, wanted)
        return np.where(self.keys[places] == wanted, self.order[places], NONE)

    def segment(
        self, symbols: Ids, ranks: Ids, p: float, random: np.random.Generator
    ) -> Iterator[tuple[Ints, Ids]]:
        """Merge words of W symbols; yield numbers of rows and their tokens, as (R, W) arrays.

        `ranks` has the rank of each pair of neighbours. At each step, each possible merge is
        dropped with probability p. The first of the remaining ones is applied, the leftmost of
        equal rank. A word is finished when none remains.
        """
        rows = np.arange(len(symbols))
        while len(rows) and ranks.shape[1]:
            candidates = ranks
            if p:
                kept = random.random(ranks.shape, np.float32) >= p
                candidates = np.where(kept, ranks, NONE)
            best = candidates.argmin(axis=1)
            rank = candidates[np.arange(len(rows)), best]
            going = rank != NONE
            if not going.all():
                yield rows[~going], symbols[~going]
                rows, symbols, ranks = rows[going], symbols[going], ranks[going]
                best, rank = best[going], rank[going]
            symbols, ranks = self._merge(symbols, ranks, best, self.merged[rank])
        if len(rows):
            yield rows, symbols

    def _merge(self, symbols: Ids, ranks: Ids, best: Ints, merged: Ids) -> tuple[Ids, Ids]:
        """Merge the symbols at `best` and `best + 1` in each row."""
        count, width = len(symbols), symbols.shape[1] - 1
        rows = np.arange(count)
        keep = np.ones(symbols.shape, dtype=bool)
        keep[rows, best + 1] = False
        symbols = symbols[keep].reshape(count, width)
        symbols[rows, best] = merged
        keep = np.ones(ranks.shape, dtype=bool)
        keep[rows, best] = False
        ranks = ranks[keep].reshape(count, width - 1)
        # Only the pairs with the symbol before and the one after have changed.
        for place in (best - 1, best):
            exists = np.flatnonzero((place >= 0) & (place < width - 1))
            pair = place[exists]
            ranks[exists, pair] = self.ranks(symbols[exists, pair], symbols[exists, pair + 1])
        return symbols, ranks


def _first_class(text: bytes) -> int:
    """Return the class of the first character; ANY if the text begins within a character."""
    for end in range(1, min(4, len(text)) + 1):
        with contextlib.suppress(UnicodeDecodeError):
            return _character_class(text[:end].decode())
    return ANY if text else 0


def _last_class(text: bytes) -> int:
    """Return the class of the last character; ANY if the text ends within a character."""
    for begin in range(1, min(4, len(text)) + 1):
        with contextlib.suppress(UnicodeDecodeError):
            return _character_class(text[-begin:].decode())
    return ANY if text else 0


def _character_class(character: str) -> int:
    if character.isspace():
        return 0
    classes = {"L": LETTER, "M": MARK, "N": NUMBER}
    return classes.get(unicodedata.category(character)[0], OTHER)
