"""Residual with norm, norm with ReLU, linear map with ReLU, gated activation; fused on a GPU.

T tokens. A norm without a bias is RMSNorm, one with a bias is LayerNorm.
"""

from collections.abc import Callable
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
    bias: Tensor | None,
    P_drop: float,
    eps: float,
    kernels: Kernels,
) -> Tensor:
    """Return Norm(x + Dropout(y)) (paper 3.1, 5.4). (T, d_model)."""
    return residual_sum_and_norm(x, y, weight, bias, P_drop, eps, kernels)[1]


def residual_sum_and_norm(
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    P_drop: float,
    eps: float,
    kernels: Kernels,
) -> tuple[Tensor, Tensor]:
    """Return x + Dropout(y) and its norm. (T, d_model)."""
    if not kernels.usable(x):
        total = torch.addcmul(x, y, dropout_factors(y, P_drop)) if P_drop else x + y
        return total, norm(total, weight, bias, eps, kernels)
    return _ResidualNorm.apply(x, y, weight, bias, P_drop, eps)  # type: ignore[no-untyped-call, no-any-return]


def norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, kernels: Kernels) -> Tensor:
    """Return LayerNorm(x) or RMSNorm(x). (T, d_model)."""
    if kernels.usable(x):
        return _Norm.apply(x, weight, bias, eps, False)  # type: ignore[no-untyped-call, no-any-return]  # noqa: FBT003
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if bias is None:
        return F.rms_norm(wide, weight.shape, weight, eps).to(x.dtype)
    return F.layer_norm(wide, weight.shape, weight, bias, eps).to(x.dtype)


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float, kernels: Kernels) -> Tensor:
    """Return max(0, LayerNorm(x)), for ByteNet. (T, C)."""
    if not kernels.usable(x):
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
        return F.relu(F.layer_norm(x, weight.shape, weight, bias, eps), inplace=True)
    return _Norm.apply(x, weight, bias, eps, True)  # type: ignore[no-untyped-call, no-any-return]  # noqa: FBT003


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor, kernels: Kernels) -> Tensor:
    """Return max(0, x W^T + b), the inner half of Eq. 2 (paper 3.3). (T, d_model) -> (T, d_ff)."""
    if not kernels.usable(x):
        return F.relu(product(x, weight, bias), inplace=True)
    return _LinearReLU.apply(x, weight, bias)  # type: ignore[no-untyped-call, no-any-return]


def gate(x: Tensor, activation: str, kernels: Kernels) -> Tensor:
    """Return act(a) * b, where a and b are the halves of `x`. (T, 2 d_ff) -> (T, d_ff)."""
    if not kernels.usable(x):
        a, b = x.chunk(2, dim=-1)
        return ACTIVATIONS[activation](a) * b
    return _Gate.apply(x, activation)  # type: ignore[no-untyped-call, no-any-return]


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "swish": F.silu,
    "gelu": F.gelu,
}


class _ResidualNorm(torch.autograd.Function):
    """The dropout mask is not stored: the backward pass draws it again from its seed."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        P_drop: float,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        from transduce.model.ops.triton import rows

        # Without dropout nothing is drawn, and any tensor may be passed as the seed.
        seed = torch.randint(2**31 - 1, (1,), device=x.device) if P_drop else weight
        out, total, statistics = rows.residual_forward(x, y, weight, bias, seed, P_drop, eps)
        ctx.save_for_backward(total, statistics, weight, seed)
        ctx.P_drop, ctx.rms = P_drop, bias is None
        ctx.set_materialize_grads(False)  # post-norm has no gradient of the sum
        return total, out

    @staticmethod
    def backward(ctx: Any, d_total: Tensor | None, d_out: Tensor | None) -> tuple[Any, ...]:
        from transduce.model.ops.triton import rows

        total, statistics, weight, seed = ctx.saved_tensors
        d_out = torch.zeros_like(total) if d_out is None else d_out.contiguous()
        d_total = None if d_total is None else d_total.contiguous()
        gradients = rows.residual_backward(
            d_out, total, statistics, weight, seed, ctx.P_drop, d_total=d_total, rms=ctx.rms
        )
        return *gradients, None, None


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, relu: bool
    ) -> Tensor:
        from transduce.model.ops.triton import rows

        x = x.contiguous()
        out, statistics = rows.norm_forward(x, weight, bias, eps, relu=relu)
        ctx.save_for_backward(x, statistics, weight, bias)
        ctx.relu = relu
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        from transduce.model.ops.triton import rows

        gradients = rows.norm_backward(d_out.contiguous(), *ctx.saved_tensors, relu=ctx.relu)
        return *gradients, None, None


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: str) -> Tensor:
        from transduce.model.ops.triton import rows

        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.activation = activation
        return rows.gate_forward(x, activation)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None]:
        from transduce.model.ops.triton import rows

        (x,) = ctx.saved_tensors
        return rows.gate_backward(d_out.contiguous(), x, ctx.activation), None


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
