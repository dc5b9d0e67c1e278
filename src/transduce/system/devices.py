"""Choosing a device, and torch's global flags."""

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
    """Return the device with this name; auto selects a working GPU, or else the CPU.

    `mps=False` excludes Apple's GPUs.
    """
    import torch

    kind, colon, number = name.partition(":")
    known = DEVICES if mps else DEVICES[:-1]
    if kind not in known or (colon and not (kind == "cuda" and number.isdecimal())):
        raise BadSetting(
            f"device = {name!r}: expected {', '.join(known)}, or cuda:1 for the second GPU"
        )
    for gpu, check in (("cuda", _check_cuda), ("mps", _check_mps)):
        if kind not in ("auto", gpu) or gpu not in known:
            continue
        problem = check()
        if problem is None:
            return _cuda(name) if gpu == "cuda" else torch.device("mps")
        if kind == gpu:
            reason = problem or f"this machine or this build of torch has no {gpu.upper()} device"
            raise BadSetting(f"device = {name!r}: {reason}; --device cpu works everywhere")
        if problem:
            say(f"the GPU cannot be used, using the CPU: {problem}")
    return torch.device("cpu")


def _cuda(name: str) -> "torch.device":
    """Set torch's flags for CUDA, and make the named GPU the current one."""
    import torch

    # cuDNN's attention spends 10 ms planning each new shape, and every decoding step has a new one.
    torch.backends.cuda.enable_cudnn_sdp(False)  # noqa: FBT003
    # Full float32 precision: torch's default for matrix products, but not for cuDNN.
    cudnn: Any = torch.backends.cudnn  # type checkers do not know its attributes
    cudnn.rnn.fp32_precision = cudnn.conv.fp32_precision = "ieee"
    if ":" not in name:
        return torch.device("cuda")
    device, count = torch.device(name), torch.cuda.device_count()
    if device.index >= count:
        raise BadSetting(
            f"device = {name!r}: this machine has {pluralize(count, 'GPU')}: "
            f"expected cuda:{count - 1} at most"
        )
    torch.cuda.set_device(device)  # the default for streams, graphs and random numbers
    return device


def _check_cuda() -> str | None:
    """Return None if CUDA works, else torch's reason, or "" if it gives none."""
    import torch

    with warnings.catch_warnings(record=True) as caught:  # torch warns about an old driver
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
    return str(caught[0].message).partition(" (")[0].strip() if caught else ""


def _check_mps() -> str | None:
    """Return None if Apple's GPU can compute a gradient, else the reason, or "" if unknown."""
    import torch

    if not torch.backends.mps.is_available():
        return ""
    try:
        x = torch.ones(2, 2, device="mps", requires_grad=True)
        (x @ x).softmax(-1).sum().backward()
    except (RuntimeError, AssertionError) as error:  # the latter if torch was built without MPS
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None


def widest_float(device: "torch.device") -> "torch.dtype":
    """Return the widest float type of a device: float32 on Apple's GPUs, else float64."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


@contextlib.contextmanager
def deterministic_kernels(*, on: bool) -> Iterator[None]:
    """Force deterministic CUDA kernels (slower).

    Our own kernels and torch's CPU kernels are always deterministic.
    """
    if not on:
        yield
        return
    import torch

    # cuBLAS reads this when it starts; torch refuses matrix products without it.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    was_on = torch.are_deterministic_algorithms_enabled()
    flags: Any = torch.utils.deterministic  # type checkers do not know its attribute
    fill = flags.fill_uninitialized_memory
    cudnn = torch.backends.cudnn.deterministic
    torch.use_deterministic_algorithms(True)  # noqa: FBT003
    flags.fill_uninitialized_memory = False  # we never read uninitialized memory
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on)
        flags.fill_uninitialized_memory = fill
        torch.backends.cudnn.deterministic = cudnn


def may_have_cuda() -> bool:
    """Return whether this machine might have a CUDA device, without importing torch (slow)."""
    paths = (
        *("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/nvidia0"),
        "/dev/nvmap",  # Jetson
        "/dev/dxg",  # WSL
        "/dev/kfd",  # AMD GPUs, which torch also calls CUDA devices
        Path(os.environ.get("SYSTEMROOT", "/"), "System32", "nvcuda.dll"),  # Windows
    )
    return any(Path(path).exists() for path in paths)
