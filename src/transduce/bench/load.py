"""Many clients at once: what they are answered, how soon, and whether it is right."""

import asyncio
import json
import math
import re
import statistics
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urljoin

from transduce.bench.client import Answer, Broken, Connection, get, post
from transduce.errors import BadInput

SECONDS_TO_ANSWER = 120  # then a request counts as not answered
TRIES = 100  # of a request that the service puts off
LONGEST_PAUSE = 30.0  # seconds, whatever the service asks for
NO_ANSWER = "no answer"
OPENINGS = 5  # of the page; the median counts
FETCHED = {"js", "css", "svg", "png", "ico"}  # other references are links for people

# What a page has its browser fetch: files of HTML, and modules of JavaScript.
REFERENCE = re.compile(r"""(?:\b(?:href|src)=|\bfrom\s+|\bimport\s+|\bimport\()["']([^"'#]+)["']""")


class Texts:
    """What clients ask to be translated, and what the answers must be.

    `settings` are those of the search, as the service takes them.
    """

    def __init__(
        self, sources: Sequence[str], expected: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        self.sources, self.expected = sources, expected
        self.requests = [
            post("/api/translate", {"text": text, "split": True, **settings}) for text in sources
        ]


class Wrong(NamedTuple):
    """An answer that is not what it must be."""

    source: str
    expected: str
    found: str


@dataclass(kw_only=True, slots=True)
class Load:
    """What came of a load."""

    clients: int
    seconds: float = 0.0
    latencies: "array[float]" = field(default_factory=lambda: array("d"))  # pauses counted
    answers: Counter[str] = field(default_factory=Counter)  # by status
    retries: int = 0  # of requests that the service put off
    shed: int = 0  # requests that it put off, told when to come again, and that did not
    late: int = 0  # answers that came after the load had ended
    wrong: int = 0
    first_wrong: Wrong | None = None
    refused: str = ""  # why the first was that was, in the service's words
    client_seconds: float = 0.0  # of the processor
    service_seconds: float | None = None

    @property
    def speed(self) -> float:
        """The texts that were translated in a second."""
        return self.answers["200"] / self.seconds

    def take(self, texts: Texts, number: int, answer: Answer | None, seconds: float) -> None:
        """Count an answer, after so many seconds."""
        if answer is None:
            return
        if answer.status != 200:
            self.refused = self.refused or f"{answer.status}: {_said(answer.body, 'error')}"
            return
        self.latencies.append(seconds)
        found = _said(answer.body, "text")
        if found != texts.expected[number]:
            self.wrong += 1
            self.first_wrong = self.first_wrong or Wrong(
                texts.sources[number], texts.expected[number], found
            )


def drive(
    port: int,
    texts: Texts,
    order: Iterator[int],
    *,
    clients: int,
    seconds: float = math.inf,
    require: Callable[[], None] = lambda: None,
    every_second: Callable[[float, Load], None] = lambda elapsed, load: None,
) -> Load:
    """Have so many clients ask for texts in this order, each for the next when it is answered.

    It ends with the order, or when so many seconds have passed. `require` raises where the service
    is no longer there; `every_second` hears how the load goes.
    """
    load = Load(clients=clients)

    async def client(until: float) -> None:
        async with Connection(port) as connection:
            for number in order:
                began = time.perf_counter()
                if began > until:
                    break
                answer = await _patiently(connection, texts.requests[number], load, until, require)
                load.take(texts, number, answer, time.perf_counter() - began)

    async def tell(began: float) -> None:
        while True:
            await asyncio.sleep(1)
            every_second(time.perf_counter() - began, load)

    async def all_of_them() -> None:
        began = time.perf_counter()
        telling = asyncio.create_task(tell(began))
        await asyncio.gather(*(client(began + seconds) for _ in range(clients)))
        load.seconds = time.perf_counter() - began
        telling.cancel()

    busy = time.process_time()
    asyncio.run(all_of_them())
    load.client_seconds = time.process_time() - busy
    return load


async def _patiently(
    connection: Connection, request: bytes, load: Load, until: float, require: Callable[[], None]
) -> Answer | None:
    """Ask, and ask again after the pause that the service wants; None where it has no answer."""
    for _ in range(TRIES):
        try:
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                answer = await connection.ask(request)
        except (Broken, TimeoutError):
            require()
            load.answers[NO_ANSWER] += 1
            await asyncio.sleep(0.1)  # or a port that is closed would be asked without end
            return None
        load.answers[str(answer.status)] += 1
        if answer.status != 503 or answer.retry_after is None or time.perf_counter() > until:
            return answer
        load.retries += 1
        await asyncio.sleep(min(answer.retry_after, LONGEST_PAUSE))
    return None


def _said(body: bytes, name: str) -> str:
    """Return a field of an answer; what has none is shown as it came."""
    try:
        found = json.loads(body)[name]
    except (ValueError, KeyError, TypeError):
        found = None
    return found if isinstance(found, str) else f"no {name}: {body!r:.200}"


class Page(NamedTuple):
    """What opening the page costs."""

    files: int
    size: int  # bytes
    seconds: float


def open_page(port: int) -> Page:
    """Fetch the page and all that it refers to, one after the other, several times."""
    opened = [asyncio.run(_open_page(port)) for _ in range(OPENINGS)]
    return opened[0]._replace(seconds=statistics.median(one.seconds for one in opened))


async def _open_page(port: int) -> Page:
    began = time.perf_counter()
    waiting, size = ["/"], 0
    async with Connection(port) as connection:
        for path in waiting:  # it grows as they are read
            body = await _fetched(connection, path)
            size += len(body)
            found = REFERENCE.findall(body.decode(errors="replace"))
            waiting += dict.fromkeys(
                there
                for there in (urljoin(path, one) for one in found)
                if there.startswith("/")
                and there.rpartition(".")[2] in FETCHED
                and there not in waiting
            )
    return Page(len(waiting), size, time.perf_counter() - began)


async def _fetched(connection: Connection, path: str) -> bytes:
    try:
        answer = await connection.ask(get(path))
    except Broken as error:
        raise BadInput(f"the service did not answer GET {path}: {error}") from None
    if answer.status != 200:
        raise BadInput(f"the service answered {answer.status} to GET {path}: expected 200")
    return answer.body
