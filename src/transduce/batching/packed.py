"""Packed batches: flat runs of tokens. S sentences of a batch, T tokens of one side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.subwords import BOS

Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.integer[Any]]


def reach(r: int, *, causal: bool = False) -> tuple[int, int]:
    """Return how many tokens before and after its own are in a neighbourhood of r (paper 4).

    Differs: the paper says "centred"; of an even r the one more stands before. What is causal has
    the half before its own.
    """
    return r // 2, 0 if causal else (r - 1) // 2


@dataclass(frozen=True, slots=True)
class LengthGroups:
    """Who meets whom in self-attention: each sentence itself, equal lengths side by side."""

    groups: tuple[tuple[int, int], ...]  # (sentences, length of each), in the order of the run

    @classmethod
    def of(cls, lengths: Ints) -> "LengthGroups":
        """Make the view of a run whose sentences have these lengths, shortest first."""
        values, counts = np.unique(lengths, return_counts=True)
        return cls(tuple(zip(counts.tolist(), values.tolist(), strict=True)))


class KeyRanges(NamedTuple):
    """Who meets whom in a run with filler: each query sees one range of keys.

    So each key is seen by one range of queries. Both ranges only ever grow along their runs; those
    of filler are empty.
    """

    first: Tensor  # (queries,)
    last: Tensor  # (queries,) one past it
    seen_first: Tensor  # (keys,)
    seen_last: Tensor  # (keys,)

    def around(self, r: int) -> "KeyRanges":
        """Narrow those of a run that sees itself to the r tokens around each (paper 4)."""
        before, after = reach(r)
        own = torch.arange(len(self.first), dtype=self.first.dtype, device=self.first.device)
        return KeyRanges(
            torch.maximum(self.first, own - before),
            torch.minimum(self.last, own + after + 1),
            torch.maximum(self.seen_first, own - after),
            torch.minimum(self.seen_last, own + before + 1),
        )


class CrossGroup(NamedTuple):
    """Sentences with equally many queries."""

    sentences: int
    queries: int  # of each sentence
    keys: int  # of the sentence that has most
    padded: bool  # whether any has fewer


@dataclass(frozen=True, slots=True)
class SourceRows:
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
    def of(cls, *, queries: Ints, keys: Ints, rows: Ints) -> "SourceRows":
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

    def to(self, device: torch.device) -> "SourceRows":
        """Move to a device."""
        moved = (_moved(tensor, device) for tensor in (self.index, self.place, self.real))
        return SourceRows(self.groups, *moved)


@dataclass(frozen=True, slots=True)
class PackedTokens:
    """Sentences of one side laid end to end, with what attention must know of where they begin."""

    tokens: Tensor  # (T,)
    positions: Tensor  # (T,) each token's place in its sentence, from 0
    segments: LengthGroups | KeyRanges

    def to(self, device: torch.device) -> "PackedTokens":
        """Move to a device."""
        return PackedTokens(
            _moved(self.tokens, device), _moved(self.positions, device), self.segments
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """What one forward and backward pass sees.

    As `Grouped` lays it out, the two sides are sorted each by its own lengths, so that
    self-attention meets runs of equal length, and `cross` knows which source belongs to which
    target. As `Packed` does, both sides have the same order, and filler behind it.
    """

    source: PackedTokens
    target: PackedTokens  # the decoder's input: <s> and all but the last token
    labels: Tensor  # (T,) the decoder's answer: all tokens, </s> the last; <pad> where filler is
    cross: SourceRows | KeyRanges
    order: Ints  # the sentences' numbers in the order of the target side
    used: tuple[int, int]  # places that hold no filler, of the source and of the target
    flat: Tensor | None = None  # where all tensors are views of this one

    @property
    def target_tokens(self) -> int:
        """The number of tokens that have a loss."""
        return self.used[1]

    @property
    def places(self) -> tuple[int, int]:
        """The number of tokens that the model works on, of the source and of the target."""
        return self.source.tokens.numel(), self.labels.numel()

    def to(self, device: torch.device) -> "Batch":
        """Move to a device."""
        if self.flat is not None:
            return unflatten(_moved(self.flat, device), self.places, self.order, self.used)
        assert isinstance(self.cross, SourceRows)
        return Batch(
            self.source.to(device),
            self.target.to(device),
            _moved(self.labels, device),
            self.cross.to(device),
            self.order,
            self.used,
        )

    def pinned(self) -> "Batch":  # pragma: no cover  (it takes a GPU: tests/gpu/test_gpu.py)
        """Move to memory that a GPU can read while the processor goes on."""
        if self.flat is None:
            return self
        return unflatten(self.flat.pin_memory(), self.places, self.order, self.used)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor; nobody waits for CUDA, which alone keeps what it copies until it has it."""
    return tensor.to(device, non_blocking=device.type == "cuda")


def unflatten(flat: Tensor, places: tuple[int, int], order: Ints, used: tuple[int, int]) -> Batch:
    """Make a batch with filler of its one tensor: so it travels to a device in one copy."""
    S, T = places
    source, source_positions, first, last, seen_first, seen_last = flat[: 6 * S].view(6, S).unbind()
    target, target_positions, labels, begin, end, past, own, sees_first, sees_last = (
        flat[6 * S :].view(9, T).unbind()
    )
    return Batch(
        PackedTokens(source, source_positions, KeyRanges(first, last, first, last)),
        PackedTokens(target, target_positions, KeyRanges(begin, past, own, end)),
        labels,
        KeyRanges(sees_first, sees_last, seen_first, seen_last),
        order,
        used,
        flat,
    )


def pack(sentences: Sequence[Tokens]) -> PackedTokens:
    """Lay sentences end to end; they must be sorted by length."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    tokens = np.concatenate(sentences).astype(np.int64)
    return PackedTokens(
        torch.from_numpy(tokens), torch.from_numpy(positions(lengths)), LengthGroups.of(lengths)
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
    cross = SourceRows.of(
        queries=target_lengths[by_target],
        keys=source_lengths[by_source],
        rows=rank[by_target],
    )
    used = source.tokens.numel(), labels.numel()
    return Batch(
        source,
        PackedTokens(inputs, target.positions, target.segments),
        labels,
        cross,
        by_target,
        used,
    )


def positions(lengths: Ints) -> Ints:
    """Return each token's place in its sentence, from 0."""
    begins = np.repeat(lengths.cumsum() - lengths, lengths)
    return np.arange(lengths.sum()) - begins
