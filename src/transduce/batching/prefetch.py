"""From the stream of updates to what a process computes, made ready while the device works."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from transduce.batching.packed import Batch, Ints
from transduce.batching.updates import Layout, Place, Updates

AHEAD = 8  # updates that wait for the GPU


@dataclass(frozen=True, slots=True)
class Update:
    """What one update of the weights learns from, and what this process has to do with it."""

    sentences: Ints
    tokens: int  # of all processes, that have a loss
    batches: list[Batch]  # the pieces that fall to this process
    idle: bool  # there were none: the batch stands in, to keep step, and counts for nothing
    layout: Layout  # that cut it
    place: Place  # of the update after this one
    epochs: float  # passes over the data that end with this one

    @property
    def used(self) -> tuple[int, int]:
        """Places that hold no filler, of source and target."""
        return _sum([batch.used for batch in self.batches])

    @property
    def places(self) -> tuple[int, int]:
        """Tokens that the model works on, of source and target."""
        return _sum([batch.places for batch in self.batches])


def _sum(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(source for source, _ in pairs), sum(target for _, target in pairs)


class Feed:
    """Updates one after the other; on a GPU, a thread makes them ready ahead of time.

    The thread starts with the first update, so a feed that is never used leaves none behind.
    """

    def __init__(
        self, updates: Updates, make: Callable[[Ints, Place, float], Update], *, ahead: bool
    ) -> None:
        self.updates, self.make = updates, make
        self.ready: queue.Queue[Update | BaseException] = queue.Queue(AHEAD)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True) if ahead else None

    def __iter__(self) -> Iterator[Update]:
        """Return itself: the stream has no end."""
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
        with contextlib.suppress(queue.Empty):  # it may wait for room
            while True:
                self.ready.get_nowait()
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()

    def _next(self) -> Update:
        epoch, number = self.updates.place.epoch, self.updates.place.update
        per_epoch = self.updates.per_epoch()
        sentences = next(self.updates)
        return self.make(sentences, self.updates.place, epoch + (number + 1) / per_epoch)

    def _work(self) -> None:
        try:
            while not self.closed.is_set():
                self._put(self._next())
        except BaseException as error:  # whoever waits for an update shall have it
            self._put(error)

    def _put(self, item: Update | BaseException) -> None:
        while not self.closed.is_set():
            with contextlib.suppress(queue.Full):
                self.ready.put(item, timeout=0.5)
                return
