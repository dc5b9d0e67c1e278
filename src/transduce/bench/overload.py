"""A service that is asked for more than it can do: what it answers, and how it recovers.

Requests arrive at random times and do not wait for each other, as those of many strangers; whoever
is put off does not come again. The texts that are under way at one time are all different, so that
nothing is searched once for several.
"""

import asyncio
import dataclasses
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from transduce.bench.client import Broken, Connection
from transduce.bench.load import NO_ANSWER, SECONDS_TO_ANSWER, Load, Texts
from transduce.bench.served import Overload
from transduce.bench.service import Service
from transduce.bench.serving import (
    WARM_UP,
    Plan,
    Watch,
    both_sides,
    driven,
    expected,
    machine_of,
)
from transduce.errors import BadInput
from transduce.system.progress import Progress, Silent

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
    plan: Plan, seconds: float, progress: Progress | None = None, *, seed: int = SEED
) -> Overload:
    """Offer a service twice of what it can take for so long, and compare every answer.

    What it can take is measured before, by so many clients that wait for their answers.
    """
    from transduce.serving.server import file_limit

    progress = progress or Silent()
    file_limit()  # each request that waits has a connection
    every = list(dict.fromkeys(plan.texts()))
    if len(every) < LEAST:
        raise BadInput(f"{plan.source} has {len(every)} different lines: expected {LEAST} at least")
    plan = dataclasses.replace(plan, queue=min(plan.queue, len(every) // 2))
    with both_sides(plan, every, progress) as sides:
        texts = Texts(every, expected(sides.worker, every), plan.settings)
        order = itertools.cycle(range(len(every)))
        drive = functools.partial(driven, sides.service, texts)
        drive(order, clients=plan.clients, seconds=min(WARM_UP, seconds / 10))
        alone = drive(itertools.islice(order, ALONE), clients=1)
        before = drive(order, clients=plan.clients, seconds=min(CAPACITY, seconds / 4))
        progress.say(f"it answers {before.speed:,.1f} texts/s: offering {TIMES:g} times of it")
        watch = Watch(sides.service, seconds, lambda load: f"{load.shed:,} shed")
        with progress.watch("overloading") as watch.show:
            crowd = _crowded(
                *(sides.service, texts, order),
                rate=TIMES * before.speed,
                seconds=seconds,
                normal=NORMAL * max(alone.latencies),
                seed=seed,
                every_second=watch,
            )
    waiting = f"of which {plan.queue:,} sentences may wait"
    return Overload(
        path=sides.path,
        before=before,
        alone=alone,
        load=crowd.load,
        offered=crowd.offered,
        recovery=crowd.recovery,
        memory=watch.memory(),
        search=sides.search,
        text=f"{len(every):,} different lines of {plan.source}, {waiting}",
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
