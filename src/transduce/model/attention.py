"""Attention (paper 3.2). B sentences, H heads, Q queries, K keys, C channels; T tokens of a run.

Tokens of a sentence meet nowhere else: everything outside this module is position-wise.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.batching.packed import CrossGroup, KeyRanges, LengthGroups, SourceRows
from transduce.config import ModelConfig
from transduce.model.ops.linear import Linear
from transduce.model.ops.packed_attention import attend_cross, attend_self
from transduce.model.variants.additive import additive_scores
from transduce.model.variants.restricted import neighbours, restricted


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    allowed: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Average the values, weighted by how well each key answers the query.

    Paper: 3.2.1, Eq. 1, softmax(Q K^T / sqrt(d_k)) V, by torch's fused kernels; what is not
    `allowed` has weight 0. (B, H, Q or K, C) -> (B, H, Q, C).
    """
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, is_causal=causal, dropout_p=dropout
    )


def additive_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    v_a: Tensor,
    *,
    allowed: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """As `attention`, where v_a^T tanh(q + k) tells how well a key answers (paper 3.2.1)."""
    weights = attention_weights(q, k, v_a=v_a, allowed=allowed, causal=causal)
    return F.dropout(weights, dropout) @ v


def attend_few(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, h: int, v_a: Tensor | None = None
) -> Tensor:
    """Eq. 1 for the few queries of each sentence that decoding has, on the CPU.

    The fused kernels are made for many queries: for a beam of 4 plain products take half the time.
    q: (B * Q, H * C), k and v: (B * H, K, C), `mask` is added to the scores: (B * H, 1 or Q, K).
    """
    B = len(k) // h
    heads = q.view(B, -1, h, k.size(-1)).transpose(1, 2).flatten(0, 1)  # (B * H, Q, C)
    if v_a is None:
        scores = torch.baddbmm(mask, heads, k.mT, alpha=k.size(-1) ** -0.5)
    else:
        q_, k_ = (x.unflatten(0, (B, h)) for x in (heads, k))
        scores = mask + additive_scores(q_, k_, v_a).flatten(0, 1)
    y = torch.bmm(scores.softmax(-1), v).unflatten(0, (B, h))  # (B, H, Q, C)
    return y.transpose(1, 2).reshape(len(q), -1)  # type: ignore[no-any-return]


