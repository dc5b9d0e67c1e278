"""The attention of single sentences. torch loads the models in one background thread."""

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from transduce.errors import TransduceError
from transduce.serving.clients import Client, too_many
from transduce.serving.limits import SHARE, Limits
from transduce.serving.logs import logger
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem, retry_later

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection, Inspector

T = TypeVar("T")


class Inspections:
    """The inspectors of the models, and the one thread that runs them."""

    def __init__(self, models: Sequence[ServedModel], limits: Limits) -> None:
        self.limits = limits
        self.active = 0  # inspections that wait or run
        self._models = [*models]
        self._inspectors: weakref.WeakKeyDictionary[ServedModel, Future[Inspector]]
        self._inspectors = weakref.WeakKeyDictionary()
        self._executor: ThreadPoolExecutor | None = None

    def load(self) -> None:
        """Start loading all models that are not loaded yet."""
        for model in self._models:
            if model not in self._inspectors:
                self._inspectors[model] = self._submit(lambda model=model: _load(model))  # type: ignore[misc]

    def replace(self, model: ServedModel) -> None:
        """Start loading a model, instead of the one with its name."""
        self._models = [model if old.name == model.name else old for old in self._models]
        self.load()

    def close(self, seconds: float = 0.5) -> bool:
        """End the thread after its tasks; return whether it ended within `seconds`.

        A later inspection starts a new thread.
        """
        executor, self._executor = self._executor, None
        if executor is None:
            return True
        last = executor.submit(lambda: None)
        executor.shutdown(wait=False)
        return bool(wait([last], seconds).done)

    async def inspect(
        self, model: ServedModel, source: str, target: str | None, client: Client | None = None
    ) -> "Inspection":
        """Return a model's attention weights for a sentence."""
        with self._slot(client):
            inspection = await self._inspect(model, source, target)
        weights = (inspection.encoder, inspection.decoder, inspection.cross)
        count = sum(array.size for array in weights)
        if count > self.limits.weights:
            raise Problem(
                413,
                f"the sentence has {count:,} attention weights in this model: at most "
                f"{self.limits.weights:,} are sent; shorten the sentence",
            )
        return inspection

    @contextlib.contextmanager
    def _slot(self, client: Client | None) -> Iterator[None]:
        """Count an inspection, or refuse it if there are too many, or too many from this client."""
        if self.active >= self.limits.inspections:
            raise retry_later(503, f"{self.active} inspections are waiting", 2)
        share = max(1, int(SHARE * self.limits.inspections))
        if client is not None and client.max_requests and client.inspections >= share:
            raise too_many(f"{client.inspections} of your inspections are waiting", seconds=2)
        self._count(client, 1)
        try:
            yield
        finally:
            self._count(client, -1)

    def _count(self, client: Client | None, change: int) -> None:
        self.active += change
        if client is not None:
            client.inspections += change

    async def _inspect(self, model: ServedModel, source: str, target: str | None) -> "Inspection":
        self.load()
        try:
            inspector = (await self._inspector(model)).directed(to=model.languages[1])
            return await asyncio.wrap_future(
                self._submit(lambda: inspector.inspect(source, target))
            )
        except TransduceError as error:
            raise Problem(400, str(error)) from None

    async def _inspector(self, model: ServedModel) -> "Inspector":
        try:
            # A client that disconnects must not cancel loading.
            return await asyncio.shield(asyncio.wrap_future(self._inspectors[model.served]))
        except Exception as error:
            logger.error("torch could not load %s", model.name, exc_info=error)
            raise Problem(
                503, f"{model.name} cannot be inspected: torch could not load it"
            ) from None

    def _submit(self, function: Callable[[], T]) -> "Future[T]":
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="inspect")
        return self._executor.submit(function)


def _load(model: ServedModel) -> "Inspector":
    from transduce.inspection.inspector import Inspector

    inspector = Inspector.load(model.run)
    inspector.name = model.name
    _use_one_core()
    return inspector


def _use_one_core() -> None:
    """Limit torch to one core in this thread only: translation needs the others.

    A thread's setting also applies to threads that start later, so a temporary thread resets it.
    """
    import torch

    cores = torch.get_num_threads()  # all cores: a model has just been loaded
    torch.set_num_threads(1)
    reset = threading.Thread(target=torch.set_num_threads, args=(cores,))
    reset.start()
    reset.join()
