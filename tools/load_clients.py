"""Clients of a load test: closed loop (each waits for its answer) and open loop (fixed rate).

The HTTP client is written by hand, because clients share the cores with the service. A request
takes 0.06 ms of processor time here, and 4 ms with httpx (1,500 requests from 32 clients on a busy
machine).
"""

import asyncio
import contextlib
import json
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOST = "127.0.0.1"
TIMEOUT = 120.0  # seconds, after which a request counts as not answered
MAX_TRIES = 100  # for a request that is answered with 503
MAX_PAUSE = 30.0  # seconds, even if Retry-After is longer
NO_ANSWER = "no answer"
MAX_RECOVERY = 120.0  # seconds
STEADY = 3  # answers in a row at normal latency that count as recovered

OnSecond = Callable[[float, "Load"], None]  # called every second with the seconds since the start


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes
    retry_after: float | None  # seconds


class Texts:
    """Texts to translate, their expected translations, and the requests."""

    def __init__(
        self, sources: Sequence[str], expected: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        self.sources, self.expected = sources, expected
        self.requests = [_post({"text": text, "split": True, **settings}) for text in sources]


def _post(content: Any) -> bytes:
    body = json.dumps(content, ensure_ascii=False).encode()
    head = f"POST /api/translate HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@dataclass(kw_only=True, slots=True)
class Load:
    """Counts and latencies of a load."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # seconds, retries included
    statuses: Counter[str] = field(default_factory=Counter)
    retries: int = 0  # requests sent again after 503
    shed: int = 0  # 429 and 503 with Retry-After that were not retried
    late: int = 0  # answers after the end of an open loop
    wrong: int = 0
    first_wrong: dict[str, str] | None = None
    first_error: str = ""  # status and body of the first answer that is neither 200 nor shed
    most_at_once: int = 0
    client_seconds: float = 0.0  # processor time of the clients

    @property
    def speed(self) -> float:
        """Translated texts per second."""
        return (self.statuses["200"] - self.late) / self.seconds

    def add(self, texts: Texts, number: int, response: Response, seconds: float) -> None:
        """Count a final response to a text and compare the translation."""
        if response.status != 200:
            self.first_error = self.first_error or f"{response.status}: {response.body!r:.200}"
            return
        self.latencies.append(seconds)
        translation = json.loads(response.body)["text"]
        if translation != texts.expected[number]:
            self.wrong += 1
            self.first_wrong = self.first_wrong or {
                "source": texts.sources[number],
                "expected": texts.expected[number],
                "found": translation,
            }

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "seconds": round(self.seconds, 3),
            "texts_per_second": round(self.speed, 2),
            "latency_ms": percentiles(self.latencies),
            "statuses": dict(sorted(self.statuses.items())),
            "retries": self.retries,
            "shed": self.shed,
            "wrong": self.wrong,
            "first_wrong": self.first_wrong,
            "first_error": self.first_error or None,
            "most_at_once": self.most_at_once,
            "client_cores": round(self.client_seconds / self.seconds, 3),
        }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median, 95th and 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return {
        name: round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)
        for name, share in (("median", 0.5), ("95", 0.95), ("99", 0.99))
        if ordered
    }


class Connection:
    """A keep-alive connection that reconnects if the service has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> Response | None:
        """Send a request; return None if there is no answer."""
        tries = 2 if self._streams is not None else 1  # an idle connection may have been closed
        for _ in range(tries):
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                async with asyncio.timeout(TIMEOUT):
                    return await self._exchange(request)
        return None

    async def close(self) -> None:
        """Close the connection if it is open."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, request: bytes) -> Response:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(HOST, self.port)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            headers = dict(re.findall(rb"\r\n([^:\r]+):[ \t]*([^\r]*)", head))
            body = await reader.readexactly(int(headers[b"content-length"]))
        except BaseException:
            # The answer may still arrive; the next request must not read it.
            await self.close()
            raise
        if headers.get(b"connection") == b"close":
            await self.close()
        pause = headers.get(b"retry-after")
        return Response(int(head[9:12]), body, float(pause) if pause else None)


def closed_loop(
    port: int,
    texts: Texts,
    order: Iterator[int],
    *,
    clients: int,
    seconds: float = 3600.0,
    on_second: OnSecond = lambda elapsed, load: None,
) -> Load:
    """Send the texts in order; each client sends the next one when it has its answer.

    Ends after `seconds` or with the last text. 503 is retried after Retry-After.
    """

    async def client(load: Load, end: float) -> None:
        connection = Connection(port)
        for number in order:
            start = time.perf_counter()
            if start > end:
                break
            response = await _send_patiently(connection, texts.requests[number], load, end)
            if response is not None:
                load.add(texts, number, response, time.perf_counter() - start)
        await connection.close()

    async def run(load: Load) -> None:
        load.most_at_once = clients
        start = time.perf_counter()
        await asyncio.gather(*(client(load, start + seconds) for _ in range(clients)))
        load.seconds = time.perf_counter() - start

    return _run(run, on_second)


async def _send_patiently(
    connection: Connection, request: bytes, load: Load, end: float
) -> Response | None:
    for _ in range(MAX_TRIES):
        response = await connection.send(request)
        if response is None:
            load.statuses[NO_ANSWER] += 1
            await asyncio.sleep(0.1)  # a closed port must not be tried in a tight loop
            return None
        load.statuses[str(response.status)] += 1
        if response.status != 503 or response.retry_after is None or time.perf_counter() > end:
            return response
        load.retries += 1
        await asyncio.sleep(min(response.retry_after, MAX_PAUSE))
    return None


def open_loop(
    port: int,
    texts: Texts,
    order: Iterator[int],
    *,
    rate: float,
    seconds: float,
    normal: float,
    seed: int,
    on_second: OnSecond = lambda elapsed, load: None,
) -> tuple[Load, float | None]:
    """Send requests at random times (a Poisson process), without waiting for answers.

    Return the load and the seconds until a single client's latency is at most `normal` again;
    None: never.
    """
    recovery: float | None = None

    async def run(load: Load) -> None:
        nonlocal recovery
        idle: list[Connection] = []
        pending: set[asyncio.Task[None]] = set()
        start = time.perf_counter()
        for due in _arrivals(rate, seconds, seed):
            await asyncio.sleep(start + due - time.perf_counter())
            connection = idle.pop() if idle else Connection(port)
            task = asyncio.create_task(_send_once(connection, texts, next(order), load, idle))
            pending.add(task)
            task.add_done_callback(pending.discard)
            load.most_at_once = max(load.most_at_once, len(pending))
        load.seconds = time.perf_counter() - start
        answered = load.statuses["200"]
        recovery = await _recovery(port, texts, order, load, normal)
        await asyncio.gather(*pending)
        load.late = load.statuses["200"] - answered
        for connection in idle:
            await connection.close()

    return _run(run, on_second), recovery


def _arrivals(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Yield the times of a Poisson process."""
    draw = random.Random(seed)
    due = draw.expovariate(rate)
    while due < seconds:
        yield due
        due += draw.expovariate(rate)


async def _send_once(
    connection: Connection, texts: Texts, number: int, load: Load, idle: list[Connection]
) -> None:
    start = time.perf_counter()
    response = await connection.send(texts.requests[number])
    load.statuses[str(response.status) if response else NO_ANSWER] += 1
    if response is not None:
        idle.append(connection)
        if response.status in (429, 503) and response.retry_after is not None:
            load.shed += 1
        else:
            load.add(texts, number, response, time.perf_counter() - start)


async def _recovery(
    port: int, texts: Texts, order: Iterator[int], load: Load, normal: float
) -> float | None:
    """Send one request after another until the latency is normal again."""
    end = time.perf_counter()
    recovered_at, steady = end, 0
    while time.perf_counter() - end < MAX_RECOVERY:
        single = Load()
        start = time.perf_counter()
        connection = Connection(port)
        await _send_once(connection, texts, next(order), single, [])
        await connection.close()
        load.wrong += single.wrong
        load.first_wrong = load.first_wrong or single.first_wrong
        if single.latencies and time.perf_counter() - start <= normal:
            steady += 1
            if steady == STEADY:
                return recovered_at - end
        else:
            recovered_at, steady = time.perf_counter(), 0
            await asyncio.sleep(0.05)
    return None


def _run(run: Callable[[Load], Awaitable[None]], on_second: OnSecond) -> Load:
    """Run clients; call `on_second` every second; record their processor time."""
    load = Load()

    async def tick(start: float) -> None:
        while True:
            await asyncio.sleep(1)
            on_second(time.perf_counter() - start, load)

    async def run_with_ticks() -> None:
        ticking = asyncio.create_task(tick(time.perf_counter()))
        await run(load)
        ticking.cancel()

    processor = time.process_time()
    asyncio.run(run_with_ticks())
    load.client_seconds = time.process_time() - processor
    return load
