"""Prefetching: the batches for the next updates are prepared while the device computes."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from transduce.batching.layouts import Layout
from transduce.batching.packed import Batch, Ints
from transduce.corpus.token_files import Split
from transduce.corpus.updates import DataPosition, Updates

AHEAD = 8  # updates prepared in advance


@dataclass(frozen=True, slots=True)
class Update:
    """One update of the weights, with the micro-batches that this process computes."""

    sentences: Ints
    part: Split  # the sentences' tokens in this epoch
    tokens: int  # target tokens over all processes
    batches: list[Batch]  # the micro-batches of this process
    idle: bool  # this process has no share: it computes one batch with weight 0, to stay in step
    layout: Layout
    next_position: DataPosition  # position of the update after this one
    epochs: float  # passes over the data completed after this update

    @property
    def used(self) -> tuple[int, int]:
        """The number of source and target tokens, without padding."""
        return _sum([batch.used for batch in self.batches])

    @property
    def places(self) -> tuple[int, int]:
        """The number of source and target tokens, including padding."""
        return _sum([batch.places for batch in self.batches])


def _sum(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(source for source, _ in pairs), sum(target for _, target in pairs)


class Prefetcher:
    """An endless stream of updates; with `ahead`, a thread prepares them in advance.

    The thread is started for the first update, so a prefetcher that is never read has no thread.
    """

    def __init__(
        self,
        updates: Updates,
        make: Callable[[Ints, DataPosition, float, int], Update],
        *,
        ahead: bool,
    ) -> None:
        """Make each update of its sentences, the next position, completed epochs and its epoch."""
        self.updates, self.make = updates, make
        self.ready: queue.Queue[Update | BaseException] = queue.Queue(AHEAD)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True) if ahead else None

    def __iter__(self) -> Iterator[Update]:
        """Return the stream itself."""
        return self

    def __next__(self) -> Update:
        """Return the next update."""
        if self.thread is None:
            return self._next()
        if self.thread.ident is None:
            self.thread.start()
        update = self.ready.get()
        if isinstance(update, BaseException):
            raise update
        return update

    def close(self) -> None:
        """Stop the thread."""
        self.closed.set()
        with contextlib.suppress(queue.Empty):  # the thread may be waiting for a free slot
            while True:
                self.ready.get_nowait()
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()

    def _next(self) -> Update:
        epoch, number = self.updates.position.epoch, self.updates.position.update
        per_epoch = self.updates.per_epoch()
        sentences = next(self.updates)
        epochs = epoch + (number + 1) / per_epoch
        return self.make(sentences, self.updates.position, epochs, epoch)

    def _work(self) -> None:
        try:
            while not self.closed.is_set():
                self._put(self._next())
        except BaseException as error:  # `__next__` raises it
            self._put(error)

    def _put(self, item: Update | BaseException) -> None:
        while not self.closed.is_set():
            with contextlib.suppress(queue.Full):
                self.ready.put(item, timeout=0.5)
                return
