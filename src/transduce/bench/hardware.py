"""Facts about this machine, and the speed of its matrix products."""

import platform
import sys
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from transduce import __version__
from transduce.system.processes import cores


def describe(device: str, threads: int, libraries: Iterable[str]) -> dict[str, Any]:
    """Return facts about this machine that measurements depend on."""
    return {
        "device": device,
        "gpu": _gpu() if device == "cuda" else None,
        "processor": processor(),
        "cores": cores(),
        "threads": threads,
        "versions": {"python": platform.python_version(), "transduce": __version__}
        | {name: metadata.version(name) for name in libraries},
    }


def processor(listing: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model name of the processor, or its architecture."""
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


class Product(NamedTuple):
    """A square matrix product large enough to reach the peak rate of a device."""

    size: int
    precision: str
    warm_ups: int
    timed: int


PRODUCTS = {"cuda": Product(8192, "bf16", 3, 10), "cpu": Product(2048, "float32", 1, 3)}


def matrix_rate(device: str, threads: int) -> dict[str, Any]:
    """Measure the FLOPs per second of a matrix product on an idle machine."""
    import torch

    product = PRODUCTS[device]
    dtype = torch.bfloat16 if product.precision == "bf16" else torch.float32
    previous_threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    a, b, c = torch.randn(3, product.size, product.size, device=device).to(dtype)
    for _ in range(product.warm_ups):
        torch.mm(a, b, out=c)
    synchronise(device)
    began = time.perf_counter()
    for _ in range(product.timed):
        torch.mm(a, b, out=c)
    synchronise(device)
    seconds = time.perf_counter() - began
    torch.set_num_threads(previous_threads)
    if device == "cuda":
        del a, b, c
        torch.cuda.empty_cache()  # leaves the memory to the sides
    return {
        "size": product.size,
        "precision": product.precision,
        "flops_per_second": round(2 * product.size**3 * product.timed / seconds),
    }


def synchronise(device: str) -> None:
    """Wait until the device has finished its work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def peak_memory(device: str, status: Path = Path("/proc/self/status")) -> int:
    """Return the peak memory of this process in bytes: of the GPU, or of main memory."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    if status.exists():
        # Not getrusage: on Linux its peak includes that of the parent process.
        for line in status.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM":
                return 1024 * int(value.split()[0])
    try:
        import resource
    except ImportError:  # not available on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name()
