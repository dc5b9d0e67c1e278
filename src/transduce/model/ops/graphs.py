"""CUDA graphs: capture a sequence of kernel launches once, replay it as a whole.

A capture fails if another thread synchronises the device or empties torch's cache at the same time,
so both happen only with `LOCK` held. Other threads may do everything else, including memory
allocation and launches on other streams: the capture mode is `thread_local`.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import torch

LOCK = threading.RLock()  # one capture at a time in this process
# Failed graphs are never freed: torch's allocator may still refer to them.
_failed: list[Any] = []


def capture(run: Callable[[], None], pool: Any = None) -> "torch.cuda.CUDAGraph":
    """Return a graph of the kernels that `run` launches; call `run` once beforehand, as a warm-up.

    `pool` is the memory pool of another graph that is never replayed at the same time.
    """
    pool = torch.cuda.graph_pool_handle() if pool is None else pool
    graph = torch.cuda.CUDAGraph()
    with LOCK:
        try:
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                run()
        except BaseException:
            _failed.append(graph)
            _stop_allocating(pool)
            raise
    return graph


def _stop_allocating(pool: Any) -> None:
    """Close the memory pool of a failed capture, which torch does only if CUDA reports no error.

    An open pool would make every later `empty_cache` fail, and with it every later capture. torch
    has no public function for this.
    """
    close = getattr(torch._C, "_cuda_endAllocateToPool", None)  # noqa: SLF001
    if close is not None:
        with contextlib.suppress(RuntimeError):  # already closed
            close(torch.cuda.current_device(), pool)


def use(device: torch.device) -> None:
    """Make a GPU the current device of this thread; each thread begins with the first GPU.

    Streams, events, graphs and Triton kernels belong to the current device.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)


def empty_cache() -> None:
    """Free the GPU memory that torch caches but does not use."""
    with LOCK:
        torch.cuda.empty_cache()
