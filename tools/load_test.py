"""Load test of the service. Prints JSON; progress goes to stderr.

    python tools/load_test.py RUN TEXT                               # speed against `translate`
    python tools/load_test.py RUN TEXT --seconds 300 --clients 64    # memory under sustained load
    python tools/load_test.py RUN TEXT --seconds 60 --reload 5       # reloading every 5 seconds
    python tools/load_test.py RUN TEXT --overload --seconds 900      # at twice its capacity

Every answer is compared with what `translate` writes. The service and a Translator run with the
same engine and settings, each in its own process; without --seconds they take turns.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import random
import re
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from load_clients import Load, OnSecond, Texts, closed_loop, open_loop, percentiles
from service_process import Service, running_service
from transduce.bench import hardware
from transduce.bench.translation import read_texts
from transduce.bench.translators import OurEngine, start_translating, time_all
from transduce.bench.workers import Worker
from transduce.errors import TransduceError
from transduce.runs.folder import RunConfig
from transduce.serving.limits import Limits
from transduce.system.processes import cores

WARM_UP = 10.0  # seconds at most, before memory is measured
MIX_SEED = 1
MAX_MIX = 8  # lines of a mixed text
SINGLE = 50  # texts that a single client sends alone
CAPACITY_SECONDS = 30.0  # at most, to measure the capacity before an overload
OVERLOAD_FACTOR = 2.0  # times the capacity
NORMAL_FACTOR = 2.0  # times the slowest answer to a single client before the overload
OVERLOAD_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The model, the text and the load; engines are named as for `bench translate`."""

    run: Path
    source: str
    engine: str = "auto"
    clients: int = 32
    rounds: int = 3
    lines: int | None = None
    queue: int = Limits().queue
    settings: dict[str, Any] = field(default_factory=dict)

    def read(self) -> list[str]:
        """Read the lines of the text that are not blank."""
        return read_texts(self.source, lines=self.lines)[0]


class Sides(NamedTuple):
    """`translate` in a worker, and the service."""

    translate: Callable[[Sequence[str]], Any]
    service: Service
    engine: str

    def expected(self, texts: Sequence[str]) -> list[str]:
        """Return what the service must answer: what `translate` writes, line by line."""
        parts = [text.split("\n") for text in texts]
        outputs = iter(self.translate([line for lines in parts for line in lines]).outputs)
        return ["\n".join(itertools.islice(outputs, len(lines))) for lines in parts]


@contextlib.contextmanager
def both_sides(plan: Plan, first: str) -> Iterator[Sides]:
    """Start a Translator and a service with the same engine and settings."""
    search = RunConfig.load(plan.run).search.replace(**plan.settings)
    name, _, quantize = plan.engine.partition(":")
    options = ["--engine", name, "--quantize", quantize or "none", "--queue", str(plan.queue)]
    ours = functools.partial(OurEngine, split=True)
    arguments = (ours, first, plan.run, plan.engine, "auto", search, None)
    with Worker("translate", *arguments, begin=start_translating) as worker:
        engine = worker.started()
        with running_service(plan.run, options) as service:
            say(f"serving on {service.address}")
            yield Sides(lambda lines: worker.call(time_all, lines), service, engine)


def compare(plan: Plan) -> dict[str, Any]:
    """Measure the service and `translate` on all lines of a text, in turn."""
    lines = plan.read()
    with both_sides(plan, lines[0]) as sides:
        texts = Texts(lines, sides.expected(lines), plan.settings)
        loads: list[Load] = []
        speeds: list[float] = []
        for number in range(1 + plan.rounds):  # the first round is a warm-up
            translated = sides.translate(lines)
            speeds.append(len(lines) / translated.seconds)
            order = iter(range(len(lines)))
            loads.append(closed_loop(sides.service.port, texts, order, clients=plan.clients))
            say(f"round {number}: translate {speeds[-1]:.1f}/s, serve {loads[-1].speed:.1f}/s")
        order = iter(range(min(SINGLE, len(lines))))
        alone = closed_loop(sides.service.port, texts, order, clients=1)
    del loads[0], speeds[0]
    return {
        "ratio": round(median_speed(loads) / statistics.median(speeds), 3),
        "translate": {"rounds": [round(speed, 2) for speed in speeds]},
        "serve": {
            "latency_ms": percentiles([second for load in loads for second in load.latencies]),
            "wrong": sum(load.wrong for load in [*loads, alone]),
            "rounds": [load.to_json() for load in loads],
            "single_client": alone.to_json(),
        },
        **circumstances(sides.engine, plan, len(lines)),
    }


def endure(plan: Plan, seconds: float, reload_every: int = 0) -> dict[str, Any]:
    """Load the service with texts of mixed lengths, and record its memory.

    With `reload_every`, the model is reloaded whenever this many seconds have passed.
    """
    lines = plan.read()
    sources = mix(lines)
    with both_sides(plan, lines[0]) as sides:
        texts = Texts(sources, sides.expected(sources), plan.settings)
        order = iter(functools.partial(random.Random(MIX_SEED).randrange, len(sources)), -1)
        drive = functools.partial(closed_loop, sides.service.port, texts, clients=plan.clients)
        drive(order, seconds=min(WARM_UP, seconds / 10))
        memory: list[int] = []
        on_second = watch(sides.service, memory, reload_every)
        load = drive(order, seconds=seconds, on_second=on_second)
        reloads = reload_count(sides.service)
    return {
        **load.to_json(),
        "reloads": reloads,
        "memory": memory_to_json(memory),
        **circumstances(sides.engine, plan, len(sources)),
    }


