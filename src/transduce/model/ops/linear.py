"""The linear maps of every layer, by the fastest kernel that the processor has. T tokens."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 32  # below so many tokens the call costs more than the arithmetic
PACKED_FOR = 128  # tokens that a packed matrix is laid out for; as good for more and for fewer


class Linear(nn.Linear):
    """x W^T + b, with the paper's projections that read the same input in one matrix.

    In float32 on a CPU it goes through oneDNN, which multiplies a sixth faster than MKL on AMD's
    processors and as fast on others (docs/log.md); elsewhere, and where this build of torch has no
    oneDNN, it is torch's own.
    """

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool, blocks: Sequence[int] = ()
    ) -> None:
        """Draw the weights; `blocks` are the sizes of the matrices that share this one."""
        self.blocks = [*blocks] or [outputs]
        super().__init__(inputs, outputs, bias=bias)

    def reset_parameters(self) -> None:
        """Draw each of the matrices that share this one by itself; biases begin at 0."""
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
        """Keep the matrix as the processor multiplies it fastest; it is not to be learned then."""
        matrix = packed(self.weight)
        del self.weight
        self.weight = matrix  # no parameter any more


def packed(weight: Tensor) -> Tensor:
    """Lay a matrix out as oneDNN multiplies it fastest, if it is what multiplies it."""
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


def wide_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b in float32, whatever the precision of the others; no gradient passes."""
    if x.device.type == "cuda" and x.dtype != torch.float32:
        found = torch.mm(x, weight.to(x.dtype).T, out_dtype=torch.float32)
        return found if bias is None else found.add_(bias)
    return product(x, weight, bias).float()


class _OneDNN(torch.autograd.Function):
    """The product of oneDNN, forward and for the gradient of x; MKL is better at that of W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        gradient = gradient.contiguous()
        return (
            _onednn(gradient, weight.T, None) if of_x else None,
            gradient.T @ x if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


class _Narrow(torch.autograd.Function):
    """The product in the precision of x, of weights that stay float32; so does their gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        narrow = weight.to(x.dtype)
        ctx.save_for_backward(x, narrow)
        ctx.dtype = weight.dtype
        return F.linear(x, narrow, None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            gradient @ narrow if of_x else None,
            add_product(None, gradient.T, x, ctx.dtype) if of_weight else None,
            gradient.sum(0, dtype=ctx.dtype) if of_bias else None,
        )


def add_product(total: Tensor | None, a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Add a b to a `total`, in place; in float32, with no rounding on the way, if the GPU can."""
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
    """Tell whether this build of torch has the kernel: it is not part of its public interface."""
    try:
        x, weight = torch.ones(ROWS, 8), torch.ones(8, 8)
        as_packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)  # noqa: SLF001
        return torch.backends.mkldnn.is_available() and all(
            torch.equal(_onednn(x, matrix, weight[0]), torch.full((ROWS, 8), 9.0))
            for matrix in (weight.T, as_packed)
        )
    except (AttributeError, RuntimeError, TypeError):
        return False


ONEDNN = _has_onednn()
