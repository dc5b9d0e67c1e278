"""The sides of a comparison, each in its own process, working in turn.

In one process they would share the allocator, the thread pool and the global state of libraries; a
new process for every round would mostly import and warm up. So each side keeps its process through
all rounds; while one works, the others wait for a message.

torch is imported only after the process has set up its signals.
"""

import contextlib
import importlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Protocol, Self

from transduce.bench.hardware import peak_memory, synchronise
from transduce.errors import (
    BadSetting,
    MissingExtra,
    TransduceError,
    did_you_mean,
    is_out_of_memory,
)
from transduce.system.progress import Progress

STOP_TIMEOUT = 10  # seconds
WARM_UP = 2  # untimed steps before every round: the other side has filled the caches
NONE = "none"  # no peer
# The library of a side, and the extra that installs it.
LIBRARIES = {"huggingface": ("transformers", "huggingface"), "ctranslate2": ("ctranslate2", "fast")}


class StepTokens(NamedTuple):
    """The tokens of a step."""

    target_tokens: int  # without padding
    source_tokens: int
    places_source: int  # padding included
    places_target: int
    weights_by_length: int = 0  # applied because of the lengths of sentences (bench/flops.py)


class Side(Protocol):
    """One side of a training benchmark."""

    device: str
    parameters: int  # trainable
    precision: str  # of matrix products

    @property
    def path(self) -> str:
        """A description of the implementation."""

    def prepare(self, steps: int) -> None:
        """Prepare `steps` steps; not timed."""

    def step(self) -> StepTokens:
        """Train for one step."""


class SavingSide(Side, Protocol):
    """A side that writes checkpoints."""

    @property
    def writes(self) -> bool:
        """Whether a checkpoint is being written in the background."""

    def save(self) -> None:
        """Write a checkpoint, or start writing it in the background."""


class Started(NamedTuple):
    """Facts about a side after its first step."""

    parameters: int
    precision: str
    path: str
    seconds: float  # from its construction to the end of the first step


@dataclass(frozen=True, slots=True)
class Round:
    """The timing of a number of steps."""

    steps: int
    seconds: float
    tokens: StepTokens  # of all steps
    peak_memory: int  # bytes of the process so far

    @property
    def target_tokens_per_second(self) -> float:
        """The speed."""
        return self.tokens.target_tokens / self.seconds

    @property
    def milliseconds_per_step(self) -> float:
        """The mean time of a step."""
        return 1000 * self.seconds / self.steps


def total(tokens: Sequence[StepTokens]) -> StepTokens:
    """Add up the tokens of several steps."""
    return StepTokens(*(sum(column) for column in zip(*tokens, strict=True)))


def start(make: Callable[..., Side], *arguments: Any) -> tuple[Side, Started]:
    """Create a side and train for one step, which compiles kernels."""
    start_time = time.perf_counter()
    side = make(*arguments)
    side.prepare(1)
    side.step()
    synchronise(side.device)
    seconds = time.perf_counter() - start_time
    return side, Started(side.parameters, side.precision, side.path, seconds)


def measure(side: Side, steps: int) -> Round:
    """Warm up, then time `steps` steps."""
    side.prepare(WARM_UP + steps)
    for _ in range(WARM_UP):
        side.step()
    synchronise(side.device)
    start_time = time.perf_counter()
    tokens = [side.step() for _ in range(steps)]
    synchronise(side.device)
    seconds = time.perf_counter() - start_time
    return Round(steps, seconds, total(tokens), peak_memory(side.device))


class Saving(NamedTuple):
    """The cost of checkpoints, in seconds."""

    checkpoint: float  # time that one checkpoint adds to training
    step: float


def measure_saving(side: SavingSide, steps: int) -> Saving:
    """Time `steps` steps, then a checkpoint and the steps while it is written."""
    step = measure(side, steps).seconds / steps
    start_time, done = time.perf_counter(), 0
    side.save()
    seconds = time.perf_counter() - start_time
    while side.writes:
        side.prepare(steps)
        start_time = time.perf_counter()
        for _ in range(steps):
            side.step()
        synchronise(side.device)
        seconds += time.perf_counter() - start_time
        done += steps
    return Saving(seconds - done * step, step)


