"""The sides of a comparison: each in a process of its own, working by turns.

In one process they would share the allocator with its fragments and caches, the pool of threads,
and whatever a library changes when it is imported; a new process for every round would mostly
import and warm up. So each side has one process through all rounds, and while one works the others
wait for a message, which costs no time of a core.

Nothing here imports torch before the process is ready to be stopped quietly.
"""

import contextlib
import functools
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
from typing import Any, NamedTuple, Protocol, Self, cast

from transduce.bench.hardware import peak_memory, synchronise
from transduce.errors import (
    BadSetting,
    MissingExtra,
    TransduceError,
    did_you_mean,
    is_out_of_memory,
)
from transduce.system.progress import Progress

SECONDS_TO_END = 10  # for a process to put its libraries' things away
WARM_UP = 2  # steps before the clock of every round: caches are cold after the other's turn
NONE = "none"  # no peer
# What some sides need, and the extra that it comes with.
LIBRARIES = {"huggingface": ("transformers", "huggingface"), "ctranslate2": ("ctranslate2", "fast")}

Work = Callable[[Any], Any]  # answers a request


class Seen(NamedTuple):
    """What a step worked on."""

    target_tokens: int  # that have a loss: padding has none
    source_tokens: int
    places_source: int  # for tokens, whether they hold one or not
    places_target: int


class Side(Protocol):
    """One of those that are compared."""

    device: str
    parameters: int  # that are learned
    precision: str  # of its matrix products

    @property
    def path(self) -> str:
        """How it works, in words."""

    def prepare(self, steps: int) -> None:
        """Do what the clock shall not see before so many steps."""

    def step(self) -> Seen:
        """Make one step of training."""


class Saves(Side, Protocol):
    """One that writes checkpoints."""

    @property
    def writes(self) -> bool:
        """Whether one is being written while steps are made."""

    def save(self) -> None:
        """Write a checkpoint, or begin to."""


class Started(NamedTuple):
    """What there is to tell of a side that has made its first step."""

    parameters: int
    precision: str
    path: str
    seconds: float  # from nothing to the end of the first step


@dataclass(frozen=True, slots=True)
class Round:
    """What the clock saw of a number of steps."""

    steps: int
    seconds: float
    seen: Seen  # in all steps together
    peak_memory: int  # of the process until now

    @property
    def target_tokens_per_second(self) -> float:
        """The speed that is compared."""
        return self.seen.target_tokens / self.seconds

    @property
    def milliseconds_per_step(self) -> float:
        """The mean time of a step."""
        return 1000 * self.seconds / self.steps


def total(seen: Sequence[Seen]) -> Seen:
    """Add up what several steps worked on."""
    return Seen(*(sum(column) for column in zip(*seen, strict=True)))


def start(make: Callable[..., Side], *arguments: Any) -> tuple[Side, Started]:
    """Make a side and its first step, which compiles what is compiled."""
    began = time.perf_counter()
    side = make(*arguments)
    side.prepare(1)
    side.step()
    synchronise(side.device)
    seconds = time.perf_counter() - began
    return side, Started(side.parameters, side.precision, side.path, seconds)


def measure(side: Side, steps: int) -> Round:
    """Warm up, then time so many steps."""
    side.prepare(WARM_UP + steps)
    for _ in range(WARM_UP):
        side.step()
    synchronise(side.device)
    began = time.perf_counter()
    seen = [side.step() for _ in range(steps)]
    synchronise(side.device)
    seconds = time.perf_counter() - began
    return Round(steps, seconds, total(seen), peak_memory(side.device))


def training(make: Callable[..., Side], *arguments: Any) -> tuple[Started, Work]:
    """Make a side that trains, ready to measure rounds of so many steps."""
    side, started = start(make, *arguments)
    return started, functools.partial(measure, side)


class Saving(NamedTuple):
    """What a checkpoint costs, in seconds."""

    checkpoint: float  # that training takes longer for one
    step: float


def saving(make: Callable[..., Saves], *arguments: Any) -> tuple[Started, Work]:
    """Make a side that trains, ready to measure what it takes to save, beside so many steps."""
    side, started = start(make, *arguments)
    return started, functools.partial(save, cast("Saves", side))


