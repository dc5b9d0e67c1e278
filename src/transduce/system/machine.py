"""The machine that the work runs on: its cores and devices, its signals, torchrun's variables."""

import contextlib
import ctypes
import os
import re
import signal
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from transduce.errors import BadSetting, Interrupted
from transduce.settings.base import MOST
from transduce.system.progress import counted

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")

DEVICES = ("auto", "cpu", "cuda", "mps")
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
