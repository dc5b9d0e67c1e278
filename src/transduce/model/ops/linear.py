"""Linear maps, with the processor's fastest kernel. T tokens."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 32  # with fewer tokens, calling oneDNN costs more than it saves
PACKED_FOR = 128  # tokens that a packed matrix is laid out for; other numbers are as fast


class Linear(nn.Linear):
    """x W^T + b; projections of the same input share one matrix.

    In float32 on a CPU, oneDNN computes it: a sixth faster than MKL on AMD processors, and as fast
    on others (docs/log.md). Otherwise, or if this build of torch has no oneDNN, `F.linear` does.
    """

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool, blocks: Sequence[int] = ()
    ) -> None:
        """Draw the weights; `blocks` are the output sizes of projections that share the matrix."""
        self.blocks = [*blocks] or [outputs]
        super().__init__(inputs, outputs, bias=bias)

    def reset_parameters(self) -> None:
        """Initialise each projection as a separate matrix; biases are 0."""
        with torch.no_grad():
            for block in self.weight.split(self.blocks):
                nn.init.xavier_uniform_(block)
            if self.bias is not None:
                nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map each token. (T, inputs) -> (T, outputs)."""
        return product(x, self.weight, self.bias)

    def block(self, number: int) -> Tensor:
        """Return one of the matrices that share this one, as a view. (block size, inputs)."""
        blocks: Sequence[Tensor] = self.weight.split(self.blocks)
        return blocks[number]

    def pack(self) -> None:
        """Store the matrix in the processor's fastest layout: for inference only."""
        matrix = packed(self.weight)
        del self.weight
        self.weight = matrix  # not a parameter: it cannot be trained


def packed(weight: Tensor) -> Tensor:
    """Return a matrix in oneDNN's layout, if oneDNN will multiply it."""
    if ONEDNN and weight.device.type == "cpu" and weight.dtype == torch.float32:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), PACKED_FOR)  # type: ignore[no-any-return]  # noqa: SLF001
    return weight.detach()


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, in the precision of `x`. (T, inputs), (outputs, inputs) -> (T, outputs)."""
    if weight.is_mkldnn:
        return _onednn(x, weight, bias)
    if weight.dtype != x.dtype:
        return _Narrow.apply(x, weight, bias)  # type: ignore[no-untyped-call, no-any-return]
    if ONEDNN and len(x) >= ROWS and x.device.type == "cpu" and x.dtype == torch.float32:
        return _OneDNN.apply(x, weight, bias)  # type: ignore[no-untyped-call, no-any-return]
    return F.linear(x, weight, None if bias is None else bias.to(x.dtype))


def product_float32(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b in float32, whatever the precision of x; without a gradient."""
    if x.device.type == "cuda" and x.dtype != torch.float32:
        y = torch.mm(x, weight.to(x.dtype).T, out_dtype=torch.float32)
        return y if bias is None else y.add_(bias)
    return product(x, weight, bias).float()


class _OneDNN(torch.autograd.Function):
    """oneDNN computes the product and the gradient of x; MKL is faster for the gradient of W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        gradient = gradient.contiguous()
        return (
            _onednn(gradient, weight.T, None) if needs_x else None,
            gradient.T @ x if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


class _Narrow(torch.autograd.Function):
    """The product in the precision of x; weights and their gradients stay float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        narrow = weight.to(x.dtype)
        ctx.save_for_backward(x, narrow)
        ctx.dtype = weight.dtype
        return F.linear(x, narrow, None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            gradient @ narrow if needs_x else None,
            add_product(None, gradient.T, x, ctx.dtype) if needs_weight else None,
            gradient.sum(0, dtype=ctx.dtype) if needs_bias else None,
        )


def add_product(total: Tensor | None, a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Add a b to `total` in place; on a GPU, bf16 products are summed in float32."""
    if a.device.type == "cuda" and a.dtype != dtype:
        if total is None:
            return torch.mm(a, b, out_dtype=dtype)
        return torch.addmm(total, a, b, out_dtype=dtype, out=total)
    if total is None:
        return (a @ b).to(dtype)
    return total.addmm_(a, b) if a.dtype == dtype else total.add_((a @ b).to(dtype))


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]  # noqa: SLF001


def _has_onednn() -> bool:
    """Return whether this build of torch has the kernels, which are not public functions."""
    try:
        x, weight = torch.ones(ROWS, 8), torch.ones(8, 8)
        reordered = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)  # noqa: SLF001
        return torch.backends.mkldnn.is_available() and all(
            torch.equal(_onednn(x, matrix, weight[0]), torch.full((ROWS, 8), 9.0))
            for matrix in (weight.T, reordered)
        )
    except (AttributeError, RuntimeError, TypeError):
        return False


ONEDNN = _has_onednn()
