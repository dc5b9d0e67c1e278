"""Residual with LayerNorm, LayerNorm with ReLU, linear map with ReLU; fused on a GPU. T tokens."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model.ops.dropout import dropout_factors
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.linear import add_product, product


def residual_norm(
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    P_drop: float,
    eps: float,
    kernels: Kernels,
) -> Tensor:
    """Return LayerNorm(x + Dropout(y)) (paper 3.1, 5.4). (T, d_model)."""
    if not kernels.usable(x):
        total = torch.addcmul(x, y, dropout_factors(y, P_drop)) if P_drop else x + y
        return F.layer_norm(total.float(), weight.shape, weight, bias, eps).to(x.dtype)
    return _ResidualNorm.apply(x, y, weight, bias, P_drop, eps)  # type: ignore[no-untyped-call, no-any-return]


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float, kernels: Kernels) -> Tensor:
    """Return max(0, LayerNorm(x)), for ByteNet. (T, C)."""
    if not kernels.usable(x):
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
        return F.relu(F.layer_norm(x, weight.shape, weight, bias, eps), inplace=True)
    return _NormReLU.apply(x, weight, bias, eps)  # type: ignore[no-untyped-call, no-any-return]


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor, kernels: Kernels) -> Tensor:
    """Return max(0, x W^T + b), the inner half of Eq. 2 (paper 3.3). (T, d_model) -> (T, d_ff)."""
    if not kernels.usable(x):
        return F.relu(product(x, weight, bias), inplace=True)
    return _LinearReLU.apply(x, weight, bias)  # type: ignore[no-untyped-call, no-any-return]


class _ResidualNorm(torch.autograd.Function):
    """The dropout mask is not stored: the backward pass draws it again from its seed."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, P_drop: float, eps: float
    ) -> Tensor:
        from transduce.model.ops.triton import rows

        # Without dropout nothing is drawn, and any tensor may be passed as the seed.
        seed = torch.randint(2**31 - 1, (1,), device=x.device) if P_drop else weight
        out, total, statistics = rows.residual_forward(x, y, weight, bias, seed, P_drop, eps)
        ctx.save_for_backward(total, statistics, weight, seed)
        ctx.P_drop = P_drop
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        from transduce.model.ops.triton import rows

        total, statistics, weight, seed = ctx.saved_tensors
        d_out = d_out.contiguous()
        gradients = rows.residual_backward(d_out, total, statistics, weight, seed, ctx.P_drop)
        return *gradients, None, None


class _NormReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        from transduce.model.ops.triton import rows

        x = x.contiguous()
        out, statistics = rows.norm_relu_forward(x, weight, bias, eps)
        ctx.save_for_backward(x, statistics, weight, bias)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        from transduce.model.ops.triton import rows

        return *rows.norm_relu_backward(d_out.contiguous(), *ctx.saved_tensors), None


class _LinearReLU(torch.autograd.Function):
    """Bias and ReLU are applied to the product before it is written to memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        narrow = weight.to(x.dtype)
        out = torch._addmm_activation(bias.to(x.dtype), x, narrow.T)  # noqa: SLF001
        ctx.save_for_backward(x, narrow, out)
        ctx.dtype = weight.dtype
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from transduce.model.ops.triton import rows

        x, narrow, out = ctx.saved_tensors
        d_inner, d_bias = rows.relu_backward(d_out.contiguous(), out)
        d_weight = add_product(None, d_inner.T, x, ctx.dtype)
        return d_inner @ narrow, d_weight, d_bias
