"""A machine with one of Apple's GPUs, as far as one without can stand for it.

Tensors that say they are on mps are computed on the CPU. What MPS does not have is an error:
float64, and operations on tensors of both devices; and its Adam does not look at `found_inf`.
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
    """Says that it is on mps, and holds what it stands for; torch's own code takes it for a CPU's.

    So gradients pass through it, though this build of torch knows no MPS.
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
        return computed(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class AppleMachine(TorchDispatchMode):
    """Sees every operation, those that make tensors included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0  # that were made on the GPU

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = computed(func, args, kwargs)
        self.operations += any(isinstance(one, AppleTensor) for one in tree_flatten(found)[0])
        return found


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU, and say where its results are."""
    leaves = tree_flatten((args, kwargs))[0]
    given = [one for one in leaves if isinstance(one, Tensor)]
    apple = [one for one in given if isinstance(one, AppleTensor)]
    told = [one for one in leaves if isinstance(one, torch.device)]
    on_apple = told[0].type == "mps" if told else bool(apple)
    copies = func.overloadpacket in (aten.to, aten._to_copy, aten.copy_)
    if apple and not copies:
        mixed = [one for one in given if not isinstance(one, AppleTensor) and one.dim()]
        assert not mixed, f"{func} of tensors on mps and on the CPU"
    assert not kwargs.get("pin_memory"), "MPS pins no memory"
    if func is aten._fused_adam_.default:
        kwargs = kwargs | {"found_inf": None, "grad_scale": None}
    plain = tree_map_only(AppleTensor, lambda one: one.inner, (args, kwargs))
    plain = tree_map_only(torch.device, lambda _: torch.device("cpu"), plain)
    found = func(*plain[0], **plain[1])
    if func is aten.copy_.default:
        return args[0]
    if not on_apple:
        return found
    if copies and any(found is one for one in given):  # what is moved is another tensor
        found = found.clone()
    found = tree_map_only(Tensor, AppleTensor, found)
    return return_and_correct_aliasing(func, args, kwargs, found)


def moved(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Do what `Tensor.to` does, which asks for the number of a device that torch does not know."""
    where = args[0] if args else kwargs.get("device")
    if isinstance(where, str | torch.device):
        where = torch.device(where)
        if where.type == "cpu" and isinstance(tensor, AppleTensor):
            return tensor.cpu()
        args, kwargs = (MPS if where.type == "mps" else where, *args[1:]), kwargs | {}
        kwargs.pop("device", None)
    return torch._C.TensorBase.to(tensor, *args, **kwargs)


def made(data: Any, *, dtype: Any = None, device: Any = "cpu") -> Tensor:
    """Do what `torch.tensor` does, which no mode sees."""
    return moved(TENSOR(data, dtype=dtype), device)


def get_rng_state() -> Tensor:
    """Return the CPU's: the function itself is one that torch knows by its address."""
    return torch.get_rng_state()


def set_rng_state(state: Tensor) -> None:
    """Set the CPU's."""
    torch.set_rng_state(state)


@contextmanager
def apple_machine(patch: pytest.MonkeyPatch) -> Iterator[AppleMachine]:
    """Have a machine whose only GPU is one of Apple's."""
    patch.setattr(torch.cuda, "is_available", lambda: False)
    patch.setattr(torch.backends.mps, "is_available", lambda: True)
    patch.setattr(torch.mps, "get_rng_state", get_rng_state)
    patch.setattr(torch.mps, "set_rng_state", set_rng_state)
    patch.setattr(torch.mps, "empty_cache", lambda: None)
    patch.setattr(torch.mps, "synchronize", lambda: None)
    patch.setattr(Tensor, "to", moved)
    patch.setattr(torch, "tensor", made)
    # A model's parameters become other objects' content, so that those it has twice stay one.
    swapped = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with AppleMachine() as machine:
            yield machine
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swapped)
