"""The machine that the work runs on: its cores and devices, its signals, its locks."""

import contextlib
import ctypes
import importlib
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from transduce.errors import BadRun, BadSetting, Interrupted
from transduce.files import WINDOWS, folder_made, naming, open_own, open_regular, read_regular
from transduce.folder import LEXICON, RECIPE, START, SUBWORDS, require_own_folders
from transduce.progress import counted
from transduce.settings import MOST

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")

DEVICES = ("auto", "cpu", "cuda", "mps")
FAR = 1 << 30  # bytes
LOCK = ".lock"
LOCK_TRIES = 5
# Names that a run folder may hold before its config.json; a corpus is checked by itself.
BEFORE_CONFIG = (
    *("corpus", SUBWORDS, START, "distilled"),
    *("trees", LEXICON, RECIPE),
)
A_LOOK = 0.05  # seconds; `in_use` holds a lock for far less
MAY_BE_IGNORED = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()  # Windows has none
ENDING = {signal.SIGINT, signal.SIGTERM} | MAY_BE_IGNORED  # what asks a process to end
GOES_ON = "stopped at once; what was saved before is whole: the same command goes on from there"


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
            f"device = {name!r}: this machine has {counted(count, 'GPU')}: "
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


def widest(device: "torch.device") -> "torch.dtype":
    """Return the precision that sums are kept in: float64, which Apple's GPUs do not have."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


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
        Path(os.environ.get("SYSTEMROOT", "/"), "System32", "nvcuda.dll"),  # Windows
    )
    return any(Path(sign).exists() for sign in signs)


def cores() -> int:
    """Return how many cores this process may use, or OMP_NUM_THREADS where it is set.

    Processes that torchrun has started share them, and OMP_NUM_THREADS is for each of them. A 1
    tells nothing there: torchrun sets it where nobody has set anything.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    here = from_torchrun("LOCAL_WORLD_SIZE", 1, least=1)
    if told.isdecimal():
        most = MOST["threads"]
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


def from_torchrun(name: str, default: int, *, least: int = 0) -> int:
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
    return from_torchrun("WORLD_SIZE", 1, least=1)


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
    """Hold a run folder for this process alone; the system releases it when the process ends.

    If the work fails before it has written anything, nothing that was made here stays.
    """
    require_run_folder(run)
    with folder_made(run):
        before = {path.name for path in run.iterdir()}
        file = _lock_file(run)
        try:
            with naming(run / LOCK):
                file.truncate(0)
                file.write(f"{os.getpid()}\n")
                file.flush()
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if WINDOWS:  # which deletes no file that is open
                    file.close()
                if {path.name for path in run.iterdir()} - before <= {LOCK} and LOCK not in before:
                    (run / LOCK).unlink()
            raise
        finally:
            with contextlib.suppress(OSError):  # closing releases the lock even if it fails
                file.close()


def _lock_file(run: Path) -> IO[str]:
    """Open and lock the file `.lock` of a run folder."""
    path = run / LOCK
    for _ in range(LOCK_TRIES):
        run.mkdir(parents=True, exist_ok=True)
        file = open_own(path, "a+", errors="replace")
        try:
            if not _lock(file):
                time.sleep(A_LOOK)  # `in_use` may have held it for a moment
                if not _lock(file):
                    file.seek(0)
                    holder = file.read(20).strip()
                    other = f"process {holder}" if holder.isdecimal() else "another process"
                    raise BadRun(f"{run} is in use by {other}")
            # A process that failed may have deleted the file since it was opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()
    raise BadRun(f"{run} is in use by another process")


def require_run_folder(run: Path) -> None:
    """Refuse a place for a run that holds something else."""
    if run.exists() and not run.is_dir():
        raise BadRun(f"{run} is a file: expected a folder for the run")
    require_own_folders(run)
    if not run.is_dir() or (run / "config.json").exists():
        return
    # A process that is killed before it writes config.json leaves these, and its lock.
    ours = BEFORE_CONFIG if is_own_lock(run / LOCK) else BEFORE_CONFIG[:1]
    for path in sorted(run.iterdir()):
        if path.name not in ours and not path.name.startswith(".") and not _is_empty(path):
            raise BadRun(f"{run} holds something else ({path.name}): choose another folder")


def is_own_lock(path: Path) -> bool:
    """Tell whether a file holds nothing but the number of a process, as ours do."""
    try:
        return re.fullmatch(rb"[0-9]{0,20}\n?", read_regular(path, 1 << 20)) is not None
    except (OSError, BadRun):
        return False


def in_use(run: Path) -> bool:
    """Tell whether a process holds a run folder with `locked`."""
    try:
        with open_regular(run / LOCK) as file:
            return not _lock(file, shared=True)  # given back at once, as the file is closed
    except (OSError, BadRun):
        return False


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Try to lock a file, which other programs may go on reading."""
    try:
        if (fcntl := _module("fcntl")) is not None:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        elif (msvcrt := _module("msvcrt")) is not None:
            # Windows locks bytes, against reading too: one far behind the text stands for all.
            place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            os.lseek(file.fileno(), FAR, os.SEEK_SET)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(file.fileno(), place, os.SEEK_SET)
    except OSError:
        return False
    return True


def _module(name: str) -> Any:
    """Return a module that only some systems have, or nothing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
