"""Which sentences form an update of the weights, and how they are cut into batches.

Which sentences those are follows from the seed, the epoch and `batch_tokens` alone, so a place in
the data is two numbers, and resuming is exact whatever came before. Into how many pieces an update
is cut, to fit into memory or to be dealt among processes, changes nothing of what is learned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from transduce.batching.packed import Batch, Ints, make_batch
from transduce.corpus.token_files import Part
from transduce.errors import BadRun

POOL = 200  # batches whose sentences are sorted together: equal lengths meet, order stays random


@dataclass(frozen=True, slots=True)
class Place:
    """The next update to be made: its epoch and its number within it, both from 0."""

    epoch: int = 0
    update: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the place as a JSON object."""
        return {"epoch": self.epoch, "update": self.update}

    @classmethod
    def from_json(cls, value: Any) -> "Place":
        """Read a place, or say what is wrong with it."""
        match value:
            case {"epoch": int(epoch), "update": int(update)} if epoch >= 0 and update >= 0:
                return cls(epoch, update)
        raise BadRun(f"the place in the data is damaged: {value!r}")


class Layout(Protocol):
    """How sentences are dealt into updates and laid out, to suit the kernels of a device."""

    def updates(self, random: np.random.Generator) -> list[Ints]:
        """Deal all sentences to learn from into updates, in random order."""

    def pieces(self, sentences: Ints) -> list[Ints]:
        """Cut an update into pieces of about equal size."""

    def batch(self, sentences: Ints) -> Batch:
        """Lay out the sentences of a piece."""

    def once(self, part: Part) -> Iterator[Batch]:
        """Pass once over a part, similar lengths together: for evaluation."""


class Grouped:
    """Batches for kernels that take rows of equal length: no filler, a new shape each time."""

    def __init__(
        self, part: Part, batch_tokens: int, pieces: int = 1, *, like: Layout | None = None
    ) -> None:
        """Lay out so; sentences are dealt into updates as in `like`, if that is given."""
        self.part, self.batch_tokens, self.count = part, batch_tokens, pieces
        self.lengths = part.source.lengths, part.target.lengths
        self.like = like

    def updates(self, random: np.random.Generator) -> list[Ints]:
        """Deal all sentences to learn from into updates, in random order."""
        if self.like is not None:
            return self.like.updates(random)
        return group(*self.lengths, self.batch_tokens, random)

    def pieces(self, sentences: Ints) -> list[Ints]:
        """Cut an update into at most `count` pieces of about equal size."""
        lengths = np.maximum(*(side[sentences] for side in self.lengths))
        middles = lengths.cumsum() - lengths / 2
        piece = (middles * self.count / lengths.sum()).astype(np.int64)
        return np.split(sentences, np.flatnonzero(np.diff(piece)) + 1)

    def batch(self, sentences: Ints) -> Batch:
        """Lay out the sentences of a piece."""
        return make_batch([self.part.pair(int(i)) for i in sentences])

    def once(self, part: Part) -> Iterator[Batch]:
        """Pass once over a part, similar lengths together: for evaluation."""
        source, target = part.source.lengths, part.target.lengths
        limit = self.batch_tokens // self.count  # what fits into memory
        for indices in cut(np.lexsort((source, target)), source, target, (limit, limit)):
            yield make_batch([part.pair(int(i)) for i in indices])


class Updates:
    """An endless stream of updates, each the numbers of its sentences, that knows its place."""

    def __init__(self, layout: Layout, *, seed: int, place: Place = Place()) -> None:  # noqa: B008  (frozen)
        self.layout = layout
        self.seed = seed
        self.place = place
        self._epoch = -1
        self._updates: list[Ints] = []
        if place.update and place.update >= self.per_epoch():  # another device had more of them
            self.place = Place(place.epoch + 1)

    def __iter__(self) -> Iterator[Ints]:
        """Return itself: the stream has no end."""
        return self

    def __next__(self) -> Ints:
        """Return the sentences of the next update."""
        epoch, number = self.place.epoch, self.place.update
        updates = self._of(epoch)
        last = number + 1 == len(updates)
        self.place = Place(epoch + 1, 0) if last else Place(epoch, number + 1)
        return updates[number]

    def per_epoch(self) -> int:
        """Return how many updates the current epoch has."""
        return len(self._of(self.place.epoch))

    def _of(self, epoch: int) -> list[Ints]:
        if epoch != self._epoch:
            self._updates = self.layout.updates(np.random.default_rng([self.seed, epoch]))
            self._epoch = epoch
        return self._updates


def pools(tokens: Ints, batch_tokens: int, random: np.random.Generator) -> list[Ints]:
    """Shuffle sentences, and part them into pools that make `POOL` batches each."""
    shuffled = random.permutation(len(tokens))
    total = tokens[shuffled].cumsum()
    return np.split(shuffled, np.flatnonzero(np.diff(total // (POOL * batch_tokens))) + 1)


def group(source: Ints, target: Ints, batch_tokens: int, random: np.random.Generator) -> list[Ints]:
    """Deal all sentences into batches of at most `batch_tokens` on each side, in random order.

    Shuffled sentences are sorted by length in pools of many batches (paper 5.1: "batched together
    by approximate sequence length"); the batches are shuffled again. A sentence longer than
    `batch_tokens` makes a batch of its own.
    """
    groups = []
    for pool in pools(np.maximum(source, target), batch_tokens, random):
        ordered = pool[np.lexsort((source[pool], target[pool]))]
        groups += cut(ordered, source, target, (batch_tokens, batch_tokens))
    return [groups[i] for i in random.permutation(len(groups))]


def cut(ordered: Ints, source: Ints, target: Ints, limits: tuple[int, int]) -> list[Ints]:
    """Cut a run of sentences wherever one more would overfill either side."""
    totals = np.stack([source[ordered], target[ordered]]).cumsum(axis=1)  # (2, S)
    cuts, begin = [], 0
    used = np.zeros((2, 1), dtype=np.int64)
    while begin < len(ordered):
        # Both sides' totals only grow, so the first overfull sentence is found by bisection.
        end = min(
            int(np.searchsorted(side, base + limit, side="right"))
            for side, base, limit in zip(totals, used[:, 0], limits, strict=True)
        )
        end = max(end, begin + 1)
        cuts.append(ordered[begin:end])
        used = totals[:, end - 1 : end]
        begin = end
    return cuts
