"""Norm and rotation of queries and keys, in one kernel on a GPU. T tokens, H heads."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model.ops.kernels import Kernels

EPS = 1e-5  # as of LayerNorm


def norm_rotate(
    x: Tensor,
    size: tuple[int, int],
    gain: Tensor | None,
    table: Tensor | None,
    positions: Tensor | None,
    kernels: Kernels,
) -> Tensor:
    """Normalise, then rotate the first heads of `x`, in float32; copy the other channels.

    `size` is the number of heads and their width d_k. `gain` (kinds * d_k) is that of RMSNorm: all
    heads share it, or one half is of the queries and one of the keys. `table` (positions, d_k)
    holds the sine and cosine of the angle by which each pair of channels is rotated at each
    position; `positions` (T,) are those of the tokens. (T, channels) -> the same.
    """
    if kernels.usable(x):
        return _NormRotate.apply(x, size, gain, table, positions)  # type: ignore[no-untyped-call, no-any-return]
    heads, d_k = size
    y, rest = x.tensor_split([heads * d_k], dim=-1)
    if gain is not None:
        dtype = torch.promote_types(x.dtype, torch.float32)
        by_kind = y.to(dtype).unflatten(-1, (gain.numel() // d_k, -1, d_k))  # (T, kinds, H, d_k)
        y = (F.rms_norm(by_kind, (d_k,), eps=EPS) * gain.view(-1, 1, d_k)).flatten(1)
    if table is not None:
        assert positions is not None
        angles = F.embedding(positions, table).unflatten(-1, (-1, 2))  # (T, d_k / 2, 2)
        sin, cos = angles[:, None].unbind(-1)  # (T, 1, d_k / 2)
        a, b = y.unflatten(-1, (heads, -1, 2)).unbind(-1)  # (T, heads, d_k / 2)
        y = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(1)
    return torch.cat([y.to(x.dtype), rest], dim=-1)


class _NormRotate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        size: tuple[int, int],
        gain: Tensor | None,
        table: Tensor | None,
        positions: Tensor | None,
    ) -> Tensor:
        from transduce.model.ops.triton import queries_keys

        x = x.contiguous()
        out = queries_keys.forward(x, size, gain, table, positions, EPS)
        # The gradient of a rotation alone does not depend on x.
        ctx.save_for_backward(None if gain is None else x, gain, table, positions)
        ctx.size = size
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        from transduce.model.ops.triton import queries_keys

        x, gain, table, positions = ctx.saved_tensors
        d_x, d_gain = queries_keys.backward(
            d_out.contiguous(), x, ctx.size, gain, table, positions, EPS
        )
        return d_x, None, d_gain, None, None
