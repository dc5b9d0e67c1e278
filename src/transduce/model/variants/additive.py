"""Additive attention (paper 3.2.1): a key's score is v_a^T tanh(q + k) instead of a dot product.

B sentences, H heads, Q queries, K keys, C channels. Each query is added to each key. These
B * H * Q * K * C sums are computed for a few queries at a time, and again for the gradient.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig

CHUNK = {"cpu": 2**18, "cuda": 2**26}  # numbers computed at a time: they fit into the cache


def additive_vectors(config: ModelConfig) -> nn.Parameter | None:
    """Draw the vectors v_a of additive attention, one per head; None for other attention."""
    if config.attention != "additive":
        return None
    bound = math.sqrt(6 / (config.d_k + 1))  # as for a matrix with one output
    return nn.Parameter(nn.init.uniform_(torch.empty(config.h, config.d_k), -bound, bound))


class Additive:
    """The scoring of additive attention; see `Scoring` in model/attention.py."""

    def __init__(self, v_a: Tensor) -> None:
        self.v_a = v_a  # (H, d_k)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return v_a^T tanh(q + k)."""
        return additive_scores(q, k, self.v_a)

    def masked_scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        """Return v_a^T tanh(q + k) + mask. (B * H, Q, C), (B * H, K, C) -> (B * H, Q, K)."""
        h = len(self.v_a)
        q, k = (x.unflatten(0, (-1, h)) for x in (q, k))
        return mask + self.scores(q, k).flatten(0, 1)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, causal: bool, dropout: float
    ) -> Tensor:
        """Average the values, weighted by the softmax. (B, H, Q or K, C) -> (B, H, Q, C)."""
        scores = self.scores(q, k)
        if causal:  # 3.2.3: no attention to later tokens
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return F.dropout(scores.softmax(dim=-1), dropout) @ v


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return v^T tanh(q + k), with a learned `v` (H, C). (B, H, Q or K, C) -> (B, H, Q, K)."""
    return _Scores.apply(q, k, v)  # type: ignore[no-untyped-call, no-any-return]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        parts = [t @ v.to(q.dtype)[:, None, :, None] for _, t in _tanh_sums(q, k)]
        return torch.cat(parts, dim=2).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k, dtype=v.dtype), torch.zeros_like(v)
        for queries, t in _tanh_sums(q, k):
            d_s = gradient[:, :, queries]  # (B, H, Q, K)
            d_v += (d_s[..., None, :] @ t).sum((0, 2, 3), dtype=v.dtype)
            inner = t.square_().neg_().add_(1).mul_(d_s[..., None])  # 1 - tanh^2
            d_q[:, :, queries] = inner.sum(3) * v.to(q.dtype)[:, None]
            d_k += inner.sum(2) * v[:, None]
        return d_q, d_k.to(k.dtype), d_v


def _tanh_sums(q: Tensor, k: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices of the queries, and tanh(q + k) for each slice. (B, H, queries, K, C)."""
    count = q.size(2)
    per_query = max(1, k.numel() * q.size(0) // k.size(0))
    step = max(1, CHUNK.get(q.device.type, CHUNK["cuda"]) // per_query)
    for begin in range(0, count, step):
        queries = slice(begin, min(begin + step, count))
        yield queries, (q[:, :, queries, None] + k[:, :, None]).tanh_()
