"""The machine that the work runs on: its cores and devices, its signals, its locks."""

import contextlib
import ctypes
import fcntl
import os
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from transduce.errors import BadRun, BadSetting, Interrupted
from transduce.files import naming, open_own

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")

A_LOOK = 0.05  # seconds; `in_use` holds a lock for far less
MAY_BE_IGNORED = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()  # Windows has none
ENDING = {signal.SIGINT, signal.SIGTERM} | MAY_BE_IGNORED  # what asks a process to end
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
        # float32 is float32: torch has it so for its products, but not for cuDNN's.
        cudnn: Any = torch.backends.cudnn  # its names are made at run time
        cudnn.rnn.fp32_precision = cudnn.conv.fp32_precision = "ieee"
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


@contextlib.contextmanager
def repeatable(*, on: bool) -> Iterator[None]:
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


class Interruption:
    """Whether somebody has asked this process to end: `interrupted()` tells."""

    def __init__(self, *, several: bool) -> None:
        self.several = several
        self.asked = self.at_once = False

    def __call__(self) -> bool:
        """Tell whether somebody has asked."""
        return self.asked

    def unless(self, make: Callable[[], Value]) -> Value | None:
        """Return what is made, or nothing where that was given up because somebody has asked."""
        if self.asked:
            return None
        try:
            self.at_once = True
            try:
                return make()
            finally:
                self.at_once = False
        except KeyboardInterrupt:
            return None

    def ask(self, number: int, frame: Any) -> None:
        """Handle a signal."""
        ends = self.at_once if not self.asked else not self.several
        self.asked = True
        if ends:
            raise KeyboardInterrupt


@contextlib.contextmanager
def interruptions(*, several: bool = False) -> Iterator[Interruption]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into a question for between steps.

    A second ends at once; not if there are several processes, for those get a scheduler's signal
    from torchrun once more.
    """
    interrupted = Interruption(several=several)
    with _handled(interrupted.ask, ENDING):
        yield interrupted


@contextlib.contextmanager
def terminated_as_interrupted(words: str = GOES_ON) -> Iterator[None]:
    """Treat the other signals like Ctrl-C while no step is being made; say what became of all."""

    def raise_it(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        with _handled(raise_it, ENDING - {signal.SIGINT}):
            yield
    except KeyboardInterrupt:
        raise Interrupted(words) from None


@contextlib.contextmanager
def _handled(handler: Callable[[int, Any], None], numbers: Collection[int]) -> Iterator[None]:
    """Handle signals, but for a hang-up that nohup has had ignored."""
    before = {}
    with contextlib.suppress(ValueError):  # only the main thread may handle signals
        for number in numbers:
            if number in MAY_BE_IGNORED and signal.getsignal(number) is signal.SIG_IGN:
                continue
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, one in before.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, one)


def undisturbed() -> None:
    """Let no signal disturb the end: torchrun sends SIGTERM to all as soon as one has ended."""
    with contextlib.suppress(ValueError):
        for number in ENDING:
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
            *("trees", "lexicon.json", "recipe.toml"),
        )
        foreign = [
            path.name
            for path in run.iterdir()
            if path.name not in ours and not path.name.startswith(".") and not _is_empty(path)
        ]
        if foreign:
            raise BadRun(f"{run} holds something else ({foreign[0]}): choose another folder")
    run.mkdir(parents=True, exist_ok=True)
    file = open_own(run / ".lock", "a+", errors="replace")
    try:
        if not _lock(file, fcntl.LOCK_EX):
            time.sleep(A_LOOK)  # it may have been only looked at
            if not _lock(file, fcntl.LOCK_EX):
                file.seek(0)
                holder = file.read(20).strip()
                other = f"process {holder}" if holder.isdecimal() else "another process"
                raise BadRun(f"{run} is in use by {other}")
        with naming(run / ".lock"):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield
    finally:
        with contextlib.suppress(OSError):  # the lock is let go whatever becomes of its text
            file.close()


def in_use(run: Path) -> bool:
    """Tell whether a process holds a run folder with `locked`."""
    try:
        with (run / ".lock").open(encoding="utf-8") as file:
            return not _lock(file, fcntl.LOCK_SH)  # given back at once, as the file is closed
    except OSError:
        return False


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