def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    v_a: Tensor | None = None,
    allowed: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Return the weights of Eq. 1 themselves, softmax(Q K^T / sqrt(d_k)). (B, H, Q, K).

    With `v_a` those of additive attention.
    """
    scores = q @ k.mT / math.sqrt(q.size(-1)) if v_a is None else additive_scores(q, k, v_a)
    if causal:  # 3.2.3: -inf before the softmax; every query sees at least itself
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores.softmax(dim=-1)


def unscaled(projected: Tensor, h: int, d_k: int) -> Tensor:
    """Take back from queries, which come first, what Eq. 1 will divide their products by."""
    q, others = projected.tensor_split([h * d_k], dim=-1)
    return torch.cat([q * math.sqrt(d_k), others], dim=-1)


class Past(Protocol):
    """What decoding remembers for one attention: keys and values of what is already there."""

    def attend(self, projected: Tensor, v_a: Tensor | None) -> Tensor:
        """Let each next token, given by its projections, see the past. (R, …) -> (R, H * C).

        With `v_a` by additive attention.
        """


class KeysValues(NamedTuple):
    """Keys and values in rows, a source sentence each."""

    k: Tensor  # (B, H, K, C)
    v: Tensor  # (B, H, K, C)
    real: Tensor  # (B, 1, 1, K) which keys are no padding


class SelfAttention(nn.Module):
    """Multi-head attention of a sentence to itself (paper 3.2.2, 3.2.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v = config.h, config.d_k, config.d_v
        self.dropout = config.attention_dropout
        self.sizes = [config.h * config.d_k, config.h * config.d_k, config.h * config.d_v]
        d_model, bias = config.d_model, config.attention_bias
        self.W_QKV = Linear(d_model, sum(self.sizes), bias=bias, blocks=self.sizes)
        self.W_O = Linear(self.sizes[-1], d_model, bias=bias)
        self.scaled, self.neighbourhood = config.scaled, config.neighbourhood
        self.v_a = _v_a(config)

    def forward(self, x: Tensor, own: LengthGroups | KeyRanges | Past, *, causal: bool) -> Tensor:
        """Let each token of a run see its sentence, or each next token its past."""
        return self.W_O(self.attend(self._projected(x), own, causal=causal))  # type: ignore[no-any-return]

    def attend(
        self, projected: Tensor, own: LengthGroups | KeyRanges | Past, *, causal: bool
    ) -> Tensor:
        """Do what lies between the projections. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
        if isinstance(own, KeyRanges):  # which know what is causal, and what is near
            return attend_self(projected, own, self.h, self.d_k, self.d_v)
        if not isinstance(own, LengthGroups):
            return own.attend(projected, self.v_a)
        q, k, v = self._heads(projected)  # (T, H, C)
        dropout = self.dropout if self.training else 0.0
        parts = []
        for trio in zip(*(by_sentence(heads, own.groups) for heads in (q, k, v)), strict=True):
            y = self._meet(*trio, causal=causal, dropout=dropout)  # (B, H, Q, C)
            parts.append(y.transpose(1, 2).flatten(0, 1).flatten(1))  # (B * Q, H * C)
        return torch.cat(parts)

    def weights(self, x: Tensor, *, causal: bool) -> Tensor:
        """Return the attention weights within one sentence. (T, d_model) -> (H, T, T)."""
        q, k, _ = (heads.transpose(0, 1)[None] for heads in self._heads(self._projected(x)))
        r = self.neighbourhood
        near = None if r is None else neighbours(len(x), r, causal=causal, device=x.device)
        return attention_weights(q, k, v_a=self.v_a, allowed=near, causal=causal)[0]

    def _projected(self, x: Tensor) -> Tensor:
        projected: Tensor = self.W_QKV(x)
        return projected if self.scaled else unscaled(projected, self.h, self.d_k)

    def _heads(self, projected: Tensor) -> list[Tensor]:
        parts = projected.split(self.sizes, dim=-1)
        return [part.unflatten(-1, (self.h, -1)) for part in parts]

    def _meet(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float) -> Tensor:
        """Let equally long sentences see themselves. (B, H, n, C) -> (B, H, n, C)."""
        if self.v_a is not None:
            return additive_attention(q, k, v, self.v_a, causal=causal, dropout=dropout)
        if self.neighbourhood is not None:
            return restricted(q, k, v, self.neighbourhood, causal=causal, dropout=dropout)
        return attention(q, k, v, causal=causal, dropout=dropout)


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder over the encoder's output (paper 3.2.2, 3.2.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v = config.h, config.d_k, config.d_v
        self.dropout = config.attention_dropout
        self.sizes = [config.h * config.d_k, config.h * config.d_v]
        d_model, bias = config.d_model, config.attention_bias
        self.W_Q = Linear(d_model, self.sizes[0], bias=bias)
        self.W_KV = Linear(d_model, sum(self.sizes), bias=bias, blocks=self.sizes)
        self.W_O = Linear(self.sizes[1], d_model, bias=bias)
        self.scaled = config.scaled
        self.v_a = _v_a(config)

    def keys_values(self, memory: Tensor, view: SourceRows) -> KeysValues:
        """Project the encoder's output once for all queries that will meet it."""
        return in_rows(self.W_KV(memory), view, self.sizes, self.h)

    def forward(
        self,
        x: Tensor,
        source: KeysValues | Tensor | Past,
        groups: Sequence[CrossGroup] | KeyRanges = (),
    ) -> Tensor:
        """Let each token of a run, or each hypothesis of a sentence, see the whole source.

        `source` is what `keys_values` made of the encoder's output or, with ranges, that itself.
        """
        q = self._queries(x)
        if isinstance(groups, KeyRanges):
            assert isinstance(source, Tensor)
            y = attend_cross(q, self.W_KV(source), groups, self.h, self.d_k, self.d_v)
            return self.W_O(y)  # type: ignore[no-any-return]
        if not isinstance(source, KeysValues):
            assert not isinstance(source, Tensor)
            return self.W_O(source.attend(q, self.v_a))  # type: ignore[no-any-return]
        dropout = self.dropout if self.training else 0.0
        meet = functools.partial(attention, dropout=dropout)
        if self.v_a is not None:
            meet = functools.partial(additive_attention, v_a=self.v_a, dropout=dropout)
        y = over_groups(q.unflatten(-1, (self.h, -1)), source, groups, meet)
        return self.W_O(y)  # type: ignore[no-any-return]

    def weights(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the attention weights between two sentences. (Q, d), (K, d) -> (H, Q, K)."""
        k = self.W_KV(memory)[:, : self.sizes[0]]
        q, k = (
            run.unflatten(-1, (self.h, -1)).transpose(0, 1)[None] for run in (self._queries(x), k)
        )
        return attention_weights(q, k, v_a=self.v_a)[0]

    def _queries(self, x: Tensor) -> Tensor:
        q: Tensor = self.W_Q(x)
        return q if self.scaled else unscaled(q, self.h, self.d_k)


def _v_a(config: ModelConfig) -> nn.Parameter | None:
    """Draw the vectors of additive attention, one a head, if that is what there shall be."""
    if config.attention == "dot-product":
        return None
    bound = math.sqrt(6 / (config.d_k + 1))  # as a matrix with one output
    return nn.Parameter(nn.init.uniform_(torch.empty(config.h, config.d_k), -bound, bound))


def by_sentence(run: Tensor, groups: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Cut a run (T, H, C) into its groups of equal sentences, each (B, H, Q, C), without a copy."""
    parts: Sequence[Tensor] = run.split([sentences * length for sentences, length in groups])
    return [
        part.unflatten(0, group).transpose(1, 2) for part, group in zip(parts, groups, strict=True)
    ]


def in_rows(run: Tensor, view: SourceRows, sizes: Sequence[int], h: int) -> KeysValues:
    """Lay keys and values, which lie side by side, out in rows. (T, H * C) -> (B, H, K, C)."""
    rows = _Rows.apply(run, view.index, view.place)  # type: ignore[no-untyped-call]  # (B, K, H * C)
    k, v = (part.unflatten(-1, (h, -1)) for part in rows.split(sizes, dim=-1))
    return KeysValues(k.transpose(1, 2), v.transpose(1, 2), view.real[:, None, None])


def over_groups(
    q: Tensor, source: KeysValues, groups: Sequence[CrossGroup], meet: Callable[..., Tensor]
) -> Tensor:
    """Let the queries of a run see their sources, as `attention` does. (T, H, C) -> (T, H * C)."""
    sentences = [group.sentences for group in groups]
    parts = []
    for group, q_, k, v, real in zip(
        groups,
        by_sentence(q, [(group.sentences, group.queries) for group in groups]),
        source.k.split(sentences),
        source.v.split(sentences),
        source.real.split(sentences),
        strict=True,
    ):
        used = slice(group.keys)
        allowed = real[..., used] if group.padded else None
        y = meet(q_, k[:, :, used], v[:, :, used], allowed=allowed)
        parts.append(y.transpose(1, 2).flatten(0, 1).flatten(1))  # (B * Q, H * C)
    return torch.cat(parts)


class _Rows(torch.autograd.Function):
    """Lay a packed run out in padded rows.

    Its gradient is a gather too, for each token stands in one place: much faster on the CPU than
    the scatter-add that indexing would do.
    """

    @staticmethod
    def forward(ctx: Any, run: Tensor, index: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return run.index_select(0, index.flatten()).view(*index.shape, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        return gradient.flatten(0, 1).index_select(0, place), None, None
