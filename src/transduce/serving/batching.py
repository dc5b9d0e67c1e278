"""Batching: sentences from many requests are searched together.

The sentences of a request wait in its ticket. There are as many threads as the engine can use, and
each takes a batch. All sentences in a batch have the same search settings. Clients take turns, and
so do the settings of each client; within a batch, clients and their requests contribute one
sentence in turn. So a client with a long text, many requests or many settings does not hold up
other clients.

While a batch is searched, the next one fills; an idle service starts at once. Equal sentences are
searched once, and recent results are cached: a user who types at the end of a paragraph sends
all of it after every keystroke.
"""

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from transduce.config import SearchConfig
from transduce.translation.types import Engine, Hypothesis, Job, Required

# After a batch, a thread waits for the next requests from the same clients: for this fraction of
# the time that the batch took, and at most this many seconds.
LINGER, MAX_LINGER = 0.1, 0.05

Hypotheses = list[Hypothesis]
Key = tuple[SearchConfig, bytes, tuple[int, ...], Required]  # settings, source, prefix, phrases
Owner = Hashable  # the client of a request; None if unknown


@dataclass(eq=False, slots=True)
class Sentence:
    """A sentence to be searched, and the tickets that wait for it."""

    job: Job
    key: Key
    waiters: list[tuple["Ticket", int]] = field(default_factory=list)  # each with the index in it
    taken: bool = False  # by a thread


