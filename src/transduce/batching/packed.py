"""Batches of packed tokens: sentences end to end. S sentences per batch, T tokens per side."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.subwords import BOS, EOS

Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class LengthGroups:
    """Sentence boundaries of packed tokens that are sorted by length: groups of equal length."""

    groups: tuple[tuple[int, int], ...]  # (sentences, length of each), in the order of the tokens

    @classmethod
    def of(cls, lengths: Ints) -> "LengthGroups":
        """Create the groups for sentences with these lengths, shortest first."""
        values, counts = np.unique(lengths, return_counts=True)
        return cls(tuple(zip(counts.tolist(), values.tolist(), strict=True)))


class KeyRanges(NamedTuple):
    """Attention ranges: query i attends to keys first[i]:last[i].

    Conversely, key j is attended to by the queries seen_first[j]:seen_last[j]. Both kinds of ranges
    are non-decreasing; the ranges of padding are empty.
    """

    first: Tensor  # (queries,)
    last: Tensor  # (queries,)
    seen_first: Tensor  # (keys,)
    seen_last: Tensor  # (keys,)


class CrossGroup(NamedTuple):
    """Sentences with the same number of queries."""

    sentences: int
    queries: int  # per sentence
    keys: int  # in the longest source
    padded: bool  # whether any source is shorter


@dataclass(frozen=True, slots=True)
class SourceRows:
    """How packed source tokens are laid out in padded rows for cross-attention.

    One row per target sentence, in the order of the targets, which form groups of equal length.
    """

    groups: tuple[CrossGroup, ...]
    index: Tensor  # (S, K) index of the source token at each place in the rows; 0 for padding
    place: Tensor  # (T,) the place of each source token in the flattened rows
    real: Tensor  # (S, K) False for padding

    @classmethod
    def of(cls, *, queries: Ints, keys: Ints, rows: Ints) -> "SourceRows":
        """Lay out sources with `keys` tokens: target i has queries[i] tokens and source rows[i]."""
        lengths = keys[rows]  # (S,)
        begins = (keys.cumsum() - keys)[rows]
        columns = np.arange(lengths.max())
        real = columns < lengths[:, None]  # (S, K)
        index = np.where(real, begins[:, None] + columns, 0)
        place = np.empty(int(keys.sum()), dtype=np.int64)
        place[index[real]] = np.flatnonzero(real)
        cuts = np.flatnonzero(np.diff(queries)) + 1
        groups = tuple(
            CrossGroup(len(sources), count, int(sources.max()), padded=bool(np.ptp(sources)))
            for sources, count in zip(
                np.split(lengths, cuts), queries[np.r_[0, cuts]].tolist(), strict=True
            )
        )
        return cls(groups, *map(torch.from_numpy, (index, place, real)))

    def to(self, device: torch.device) -> "SourceRows":
        """Move to a device."""
        tensors = (self.index, self.place, self.real)
        return SourceRows(self.groups, *(_move(tensor, device) for tensor in tensors))


@dataclass(frozen=True, slots=True)
class PackedTokens:
    """Sentences of one side laid end to end, and their boundaries."""

    tokens: Tensor  # (T,)
    positions: Tensor  # (T,) the position of each token in its sentence, from 0
    segments: LengthGroups | KeyRanges
    kept: Tensor | None = None  # (T,) false where a word's embedding is dropped; None: nowhere

    def to(self, device: torch.device) -> "PackedTokens":
        """Move to a device; key ranges move with the flat tensor of their batch."""
        tokens, positions = _move(self.tokens, device), _move(self.positions, device)
        return PackedTokens(tokens, positions, self.segments)

    def drop_words(self, probability: float) -> "PackedTokens":
        """Drop the embedding of each word with this probability, but not of <s> and </s>."""
        draws = torch.rand(self.tokens.shape, device=self.tokens.device)
        kept = (draws >= probability) | (self.tokens <= EOS)
        return dataclasses.replace(self, kept=kept)


@dataclass(frozen=True, slots=True)
class Batch:
    """The data of one forward and backward pass.

    In a grouped batch (`make_batch`), each side is sorted by its own lengths; `cross` says which
    source belongs to which target. In a packed batch (`static.pack`), both sides are in the same
    order, with padding at the end, and all tensors are views of `flat`.
    """

    source: PackedTokens
    target: PackedTokens  # the decoder's input: <s> and all but the last token
    labels: Tensor  # (T,) the decoder's output: all tokens, ending in </s>; <pad> where padded
    cross: SourceRows | KeyRanges
    order: Ints  # sentence indices in the order of the target side
    used: tuple[int, int]  # source and target tokens, without padding
    flat: Tensor | None = None  # the tensor that all others are views of

    @property
    def target_tokens(self) -> int:
        """The number of tokens that have a loss."""
        return self.used[1]

    @property
    def places(self) -> tuple[int, int]:
        """The number of source and target tokens, including padding."""
        return self.source.tokens.numel(), self.labels.numel()

    def to(self, device: torch.device) -> "Batch":
        """Move to a device."""
        if self.flat is not None:
            return unflatten(_move(self.flat, device), self.places, self.order, self.used)
        assert isinstance(self.cross, SourceRows)
        return Batch(
            self.source.to(device),
            self.target.to(device),
            _move(self.labels, device),
            self.cross.to(device),
            self.order,
            self.used,
        )

    def drop_words(self, probability: float) -> "Batch":
        """Drop embeddings of words on both sides (`PackedTokens.drop_words`)."""
        if not probability:
            return self
        source, target = (side.drop_words(probability) for side in (self.source, self.target))
        return dataclasses.replace(self, source=source, target=target)

    def pinned(self) -> "Batch":  # pragma: no cover  (needs a GPU: tests/gpu)
        """Move to pinned memory, from which a GPU copies asynchronously."""
        if self.flat is None:
            return self
        return unflatten(self.flat.pin_memory(), self.places, self.order, self.used)


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor; asynchronously only to CUDA, which keeps the memory until it is copied."""
    return tensor.to(device, non_blocking=device.type == "cuda")


def unflatten(flat: Tensor, places: tuple[int, int], order: Ints, used: tuple[int, int]) -> Batch:
    """Create a packed batch from its flat tensor, which moves to a device in one copy."""
    S, T = places
    source, source_positions, first, last, seen_first, seen_last = flat[: 6 * S].view(6, S).unbind()
    target, target_positions, labels, begin, end, next_token, token, source_first, source_last = (
        flat[6 * S :].view(9, T).unbind()
    )
    return Batch(
        PackedTokens(source, source_positions, KeyRanges(first, last, first, last)),
        PackedTokens(target, target_positions, KeyRanges(begin, next_token, token, end)),  # causal
        labels,
        KeyRanges(source_first, source_last, seen_first, seen_last),
        order,
        used,
        flat,
    )


def pack(sentences: Sequence[Tokens]) -> PackedTokens:
    """Lay sentences end to end; they must be sorted by length, shortest first."""
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
    rank[by_source] = np.arange(len(pairs))  # where each pair's source is on the source side
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
    """Return the position of each token in its sentence, from 0."""
    begins = np.repeat(lengths.cumsum() - lengths, lengths)
    return np.arange(lengths.sum()) - begins
