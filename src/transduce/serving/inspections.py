"""Looking into the models: torch loads them in the background, one by one, in one thread."""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from transduce.errors import TransduceError
from transduce.serving.clients import Client, too_many
from transduce.serving.limits import SHARE, Limits
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection, Inspector

Task = tuple["Future[Any]", Callable[[], Any]]

logger = logging.getLogger("transduce.serving")


class Inspections:
    """The models to look into, and the one thread that does it."""

    def __init__(self, served: Sequence[ServedModel], limits: Limits) -> None:
        self.limits = limits
        self.held = 0  # that wait or run
        self._served = served
        self._loaded: dict[str, Future[Inspector]] = {}
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        """Begin to load all models that are not loaded yet."""
        for served in self._served:
            if served.name not in self._loaded:
                self._loaded[served.name] = self._submit(lambda one=served: _load(one))  # type: ignore[misc]

    def close(self, seconds: float = 0.5) -> bool:
        """End the thread after what it does now; tell whether it has, within so long.

        Whoever looks again starts a new one.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return True
        self._tasks.put(None)
        thread.join(seconds)
        return not thread.is_alive()

    async def inspect(
        self, served: ServedModel, source: str, target: str | None, client: Client | None = None
    ) -> "Inspection":
        """Return what a model attends to."""
        with self._room(client):
            inspection = await self._inspected(served, source, target)
        weights = (inspection.encoder, inspection.decoder, inspection.cross)
        count = sum(one.size for one in weights)
        if count > self.limits.weights:
            raise Problem(
                413,
                f"the sentence has {count:,} attention weights in this model: at most "
                f"{self.limits.weights:,} are sent; take a shorter one",
            )
        return inspection

    @contextlib.contextmanager
    def _room(self, client: Client | None) -> Iterator[None]:
        """Hold a place, or refuse where there is none, or none for this client."""
        if self.held >= self.limits.inspections:
            raise Problem(
                503,
                f"{self.held} sentences wait to be looked into already: try again in a moment",
                {"Retry-After": "2"},
            )
        share = max(1, int(SHARE * self.limits.inspections))
        if client is not None and client.most and client.inspections >= share:
            raise too_many(f"{client.inspections} sentences of yours wait already", seconds=2)
        self._hold(client, 1)
        try:
            yield
        finally:
            self._hold(client, -1)

    def _hold(self, client: Client | None, count: int) -> None:
        self.held += count
        if client is not None:
            client.inspections += count

    async def _inspected(
        self, served: ServedModel, source: str, target: str | None
    ) -> "Inspection":
        self.load()
        try:
            inspector = await self._inspector(served)
            work = self._submit(lambda: inspector.inspect(source, target))
            found: Inspection = await asyncio.wrap_future(work)
        except TransduceError as error:
            raise Problem(400, str(error)) from None
        return found

    async def _inspector(self, served: ServedModel) -> "Inspector":
        try:
            # Whoever leaves meanwhile must not stop the loading.
            return await asyncio.shield(asyncio.wrap_future(self._loaded[served.name]))
        except Exception as error:
            logger.error("torch could not load %s", served.name, exc_info=error)
            raise Problem(
                503, f"{served.name} cannot be looked into: torch could not load it"
            ) from None

    def _submit(self, function: Callable[[], Any]) -> "Future[Any]":
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="inspect", daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._tasks.put((future, function))
        return future

    def _work(self) -> None:
        while task := self._tasks.get():
            future, function = task
            if not future.set_running_or_notify_cancel():
                continue  # whoever asked has left
            try:
                future.set_result(function())
            except Exception as error:  # it is for whoever waits
                future.set_exception(error)


def _load(served: ServedModel) -> "Inspector":
    from transduce.inspection.inspector import Inspector

    inspector = Inspector.load(served.run)
    inspector.name = served.name
    _use_one_core()
    return inspector


def _use_one_core() -> None:
    """Have torch compute with one core in this thread alone: translation needs the others.

    What a thread sets holds for itself and for those that begin later, so another sets it back.
    """
    import torch

    cores = torch.get_num_threads()  # all that there are: a model has just been loaded
    torch.set_num_threads(1)
    back = threading.Thread(target=torch.set_num_threads, args=(cores,))
    back.start()
    back.join()
