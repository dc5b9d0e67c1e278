"""What was measured of a service: as a table for people, as JSON for machines."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from transduce.bench.load import Load, Page
from transduce.bench.results import aligned, machine_in_words
from transduce.bench.told import (
    answers,
    cores_of_clients,
    cores_of_service,
    cost,
    counts,
    latency,
    lines,
    milliseconds,
    number,
    page_in_json,
    page_in_words,
    speeds,
    spread,
)
from transduce.bench.translators import Translated
from transduce.config import SearchConfig
from transduce.system.progress import counted, duration

COLUMNS = (
    *("", "sentences/s", "lowest to highest", "median, ms", "95th", "99th"),
    *("alone: median, ms", "95th", "processor, ms", "clients'"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What was measured of a service and of `translate` beside it."""

    path: str  # the engine, in words
    whole: tuple[Translated, ...]  # rounds of translate
    each: tuple[float, ...]  # seconds of single sentences through translate
    loads: tuple[Load, ...]  # rounds of the service
    alone: Load  # a single client
    page: Page
    search: SearchConfig
    text: str
    machine: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        """How many times as fast as translate the service is, by the medians."""
        return statistics.median(self._served) / statistics.median(self._translated)

    @property
    def latencies(self) -> list[float]:
        """The seconds of every answer under load."""
        return [one for load in self.loads for one in load.latencies]

    @property
    def _served(self) -> list[float]:
        return [load.speed for load in self.loads]

    @property
    def _translated(self) -> list[float]:
        return [len(one.outputs) / one.seconds for one in self.whole]

    @property
    def _ratios(self) -> list[float]:
        return [a / b for a, b in zip(self._served, self._translated, strict=True)]

    @property
    def _costs(self) -> dict[str, float | None]:
        """The processor's milliseconds for a sentence: of each side, and of the clients.

        They hardly depend on what else the machine has to do, as the speeds do.
        """
        answered = sum(load.answers["200"] for load in self.loads) or math.inf
        service = [load.service_seconds for load in self.loads if load.service_seconds is not None]
        translated = sum(one.processor_seconds for one in self.whole)
        return {
            "translate": 1000 * translated / sum(len(one.outputs) for one in self.whole),
            "serve": 1000 * sum(service) / answered if len(service) == len(self.loads) else None,
            "clients": 1000 * sum(load.client_seconds for load in self.loads) / answered,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "bench": "serve",
            "path": self.path,
            "clients": self.loads[0].clients,
            "serve": {
                **speeds(self._served),
                "latency_ms": latency(self.latencies),
                "latency_ms_alone": latency(self.alone.latencies),
                "cores": cores_of_service(self.loads),
                "cores_of_clients": cores_of_clients(self.loads),
                **counts([*self.loads, self.alone]),
            },
            "translate": {**speeds(self._translated), "latency_ms_alone": latency(self.each)},
            "ratio": round(self.ratio, 3),
            "ratios": [round(one, 3) for one in self._ratios],
            "processor_ms_per_sentence": self._costs,
            "page": page_in_json(self.page),
            **_measured_on(self),
        }

    def report(self) -> str:
        """Return a table of both sides, and under it what was measured on what."""
        rows = [
            list(COLUMNS),
            [
                "translate",
                *spread(self._translated, ",.1f"),
                *("", "", ""),
                *milliseconds(self.each, 0.5, 0.95),
                number(self._costs["translate"]),
                "",
            ],
            [
                f"serve, {counted(self.loads[0].clients, 'client')}",
                *spread(self._served, ",.1f"),
                *milliseconds(self.latencies, 0.5, 0.95, 0.99),
                *milliseconds(self.alone.latencies, 0.5, 0.95),
                number(self._costs["serve"]),
                number(self._costs["clients"]),
            ],
            ["ratio", f"{self.ratio:.3f}", spread(self._ratios, ".3f")[1], *[""] * 7],
        ]
        notes = {
            "rounds": f"median of {len(self.whole)}, each all of the text, by turns",
            "processor": "time of all its cores for a sentence; the clients share them",
            **answers([*self.loads, self.alone]),
            "page": page_in_words(self.page),
            **_measured_on_in_words(self),
        }
        return "\n".join([*aligned(rows), "", *lines(notes)])


