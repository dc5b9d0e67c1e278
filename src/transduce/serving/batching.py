"""Sentences of many requests, searched together.

The sentences of a request wait in its ticket. Threads, as many as the engine can use, each take a
batch. Clients take turns, then the settings of a client, as the sentences of a batch have the
same settings. Within a batch each client gives one sentence in turn, and each request of a client.
So neither a long text, many requests nor many settings of one client hold up another client.

While a batch is searched, the next one gathers; a request to an idle service starts at once. Equal
sentences are searched once, and the last ones are remembered: a user who types at the end of a
paragraph sends all of it again and again.
"""

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence

from transduce.config import SearchConfig
from transduce.translation.types import Engine, Hypothesis, Job

# After a batch, a thread waits a moment for the next requests of the same clients: this part of the
# time that the batch took, and at most this many seconds.
MOMENT, LONGEST_MOMENT = 0.1, 0.05

Found = list[Hypothesis]
Key = tuple[SearchConfig, bytes, tuple[int, ...]]  # settings, source, prefix
Owner = Hashable  # the client of a request; None if it is not known


class Unit:
    """A sentence to be searched, and the tickets that wait for it."""

    __slots__ = ("askers", "job", "key", "taken")

    def __init__(self, job: Job, key: Key) -> None:
        self.job, self.key = job, key
        self.askers: list[tuple[Ticket, int]] = []
        self.taken = False  # by a thread


