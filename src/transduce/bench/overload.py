"""A service that is asked for more than it can do: what it answers, and how it recovers.

Requests arrive at random times and do not wait for each other, as those of many strangers; whoever
is put off does not come again. The texts that are under way at one time are all different, so that
nothing is searched once for several.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bench.client import Broken, Connection
from transduce.bench.load import NO_ANSWER, SECONDS_TO_ANSWER, Load, Texts
from transduce.bench.served import Memory, Overload
from transduce.bench.service import Service
from transduce.bench.serving import WARM_UP, both_sides, driven, expected, machine_of
from transduce.bench.translation import read
from transduce.errors import BadInput
from transduce.progress import Progress, Silent
from transduce.web.limits import Limits

TIMES = 2.0  # of what it can take that are offered
SEED = 1
ALONE = 20  # requests of a single client that tell what is normal
CAPACITY = 30.0  # seconds at most in which it is measured what the service can take
NORMAL = 2.0  # times the slowest answer of before that is normal again
STEADY = 3  # answers in a row that are to be so
LONGEST_RECOVERY = 120.0  # seconds
LEAST = 20  # texts


class Crowd(NamedTuple):
    """What came of an overload."""

    load: Load
    offered: float  # requests in a second
    recovery: float | None  # seconds from its end until a single client's answers were as before


def overload(
    run: Path,
    source: str,
    *,
    seconds: float,
    engine: str = "auto",
    clients: int = 32,
    lines: int | None = None,
    settings: Mapping[str, Any] | None = None,
    queue: int = Limits().queue,
    device: str = "auto",
    seed: int = SEED,
    progress: Progress | None = None,
) -> Overload:
    """Offer a service twice of what it can take for so long, and compare every answer.

    What it can take is measured before, by so many clients that wait for their answers.
    """
    from transduce.web.doors import files

    progress = progress or Silent()
    files()  # each request that waits has a connection
    every = list(dict.fromkeys(read(source, lines=lines)[0]))
    if len(every) < LEAST:
        raise BadInput(f"{source} has {len(every)} different lines: expected {LEAST} at least")
    queue = min(queue, len(every) // 2)
    watched: list[tuple[float, int]] = []
    with both_sides(run, engine, device, settings or {}, queue, every, progress) as sides:
        texts = Texts(every, expected(sides.worker, every), settings or {})
        order = itertools.cycle(range(len(every)))
        driven(sides.service, texts, order, clients=clients, seconds=min(WARM_UP, seconds / 10))
        few = itertools.islice(order, ALONE)
        alone = driven(sides.service, texts, few, clients=1)
        limit = min(CAPACITY, seconds / 4)
        before = driven(sides.service, texts, order, clients=clients, seconds=limit)
        progress.say(f"it answers {before.speed:,.1f} texts/s: offering {TIMES:g} times of it")
        with progress.watch("overloading") as show:

            def every_second(elapsed: float, load: Load) -> None:
                size = sides.service.resident()
                if size is not None:
                    watched.append((elapsed, size))
                note = f"{load.answers['200']:,} answers, {load.wrong:,} wrong, {load.shed:,} shed"
                show(min(1.0, elapsed / seconds), note)

            crowd = _crowded(
                *(sides.service, texts, order),
                rate=TIMES * before.speed,
                seconds=seconds,
                normal=NORMAL * max(alone.latencies),
                seed=seed,
                every_second=every_second,
            )
    return Overload(
        path=sides.path,
        before=before,
        alone=alone,
        load=crowd.load,
        offered=crowd.offered,
        recovery=crowd.recovery,
        memory=Memory(tuple(time for time, _ in watched), tuple(size for _, size in watched)),
        search=sides.search,
        text=f"{len(every):,} different lines of {source}, of which {queue:,} sentences may wait",
        machine=machine_of(sides.path),
    )


def _crowded(
    service: Service, texts: Texts, order: Iterator[int], *, normal: float, **how: Any
) -> Crowd:
    """Overload a service and watch it recover, and note what it cost."""
    before, busy = service.processor_seconds(), time.process_time()
    crowd = asyncio.run(crowd_of(service.port, texts, order, normal=normal, **how))
    after = service.processor_seconds()
    service.require()
    crowd.load.client_seconds = time.process_time() - busy
    if before is not None and after is not None:
        crowd.load.service_seconds = after - before
    return crowd


async def crowd_of(
    port: int,
    texts: Texts,
    order: Iterator[int],
    *,
    rate: float,
    seconds: float,
    normal: float,
    seed: int = SEED,
    every_second: Callable[[float, Load], None] = lambda elapsed, load: None,
) -> Crowd:
    """Send requests at random times, so many a second for so long, and then one after another.

    `normal` are the seconds that a single client's answer takes at most.
    """
    load = Load(clients=0)
    idle: list[Connection] = []
    under_way: set[asyncio.Task[None]] = set()
    sent = 0
    began = time.perf_counter()
    telling = asyncio.create_task(_tell(began, load, every_second))
    for due in _arrivals(rate, seconds, seed):
        await asyncio.sleep(began + due - time.perf_counter())
        connection = idle.pop() if idle else Connection(port)
        task = asyncio.create_task(_ask(connection, texts, next(order), load, idle))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        sent += 1
        load.clients = max(load.clients, len(under_way))
    load.seconds = time.perf_counter() - began
    answered = load.answers.copy()  # what comes later was not answered in this time
    recovery = await _recovery(port, texts, order, load, normal)
    await asyncio.gather(*under_way)
    telling.cancel()
    for connection in idle:
        await connection.close()
    load.late = load.answers["200"] - answered["200"]
    return Crowd(load, sent / load.seconds, recovery)


def _arrivals(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Yield when requests arrive, as those of strangers do: the pauses know nothing of another."""
    draw = random.Random(seed)
    due = draw.expovariate(rate)
    while due < seconds:
        yield due
        due += draw.expovariate(rate)


async def _ask(
    connection: Connection, texts: Texts, number: int, load: Load, idle: list[Connection]
) -> None:
    """Ask once, and count what came."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(SECONDS_TO_ANSWER):
            answer = await connection.ask(texts.requests[number])
    except (Broken, TimeoutError):
        load.answers[NO_ANSWER] += 1
        return
    load.answers[str(answer.status)] += 1
    if answer.status in (429, 503) and answer.retry_after is not None:
        load.shed += 1
    else:
        load.take(texts, number, answer, time.perf_counter() - began)
    idle.append(connection)


async def _recovery(
    port: int, texts: Texts, order: Iterator[int], load: Load, normal: float
) -> float | None:
    """Return the seconds until a single client is answered as soon as before; None: it never is."""
    ended = time.perf_counter()
    since, steady = ended, 0
    while time.perf_counter() - ended < LONGEST_RECOVERY:
        began = time.perf_counter()
        found = Load(clients=1)
        idle: list[Connection] = []
        async with Connection(port) as connection:
            await _ask(connection, texts, next(order), found, idle)
        took = time.perf_counter() - began
        if found.wrong:
            load.wrong += 1
            load.first_wrong = load.first_wrong or found.first_wrong
        if not found.latencies or took > normal:
            since, steady = time.perf_counter(), 0
            await asyncio.sleep(0.05)
        else:
            steady += 1
            if steady == STEADY:
                return since - ended
    return None


async def _tell(began: float, load: Load, every_second: Callable[[float, Load], None]) -> None:
    while True:
        every_second(time.perf_counter() - began, load)
        await asyncio.sleep(1)