class Memory(NamedTuple):
    """The memory that a process held, from the end of warming up on."""

    seconds: tuple[float, ...]
    sizes: tuple[int, ...]  # bytes

    @property
    def slope(self) -> float | None:
        """How it grew, in bytes a second: the line of least squares."""
        return _slope(self.seconds, self.sizes)

    @property
    def late_slope(self) -> float | None:
        """How it grew in the second half, when all that is kept once is there."""
        half = (len(self.sizes) - 1) // 2
        return _slope(self.seconds[half:], self.sizes[half:])

    def to_json(self) -> dict[str, Any]:
        """Return what was watched as a JSON object."""
        return {
            "start": self.sizes[0] if self.sizes else None,
            "middle": self.sizes[len(self.sizes) // 2] if self.sizes else None,
            "end": self.sizes[-1] if self.sizes else None,
            "bytes_per_second": self.slope,
            "bytes_per_second_late": self.late_slope,
            "seconds": [round(one, 1) for one in self.seconds],
            "sizes": list(self.sizes),
        }

    def __str__(self) -> str:
        if self.slope is None or self.late_slope is None:
            return "not known on this system"
        places = (0, len(self.sizes) // 2, -1)
        sizes = (f"{self.sizes[place] / 2**20:,.1f}" for place in places)
        whole, late = (60 * slope / 2**20 for slope in (self.slope, self.late_slope))
        return (
            f"{', '.join(sizes)} MiB at the start, in the middle and at the end; "
            f"{whole:+.2f} MiB a minute, {late:+.2f} in the second half"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Endurance:
    """What was measured of a service under load for a while."""

    path: str
    load: Load
    memory: Memory
    page: Page
    search: SearchConfig
    text: str
    machine: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return what was measured as a JSON object."""
        return {
            "bench": "serve",
            "path": self.path,
            "clients": self.load.clients,
            "seconds": round(self.load.seconds, 3),
            "texts_per_second": round(self.load.speed, 2),
            "latency_ms": latency(self.load.latencies),
            **_used(self),
            "page": page_in_json(self.page),
            **_measured_on(self),
        }

    def report(self) -> str:
        """Return what was measured, line by line."""
        load = self.load
        middle, late, latest = milliseconds(load.latencies, 0.5, 0.95, 0.99)
        used = number(cores_of_service([load])) or "unknown"
        notes = {
            "load": f"{counted(load.clients, 'client')} for {duration(load.seconds)}: "
            f"{load.speed:,.1f} texts/s",
            "latency": f"median {middle} ms, 95th percentile {late} ms, 99th {latest} ms",
            **answers([load]),
            "memory": str(self.memory),
            "cores": f"{used} for the service, {cores_of_clients([load]):.2f} for the clients",
            "page": page_in_words(self.page),
            **_measured_on_in_words(self),
        }
        return "\n".join(lines(notes))


@dataclass(frozen=True, kw_only=True, slots=True)
class Overload:
    """What was measured of a service that was asked for more than it can do."""

    path: str
    before: Load  # of clients that wait for their answers: what it can take
    alone: Load  # a single client, before
    load: Load
    offered: float  # texts in a second
    recovery: float | None  # seconds
    memory: Memory
    search: SearchConfig
    text: str
    machine: Mapping[str, Any]

    @property
    def capacity(self) -> float:
        """The texts that it can translate in a second."""
        return self.before.speed

    @property
    def answered(self) -> float:
        """The texts that were translated in a second, while it was asked for more."""
        return (self.load.answers["200"] - self.load.late) / self.load.seconds

    @property
    def costs(self) -> tuple[float | None, float | None]:
        """The processor's milliseconds for an answer, before and while it sends others away."""
        return cost(self.before), cost(self.load)

    def to_json(self) -> dict[str, Any]:
        """Return what was measured as a JSON object."""
        return {
            "bench": "overload",
            "path": self.path,
            "seconds": round(self.load.seconds, 3),
            "texts_per_second": {
                "capacity": round(self.capacity, 2),
                "offered": round(self.offered, 2),
                "answered": round(self.answered, 2),
            },
            "shed": self.load.shed,
            "most_at_once": self.load.clients,
            "latency_ms": latency(self.load.latencies),
            "latency_ms_alone": latency(self.alone.latencies),
            "recovery_seconds": self.recovery,
            "processor_ms_per_answer": self.costs,
            **_used(self),
            **_measured_on(self),
        }

    def report(self) -> str:
        """Return what was measured, line by line."""
        load = self.load
        middle, late, latest = milliseconds(load.latencies, 0.5, 0.95, 0.99)
        used = number(cores_of_service([load])) or "unknown"
        before, during = (number(one) or "unknown" for one in self.costs)
        recovery = "never" if self.recovery is None else f"after {self.recovery:.1f} s"
        notes = {
            "offered": f"{self.offered:,.1f} texts/s for {duration(load.seconds)}, of which "
            f"{self.capacity:,.1f} can be answered",
            "answered": f"{self.answered:,.1f} texts/s, {self.answered / self.capacity:.0%} of it; "
            f"{load.shed:,} were told when to come again",
            "latency": f"median {middle} ms, 95th percentile {late} ms, 99th {latest} ms; at most "
            f"{load.clients:,} at once",
            "recovered": f"{recovery}, to {milliseconds(self.alone.latencies, 0.5)[0]} ms",
            **answers([load]),
            "memory": str(self.memory),
            "processor": f"{before} ms for an answer before, {during} ms while others are shed",
            "cores": f"{used} for the service, {cores_of_clients([load]):.2f} for the clients",
            **_measured_on_in_words(self),
        }
        return "\n".join(lines(notes))


def _used(found: Endurance | Overload) -> dict[str, Any]:
    """Return what a load cost, and what came of it."""
    return {
        "cores": cores_of_service([found.load]),
        "cores_of_clients": cores_of_clients([found.load]),
        **counts([found.load]),
        "memory": found.memory.to_json(),
    }


def _measured_on(found: Comparison | Endurance | Overload) -> dict[str, Any]:
    return {
        "search": found.search.to_json(),
        "text": found.text,
        "machine": dict(found.machine),
    }


def _measured_on_in_words(found: Comparison | Endurance | Overload) -> dict[str, str]:
    return {
        "text": found.text,
        "search": f"beam {found.search.beam}, alpha {found.search.alpha}",
        "engine": found.path,
        **dict(machine_in_words(found.machine)),
    }


def _slope(seconds: Sequence[float], sizes: Sequence[int]) -> float | None:
    return statistics.linear_regression(seconds, sizes).slope if len(sizes) > 1 else None
