"""What was measured of a service, in words for people and in values for machines."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from transduce.bench.load import Load, Page, Wrong
from transduce.bench.results import quantile


def cost(load: Load) -> float | None:
    """Return the processor's milliseconds for an answer, where the system tells."""
    if load.service_seconds is None or not load.answers["200"]:
        return None
    return 1000 * load.service_seconds / load.answers["200"]


def speeds(rounds: Sequence[float]) -> dict[str, Any]:
    """Return the rounds of a side, and their median."""
    return {
        "sentences_per_second": round(statistics.median(rounds), 2),
        "rounds": [round(one, 2) for one in rounds],
    }


def latency(seconds: Sequence[float]) -> dict[str, float | None]:
    """Return the milliseconds of answers: the median, and what few exceed."""
    return {
        name: quantile(seconds, part)
        for name, part in (("median", 0.5), ("95", 0.95), ("99", 0.99))
    }


def cores_of_service(loads: Sequence[Load]) -> float | None:
    """Return how many cores the service kept busy in the mean, where the system tells."""
    busy = [load.service_seconds for load in loads if load.service_seconds is not None]
    return _cores(busy, loads) if len(busy) == len(loads) else None


def cores_of_clients(loads: Sequence[Load]) -> float:
    """Return how many cores the clients kept busy in the mean."""
    return _cores([load.client_seconds for load in loads], loads)


def _cores(busy: Sequence[float], loads: Sequence[Load]) -> float:
    return round(sum(busy) / sum(load.seconds for load in loads), 3)


def counts(loads: Sequence[Load]) -> dict[str, Any]:
    """Return what the clients were answered."""
    statuses, retries, wrong, first = _total(loads)
    return {
        "answers": statuses,
        "retries": retries,
        "first_refused": _refused(loads) or None,
        "wrong": wrong,
        "first_wrong": first._asdict() if first else None,
    }


def answers(loads: Sequence[Load]) -> dict[str, str]:
    """Say in words what the clients were answered."""
    statuses, retries, wrong, first = _total(loads)
    said = ", ".join(f"{count:,} with {status}" for status, count in statuses.items())
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


def page_in_json(page: Page) -> dict[str, Any]:
    """Return what opening the page costs."""
    return {"files": page.files, "bytes": page.size, "ms": round(1000 * page.seconds, 2)}


def page_in_words(page: Page) -> str:
    """Say what opening the page costs."""
    size = f"{page.files} files, {page.size / 1000:,.1f} kB"
    return f"{size}, in {1000 * page.seconds:,.1f} ms one after the other"


def spread(rounds: Sequence[float], form: str) -> list[str]:
    """Write the median of some rounds, and from where to where they go."""
    lowest, highest = min(rounds), max(rounds)
    return [f"{statistics.median(rounds):{form}}", f"{lowest:{form}} to {highest:{form}}"]


def milliseconds(seconds: Sequence[float], *parts: float) -> list[str]:
    """Write some quantiles of seconds."""
    return [number(quantile(seconds, part), ",.1f") for part in parts]


def number(value: float | None, form: str = ".2f") -> str:
    """Write a number, where there is one."""
    return "" if value is None else f"{value:{form}}"


def lines(notes: Mapping[str, str]) -> list[str]:
    """Write notes below each other."""
    return [f"{name:12} {value}" for name, value in notes.items()]
