"""A fake MPS device (Apple GPU) for machines without one.

Tensors on the fake device are computed on the CPU. Features that MPS lacks are errors: float64 and
operations on tensors of both devices; its fused Adam ignores `found_inf`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

MPS = torch.device("mps", 0)
TENSOR = torch.tensor
aten = torch.ops.aten


class AppleTensor(Tensor):
    """A tensor that reports the device mps and wraps a CPU tensor.

    torch treats it as a CPU tensor, so gradients work although this build has no MPS.
    """

    inner: Tensor  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: Tensor) -> "AppleTensor":
        assert inner.dtype != torch.float64, "MPS has no float64"
        return Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device("cpu"),
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return MPS

    def cpu(self, *_: Any) -> Tensor:
        return self.inner.detach().clone()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"AppleTensor({self.inner!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return compute(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class AppleMachine(TorchDispatchMode):
    """Intercepts every operation, also those that create tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0  # with results on the fake GPU

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = compute(func, args, kwargs)
        self.operations += any(isinstance(leaf, AppleTensor) for leaf in tree_flatten(result)[0])
        return result


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU, and wrap its results if they belong on the fake GPU."""
    leaves = tree_flatten((args, kwargs))[0]
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    apple = [tensor for tensor in tensors if isinstance(tensor, AppleTensor)]
    devices = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
    on_apple = devices[0].type == "mps" if devices else bool(apple)
    copies = func.overloadpacket in (aten.to, aten._to_copy, aten.copy_)
    if apple and not copies:
        mixed = [t for t in tensors if not isinstance(t, AppleTensor) and t.dim()]
        assert not mixed, f"{func} of tensors on mps and on the CPU"
    assert not kwargs.get("pin_memory"), "MPS pins no memory"
    if func is aten._fused_adam_.default:
        kwargs = kwargs | {"found_inf": None, "grad_scale": None}
    plain = tree_map_only(AppleTensor, lambda tensor: tensor.inner, (args, kwargs))
    plain = tree_map_only(torch.device, lambda _: torch.device("cpu"), plain)
    result = func(*plain[0], **plain[1])
    if func is aten.copy_.default:
        return args[0]
    if not on_apple:
        return result
    if copies and any(result is tensor for tensor in tensors):  # a move makes a new tensor
        result = result.clone()
    result = tree_map_only(Tensor, AppleTensor, result)
    return return_and_correct_aliasing(func, args, kwargs, result)


def move(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Replace `Tensor.to`, which does not know the fake device."""
    where = args[0] if args else kwargs.get("device")
    if isinstance(where, str | torch.device):
        where = torch.device(where)
        if where.type == "cpu" and isinstance(tensor, AppleTensor):
            return tensor.cpu()
        args, kwargs = (MPS if where.type == "mps" else where, *args[1:]), kwargs | {}
        kwargs.pop("device", None)
    return torch._C.TensorBase.to(tensor, *args, **kwargs)


def make_tensor(data: Any, *, dtype: Any = None, device: Any = "cpu") -> Tensor:
    """Replace `torch.tensor`, which a dispatch mode does not intercept."""
    return move(TENSOR(data, dtype=dtype), device)


def get_rng_state() -> Tensor:
    """Return the CPU's random state."""
    return torch.get_rng_state()


def set_rng_state(state: Tensor) -> None:
    """Set the CPU's random state."""
    torch.set_rng_state(state)


@contextmanager
def apple_machine(patch: pytest.MonkeyPatch) -> Iterator[AppleMachine]:
    """Fake a machine whose only GPU is an MPS device."""
    patch.setattr(torch.cuda, "is_available", lambda: False)
    patch.setattr(torch.backends.mps, "is_available", lambda: True)
    patch.setattr(torch.mps, "get_rng_state", get_rng_state)
    patch.setattr(torch.mps, "set_rng_state", set_rng_state)
    patch.setattr(torch.mps, "empty_cache", lambda: None)
    patch.setattr(torch.mps, "synchronize", lambda: None)
    patch.setattr(Tensor, "to", move)
    patch.setattr(torch, "tensor", make_tensor)
    # Swap the content of parameters, so that tied parameters stay tied.
    swapped = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with AppleMachine() as machine:
            yield machine
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swapped)