class Ticket:
    """The sentences of one request, in the event loop that waits for them."""

    __slots__ = ("done", "loop", "missing", "results", "sentences")

    def __init__(self, count: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.results: list[Hypotheses] = [[] for _ in range(count)]
        self.missing = count
        self.sentences: deque[Sentence] = deque()  # not yet taken by a thread

    def receive(self, index: int, result: Hypotheses | BaseException) -> None:
        """Store the result of one sentence; the last one wakes the request."""
        if self.done.done():
            return
        if isinstance(result, BaseException):
            self.done.set_exception(result)
            return
        self.results[index] = result
        self.missing -= 1
        if not self.missing:
            self.done.set_result(None)


class Batcher:
    """The queue of one model, and the threads that search."""

    def __init__(
        self,
        engine: Engine,
        on_batch: Callable[[int, float], None] = lambda size, seconds: None,
        *,
        cache_size: int = 0,
    ) -> None:
        """Search with `engine`; call `on_batch` with the size and the seconds of each batch."""
        self.engine, self.on_batch, self.cache_size = engine, on_batch, cache_size
        self.lanes = engine.lanes()
        self._queues: OrderedDict[Owner, OrderedDict[SearchConfig, deque[Ticket]]] = OrderedDict()
        self._tickets: set[Ticket] = set()  # of waiting requests
        self._pending: dict[Key, Sentence] = {}  # waiting or being searched
        self._cache: OrderedDict[Key, Hypotheses] = OrderedDict()  # least recently used first
        self._change = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()  # stops these threads
        self._searching = 0  # sentences being searched
        self._retired = False  # the threads end when no sentence waits

    async def search(
        self, jobs: Sequence[Job], config: SearchConfig, owner: Owner = None
    ) -> list[Hypotheses]:
        """Return the hypotheses of each job; if cancelled, waiting sentences are dropped."""
        if not jobs:
            return []
        ticket = Ticket(len(jobs))
        with self._change:
            self._add(ticket, jobs, config, owner)
        ticket.loop.call_soon(self._wake)  # requests that arrive together are batched together
        self._tickets.add(ticket)
        try:
            await ticket.done
        finally:
            self._tickets.discard(ticket)
            if ticket.sentences:
                with self._change:
                    self._drop(ticket, config, owner)
        return ticket.results

    def fail_all(self, reason: Exception) -> None:
        """Fail all waiting requests with `reason`; call it in their event loop."""
        for ticket in self._tickets:
            ticket.receive(0, reason)

    def retire(self) -> None:
        """End the threads when no sentence waits; a later search starts new ones."""
        with self._change:
            self._retired = True
            self._change.notify_all()

    def close(self, seconds: float = 0.5) -> bool:
        """End the threads after their current batches; return whether all ended within `seconds`.

        A later search starts new threads.
        """
        with self._change:
            threads, self._threads = self._threads, []
            self._stop.set()
            self._change.notify_all()
        end = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _wake(self) -> None:
        with self._change:
            if not self._threads:
                # Threads from an earlier start may still search, so each start has its own event.
                self._stop = stop = threading.Event()
                self._threads = [
                    threading.Thread(target=self._work, args=(lane, stop), daemon=True)
                    for lane in self.lanes
                ]
                for thread in self._threads:
                    thread.start()
            self._change.notify_all()

    def _add(self, ticket: Ticket, jobs: Sequence[Job], config: SearchConfig, owner: Owner) -> None:
        """Put the sentences of a ticket into the queue, longest first."""
        for index, job in sorted(enumerate(jobs), key=lambda item: -len(item[1].source)):
            key = (config, job.source.tobytes(), tuple(job.prefix), job.required)
            cached = self._cache.get(key)
            if cached is not None:
                self._cache.move_to_end(key)
                ticket.receive(index, cached)
                continue
            sentence = self._pending.get(key)
            if sentence is None:
                sentence = self._pending[key] = Sentence(job, key)
            sentence.waiters.append((ticket, index))
            if not sentence.taken:
                ticket.sentences.append(sentence)
        if ticket.sentences:
            by_settings = self._queues.setdefault(owner, OrderedDict())
            by_settings.setdefault(config, deque()).append(ticket)

    def _drop(self, ticket: Ticket, config: SearchConfig, owner: Owner) -> None:
        """Remove the waiting sentences of a ticket from the queue."""
        with contextlib.suppress(KeyError, ValueError):  # all its sentences are taken
            self._queues[owner][config].remove(ticket)
        self._remove_if_empty(owner, config)
        for sentence in ticket.sentences:
            sentence.waiters = [waiter for waiter in sentence.waiters if waiter[0] is not ticket]
            if not sentence.waiters and not sentence.taken:
                self._pending.pop(sentence.key, None)
        ticket.sentences.clear()

    def _take(self, stop: threading.Event, end: float, enough: int) -> list[Sentence]:
        """Wait for sentences and take a batch; until `end`, wait for `enough`. Empty: stopped."""
        with self._change:
            while not stop.is_set():
                seconds = end - time.perf_counter()
                if seconds > 0 and self._waiting_sentences() < enough:
                    self._change.wait(seconds)
                elif not self._queues:
                    if self._retired:
                        self._threads.remove(threading.current_thread())
                        break
                    self._change.wait()
                elif batch := self._next_batch():
                    self._searching += len(batch)
                    return batch
            return []

    def _waiting_sentences(self) -> int:
        return sum(
            len(ticket.sentences)
            for by_settings in self._queues.values()
            for tickets in by_settings.values()
            for ticket in tickets
        )

    def _next_batch(self) -> list[Sentence]:
        """Take a thread's share of the sentences with the next client's next settings."""
        owner, by_settings = next(iter(self._queues.items()))
        config = next(iter(by_settings))
        queues = {name: queue[config] for name, queue in self._queues.items() if config in queue}
        waiting = sum(len(ticket.sentences) for tickets in queues.values() for ticket in tickets)
        size = min(self.engine.batch, -(-(self._searching + waiting) // len(self.lanes)))
        batch: list[Sentence] = []
        turns = deque(queues.values())
        while turns and len(batch) < size:
            tickets = turns.popleft()
            ticket = tickets.popleft()
            sentence = ticket.sentences.popleft()
            if not sentence.taken:  # another ticket may contain it too
                sentence.taken = True
                batch.append(sentence)
            if ticket.sentences:
                tickets.append(ticket)
            if tickets:
                turns.append(tickets)
        by_settings.move_to_end(config)
        self._queues.move_to_end(owner)
        for name in queues:
            self._remove_if_empty(name, config)
        return batch

    def _remove_if_empty(self, owner: Owner, config: SearchConfig) -> None:
        by_settings = self._queues.get(owner, OrderedDict())
        if config in by_settings and not by_settings[config]:
            del by_settings[config]
        if owner in self._queues and not by_settings:
            del self._queues[owner]

    def _work(self, lane: Engine, stop: threading.Event) -> None:
        end, enough = 0.0, 0
        while batch := self._take(stop, end, enough):
            start = time.perf_counter()
            # Not every engine can require phrases, and those that can may be slower.
            for required in (False, True):
                self._search(lane, [s for s in batch if bool(s.job.required) is required])
            with self._change:
                self._searching -= len(batch)
            seconds = time.perf_counter() - start
            self.on_batch(len(batch), seconds)
            end, enough = start + seconds + min(LINGER * seconds, MAX_LINGER), len(batch)

    def _search(self, lane: Engine, sentences: Sequence[Sentence]) -> None:
        """Search sentences with the same settings, and deliver their results."""
        waiting = dict(enumerate(sentences))
        if not waiting:
            return
        try:
            jobs = [sentence.job for sentence in sentences]
            for index, hypotheses in lane.search(jobs, sentences[0].key[0], len(jobs)):
                self._deliver(waiting.pop(index), hypotheses)
        except Exception as error:  # re-raised in the waiting requests
            for sentence in waiting.values():
                self._deliver(sentence, error)

    def _deliver(self, sentence: Sentence, result: Hypotheses | BaseException) -> None:
        with self._change:
            self._pending.pop(sentence.key, None)
            if self.cache_size and not isinstance(result, BaseException):
                self._cache[sentence.key] = result
                if len(self._cache) > self.cache_size:
                    self._cache.popitem(last=False)
            waiters = sentence.waiters
        for ticket, index in waiters:
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                ticket.loop.call_soon_threadsafe(ticket.receive, index, result)
