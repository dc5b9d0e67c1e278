"""The machine that the work runs on: its cores and devices, its signals, torchrun's variables."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transduce.errors import BadSetting
from transduce.system.formatting import pluralize

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(
    name: str, say: Callable[[str], None] = lambda _: None, *, mps: bool = True
) -> "torch.device":
    """Return the device by its name; auto is the GPU where there is one that works.

    Without `mps` it is none of Apple's: for work that knows no others than CUDA's.
    """
    import torch

    kind, colon, number = name.partition(":")
    known = DEVICES if mps else DEVICES[:-1]
    if kind not in known or (colon and not (kind == "cuda" and number.isdecimal())):
        raise BadSetting(
            f"device = {name!r}: expected {', '.join(known)}, or cuda:1 for the second GPU"
        )
    for one, trouble_with in (("cuda", _trouble_with_cuda), ("mps", _trouble_with_mps)):
        if kind not in ("auto", one) or one not in known:
            continue
        trouble = trouble_with()
        if trouble is None:
            return _cuda(name) if one == "cuda" else torch.device("mps")
        if kind == one:
            found = trouble or f"this machine or this build of torch has no {one.upper()} device"
            raise BadSetting(f"device = {name!r}: {found}; --device cpu works everywhere")
        if trouble:
            say(f"the GPU cannot be used, so the CPU is: {trouble}")
    return torch.device("cpu")


def _cuda(name: str) -> "torch.device":
    """Make CUDA ready; where one of several GPUs is named, it is the current one from now on."""
    import torch

    # cuDNN's attention plans every new shape anew, 10 ms each: decoding has nothing but those.
    torch.backends.cuda.enable_cudnn_sdp(False)  # noqa: FBT003
    # float32 is float32: torch has it so for its products, but not for cuDNN's.
    cudnn: Any = torch.backends.cudnn  # its names are made at run time
    cudnn.rnn.fp32_precision = cudnn.conv.fp32_precision = "ieee"
    if ":" not in name:
        return torch.device("cuda")
    chosen, count = torch.device(name), torch.cuda.device_count()
    if chosen.index >= count:
        raise BadSetting(
            f"device = {name!r}: this machine has {pluralize(count, 'GPU')}: "
            f"expected cuda:{count - 1} at most"
        )
    torch.cuda.set_device(chosen)  # whose streams, graphs and random numbers are taken
    return chosen


def _trouble_with_cuda() -> str | None:
    """Return nothing where CUDA works, else why not, as far as torch tells."""
    import torch

    with warnings.catch_warnings(record=True) as said:  # torch warns of a driver that is too old
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
    return str(said[0].message).partition(" (")[0].strip() if said else ""


def _trouble_with_mps() -> str | None:
    """Return nothing where Apple's GPU can compute a gradient, else why not, as far as known."""
    import torch

    if not torch.backends.mps.is_available():
        return ""
    try:
        x = torch.ones(2, 2, device="mps", requires_grad=True)
        (x @ x).softmax(-1).sum().backward()
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None


def widest_float(device: "torch.device") -> "torch.dtype":
    """Return the precision that sums are kept in: float64, which Apple's GPUs do not have."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


@contextlib.contextmanager
def deterministic_kernels(*, on: bool) -> Iterator[None]:
    """Have a GPU compute the same bits from the same numbers, where torch could be faster else.

    Kernels that add up in whatever order their parts are ready give way to others. Our own never do
    so, and a CPU does not either.
    """
    if not on:
        yield
        return
    import torch

    # cuBLAS reads it when it starts; torch refuses to multiply without it.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    filling: Any = torch.utils.deterministic  # its one name is made at run time
    filled = filling.fill_uninitialized_memory
    cudnn = torch.backends.cudnn.deterministic
    torch.use_deterministic_algorithms(True)  # noqa: FBT003
    filling.fill_uninitialized_memory = False  # we read none of it
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        filling.fill_uninitialized_memory = filled
        torch.backends.cudnn.deterministic = cudnn


def may_have_cuda() -> bool:
    """Tell whether this machine might have a CUDA device; torch knows, but takes long to ask."""
    signs = (
        *("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/nvidia0"),
        "/dev/nvmap",  # Jetson
        "/dev/dxg",  # WSL
        "/dev/kfd",  # AMD's, which torch calls CUDA too
        Path(os.environ.get("SYSTEMROOT", "/"), "System32", "nvcuda.dll"),  # Windows
    )
    return any(Path(sign).exists() for sign in signs)
