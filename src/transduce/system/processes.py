"""CPU cores, torchrun's environment variables and the C library's memory allocator."""

import contextlib
import ctypes
import os
import re

from transduce.errors import BadSetting
from transduce.settings.base import MAXIMUM


def cores() -> int:
    """Return how many cores this process may use, or OMP_NUM_THREADS where it is set.

    Processes that torchrun has started share them, and OMP_NUM_THREADS is for each of them. A 1
    tells nothing there: torchrun sets it where nobody has set anything.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    here = torchrun_number("LOCAL_WORLD_SIZE", 1, least=1)
    if told.isdecimal():
        most = MAXIMUM["threads"]
        if len(told) > len(str(most)) or int(told) > most:  # libgomp would crash
            raise BadSetting(
                f"OMP_NUM_THREADS is {told:.60} in the environment: expected at most {most:,}; "
                "unset it to use every core"
            )
        if int(told) > (here > 1):
            return int(told) * here
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_counts() -> list[int]:
    """Return the numbers of threads worth trying, most first.

    Where OMP_NUM_THREADS is set, its number is the only one.
    """
    counts = [cores()]
    while not os.environ.get("OMP_NUM_THREADS") and counts[-1] > 1:
        counts.append(counts[-1] // 2)
    return counts


def torchrun_number(name: str, default: int, *, least: int = 0) -> int:
    """Read a number that torchrun sets in the environment of the processes that it starts."""
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
    """Return how many processes torchrun has started for this command; 1 without it."""
    return torchrun_number("WORLD_SIZE", 1, least=1)


def keep_freed_memory() -> None:
    """Have the C library keep what was freed for the next step instead of giving it back.

    Else each large tensor is mapped and cleared by the system anew, page by page.
    """
    trim_threshold, mmap_max = -1, -4  # glibc's names for them, M_TRIM_THRESHOLD and M_MMAP_MAX
    with contextlib.suppress(OSError, AttributeError):  # no glibc
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_max, 0)
