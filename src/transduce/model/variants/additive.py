"""Additive attention (paper 3.2.1): how well a key answers is v^T tanh(q + k), not a dot product.

B sentences, H heads, Q queries, K keys, C channels. Every query meets every key in every channel,
which dot products leave to one product of matrices: these B * H * Q * K * C numbers are made a few
queries at a time, and once more for the gradient.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

CHUNK = {"cpu": 2**18, "cuda": 2**26}  # numbers made at a time: what a cache or a GPU likes


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return v^T tanh(q + k), with a learned `v` (H, C). (B, H, Q or K, C) -> (B, H, Q, K)."""
    return _Scores.apply(q, k, v)  # type: ignore[no-untyped-call, no-any-return]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        parts = [t @ v.to(q.dtype)[:, None, :, None] for _, t in _met(q, k)]
        return torch.cat(parts, dim=2).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        d_q, d_k, d_v = torch.empty_like(q), torch.zeros_like(k, dtype=v.dtype), torch.zeros_like(v)
        for some, t in _met(q, k):
            d_s = gradient[:, :, some]  # (B, H, Q, K)
            d_v += (d_s[..., None, :] @ t).sum((0, 2, 3), dtype=v.dtype)
            inner = t.square_().neg_().add_(1).mul_(d_s[..., None])  # 1 - tanh^2
            d_q[:, :, some] = inner.sum(3) * v.to(q.dtype)[:, None]
            d_k += inner.sum(2) * v[:, None]
        return d_q, d_k.to(k.dtype), d_v


def _met(q: Tensor, k: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield some queries after the other, and tanh(q + k) of them. (B, H, some, K, C)."""
    queries = q.size(2)
    each = max(1, k.numel() * q.size(0) // k.size(0))  # numbers of one query
    step = max(1, CHUNK.get(q.device.type, CHUNK["cuda"]) // each)
    for begin in range(0, queries, step):
        some = slice(begin, min(begin + step, queries))
        yield some, (q[:, :, some, None] + k[:, :, None]).tanh_()
