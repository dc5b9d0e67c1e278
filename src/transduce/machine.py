"""The machine that the work runs on: its cores and devices, its signals, its locks."""

import contextlib
import ctypes
import fcntl
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from transduce.errors import BadRun, BadSetting, Interrupted
from transduce.files import open_own

if TYPE_CHECKING:
    import torch


A_LOOK = 0.05  # seconds; `in_use` holds a lock for far less
GOES_ON = "stopped at once; what was saved before is whole: the same command goes on from there"


def choose_device(name: str, say: Callable[[str], None] = lambda _: None) -> "torch.device":
    """Return the device by its name; auto is the GPU where there is one that works."""
    import torch

    if name not in ("auto", "cpu", "cuda"):
        raise BadSetting(f"device = {name!r}: expected auto, cpu or cuda")
    if name == "cpu":
        return torch.device("cpu")
    with warnings.catch_warnings(record=True) as said:  # torch warns of a driver that is too old
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        # cuDNN's attention plans every new shape anew, 10 ms each: decoding has nothing but those.
        torch.backends.cuda.enable_cudnn_sdp(False)  # noqa: FBT003
        return torch.device("cuda")
    reason = str(said[0].message).partition(" (")[0].strip() if said else ""
    if name == "cuda":
        raise BadSetting(
            "device = 'cuda': "
            + (reason or "this machine or this build of torch has no CUDA device")
            + "; --device cpu works everywhere"
        )
    if reason:
        say(f"the GPU cannot be used, so the CPU is: {reason}")
    return torch.device("cpu")


def may_have_cuda() -> bool:
    """Tell whether this machine might have a CUDA device; torch knows, but takes long to ask."""
    signs = (
        *("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/nvidia0"),
        "/dev/nvmap",  # Jetson
        "/dev/dxg",  # WSL
        "/dev/kfd",  # AMD's, which torch calls CUDA too
    )
    return any(Path(sign).exists() for sign in signs)


def cores() -> int:
    """Return how many cores this process may use, or OMP_NUM_THREADS where it is set.

    Processes that torchrun has started share them, and OMP_NUM_THREADS is for each of them. A 1
    tells nothing there: torchrun sets it where nobody has set anything.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if told.isdecimal() and int(told) > (here > 1):
        return int(told) * here
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_memory() -> None:
    """Have the C library keep what was freed for the next step instead of giving it back.

    Else each large tensor is mapped and cleared by the system anew, page by page.
    """
    trim_threshold, mmap_max = -1, -4  # glibc's names for them, M_TRIM_THRESHOLD and M_MMAP_MAX
    with contextlib.suppress(OSError, AttributeError):  # no glibc
        library = ctypes.CDLL(None)
        library.mallopt(trim_threshold, 2**31 - 1)
        library.mallopt(mmap_max, 0)


@contextlib.contextmanager
def interruptions(*, several: bool = False) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a question for between steps; a second ends at once.

    Not if there are several processes, for those get a scheduler's signal from torchrun once more.
    """
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked and not several:
            raise KeyboardInterrupt
        asked = True

    before = {}
    with contextlib.suppress(ValueError):  # only the main thread may handle signals
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is ask:
                signal.signal(number, handler)


@contextlib.contextmanager
def terminated_as_interrupted(words: str = GOES_ON) -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C while no step is being made, and say what became of the work."""

    def raise_it(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = None
    with contextlib.suppress(ValueError):
        before = signal.signal(signal.SIGTERM, raise_it)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(words) from None
    finally:
        if before is not None and signal.getsignal(signal.SIGTERM) is raise_it:
            signal.signal(signal.SIGTERM, before)


def undisturbed() -> None:
    """Let no signal disturb the end: torchrun sends SIGTERM to all as soon as one has ended."""
    with contextlib.suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold a run folder for this process alone; the system lets go when the process ends."""
    if run.exists() and not run.is_dir():
        raise BadRun(f"{run} is a file: expected a folder for the run")
    if run.is_dir() and not (run / "config.json").exists():
        # What there is before a run has its config.json.
        ours = (
            *("corpus", "subwords.json", "start.safetensors", "distilled"),
            *("trees", "lexicon.json"),
        )
        foreign = [
            path.name
            for path in run.iterdir()
            if path.name not in ours and not path.name.startswith(".")
        ]
        if foreign:
            raise BadRun(f"{run} holds something else ({foreign[0]}): choose another folder")
    run.mkdir(parents=True, exist_ok=True)
    with open_own(run / ".lock", "a+") as file:
        if not _lock(file, fcntl.LOCK_EX):
            time.sleep(A_LOOK)  # it may have been only looked at
            if not _lock(file, fcntl.LOCK_EX):
                file.seek(0)
                raise BadRun(f"{run} is in use by process {file.read().strip()}")
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def in_use(run: Path) -> bool:
    """Tell whether a process holds a run folder with `locked`."""
    try:
        with (run / ".lock").open(encoding="utf-8") as file:
            return not _lock(file, fcntl.LOCK_SH)  # given back at once, as the file is closed
    except OSError:
        return False


def _lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
