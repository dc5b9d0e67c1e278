"""Layouts: how the sentences of an update become batches that suit the kernels of a device.

Cutting an update into micro-batches, to fit into memory or to share it among processes, does not
change what is learned.
"""

from collections.abc import Iterator
from typing import Protocol, Self

import numpy as np

from transduce.batching.packed import Batch, Ints, make_batch
from transduce.corpus.token_files import Split
from transduce.corpus.updates import cut, group


class Layout(Protocol):
    """Divides sentences into updates and lays them out as batches."""

    def on(self, part: Split) -> Self:
        """Return the same layout for another encoding of the training sentences."""

    def updates(self, random: np.random.Generator, sentences: Ints | None = None) -> list[Ints]:
        """Divide training sentences (default: all) into updates, in random order."""

    def micro_batches(self, sentences: Ints) -> list[Ints]:
        """Cut an update into micro-batches of about equal size."""

    def batch(self, sentences: Ints) -> Batch:
        """Lay out the sentences of a micro-batch."""

    def evaluation_batches(self, part: Split) -> Iterator[Batch]:
        """Yield batches that cover a split once, with similar lengths together."""


class GroupedLayout:
    """Batches for kernels that take rows of equal length: no padding, a new shape each time."""

    def __init__(
        self, part: Split, batch_tokens: int, count: int = 1, *, updates_of: Layout | None = None
    ) -> None:
        """Cut updates into `count` micro-batches; use the updates of a given layout, if any."""
        self.part, self.batch_tokens, self.count = part, batch_tokens, count
        self.updates_of = updates_of

    def on(self, part: Split) -> Self:
        """Return the same layout for another encoding of the training sentences."""
        updates_of = self.updates_of and self.updates_of.on(part)
        return type(self)(part, self.batch_tokens, self.count, updates_of=updates_of)

    def updates(self, random: np.random.Generator, sentences: Ints | None = None) -> list[Ints]:
        """Divide training sentences (default: all) into updates, in random order."""
        if self.updates_of is not None:
            return self.updates_of.updates(random, sentences)
        lengths = self.part.source.lengths, self.part.target.lengths
        return group(*lengths, self.batch_tokens, random, sentences)

    def micro_batches(self, sentences: Ints) -> list[Ints]:
        """Cut an update into at most `count` micro-batches of about equal size."""
        lengths = np.maximum(
            self.part.source.lengths_of(sentences), self.part.target.lengths_of(sentences)
        )
        middles = lengths.cumsum() - lengths / 2
        numbers = (middles * self.count / lengths.sum()).astype(np.int64)
        return np.split(sentences, np.flatnonzero(np.diff(numbers)) + 1)

    def batch(self, sentences: Ints) -> Batch:
        """Lay out the sentences of a micro-batch."""
        return make_batch([self.part.pair(int(i)) for i in sentences])

    def evaluation_batches(self, part: Split) -> Iterator[Batch]:
        """Yield batches that cover a split once, with similar lengths together."""
        source, target = part.source.lengths, part.target.lengths
        limit = self.batch_tokens // self.count  # fits into memory
        for sentences in cut(np.lexsort((source, target)), source, target, (limit, limit)):
            yield make_batch([part.pair(int(i)) for i in sentences])
