"""Packed batches of one shape, so that a pass can be captured as a CUDA graph.

Sentences are in the same order on both sides. The rest of each side is padding: it attends to
nothing, nothing attends to it, and it has no loss.
"""

import copy
from collections.abc import Iterator
from typing import Self

import numpy as np
import torch

from transduce.batching.packed import Batch, Ints, positions, unflatten
from transduce.corpus.token_files import Side, Split
from transduce.corpus.updates import balance, cut
from transduce.subwords import BOS, PAD

GRAIN = 128  # kernels work in tiles, so capacities are multiples of this (less in small batches)


class PackedLayout:
    """Packed batches of one shape, with a capacity for each side."""

    def __init__(self, part: Split, batch_tokens: int, count: int = 1, *, longest: int) -> None:
        """Choose the capacities; no sentence is longer than `longest`."""
        self.part, self.batch_tokens = part, batch_tokens
        # The side with fewer tokens in total gets a smaller capacity, so that both fill up
        # together.
        tokens = np.array([len(part.source.tokens), len(part.target.tokens)])
        grain = GRAIN
        while grain > 8 and grain > batch_tokens // 256:
            grain //= 2
        whole = np.maximum(batch_tokens * tokens // tokens.max() // grain * grain, longest)
        self.limits = int(whole[0]), int(whole[1])  # tokens per update
        # Micro-batches get a little more than their share, to avoid one more for the remainder.
        spare = 1.02 * whole / count + grain if count > 1 else whole
        places = np.maximum(-(-spare // grain) * grain, longest)
        self.places = int(places[0]), int(places[1])  # tokens per batch, including padding

    def on(self, part: Split) -> Self:
        """Return a layout with the same capacities for another encoding of the sentences."""
        layout = copy.copy(self)
        layout.part = part
        return layout

    def updates(self, random: np.random.Generator, sentences: Ints | None = None) -> list[Ints]:
        """Divide training sentences (default: all) into updates, in random order."""
        lengths = self.part.source.lengths, self.part.target.lengths
        return balance(*lengths, self.batch_tokens, self.limits, random, sentences)

    def micro_batches(self, sentences: Ints) -> list[Ints]:
        """Cut an update into micro-batches."""
        source, target = (side.lengths_of(sentences) for side in _sides(self.part))
        pieces = cut(np.arange(len(sentences)), source, target, self.places)
        return [sentences[piece] for piece in pieces]

    def batch(self, sentences: Ints) -> Batch:
        """Lay out the sentences of a micro-batch."""
        return pack(self.part, sentences, self.places)

    def evaluation_batches(self, part: Split) -> Iterator[Batch]:
        """Yield batches that cover a split once, with similar lengths together."""
        source, target = part.source.lengths, part.target.lengths
        order = np.argsort(source + target, kind="stable")
        for sentences in cut(order, source, target, self.places):
            yield pack(part, sentences, self.places)


def pack(part: Split, sentences: Ints, places: tuple[int, int]) -> Batch:
    """Lay out sentences from a split, padded to `places` source and target tokens."""
    sides = [
        _Side(side, sentences, count) for side, count in zip(_sides(part), places, strict=True)
    ]
    source, target = sides
    inputs = np.full(target.places, PAD, dtype=np.int64)
    inputs[1:] = target.tokens[:-1]
    inputs[target.begins] = BOS
    inputs[target.end :] = PAD
    token = np.arange(target.places)
    causal = np.where(token < target.end, token, target.end)
    rows = [
        *(source.tokens, source.positions),
        *source.first_last(source),  # the same for queries and keys
        *source.first_last(target),
        *(inputs, target.positions, target.tokens),
        *target.first_last(target),
        np.minimum(causal + 1, target.end),  # 3.2.3: no token attends to a later one
        causal,
        *target.first_last(source),
    ]
    flat = torch.from_numpy(np.concatenate(rows).astype(np.int32))
    return unflatten(flat, places, sentences, (source.end, target.end))


def _sides(part: Split) -> tuple[Side, Side]:
    return part.source, part.target


class _Side:
    """One side of a batch as arrays, with padding."""

    def __init__(self, side: Side, sentences: Ints, places: int) -> None:
        tokens, self.lengths = side.take(sentences)
        self.places, self.end = places, len(tokens)
        self.begins = self.lengths.cumsum() - self.lengths
        self.tokens = self._pad(tokens.astype(np.int64), PAD)
        self.positions = self._pad(positions(self.lengths), 0)

    def first_last(self, other: "_Side") -> tuple[Ints, Ints]:
        """Return, for each token, the range of its sentence in `other`."""
        first = np.repeat(other.begins, self.lengths)
        last = np.repeat(other.begins + other.lengths, self.lengths)
        return self._pad(first, other.end), self._pad(last, other.end)

    def _pad(self, values: Ints, value: int) -> Ints:
        return np.pad(values, (0, self.places - self.end), constant_values=value)
