"""What was measured of a service: as a table for people, as JSON for machines."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from transduce.bench.load import Load, Page, Wrong
from transduce.bench.results import aligned, machine_in_words, quantile
from transduce.bench.translators import Translated
from transduce.config import SearchConfig
from transduce.progress import duration

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
                **_speeds(self._served),
                "latency_ms": _latency(self.latencies),
                "latency_ms_alone": _latency(self.alone.latencies),
                "cores": _cores_of_service(self.loads),
                "cores_of_clients": _cores_of_clients(self.loads),
                **_counts([*self.loads, self.alone]),
            },
            "translate": {**_speeds(self._translated), "latency_ms_alone": _latency(self.each)},
            "ratio": round(self.ratio, 3),
            "ratios": [round(one, 3) for one in self._ratios],
            "processor_ms_per_sentence": self._costs,
            "page": _page(self.page),
            "search": self.search.to_json(),
            "text": self.text,
            "machine": dict(self.machine),
        }

    def report(self) -> str:
        """Return a table of both sides, and under it what was measured on what."""
        rows = [
            list(COLUMNS),
            [
                "translate",
                *_range(self._translated, ",.1f"),
                *("", "", ""),
                *_milliseconds(self.each, 0.5, 0.95),
                _number(self._costs["translate"]),
                "",
            ],
            [
                f"serve, {self.loads[0].clients} clients",
                *_range(self._served, ",.1f"),
                *_milliseconds(self.latencies, 0.5, 0.95, 0.99),
                *_milliseconds(self.alone.latencies, 0.5, 0.95),
                _number(self._costs["serve"]),
                _number(self._costs["clients"]),
            ],
            ["ratio", f"{self.ratio:.3f}", _range(self._ratios, ".3f")[1], *[""] * 7],
        ]
        notes = {
            "rounds": f"median of {len(self.whole)}, each all of the text, by turns",
            "processor": "time of all its cores for a sentence; the clients share them",
            **_answers([*self.loads, self.alone]),
            "page": _page_in_words(self.page),
            "text": self.text,
            "search": f"beam {self.search.beam}, alpha {self.search.alpha}",
            "engine": self.path,
            **dict(machine_in_words(self.machine)),
        }
        return "\n".join([*aligned(rows), "", *_lines(notes)])


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
            "latency_ms": _latency(self.load.latencies),
            "cores": _cores_of_service([self.load]),
            "cores_of_clients": _cores_of_clients([self.load]),
            **_counts([self.load]),
            "memory": self.memory.to_json(),
            "page": _page(self.page),
            "search": self.search.to_json(),
            "text": self.text,
            "machine": dict(self.machine),
        }

    def report(self) -> str:
        """Return what was measured, line by line."""
        load = self.load
        middle, late, latest = _milliseconds(load.latencies, 0.5, 0.95, 0.99)
        used = _number(_cores_of_service([load])) or "unknown"
        notes = {
            "load": f"{load.clients} clients for {duration(load.seconds)}: "
            f"{load.speed:,.1f} texts/s",
            "latency": f"median {middle} ms, 95th percentile {late} ms, 99th {latest} ms",
            **_answers([load]),
            "memory": str(self.memory),
            "cores": f"{used} for the service, {_cores_of_clients([load]):.2f} for the clients",
            "page": _page_in_words(self.page),
            "text": self.text,
            "search": f"beam {self.search.beam}, alpha {self.search.alpha}",
            "engine": self.path,
            **dict(machine_in_words(self.machine)),
        }
        return "\n".join(_lines(notes))


def _slope(seconds: Sequence[float], sizes: Sequence[int]) -> float | None:
    return statistics.linear_regression(seconds, sizes).slope if len(sizes) > 1 else None


def _speeds(rounds: Sequence[float]) -> dict[str, Any]:
    return {
        "sentences_per_second": round(statistics.median(rounds), 2),
        "rounds": [round(one, 2) for one in rounds],
    }


def _latency(seconds: Sequence[float]) -> dict[str, float | None]:
    return {
        name: quantile(seconds, part)
        for name, part in (("median", 0.5), ("95", 0.95), ("99", 0.99))
    }


def _cores_of_service(loads: Sequence[Load]) -> float | None:
    """Return how many cores the service kept busy in the mean, where the system tells."""
    busy = [load.service_seconds for load in loads if load.service_seconds is not None]
    return _cores(busy, loads) if len(busy) == len(loads) else None


def _cores_of_clients(loads: Sequence[Load]) -> float:
    return _cores([load.client_seconds for load in loads], loads)


def _cores(busy: Sequence[float], loads: Sequence[Load]) -> float:
    return round(sum(busy) / sum(load.seconds for load in loads), 3)


def _counts(loads: Sequence[Load]) -> dict[str, Any]:
    answers, retries, wrong, first = _total(loads)
    return {
        "answers": answers,
        "retries": retries,
        "first_refused": _refused(loads) or None,
        "wrong": wrong,
        "first_wrong": first._asdict() if first else None,
    }


def _answers(loads: Sequence[Load]) -> dict[str, str]:
    """Say in words what the clients were answered."""
    answers, retries, wrong, first = _total(loads)
    said = ", ".join(f"{count:,} with {status}" for status, count in answers.items())
    notes = {
        "answers": f"{said}; {retries:,} retried after 503",
        **({"first refused": refused} if (refused := _refused(loads)) else {}),
        "wrong": f"{wrong:,} that differ from what translate writes",
    }
    if first:
        notes |= {
            "first wrong": repr(first.source),
            "  expected": repr(first.expected),
            "  found": repr(first.found),
        }
    return notes


def _refused(loads: Sequence[Load]) -> str:
    return next((load.refused for load in loads if load.refused), "")


def _total(loads: Sequence[Load]) -> tuple[dict[str, int], int, int, Wrong | None]:
    """Add up what was answered."""
    statuses = sorted({status for load in loads for status in load.answers})
    return (
        {status: sum(load.answers[status] for load in loads) for status in statuses},
        sum(load.retries for load in loads),
        sum(load.wrong for load in loads),
        next((load.first_wrong for load in loads if load.first_wrong), None),
    )


def _page(page: Page) -> dict[str, Any]:
    return {"files": page.files, "bytes": page.size, "ms": round(1000 * page.seconds, 2)}


def _page_in_words(page: Page) -> str:
    size = f"{page.files} files, {page.size / 1000:,.1f} kB"
    return f"{size}, in {1000 * page.seconds:,.1f} ms one after the other"


def _range(rounds: Sequence[float], form: str) -> list[str]:
    lowest, highest = min(rounds), max(rounds)
    return [f"{statistics.median(rounds):{form}}", f"{lowest:{form}} to {highest:{form}}"]


def _milliseconds(seconds: Sequence[float], *parts: float) -> list[str]:
    return [_number(quantile(seconds, part), ",.1f") for part in parts]


def _number(value: float | None, form: str = ".2f") -> str:
    return "" if value is None else f"{value:{form}}"


def _lines(notes: Mapping[str, str]) -> list[str]:
    return [f"{name:12} {value}" for name, value in notes.items()]