def save(side: Saves, steps: int) -> Saving:
    """Time so many steps, then a checkpoint, and the steps that are made while it is written."""
    step = measure(side, steps).seconds / steps
    began, made = time.perf_counter(), 0
    side.save()
    took = time.perf_counter() - began
    while side.writes:
        side.prepare(steps)
        began = time.perf_counter()
        for _ in range(steps):
            side.step()
        synchronise(side.device)
        took += time.perf_counter() - began
        made += steps
    return Saving(took - made * step, step)


class Worker:
    """A process that holds one side, and does what it is asked with it, such as a round of steps.

    Its libraries are imported before any clock runs; `environment` is what those read when they
    are, and gives way to what the user has set. `begin` makes the side, and returns what there is
    to tell of it and what answers each request.
    """

    def __init__(
        self,
        name: str,
        *arguments: Any,
        begin: Callable[..., tuple[Any, Work]] = training,
        imports: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")  # a fork would inherit what we loaded
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, dict(environment)), name=name, daemon=True
        )
        self.process.start()
        theirs.close()  # no other copy stays open, so if the worker dies we notice at once
        self._send((begin, arguments, imports))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """End the process: let it end by itself if all went well, else whatever it is doing."""
        self.connection.close()
        if kind is None:
            self.process.join(SECONDS_TO_END)
        self.process.terminate()
        self.process.join()

    def started(self) -> Any:
        """Wait until the side is made, and return what there is to tell of it."""
        return self._receive()

    def measure(self, request: Any) -> Any:
        """Measure a round, or whatever the side is asked for."""
        self._send(request)
        return self._receive()

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
                "perhaps for want of memory: try smaller batches or a smaller model"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def serve(connection: Connection, environment: Mapping[str, str]) -> None:
    """Make the side that is asked for, then measure it as often as wanted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too; our parent ends us
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    try:
        begin, arguments, imports = connection.recv()
        for library in imports:
            importlib.import_module(library)
        started, work = begin(*arguments)
        connection.send(started)
        while True:
            connection.send(work(connection.recv()))
    except (EOFError, ConnectionError):  # nobody asks any more
        return
    except Exception as error:
        connection.send(_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error that can go to another process, with a meaning there."""
    if isinstance(error, TransduceError | OSError):
        return error
    if is_out_of_memory(error):
        return MemoryError()
    return RuntimeError(f"in the process that measures:\n{traceback.format_exc()}")


def installed(name: str) -> bool:
    """Tell whether the library of a side is there."""
    return find_spec(LIBRARIES[name][0]) is not None


def library(name: str) -> str:
    """Return what a side is measured with: its library, or torch."""
    return LIBRARIES.get(name.partition(":")[0], ("torch",))[0]


def named(kind: str, wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return those that are wanted, each once, or refuse what cannot be.

    Behind ctranslate2 there may be a quantisation: ctranslate2:int8.
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


def named_peers(
    wanted: Sequence[str] | None, known: Sequence[str], progress: Progress
) -> list[str]:
    """Return the peers that are wanted; where nobody says, huggingface if it is installed."""
    if wanted is None:
        if installed("huggingface"):
            return ["huggingface"]
        progress.say("transformers is not installed: measuring without a peer")
        return []
    names = named("peer", wanted, [*known, NONE])
    if NONE in names and len(names) > 1:
        raise BadSetting(f"--peer {NONE} is no peer: give it alone, or only the others")
    return [name for name in names if name != NONE]


def by_turns(
    workers: Sequence[Worker],
    request: Any,
    rounds: int,
    in_words: Callable[[Any], str],
    progress: Progress,
    *,
    warm_ups: int = 0,
) -> list[list[Any]]:
    """Let the sides work one after the other, round by round, so that all meet the same weather.

    The first rounds may be for warming up: they are left out. -> the rounds of each side.
    """
    found: list[list[Any]] = [[] for _ in workers]
    turns = (warm_ups + rounds) * len(workers)
    with progress.watch("measuring") as show:
        for number in range(1 - warm_ups, rounds + 1):
            for worker, own in zip(workers, found, strict=True):
                own.append(worker.measure(request))
                what = f"round {number}" if number > 0 else "warming up"
                part = sum(map(len, found)) / turns
                show(part, f"{what}, {worker.name}: {in_words(own[-1])}")
    return [own[warm_ups:] for own in found]
