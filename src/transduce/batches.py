"""From a corpus to packed batches: flat runs of tokens, similar lengths together.

S sentences of a batch, T tokens of one side.

The order of an epoch follows from the seed and the epoch's number alone, so a place in the data is
two numbers, and resuming is exact whatever came before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.corpus import Part
from transduce.errors import BadRun
from transduce.subwords import BOS

Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.integer[Any]]

POOL = 200  # batches whose sentences are sorted together: equal lengths meet, order stays random


@dataclass(frozen=True, slots=True)
class SelfView:
    """Who meets whom in self-attention: each sentence itself, equal lengths side by side."""

    groups: tuple[tuple[int, int], ...]  # (sentences, length of each), in the order of the run

    @classmethod
    def of(cls, lengths: Ints) -> "SelfView":
        """Make the view of a run whose sentences have these lengths, shortest first."""
        values, counts = np.unique(lengths, return_counts=True)
        return cls(tuple(zip(counts.tolist(), values.tolist(), strict=True)))


class CrossGroup(NamedTuple):
    """Sentences with equally many queries."""

    sentences: int
    queries: int  # of each sentence
    keys: int  # of the sentence that has most
    padded: bool  # whether any has fewer


@dataclass(frozen=True, slots=True)
class CrossView:
    """Who meets whom between two runs: every query of a sentence, every key of its source.

    Queries stand in groups of equal length. Keys are laid out in rows, one a sentence in the order
    of the queries, padded to the longest: `index` says which token of the source run stands where,
    `place` where each token of the run went, `real` which are no padding.
    """

    groups: tuple[CrossGroup, ...]
    index: Tensor  # (S, K)
    place: Tensor  # (T,) into the flattened rows
    real: Tensor  # (S, K)

    @classmethod
    def of(cls, *, queries: Ints, keys: Ints, rows: Ints) -> "CrossView":
        """Make the view: `queries` a sentence, `keys` a source, `rows` the source of a sentence."""
        lengths = keys[rows]  # (S,)
        begins = (keys.cumsum() - keys)[rows]
        columns = np.arange(lengths.max())
        real = columns < lengths[:, None]  # (S, K)
        index = np.where(real, begins[:, None] + columns, 0)
        place = np.empty(int(keys.sum()), dtype=np.int64)
        place[index[real]] = np.flatnonzero(real)
        cuts = np.flatnonzero(np.diff(queries)) + 1
        groups = tuple(
            CrossGroup(len(own), of_each, int(own.max()), padded=bool(own.min() < own.max()))
            for own, of_each in zip(
                np.split(lengths, cuts), queries[np.r_[0, cuts]].tolist(), strict=True
            )
        )
        return cls(groups, *map(torch.from_numpy, (index, place, real)))

    def to(self, device: torch.device) -> "CrossView":
        """Move to a device."""
        moved = (
            tensor.to(device, non_blocking=True) for tensor in (self.index, self.place, self.real)
        )
        return CrossView(self.groups, *moved)


@dataclass(frozen=True, slots=True)
class Run:
    """Sentences of one side laid end to end, with what attention must know of where they begin."""

    tokens: Tensor  # (T,)
    positions: Tensor  # (T,) each token's place in its sentence, from 0
    view: SelfView

    def to(self, device: torch.device) -> "Run":
        """Move to a device."""
        tokens = self.tokens.to(device, non_blocking=True)
        return Run(tokens, self.positions.to(device, non_blocking=True), self.view)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one forward and backward pass sees.

    The two sides are sorted each by its own lengths, so that self-attention meets runs of equal
    length; `cross` knows which source belongs to which target.
    """

    source: Run
    target: Run  # the decoder's input: <s> and all but the last token
    labels: Tensor  # (T,) the decoder's answer: all tokens, </s> the last
    cross: CrossView
    order: Ints  # the sentences' numbers in the order of the target side

    @property
    def target_tokens(self) -> int:
        """The number of tokens that have a loss."""
        return self.labels.numel()

    def to(self, device: torch.device) -> "Batch":
        """Move to a device."""
        return Batch(
            self.source.to(device),
            self.target.to(device),
            self.labels.to(device, non_blocking=True),
            self.cross.to(device),
            self.order,
        )


