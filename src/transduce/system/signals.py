"""Signals that stop a process: Ctrl-C, SIGTERM and SIGHUP."""

import contextlib
import signal
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from transduce.errors import Interrupted

Value = TypeVar("Value")

MAY_BE_IGNORED = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()  # Windows has none
STOPPING = {signal.SIGINT, signal.SIGTERM} | MAY_BE_IGNORED  # what asks a process to end
STOPPED = "stopped at once; what was saved before is whole: the same command goes on from there"


class StopSignal:
    """Whether somebody has asked this process to end: `interrupted()` tells."""

    def __init__(self, *, several: bool) -> None:
        self.several = several
        self.asked = self.at_once = False

    def __call__(self) -> bool:
        """Tell whether somebody has asked."""
        return self.asked

    def run_unless_stopped(self, make: Callable[[], Value]) -> Value | None:
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
def stop_signals(*, several: bool = False) -> Iterator[StopSignal]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into a question for between steps.

    A second ends at once; not if there are several processes, for those get a scheduler's signal
    from torchrun once more.
    """
    interrupted = StopSignal(several=several)
    with _handled(interrupted.ask, STOPPING):
        yield interrupted


@contextlib.contextmanager
def signals_as_interrupt(words: str = STOPPED) -> Iterator[None]:
    """Treat the other signals like Ctrl-C while no step is being made; say what became of all."""

    def raise_it(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        with _handled(raise_it, STOPPING - {signal.SIGINT}):
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


def ignore_signals() -> None:
    """Let no signal disturb the end: torchrun sends SIGTERM to all as soon as one has ended."""
    with contextlib.suppress(ValueError):
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
