"""The sides of a comparison: each in a process of its own, working by turns.

In one process they would share the allocator with its fragments and caches, the pool of threads,
and whatever a library changes when it is imported; a new process for every round would mostly
import and warm up. So each side has one process through all rounds, and while one works the others
wait for a message, which costs no time of a core.

Nothing here imports torch before the process is ready to be stopped quietly.
"""

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from transduce.errors import TransduceError

WARM_UP = 2  # steps before the clock of every round: caches are cold after the other's turn


class Seen(NamedTuple):
    """What a step worked on."""

    target_tokens: int  # that have a loss: padding has none
    cells: int  # places for tokens, of source and target
    padding: int  # those of them that hold no token


class Side(Protocol):
    """One of those that are compared."""

    parameters: int  # that are learned

    def prepare(self, steps: int) -> None:
        """Do what the clock shall not see before so many steps."""

    def step(self) -> Seen:
        """Make one step of training."""

    def synchronise(self) -> None:
        """Wait until the device has done what it was told."""


@dataclass(frozen=True, slots=True)
class Round:
    """What the clock saw of a number of steps."""

    steps: int
    seconds: float
    target_tokens: int
    padding: float  # the share of cells that hold no token

    @property
    def target_tokens_per_second(self) -> float:
        """The speed that is compared."""
        return self.target_tokens / self.seconds

    @property
    def milliseconds_per_step(self) -> float:
        """The mean time of a step."""
        return 1000 * self.seconds / self.steps


def measure(side: Side, steps: int) -> Round:
    """Warm up, then time so many steps."""
    side.prepare(WARM_UP + steps)
    for _ in range(WARM_UP):
        side.step()
    side.synchronise()
    began = time.perf_counter()
    seen = [side.step() for _ in range(steps)]
    side.synchronise()
    seconds = time.perf_counter() - began
    target_tokens, cells, padding = (sum(column) for column in zip(*seen, strict=True))
    return Round(steps, seconds, target_tokens, padding / cells)


class Worker:
    """A process that holds one side, and measures a round of it when asked."""

    def __init__(self, name: str, make: Callable[..., Side], *arguments: Any) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")  # a fork would inherit what we loaded
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), name=name, daemon=True)
        self.process.start()
        theirs.close()  # no other copy stays open, so if the worker dies we notice at once
        self._send((make, arguments))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """End the process, whatever it is doing."""
        self.connection.close()
        self.process.terminate()
        self.process.join()

    def parameters(self) -> int:
        """Wait until the side is made, and return how many parameters it learns."""
        return int(self._receive())

    def measure(self, steps: int) -> Round:
        """Measure a round."""
        self._send(steps)
        answer = self._receive()
        assert isinstance(answer, Round)
        return answer

    def _send(self, message: Any) -> None:
        with contextlib.suppress(ConnectionError):  # what went wrong is said where we receive
            self.connection.send(message)

    def _receive(self) -> Any:
        try:
            answer = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise TransduceError(
                f"the process that measures {self.name} ended (status {self.process.exitcode}), "
                "perhaps for want of memory: try a smaller batch_tokens or a smaller preset"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def serve(connection: Connection) -> None:
    """Make the side that is asked for, then measure it as often as wanted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too; our parent ends us
    try:
        make, arguments = connection.recv()
        side: Side = make(*arguments)
        connection.send(side.parameters)
        while True:
            connection.send(measure(side, connection.recv()))
    except (EOFError, ConnectionError):  # nobody asks any more
        return
    except Exception as error:
        connection.send(_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error that can go to another process, with a meaning there."""
    if isinstance(error, TransduceError | OSError):
        return error
    full = any(words in str(error) for words in ("out of memory", "can't allocate memory"))
    if full or isinstance(error, MemoryError):  # torch has a class for it on the GPU alone
        return MemoryError()
    return RuntimeError(f"in the process that measures:\n{traceback.format_exc()}")
