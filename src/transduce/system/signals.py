"""Signals that stop a process: Ctrl-C, SIGTERM and SIGHUP; a time limit."""

import contextlib
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from transduce.errors import Interrupted

Value = TypeVar("Value")

MAY_BE_IGNORED = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()  # Windows has no SIGHUP
STOPPING = {signal.SIGINT, signal.SIGTERM} | MAY_BE_IGNORED
STOPPED = (
    "stopped at once; everything saved before is intact: the same command continues from there"
)


class StopSignal:
    """Records whether this process was asked to stop; call it between steps."""

    def __init__(self, *, several: bool) -> None:
        self.several = several  # this is one of several processes
        self.received = False
        self.may_interrupt = False  # the first signal may raise KeyboardInterrupt

    def __call__(self) -> bool:
        """Return whether a signal was received."""
        return self.received

    def run_unless_stopped(self, work: Callable[[], Value]) -> Value | None:
        """Return the result of `work`, or None if a signal arrived before or during it."""
        if self.received:
            return None
        try:
            self.may_interrupt = True
            try:
                return work()
            finally:
                self.may_interrupt = False
        except KeyboardInterrupt:
            return None

    def handle(self, number: int, frame: Any) -> None:
        """Handle a signal."""
        interrupt = self.may_interrupt if not self.received else not self.several
        self.received = True
        if interrupt:
            raise KeyboardInterrupt


@contextlib.contextmanager
def stop_signals(*, several: bool = False) -> Iterator[StopSignal]:
    """Record the first Ctrl-C, SIGTERM or SIGHUP, so that the caller can stop between steps.

    A second signal interrupts at once, unless there are `several` processes, because torchrun
    repeats the scheduler's signal to each of them.
    """
    stop = StopSignal(several=several)
    with _handler(stop.handle, STOPPING):
        yield stop


@contextlib.contextmanager
def signals_as_interrupt(message: str = STOPPED) -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C; raise `Interrupted` with this message for each."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        with _handler(interrupt, STOPPING - {signal.SIGINT}):
            yield
    except KeyboardInterrupt:
        raise Interrupted(message) from None


@contextlib.contextmanager
def _handler(handle: Callable[[int, Any], None], numbers: Collection[int]) -> Iterator[None]:
    """Handle signals inside the block, except a SIGHUP that nohup ignores."""
    before = {}
    with contextlib.suppress(ValueError):  # only the main thread may handle signals
        for number in numbers:
            if number in MAY_BE_IGNORED and signal.getsignal(number) is signal.SIG_IGN:
                continue
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, previous in before.items():
            if signal.getsignal(number) == handle:
                signal.signal(number, previous)


def ignore_signals() -> None:
    """Ignore signals during exit: torchrun sends SIGTERM to all when the first process ends."""
    with contextlib.suppress(ValueError):
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer, even inside a regular expression.

    There is no limit where Python has no timers (Windows), in other threads than the main one, and
    if the program uses the signal of the timer itself.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and hasattr(signal, "setitimer")):
        yield
        return
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
