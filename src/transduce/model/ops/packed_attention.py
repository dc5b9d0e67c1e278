"""Attention of packed runs (paper 3.2.1): the GPU's kernels, and the plain way beside them.

T tokens of a run, H heads, C channels of a head. Projections of one input lie side by side in one
tensor, and so do their gradients: nothing is copied together or apart.
"""

import math
from typing import Any

import torch
from torch import Tensor

from transduce.batching.packed import KeyRanges


def attend_self(qkv: Tensor, view: KeyRanges, h: int, d_k: int, d_v: int) -> Tensor:
    """Let each token of a run see its range of it. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
    return _SelfAttention.apply(qkv, view, h, d_k, d_v)  # type: ignore[no-untyped-call, no-any-return]


def attend_cross(q: Tensor, kv: Tensor, view: KeyRanges, h: int, d_k: int, d_v: int) -> Tensor:
    """Let each token of one run see its range of another. (T, H * d_k) -> (T, H * d_v)."""
    return _CrossAttention.apply(q, kv, view, h, d_k, d_v)  # type: ignore[no-untyped-call, no-any-return]


class _SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, view: KeyRanges, h: int, d_k: int, d_v: int) -> Tensor:
        out, lse = _forward(_heads(qkv, h, d_k, d_k, d_v), view)
        ctx.save_for_backward(qkv, out, lse, *view)
        ctx.sizes = h, d_k, d_k, d_v
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        qkv, out, lse, *view = ctx.saved_tensors
        d_qkv = torch.empty_like(qkv)
        heads, gradients = _heads(qkv, *ctx.sizes), _heads(d_qkv, *ctx.sizes)
        _backward(d_out, heads, out, lse, KeyRanges(*view), gradients)
        return d_qkv, None, None, None, None


class _CrossAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, kv: Tensor, view: KeyRanges, h: int, d_k: int, d_v: int
    ) -> Tensor:
        out, lse = _forward([*_heads(q, h, d_k), *_heads(kv, h, d_k, d_v)], view)
        ctx.save_for_backward(q, kv, out, lse, *view)
        ctx.sizes = h, d_k, d_v
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        q, kv, out, lse, *view = ctx.saved_tensors
        h, d_k, d_v = ctx.sizes
        d_q, d_kv = torch.empty_like(q), torch.empty_like(kv)
        heads, gradients = (
            [*_heads(one, h, d_k), *_heads(two, h, d_k, d_v)] for one, two in ((q, kv), (d_q, d_kv))
        )
        _backward(d_out, heads, out, lse, KeyRanges(*view), gradients)
        return d_q, d_kv, None, None, None, None


def _heads(x: Tensor, h: int, *channels: int) -> list[Tensor]:
    """Part what lies side by side, without a copy. (T, H * sum) -> each (T, H, C)."""
    parts = x.split([h * c for c in channels], dim=-1)
    return [part.unflatten(-1, (h, -1)) for part in parts]


def _forward(qkv: list[Tensor], view: KeyRanges) -> tuple[Tensor, Tensor]:
    """Return the output (T, H * d_v), and of each softmax the logarithm of its divisor (H, T)."""
    q, k, v = qkv
    queries, h, _ = q.shape
    out = v.new_empty(queries, h * v.size(2))
    lse = q.new_empty(h, queries, dtype=torch.float32)
    if _by_triton(q):
        from transduce.model.ops.triton import attention

        attention.forward(q, k, v, out.unflatten(-1, (h, -1)), lse, view.first, view.last)
        return out, lse
    scores = _scores(q, k, view)
    p = scores.softmax(-1).nan_to_num()  # filler sees nothing
    out.copy_(torch.einsum("hqk,khc->qhc", p, v.float()).flatten(1))
    return out, lse.copy_(scores.logsumexp(-1))


def _backward(
    d_out: Tensor,
    qkv: list[Tensor],
    out: Tensor,
    lse: Tensor,
    view: KeyRanges,
    gradients: list[Tensor],
) -> None:
    """Write the gradients of q, k and v."""
    q, k, v = qkv
    h = q.size(1)
    d_out, out = (x.unflatten(-1, (h, -1)) for x in (d_out.contiguous(), out))
    if _by_triton(q):
        from transduce.model.ops.triton import attention

        attention.backward(d_out, q, k, v, out, lse, view, *gradients)
        return
    p = (_scores(q, k, view) - lse[..., None]).exp().nan_to_num()  # (H, Q, K)
    d_out = d_out.float()
    d_p = torch.einsum("qhc,khc->hqk", d_out, v.float())
    d_s = p * (d_p - (d_out * out.float()).sum(-1).T[..., None]) / math.sqrt(q.size(2))
    gradients[0].copy_(torch.einsum("hqk,khc->qhc", d_s, k.float()))
    gradients[1].copy_(torch.einsum("hqk,qhc->khc", d_s, q.float()))
    gradients[2].copy_(torch.einsum("hqk,qhc->khc", p, d_out))


def _by_triton(q: Tensor) -> bool:
    """Return whether the Triton kernels compute.

    A model gets packed batches on a GPU only if its kernels are enabled.
    """
    return q.device.type == "cuda"


def _scores(q: Tensor, k: Tensor, view: KeyRanges) -> Tensor:
    """Return Q K^T / sqrt(d_k), -inf where nothing is to be seen: where there are no kernels."""
    at = torch.arange(k.size(0), device=k.device)
    seen = (at >= view.first[:, None]) & (at < view.last[:, None])
    scores = torch.einsum("qhc,khc->hqk", q.float(), k.float()) / math.sqrt(q.size(2))
    return scores.masked_fill(~seen, -math.inf)
