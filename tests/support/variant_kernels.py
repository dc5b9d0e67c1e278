"""Kernels of pre-norm, RMSNorm, gated activations, QK-norm and rotation, and their references."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reference import distance
from transduce.model.ops import fused
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.queries_keys import norm_rotate
from transduce.model.positions import sinusoids

Operation = Callable[..., Tensor | tuple[Tensor, ...]]

EPS = 1e-5


class Torch(Kernels):
    """The equivalents in torch operations, on any device."""

    def usable(self, x: Tensor) -> bool:
        return False


def operations(tokens: int, D: int, h: int, d_k: int, d_v: int) -> dict[str, tuple[Any, ...]]:
    """Return each operation as a function of kernels and tensors, and the shapes of the tensors."""
    x, w = (tokens, D), (D,)
    table, positions = sinusoids(50, d_k, torch).float(), torch.arange(tokens) * 7 % 50

    def rotate(kernels: Kernels, x: Tensor, gain: Tensor | None = None) -> Tensor:
        at = table.to(x.device), positions.to(x.device)
        return norm_rotate(x, (2 * h, d_k), gain, *at, kernels)

    def qk_norm(kinds: int) -> Operation:
        return lambda kernels, x, gain: norm_rotate(x, (kinds * h, d_k), gain, None, None, kernels)

    def gate(activation: str) -> Operation:
        return lambda kernels, x: fused.gate(x, activation, kernels)

    def residual(kernels: Kernels, x: Tensor, y: Tensor, *weights: Tensor | None) -> Any:
        weight, bias = (*weights, None)[:2]
        return fused.residual_sum_and_norm(x, y, weight, bias, 0.0, EPS, kernels)  # type: ignore[arg-type]

    def norm(kernels: Kernels, x: Tensor, *weights: Tensor | None) -> Tensor:
        weight, bias = (*weights, None)[:2]
        return fused.norm(x, weight, bias, EPS, kernels)  # type: ignore[arg-type]

    return {
        "sum and LayerNorm": (residual, x, x, w, w),
        "sum and RMSNorm": (residual, x, x, w),
        "RMSNorm of the sum": (lambda *a: residual(*a)[1], x, x, w),
        "the sum alone": (lambda *a: residual(*a)[0], x, x, w),
        "LayerNorm": (norm, x, w, w),
        "RMSNorm": (norm, x, w),
        **{a: (gate(a), (tokens, 2 * D)) for a in ("relu", "swish", "gelu")},
        "rotation": (rotate, (tokens, h * (2 * d_k + d_v))),
        "norm and rotation": (rotate, (tokens, h * (2 * d_k + d_v)), (2 * d_k,)),
        "norm of q and k": (qk_norm(2), (tokens, h * (2 * d_k + d_v)), (2 * d_k,)),
        "norm of q": (qk_norm(1), (tokens, h * d_k), (d_k,)),
        "norm of k": (qk_norm(1), (tokens, h * (d_k + d_v)), (d_k,)),
    }


NAMES = list(operations(1, 1, 1, 2, 1))


def outputs_and_gradients(
    operation: Operation, kernels: Kernels, tensors: list[Tensor]
) -> list[Tensor]:
    """Return the outputs of an operation, and the gradients of its inputs that are not unused."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out = operation(kernels, *inputs)
    outputs = [out] if isinstance(out, Tensor) else list(out)
    upstream = [torch.linspace(-1, 2, o.numel()).sin().view(o.shape).to(o) for o in outputs]
    gradients = torch.autograd.grad(outputs, inputs, upstream, materialize_grads=True)
    return [*outputs, *gradients]


def assert_exact(
    name: str, sizes: tuple[int, ...], dtype: torch.dtype, device: str, tolerance: float
) -> None:
    """Compare kernels with torch's operations in float64, and two calls with each other."""
    operation, *shapes = operations(*sizes)[name]
    torch.manual_seed(0)
    tensors = [
        (torch.randn(shape).to(dtype) if len(shape) == 2 else 1 + 0.1 * torch.randn(shape))
        for shape in shapes
    ]
    exact = outputs_and_gradients(operation, Torch(), [tensor.double() for tensor in tensors])
    kernels = Kernels()
    kernels.enabled = True
    on_device = [tensor.to(device) for tensor in tensors]
    ours = outputs_and_gradients(operation, kernels, on_device)
    again = outputs_and_gradients(operation, kernels, on_device)
    for a, b, expected in zip(ours, again, exact, strict=True):
        assert torch.equal(a, b)  # the same input gives the same bits
        if name == "the sum alone" and not expected.any():  # the weight of a norm without gradient
            assert not a.any()
        else:
            assert distance(a.cpu(), expected) < tolerance
