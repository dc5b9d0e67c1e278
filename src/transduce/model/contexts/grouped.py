"""Attention over groups of equally long sentences: dense tensors without padding, on any device.

B sentences in a group, H heads, n tokens per sentence, Q queries, K keys, C channels, T tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transduce.batching.packed import CrossGroup, LengthGroups, SourceRows
from transduce.model.attention import Heads


class GroupedSelf:
    """Self-attention, one group of equally long sentences at a time."""

    def __init__(self, groups: LengthGroups, positions: Tensor, *, causal: bool) -> None:
        self.groups, self.positions, self.causal = groups.groups, positions, causal

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each token attend to its sentence. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
        return join([self.attend_group(q, k, v, heads) for q, k, v in self._groups(qkv, heads)])

    def attend_group(self, q: Tensor, k: Tensor, v: Tensor, heads: Heads) -> Tensor:
        """Compute self-attention within equally long sentences. (B, H, n, C) -> (B, H, n, C)."""
        return heads.scoring.attend(q, k, v, mask=None, causal=self.causal, dropout=heads.dropout)

    def weights(self, qkv: Tensor, heads: Heads) -> list[Tensor]:
        """Return the attention weights of each group. (B, H, n, n)."""
        return [
            masked_softmax(heads.scoring.scores(q, k), self.allowed(q.size(2), q.device))
            for q, k, _ in self._groups(qkv, heads)
        ]

    def allowed(self, n: int, device: torch.device) -> Tensor:
        """Return which tokens of its sentence each token may attend to. (n, n)."""
        allowed = torch.ones(n, n, dtype=torch.bool, device=device)
        return allowed.tril() if self.causal else allowed  # 3.2.3: no attention to later tokens

    def _groups(self, qkv: Tensor, heads: Heads) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield queries, keys and values of each group. (B, H, n, C)."""
        q, k, v = (
            by_length(part, self.groups)
            for part in heads.split(qkv, heads.d_k, heads.d_k, heads.d_v)
        )
        return zip(q, k, v, strict=True)


class KeysValues(NamedTuple):
    """Keys and values in rows, one per target sentence, padded to the longest source."""

    k: Tensor  # (B, H, K, C)
    v: Tensor  # (B, H, K, C)
    real: Tensor  # (B, 1, 1, K) False where there is padding


class GroupedCross:
    """Cross-attention, one group of sentences with the same number of queries at a time."""

    def __init__(self, rows: SourceRows) -> None:
        self.rows = rows

    def attend(
        self, q: Tensor, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> Tensor:
        """Let each query attend to its source. (T, H * d_k) -> (T, H * d_v)."""
        return self.attend_rows(q, self.keys_values(project, memory, heads), heads)

    def keys_values(
        self, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> KeysValues:
        """Project the encoder's output and lay it out in rows. (T, …) -> (B, H, K, C)."""
        assert memory is not None
        rows = self.rows
        padded = _Rows.apply(project(memory), rows.index, rows.place)  # type: ignore[no-untyped-call]
        sizes = [heads.h * heads.d_k, heads.h * heads.d_v]
        k, v = (part.unflatten(-1, (heads.h, -1)) for part in padded.split(sizes, dim=-1))
        return KeysValues(k.transpose(1, 2), v.transpose(1, 2), rows.real[:, None, None])

    def attend_rows(self, q: Tensor, source: KeysValues, heads: Heads) -> Tensor:
        """Let the queries of each group attend to their rows. (T, H * d_k) -> (T, H * d_v)."""
        results = []
        for group, q_group, k, v, real in self._groups(q, source, heads):
            mask = real if group.padded else None
            results.append(
                heads.scoring.attend(q_group, k, v, mask=mask, causal=False, dropout=heads.dropout)
            )
        return join(results)

    def weights(self, q: Tensor, source: KeysValues, heads: Heads) -> list[Tensor]:
        """Return the attention weights of each group. (B, H, Q, K)."""
        return [
            masked_softmax(heads.scoring.scores(q_group, k), real)
            for _, q_group, k, _, real in self._groups(q, source, heads)
        ]

    def _groups(
        self, q: Tensor, source: KeysValues, heads: Heads
    ) -> Iterator[tuple[CrossGroup, Tensor, Tensor, Tensor, Tensor]]:
        """Yield each group with its queries, keys, values and mask, cut to its longest source."""
        groups = self.rows.groups
        sentences = [group.sentences for group in groups]
        queries = by_length(
            q.unflatten(-1, (heads.h, -1)), [(group.sentences, group.queries) for group in groups]
        )
        rows = zip(*(part.split(sentences) for part in source), strict=True)
        for group, q_group, (k, v, real) in zip(groups, queries, rows, strict=True):
            used = slice(group.keys)
            yield group, q_group, k[:, :, used], v[:, :, used], real[..., used]


def by_length(x: Tensor, groups: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Cut packed tokens (T, H, C) into groups of equally long sentences (B, H, n, C); no copy."""
    parts: Sequence[Tensor] = x.split([sentences * length for sentences, length in groups])
    return [
        part.unflatten(0, group).transpose(1, 2) for part, group in zip(parts, groups, strict=True)
    ]


def join(groups: Sequence[Tensor]) -> Tensor:
    """Lay the outputs of all groups end to end. (B, H, n, C) each -> (T, H * C)."""
    return torch.cat([y.transpose(1, 2).flatten(0, 1).flatten(1) for y in groups])


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return the attention weights of Eq. 1. (B, H, Q, K)."""
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)


class _Rows(torch.autograd.Function):
    """Lay packed tokens out in padded rows.

    Each token goes to one place, so the gradient is a gather as well: much faster on the CPU than
    the scatter-add of indexing.
    """

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, index: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return tokens.index_select(0, index.flatten()).view(*index.shape, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        return gradient.flatten(0, 1).index_select(0, place), None, None
