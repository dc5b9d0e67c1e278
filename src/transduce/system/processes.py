"""CPU cores, torchrun's environment variables and the C library's memory allocator."""

import contextlib
import ctypes
import os
import re

from transduce.errors import BadSetting
from transduce.settings.base import MAXIMUM


def cores() -> int:
    """Return the number of cores this process may use, or OMP_NUM_THREADS if it is set.

    Under torchrun, OMP_NUM_THREADS is multiplied by the number of processes on this machine. The
    value 1 is then ignored, because torchrun sets it by default.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "")
    processes = torchrun_number("LOCAL_WORLD_SIZE", 1, least=1)
    if threads.isdecimal():
        maximum = MAXIMUM["threads"]
        if len(threads) > len(str(maximum)) or int(threads) > maximum:  # libgomp would crash
            raise BadSetting(
                f"OMP_NUM_THREADS is {threads:.60} in the environment: expected at most "
                f"{maximum:,}; unset it to use every core"
            )
        if int(threads) > (processes > 1):
            return int(threads) * processes
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_counts() -> list[int]:
    """Return the thread counts to try, largest first; only OMP_NUM_THREADS if it is set."""
    counts = [cores()]
    while not os.environ.get("OMP_NUM_THREADS") and counts[-1] > 1:
        counts.append(counts[-1] // 2)
    return counts


def torchrun_number(name: str, default: int, *, least: int = 0) -> int:
    """Read a number from an environment variable that torchrun sets for its processes."""
    text = os.environ.get(name)
    if text is None:
        return default
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        raise BadSetting(
            f"{name} = {text!r} in the environment: expected a whole number of at least {least}, "
            f"as torchrun sets it; unset {name} to run a single process"
        )
    return int(text)


def world_size() -> int:
    """Return the number of processes that torchrun started for this command; 1 without it."""
    return torchrun_number("WORLD_SIZE", 1, least=1)


def keep_freed_memory() -> None:
    """Make the C library keep freed memory for the next step.

    Otherwise the system maps and clears the pages of every large tensor in every step.
    """
    trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of glibc
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_max, 0)