def pack(sentences: Sequence[Tokens]) -> Run:
    """Lay sentences end to end; they must be sorted by length."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    tokens = np.concatenate(sentences).astype(np.int64)
    return Run(
        torch.from_numpy(tokens), torch.from_numpy(_positions(lengths)), SelfView.of(lengths)
    )


def make_batch(pairs: Sequence[tuple[Tokens, Tokens]]) -> Batch:
    """Pack pairs of token lists (each ending in </s>) into a batch."""
    source_lengths = np.array([len(source) for source, _ in pairs])
    target_lengths = np.array([len(target) for _, target in pairs])
    by_source = np.argsort(source_lengths, kind="stable")
    by_target = np.lexsort((source_lengths, target_lengths))  # by target, then by source
    rank = np.empty_like(by_source)
    rank[by_source] = np.arange(len(pairs))  # where a pair's source stands in the packed run
    source = pack([pairs[i][0] for i in by_source])
    target = pack([pairs[i][1] for i in by_target])
    labels = target.tokens
    inputs = torch.empty_like(labels)
    inputs[1:] = labels[:-1]
    inputs[target.positions == 0] = BOS
    cross = CrossView.of(
        queries=target_lengths[by_target],
        keys=source_lengths[by_source],
        rows=rank[by_target],
    )
    return Batch(source, Run(inputs, target.positions, target.view), labels, cross, by_target)


@dataclass(frozen=True, slots=True)
class Place:
    """The next batch to be read: its epoch and its number within it, both from 0."""

    epoch: int = 0
    batch: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the place as a JSON object."""
        return {"epoch": self.epoch, "batch": self.batch}

    @classmethod
    def from_json(cls, value: Any) -> "Place":
        """Read a place, or say what is wrong with it."""
        match value:
            case {"epoch": int(epoch), "batch": int(batch)} if epoch >= 0 and batch >= 0:
                return cls(epoch, batch)
        raise BadRun(f"the place in the data is damaged: {value!r}")


class Batches:
    """An endless stream of batches that knows its place.

    Process `rank` of `world` takes every world-th batch of the one stream that all of them share,
    so no pair is seen by two of them.
    """

    def __init__(
        self,
        part: Part,
        *,
        batch_tokens: int,
        seed: int,
        place: Place = Place(),  # noqa: B008  (frozen)
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.part = part
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.place = place
        self.rank = rank
        self.world = world
        self._epoch = -1
        self._groups: list[Ints] = []

    def __iter__(self) -> Iterator[Batch]:
        """Return itself: the stream has no end."""
        return self

    def __next__(self) -> Batch:
        """Return this process's next batch; the place moves past those of all processes."""
        for _ in range(self.rank):
            self._advance()
        indices = self._groups_of(self.place.epoch)[self.place.batch]
        for _ in range(self.world - self.rank):
            self._advance()
        return make_batch([self.part.pair(int(i)) for i in indices])

    def batches_per_epoch(self) -> int:
        """Return how many batches the current epoch has."""
        return len(self._groups_of(self.place.epoch))

    def _advance(self) -> None:
        if self.place.batch + 1 < len(self._groups_of(self.place.epoch)):
            self.place = Place(self.place.epoch, self.place.batch + 1)
        else:
            self.place = Place(self.place.epoch + 1, 0)

    def _groups_of(self, epoch: int) -> list[Ints]:
        if epoch != self._epoch:
            random = np.random.default_rng([self.seed, epoch])
            self._groups = group(
                self.part.source.lengths, self.part.target.lengths, self.batch_tokens, random
            )
            self._epoch = epoch
        return self._groups


def group(source: Ints, target: Ints, batch_tokens: int, random: np.random.Generator) -> list[Ints]:
    """Deal all sentences into batches of at most `batch_tokens` on each side, in random order.

    Shuffled sentences are sorted by length in pools of many batches (paper 5.1: "batched together
    by approximate sequence length"); the batches are shuffled again. A sentence longer than
    `batch_tokens` makes a batch of its own.
    """
    shuffled = random.permutation(len(source))
    tokens = np.maximum(source, target)[shuffled].cumsum()
    pools = np.split(shuffled, np.flatnonzero(np.diff(tokens // (POOL * batch_tokens))) + 1)
    groups = []
    for pool in pools:
        ordered = pool[np.lexsort((source[pool], target[pool]))]
        groups += _cut(ordered, source, target, batch_tokens)
    return [groups[i] for i in random.permutation(len(groups))]


def in_order(part: Part, batch_tokens: int) -> Iterator[Batch]:
    """Pass once over a part, similar lengths together: for evaluation."""
    source, target = part.source.lengths, part.target.lengths
    for indices in _cut(np.lexsort((source, target)), source, target, batch_tokens):
        yield make_batch([part.pair(int(i)) for i in indices])


def _cut(ordered: Ints, source: Ints, target: Ints, batch_tokens: int) -> list[Ints]:
    """Cut a run of sentences wherever one more would overfill either side."""
    totals = np.stack([source[ordered], target[ordered]]).cumsum(axis=1)  # (2, S)
    cuts, begin = [], 0
    used = np.zeros((2, 1), dtype=np.int64)
    while begin < len(ordered):
        # Both sides' totals only grow, so the first overfull sentence is found by bisection.
        end = min(
            int(np.searchsorted(side, base + batch_tokens, side="right"))
            for side, base in zip(totals, used[:, 0], strict=True)
        )
        end = max(end, begin + 1)
        cuts.append(ordered[begin:end])
        used = totals[:, end - 1 : end]
        begin = end
    return cuts


def _positions(lengths: Ints) -> Ints:
    begins = np.repeat(lengths.cumsum() - lengths, lengths)
    return np.arange(lengths.sum()) - begins