class Overload(NamedTuple):
    """Measurements of a service that gets more requests than it can answer."""

    before: Load  # closed loop: its capacity
    load: Load
    offered: float  # texts per second
    recovery: float | None  # seconds until a single client's latency was normal again
    memory: list[int]
    engine: str

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as a JSON object."""
        return {
            "capacity": round(self.before.speed, 2),
            "offered": round(self.offered, 2),
            **self.load.to_json(),
            "recovery_seconds": self.recovery,
            "memory": memory_to_json(self.memory),
        }


def overload(plan: Plan, seconds: float, seed: int = 1) -> Overload:
    """Send a service requests at twice its capacity.

    Concurrent requests have different texts, so that each is searched separately.
    """
    lines = list(dict.fromkeys(plan.read()))
    queue = max(1, min(plan.queue, len(lines) // 2))
    with both_sides(replace(plan, queue=queue), lines[0]) as sides:
        texts = Texts(lines, sides.expected(lines), plan.settings)
        order = itertools.cycle(range(len(lines)))
        drive = functools.partial(closed_loop, sides.service.port, texts)
        drive(order, clients=plan.clients, seconds=min(WARM_UP, seconds / 10))
        alone = drive(itertools.islice(order, SINGLE), clients=1)
        before = drive(order, clients=plan.clients, seconds=min(CAPACITY_SECONDS, seconds / 4))
        say(f"capacity {before.speed:.1f} texts/s: offering {OVERLOAD_FACTOR:g} times as many")
        memory: list[int] = [sides.service.memory()]
        load, recovery = open_loop(
            *(sides.service.port, texts, order),
            rate=OVERLOAD_FACTOR * before.speed,
            seconds=seconds,
            normal=NORMAL_FACTOR * max(alone.latencies),
            seed=seed,
            on_second=watch(sides.service, memory),
        )
    sent = load.statuses.total() / load.seconds
    return Overload(before, load, sent, recovery, memory, sides.engine)


def watch(service: Service, memory: list[int], reload_every: int = 0) -> OnSecond:
    """Record the memory of the service every second; report every ten; reload if requested."""

    def on_second(elapsed: float, load: Load) -> None:
        memory.append(service.memory())
        if reload_every and len(memory) % reload_every == 0:
            os.kill(service.pid, signal.SIGHUP)
        if len(memory) % 10 == 0:
            answers = f"{load.statuses['200']:,} answers, {load.wrong:,} wrong"
            say(f"{elapsed:.0f} s: {answers}, {load.retries + load.shed:,} put off")

    return on_second


def reload_count(service: Service) -> int:
    """Return how often the service has replaced its model."""
    with urlopen(f"{service.address}/metrics") as answer:  # noqa: S310
        text = answer.read().decode()
    counts = re.findall(r'^transduce_reloads_total\{.*"replaced"\} (\S+)$', text, re.MULTILINE)
    return sum(int(float(count)) for count in counts)


def memory_to_json(sizes: Sequence[int]) -> dict[str, Any]:
    """Return bytes at the start, in the middle and at the end, and the growth per second."""
    if len(sizes) < 4:
        return {"sizes": list(sizes)}
    second_half = sizes[len(sizes) // 2 :]
    slope = statistics.linear_regression(range(len(second_half)), second_half).slope
    return {
        "start": sizes[0],
        "middle": sizes[len(sizes) // 2],
        "end": sizes[-1],
        "bytes_per_second_in_second_half": round(slope),
    }


def mix(lines: Sequence[str]) -> list[str]:
    """Return the lines, paragraphs joined from several lines, and texts of several lines."""
    draw = random.Random(MIX_SEED)

    def several() -> list[str]:
        return draw.choices(lines, k=draw.randint(2, MAX_MIX))

    paragraphs = [" ".join(several()) for _ in range(0, len(lines), 2)]
    pages = ["\n".join(several()) for _ in range(0, len(lines), 4)]
    return [*lines, *paragraphs, *pages]


def median_speed(loads: Sequence[Load]) -> float:
    """Return the median of the rounds in texts per second."""
    return statistics.median(load.speed for load in loads)


def circumstances(engine: str, plan: Plan, texts: int) -> dict[str, Any]:
    """Return the engine, the text and the machine."""
    return {
        "engine": engine,
        "clients": plan.clients,
        "text": f"{texts:,} texts of {plan.source}",
        "settings": plan.settings,
        "machine": hardware.describe("cpu", cores(), ["torch", "fastapi", "uvicorn"]),
    }


def say(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Parse the options, measure, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("source", help="text to translate")
    parser.add_argument("--clients", type=int, default=32, help="concurrent clients")
    parser.add_argument("--seconds", type=float, help="duration of a sustained load or overload")
    parser.add_argument("--reload", type=int, default=0, help="reload the model every N seconds")
    parser.add_argument("--overload", action="store_true", help="offer twice the capacity")
    parser.add_argument("--engine", default="auto", help="auto, torch, ctranslate2:int8 …")
    parser.add_argument("--lines", type=int, help="lines of the text; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side, by turns")
    parser.add_argument("--queue", type=int, default=Limits().queue, help="as for `serve`")
    parser.add_argument("--beam", type=int)
    parser.add_argument("--alpha", type=float)
    options = parser.parse_args()
    settings = {"beam": options.beam, "alpha": options.alpha}
    plan = Plan(
        run=options.run,
        source=options.source,
        engine=options.engine,
        clients=options.clients,
        rounds=options.rounds,
        lines=options.lines,
        queue=options.queue,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    try:
        if options.overload:
            report = overload(plan, options.seconds or OVERLOAD_SECONDS).to_json()
        elif options.seconds:
            report = endure(plan, options.seconds, options.reload)
        else:
            report = compare(plan)
    except (TransduceError, KeyboardInterrupt) as error:
        raise SystemExit(str(error) or "stopped: nothing was measured") from None
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
