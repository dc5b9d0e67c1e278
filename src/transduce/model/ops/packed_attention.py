"""Attention over packed tokens (paper 3.2.1), by Triton kernels on a GPU.

T tokens, H heads, C channels per head. Each query attends to a range of keys. Projections of one
input are stored side by side in one tensor, as are their gradients, so that nothing is copied.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transduce.batching.packed import KeyRanges


def attend_self(qkv: Tensor, ranges: KeyRanges, h: int, d_k: int, d_v: int) -> Tensor:
    """Let tokens attend to ranges of the same tokens. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
    return _attend(ranges, h, d_k, d_v, qkv)


def attend_cross(q: Tensor, kv: Tensor, ranges: KeyRanges, h: int, d_k: int, d_v: int) -> Tensor:
    """Let tokens attend to ranges of other tokens. (T, H * d_k) -> (T, H * d_v)."""
    return _attend(ranges, h, d_k, d_v, q, kv)


def _attend(ranges: KeyRanges, h: int, d_k: int, d_v: int, *projected: Tensor) -> Tensor:
    if _uses_triton(projected[0]):
        return _Attention.apply(ranges, h, d_k, d_v, *projected)  # type: ignore[no-untyped-call, no-any-return]
    return _attend_by_torch(*_heads(projected, h, d_k, d_v), ranges)


def _uses_triton(x: Tensor) -> bool:
    """Return whether the Triton kernels are used.

    A model gets packed batches on a GPU only if its kernels are enabled.
    """
    return x.device.type == "cuda"


class _Attention(torch.autograd.Function):
    """The kernels; the backward pass recomputes the softmax from the stored log-sum-exp."""

    @staticmethod
    def forward(
        ctx: Any, ranges: KeyRanges, h: int, d_k: int, d_v: int, *projected: Tensor
    ) -> Tensor:
        from transduce.model.ops.triton import attention

        q, k, v = _heads(projected, h, d_k, d_v)
        out = v.new_empty(len(q), h * d_v)
        lse = q.new_empty(h, len(q), dtype=torch.float32)
        attention.forward(q, k, v, out.unflatten(-1, (h, -1)), lse, ranges.first, ranges.last)
        ctx.save_for_backward(out, lse, *ranges, *projected)
        ctx.sizes = h, d_k, d_v
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        from transduce.model.ops.triton import attention

        out, lse, first, last, seen_first, seen_last, *projected = ctx.saved_tensors
        ranges = first, last, seen_first, seen_last
        gradients = [torch.empty_like(x) for x in projected]
        heads, d_heads = _heads(projected, *ctx.sizes), _heads(gradients, *ctx.sizes)
        d_out, out = (x.unflatten(-1, (ctx.sizes[0], -1)) for x in (d_out.contiguous(), out))
        attention.backward(d_out, *heads, out, lse, ranges, *d_heads)
        return None, None, None, None, *gradients


def _heads(
    projected: Sequence[Tensor], h: int, d_k: int, d_v: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Split (qkv,) or (q, kv) into q, k and v, without a copy. (T, H * sum) -> each (T, H, C)."""
    channels = [[d_k, d_k, d_v]] if len(projected) == 1 else [[d_k], [d_k, d_v]]
    q, k, v = (
        part.unflatten(-1, (h, -1))
        for x, sizes in zip(projected, channels, strict=True)
        for part in x.split([h * size for size in sizes], dim=-1)
    )
    return q, k, v


def _attend_by_torch(q: Tensor, k: Tensor, v: Tensor, ranges: KeyRanges) -> Tensor:
    """Eq. 1 for all pairs of tokens, for machines without the kernels."""
    key = torch.arange(len(k), device=k.device)
    visible = (key >= ranges.first[:, None]) & (key < ranges.last[:, None])
    scores = torch.einsum("qhc,khc->hqk", q.float(), k.float()) / math.sqrt(q.size(2))
    p = scores.masked_fill(~visible, -math.inf).softmax(-1).nan_to_num()  # padding has no keys
    return torch.einsum("hqk,khc->qhc", p, v.float()).flatten(1).to(q.dtype)
