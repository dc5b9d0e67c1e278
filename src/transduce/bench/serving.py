"""How fast a service answers many at once, beside `translate`; and whether it lasts.

The service and a Translator have the same engine and settings, each in a process of its own, and
take turns. The clients share the cores with the service: what they cost is told.
"""

import contextlib
import functools
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bench import hardware
from transduce.bench.load import Load, Texts, drive, open_page
from transduce.bench.served import Comparison, Endurance, Memory
from transduce.bench.service import Service, command, serving
from transduce.bench.sides import Worker, by_turns, library, named
from transduce.bench.translation import read
from transduce.bench.translators import Ours, Translated, translating
from transduce.config import SearchConfig
from transduce.errors import BadInput
from transduce.runs.folder import RunConfig
from transduce.serving.limits import Limits
from transduce.system.machine import cores, terminated_as_interrupted
from transduce.system.progress import Progress, Silent, counted
from transduce.translation.engines.selection import ENGINES

MIX_SEED = 1
LONGEST_MIX = 8  # lines joined
WARM_UP = 10.0  # seconds at most, before memory is watched
LONGEST_ROUND = 3600.0  # seconds, then it ends with what was answered


@dataclass(frozen=True, slots=True)
class Served:
    """The side of the service: takes its turn with all of the texts."""

    service: Service
    texts: Texts
    clients: int
    name: str = "serve"

    def measure(self, request: tuple[str, Sequence[str]]) -> Load:
        """Have the clients ask for as many of the texts as there are lines."""
        _, lines = request
        order = iter(range(len(lines)))
        return driven(self.service, self.texts, order, clients=self.clients, seconds=LONGEST_ROUND)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is served and asked for; an engine is named as `bench translate` takes it."""

    run: Path
    source: str
    engine: str = "auto"
    clients: int = 32
    lines: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    queue: int = Limits().queue
    device: str = "auto"

    def texts(self) -> list[str]:
        """Read the lines."""
        return read(self.source, lines=self.lines)[0]


def compare(
    plan: Plan, *, single: int = 50, rounds: int = 3, progress: Progress | None = None
) -> Comparison:
    """Measure how fast a service translates the lines of a text, beside `translate`.

    `single` of them are sent by a single client, too.
    """
    progress = progress or Silent()
    texts = plan.texts()
    with both_sides(plan, texts, progress) as sides:
        wanted = sides.worker.measure(("all", texts)).outputs
        served = Served(sides.service, Texts(texts, wanted, plan.settings), plan.clients)
        page = open_page(sides.service.port)
        whole, loads = by_turns(
            [sides.worker, served], ("all", texts), rounds, _speed, progress, warm_ups=1
        )
        each = sides.worker.measure(("each", texts[:single]))
        some = iter(range(min(single, len(texts))))
        alone = driven(sides.service, served.texts, some, clients=1)
    return Comparison(
        path=sides.path,
        whole=tuple(whole),
        each=tuple(each),
        loads=tuple(loads),
        alone=alone,
        page=page,
        search=sides.search,
        text=f"{counted(len(texts), 'line')} of {plan.source}",
        machine=machine_of(sides.path),
    )


def endure(plan: Plan, seconds: float, progress: Progress | None = None) -> Endurance:
    """Load a service with texts of mixed lengths for so long; compare every answer, watch memory.

    The texts are lines of a file, paragraphs joined of several, and several lines at once.
    """
    progress = progress or Silent()
    every = plan.texts()
    mix = mixed(every)
    with both_sides(plan, every, progress) as sides:
        texts = Texts(mix, expected(sides.worker, mix), plan.settings)
        page = open_page(sides.service.port)
        draw = random.Random(MIX_SEED)
        order = iter(functools.partial(draw.randrange, len(mix)), -1)  # without end
        warm_up = min(WARM_UP, seconds / 10)
        driven(sides.service, texts, order, clients=plan.clients, seconds=warm_up)
        watch = Watch(sides.service, seconds, lambda load: f"{load.retries:,} retried")
        with progress.watch("loading") as watch.show:
            load = driven(
                *(sides.service, texts, order),
                clients=plan.clients,
                seconds=seconds,
                every_second=watch,
            )
    return Endurance(
        path=sides.path,
        load=load,
        memory=watch.memory(),
        page=page,
        search=sides.search,
        text=f"{len(mix):,} texts of mixed lengths of {len(every):,} lines of {plan.source}",
        machine=machine_of(sides.path),
    )


@dataclass(slots=True)
class Watch:
    """Called every second of a load: notes the memory of the service, and shows how it goes."""

    service: Service
    seconds: float
    note: Callable[[Load], str]  # what else is shown
    show: Callable[[float, str], None] = lambda part, note: None
    sizes: list[tuple[float, int]] = field(default_factory=list)

    def __call__(self, elapsed: float, load: Load) -> None:
        """Look once."""
        size = self.service.resident()
        if size is not None:
            self.sizes.append((elapsed, size))
        note = f"{load.answers['200']:,} answers, {load.wrong:,} wrong, {self.note(load)}"
        self.show(min(1.0, elapsed / self.seconds), note)

    def memory(self) -> Memory:
        """Return what was noted."""
        return Memory(tuple(at for at, _ in self.sizes), tuple(size for _, size in self.sizes))


class Sides(NamedTuple):
    """What is measured."""

    worker: Worker
    path: str
    service: Service
    search: SearchConfig


@contextlib.contextmanager
def both_sides(plan: Plan, texts: Sequence[str], progress: Progress) -> Iterator[Sides]:
    """Start a Translator and a service with the same engine and settings."""
    search = RunConfig.load(plan.run).search.replace(**plan.settings)
    named("engine", [plan.engine], ENGINES)
    name, _, quantize = plan.engine.partition(":")
    options = ["--engine", name, "--quantize", quantize or "none", "--device", plan.device]
    options += ["--queue", str(plan.queue)]
    with terminated_as_interrupted("stopped: nothing was measured"):
        progress.say("starting translate")
        arguments = (plan.run, plan.engine, plan.device, search, None)
        make = functools.partial(Ours, split=True)
        with Worker("translate", make, texts[0], *arguments, begin=translating) as worker:
            path = worker.started()
            progress.say("starting serve")
            with serving(command(plan.run, options)) as service:
                progress.say(f"serving on {service.address}")
                yield Sides(worker, path, service, search)


def driven(service: Service, texts: Texts, order: Iterator[int], **how: Any) -> Load:
    """Drive a load, and note what it cost the service."""
    before = service.processor_seconds()
    load = drive(service.port, texts, order, require=service.require, **how)
    after = service.processor_seconds()
    if before is not None and after is not None:
        load.service_seconds = after - before
    service.require()
    if not load.answers["200"] and load.refused:
        raise BadInput(f"the service refuses all that it is asked, with {load.refused}")
    return load


def mixed(lines: Sequence[str]) -> list[str]:
    """Return the lines, half as many paragraphs joined of several, and texts of several lines."""
    draw = random.Random(MIX_SEED)

    def several() -> list[str]:
        return draw.choices(lines, k=draw.randint(2, LONGEST_MIX))

    paragraphs = [" ".join(several()) for _ in range(0, len(lines), 2)]
    pages = ["\n".join(several()) for _ in range(0, len(lines), 4)]
    return [*lines, *paragraphs, *pages]


def expected(worker: Worker, texts: Sequence[str]) -> list[str]:
    """Return what the service must answer: line by line what `translate` writes."""
    split = [text.split("\n") for text in texts]
    found = iter(worker.measure(("all", [line for own in split for line in own])).outputs)
    return ["\n".join(itertools.islice(found, len(own))) for own in split]


def machine_of(path: str) -> dict[str, Any]:
    """Describe what was measured on, by the engine that did it."""
    libraries = dict.fromkeys(["torch", library(path.partition(" ")[0]), "fastapi", "uvicorn"])
    return hardware.describe("cuda" if "cuda" in path else "cpu", cores(), libraries)


def _speed(found: Translated | Load) -> str:
    speed = found.speed if isinstance(found, Load) else len(found.outputs) / found.seconds
    return f"{speed:,.1f} sentences/s"