class Ticket:
    """The sentences of one request, in the event loop that waits for them."""

    __slots__ = ("done", "found", "left", "loop", "units")

    def __init__(self, count: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.found: list[Found] = [[] for _ in range(count)]
        self.left = count
        self.units: deque[Unit] = deque()  # not yet taken by a thread

    def receive(self, place: int, found: Found | BaseException) -> None:
        """Store the result of one sentence; the last one wakes the request."""
        if self.done.done():
            return
        if isinstance(found, BaseException):
            self.done.set_exception(found)
            return
        self.found[place] = found
        self.left -= 1
        if not self.left:
            self.done.set_result(None)


class Batcher:
    """One model's queue, and the threads that search for it."""

    def __init__(
        self,
        engine: Engine,
        searched: Callable[[int, float], None] = lambda size, seconds: None,
        *,
        remember: int = 0,
    ) -> None:
        """Search with `engine`; `searched` is called with the size and the seconds of each batch.

        The results of the last `remember` sentences are kept.
        """
        self.engine, self.searched, self.remember = engine, searched, remember
        self.lanes = engine.lanes()
        self._waiting: OrderedDict[Owner, OrderedDict[SearchConfig, deque[Ticket]]] = OrderedDict()
        self._tickets: set[Ticket] = set()  # of requests that wait
        self._known: dict[Key, Unit] = {}  # waiting or being searched
        self._remembered: OrderedDict[Key, Found] = OrderedDict()  # least recently requested first
        self._change = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._flying = 0  # sentences being searched
        self._closed = False

    async def search(
        self, jobs: Sequence[Job], config: SearchConfig, owner: Owner = None
    ) -> list[Found]:
        """Return the translations of each job of a client; if cancelled, the rest is dropped."""
        if not jobs:
            return []
        ticket = Ticket(len(jobs))
        with self._change:
            self._add(ticket, jobs, config, owner)
        ticket.loop.call_soon(self._wake)  # requests of this moment are batched together
        self._tickets.add(ticket)
        try:
            await ticket.done
        finally:
            self._tickets.discard(ticket)
            if ticket.units:
                with self._change:
                    self._drop(ticket, config, owner)
        return ticket.found

    def stop(self, reason: Exception) -> None:
        """Fail all waiting requests with `reason`; call it in their event loop."""
        for ticket in self._tickets:
            ticket.receive(0, reason)

    def close(self, seconds: float = 0.5) -> bool:
        """End the threads after their present batches; tell whether all ended within `seconds`.

        A later search starts new ones.
        """
        with self._change:
            threads, self._threads = self._threads, []
            self._closed = True
            self._change.notify_all()
        until = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _start(self) -> None:
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=f"search-{n}", daemon=True)
            for n, lane in enumerate(self.lanes, start=1)
        ]
        for thread in self._threads:
            thread.start()

    def _wake(self) -> None:
        if not self._threads:
            self._start()
        with self._change:
            self._change.notify_all()

    def _add(self, ticket: Ticket, jobs: Sequence[Job], config: SearchConfig, owner: Owner) -> None:
        """Put the sentences of a ticket into the queue, sorted by length."""
        for place, job in sorted(enumerate(jobs), key=lambda one: -len(one[1].source)):
            key = (config, job.source.tobytes(), tuple(job.prefix))
            found = self._remembered.get(key)
            if found is not None:
                self._remembered.move_to_end(key)
                ticket.receive(place, found)
                continue
            unit = self._known.get(key)
            if unit is None:
                unit = self._known[key] = Unit(job, key)
            unit.askers.append((ticket, place))
            if not unit.taken:
                ticket.units.append(unit)
        if ticket.units:
            of_owner = self._waiting.setdefault(owner, OrderedDict())
            of_owner.setdefault(config, deque()).append(ticket)

    def _drop(self, ticket: Ticket, config: SearchConfig, owner: Owner) -> None:
        """Take the waiting sentences of a ticket out of the queue."""
        with contextlib.suppress(KeyError, ValueError):  # all its sentences are taken
            self._waiting[owner][config].remove(ticket)
        self._forget_empty(owner, config)
        for unit in ticket.units:
            unit.askers = [one for one in unit.askers if one[0] is not ticket]
            if not unit.askers and not unit.taken:
                self._known.pop(unit.key, None)
        ticket.units.clear()

    def _take(self, until: float, enough: int) -> tuple[SearchConfig, list[Unit]] | None:
        """Wait for sentences and take a batch; wait for `enough` until `until`. None if closed."""
        with self._change:
            while not self._closed:
                left = until - time.perf_counter()
                if left > 0 and self._waiting_units() < enough:
                    self._change.wait(left)
                elif not self._waiting:
                    self._change.wait()
                elif units := self._batch():
                    self._flying += len(units)
                    return units[0].key[0], units
            return None

    def _waiting_units(self) -> int:
        return sum(
            len(ticket.units)
            for of_owner in self._waiting.values()
            for tickets in of_owner.values()
            for ticket in tickets
        )

    def _batch(self) -> list[Unit]:
        """Take a thread's share of the sentences with the next client's next settings."""
        owner, of_owner = next(iter(self._waiting.items()))
        config = next(iter(of_owner))
        queues = {one: of[config] for one, of in self._waiting.items() if config in of}
        waiting = sum(len(ticket.units) for tickets in queues.values() for ticket in tickets)
        size = min(self.engine.batch, -(-(self._flying + waiting) // len(self.lanes)))
        units: list[Unit] = []
        turns = deque(queues.values())
        while turns and len(units) < size:
            tickets = turns.popleft()
            ticket = tickets.popleft()
            unit = ticket.units.popleft()
            if not unit.taken:  # it may be in another ticket too
                unit.taken = True
                units.append(unit)
            if ticket.units:
                tickets.append(ticket)
            if tickets:
                turns.append(tickets)
        of_owner.move_to_end(config)
        self._waiting.move_to_end(owner)
        for one in queues:
            self._forget_empty(one, config)
        return units

    def _forget_empty(self, owner: Owner, config: SearchConfig) -> None:
        of_owner = self._waiting.get(owner, OrderedDict())
        if config in of_owner and not of_owner[config]:
            del of_owner[config]
        if owner in self._waiting and not of_owner:
            del self._waiting[owner]

    def _work(self, lane: Engine) -> None:
        until, enough = 0.0, 0
        while taken := self._take(until, enough):
            config, units = taken
            begin = time.perf_counter()
            waiting = dict(enumerate(units))
            try:
                jobs = [unit.job for unit in units]
                for place, found in lane.search(jobs, config, len(jobs)):
                    self._deliver(waiting.pop(place), found)
            except Exception as error:  # it is raised in the requests that wait
                for unit in waiting.values():
                    self._deliver(unit, error)
            with self._change:
                self._flying -= len(units)
            end = time.perf_counter()
            self.searched(len(units), end - begin)
            until, enough = end + min(MOMENT * (end - begin), LONGEST_MOMENT), len(units)

    def _deliver(self, unit: Unit, found: Found | BaseException) -> None:
        with self._change:
            self._known.pop(unit.key, None)
            if self.remember and not isinstance(found, BaseException):
                self._remembered[unit.key] = found
                if len(self._remembered) > self.remember:
                    self._remembered.popitem(last=False)
            askers = unit.askers
        for ticket, place in askers:
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                ticket.loop.call_soon_threadsafe(ticket.receive, place, found)