class Worker:
    """A process that creates one side and calls functions with it, such as `measure`.

    Libraries are imported before any timing; `environment` holds defaults for the variables
    that they read. `begin` creates the side, and returns it with facts about it.
    """

    def __init__(
        self,
        name: str,
        *arguments: Any,
        begin: Callable[..., tuple[Any, Any]] = start,
        imports: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")  # a fork would inherit our libraries
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=run_worker, args=(theirs, dict(environment)), name=name, daemon=True
        )
        self.process.start()
        theirs.close()  # so that we notice when the worker exits
        self._send((begin, arguments, imports))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """End the process: wait for it after success, else terminate it."""
        self.connection.close()
        if kind is None:
            self.process.join(STOP_TIMEOUT)
        self.process.terminate()
        self.process.join()

    def started(self) -> Any:
        """Wait until the side is created, and return the facts about it."""
        return self._receive()

    def call(self, function: Callable[[Any, Any], Any], argument: Any) -> Any:
        """Call a function with the side and an argument; return the result."""
        self._send((function, argument))
        return self._receive()

    def _send(self, message: Any) -> None:
        with contextlib.suppress(ConnectionError):  # the error is raised when we receive
            self.connection.send(message)

    def _receive(self) -> Any:
        try:
            answer = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise TransduceError(
                f"the process that measures {self.name} ended with status {self.process.exitcode}, "
                "perhaps out of memory: try smaller batches or a smaller model"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def run_worker(connection: Connection, environment: Mapping[str, str]) -> None:
    """Create the side, then call functions with it until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    try:
        begin, arguments, imports = connection.recv()
        for library in imports:
            importlib.import_module(library)
        side, started = begin(*arguments)
        connection.send(started)
        while True:
            function, argument = connection.recv()
            connection.send(function(side, argument))
    except (EOFError, ConnectionError):  # the parent has closed the connection
        return
    except Exception as error:
        connection.send(picklable(error))


def picklable(error: Exception) -> Exception:
    """Return an error that can be sent to another process."""
    if isinstance(error, TransduceError | OSError):
        return error
    if is_out_of_memory(error):
        return MemoryError()
    return RuntimeError(f"in another process:\n{traceback.format_exc()}")


def installed(name: str) -> bool:
    """Return whether the library of a side is installed."""
    return find_spec(LIBRARIES[name][0]) is not None


def library(name: str) -> str:
    """Return the library of a side."""
    return LIBRARIES.get(name.partition(":")[0], ("torch",))[0]


def check_names(kind: str, wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the names without duplicates; raise an error for an unknown or missing one.

    ctranslate2 may include a quantization: ctranslate2:int8.
    """
    for name in wanted:
        plain, colon, _ = name.partition(":")
        if plain not in known or (colon and plain != "ctranslate2"):
            raise BadSetting(
                f"there is no {kind} {name}.{did_you_mean(plain, known)} "
                f"The {kind}s are: {', '.join(known)}"
            )
        if plain in LIBRARIES and not installed(plain):
            raise MissingExtra(f"--{kind} {name}", *LIBRARIES[plain])
    return list(dict.fromkeys(wanted))


def choose_peers(
    wanted: Sequence[str] | None, known: Sequence[str], progress: Progress
) -> list[str]:
    """Return the peers; by default huggingface, if it is installed."""
    if wanted is None:
        if installed("huggingface"):
            return ["huggingface"]
        progress.say("transformers is not installed: measuring without a peer")
        return []
    names = check_names("peer", wanted, [*known, NONE])
    if NONE in names and len(names) > 1:
        raise BadSetting(f"--peer {NONE} excludes other peers: give it alone, or leave it out")
    return [name for name in names if name != NONE]


def take_turns(
    workers: Sequence[Worker],
    function: Callable[[Any, Any], Any],
    argument: Any,
    rounds: int,
    describe: Callable[[Any], str],
    progress: Progress,
    *,
    warm_ups: int = 0,
) -> list[list[Any]]:
    """Call a function with each side in turn, round by round, under the same conditions.

    Return the results of each side, without the first `warm_ups`.
    """
    results: list[list[Any]] = [[] for _ in workers]
    turns = (warm_ups + rounds) * len(workers)
    with progress.watch("measuring") as show:
        for number in range(1 - warm_ups, rounds + 1):
            for worker, answers in zip(workers, results, strict=True):
                answers.append(worker.call(function, argument))
                label = f"round {number}" if number > 0 else "warming up"
                share = sum(map(len, results)) / turns
                show(share, f"{label}, {worker.name}: {describe(answers[-1])}")
    return [answers[warm_ups:] for answers in results]
