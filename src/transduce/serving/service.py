"""Translation of texts for many clients at once, within limits."""

import asyncio
import contextlib
import functools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from transduce.config import SearchConfig
from transduce.documents import Unit
from transduce.documents.translating import set_targets
from transduce.errors import BadSetting, TransduceError
from transduce.markup.inline import Inline, inline_text
from transduce.serving.batching import Batcher
from transduce.serving.clients import Client, too_many
from transduce.serving.limits import SHARE, Limits
from transduce.serving.logs import log_text
from transduce.serving.metrics import Metrics
from transduce.serving.models import ServedModel
from transduce.serving.paragraphs import TranslatedText, split_lines
from transduce.serving.problems import Problem, retry_later
from transduce.translation.rounds import Align, Guard, Search, Steps
from transduce.translation.segments import Preparation, SegmentedText, preparation
from transduce.translation.translation import Translation

SHORT = 500  # texts of up to this many characters are prepared in the event loop, within 2 ms
MAX_RETRY_AFTER = 60  # seconds
DECAY = 0.9  # weight of earlier batches in the speed estimate

T = TypeVar("T")


class Service:
    """The models and their queues."""

    def __init__(
        self,
        models: Sequence[ServedModel],
        limits: Limits,
        metrics: Metrics,
        *,
        log_texts: bool = False,
    ) -> None:
        self.models: dict[str, ServedModel] = {}
        self.limits, self.metrics, self.log_texts = limits, metrics, log_texts
        # Also of replaced models, while requests use them.
        self.batchers: weakref.WeakKeyDictionary[ServedModel, Batcher]
        self.batchers = weakref.WeakKeyDictionary()
        self.sentences = 0  # waiting or being searched
        self.requests = 0  # with such sentences
        self._speed = _Speed()
        for model in models:
            self.serve(model)

    def serve(self, model: ServedModel) -> None:
        """Serve a model. Requests in progress keep the one that it replaces."""
        old = self.models.get(model.name)
        engine, count = model.translator.engine, partial(self._count_batch, model.name)
        self.batchers[model] = Batcher(engine, count, cache_size=self.limits.remember)
        self.models[model.name] = model
        self.metrics.set_version(model.name, model.version)
        if old is not None:
            self.batchers[old].retire()

    def stop(self) -> None:
        """Answer all waiting requests with 503."""
        for batcher in self.batchers.values():
            batcher.fail_all(Problem(503, "the service is shutting down", {"Retry-After": "10"}))

    def close(self) -> bool:
        """End the threads; return whether all have ended."""
        ended = [batcher.close() for batcher in self.batchers.values()]
        return all(ended)

    async def translate(
        self,
        model: ServedModel,
        texts: Sequence[str],
        config: SearchConfig,
        client: Client | None = None,
        how: Preparation | None = None,
        *,
        guard: Guard = "off",
    ) -> list[TranslatedText]:
        """Translate the texts of one request."""
        how = how or preparation()
        self.check(texts)
        batcher = self.batchers[model.served]
        self._require_room(1, batcher)  # early: splitting into sentences takes time
        split_texts = [split_lines(text) for text in texts]
        flat = [line for text_lines, _ in split_texts for line in text_lines]
        lines = await self._searched(model, flat, how, config, client, guard)
        rest = iter(lines)
        return [TranslatedText([next(rest) for _ in text], ends) for text, ends in split_texts]

    async def translate_units(
        self,
        model: ServedModel,
        units: Sequence[Unit],
        config: SearchConfig,
        client: Client | None = None,
        how: Preparation | None = None,
        *,
        guard: Guard = "off",
    ) -> list[Translation]:
        """Translate the units of documents: set their targets, and return all translations."""
        how = how or preparation()
        texts = [inline_text(unit.source) for unit in units]
        self.check_content(texts)
        self._require_room(1, self.batchers[model.served])
        distinct = list(dict.fromkeys(unit.source for unit in units))
        searched = await self._searched(model, distinct, how, config, client, guard)

        def finish() -> list[Translation]:
            joined = dict(zip(distinct, map(model.translator.joined, searched), strict=True))
            set_targets(units, {source: each.content or () for source, each in joined.items()})
            return [joined[unit.source] for unit in units]

        return await in_background(finish, sum(map(len, texts)))

    async def _searched(self, model: ServedModel, *arguments: Any) -> list[SegmentedText]:
        """Search as `_search` does; answer what the texts or the engine cannot do with 400."""
        try:
            return await self._search(model, *arguments)
        except TransduceError as error:
            raise Problem(400, str(error)) from None

    async def _search(
        self,
        model: ServedModel,
        texts: Sequence[str | Inline],
        how: Preparation,
        config: SearchConfig,
        client: Client | None,
        guard: Guard,
    ) -> list[SegmentedText]:
        """Prepare, search and finish texts; the steps between searches run in the background."""
        translator, batcher = model.translator, self.batchers[model.served]
        size = sum(len(text) for text in texts) + len(texts)
        prepared = await in_background(partial(translator.prepare, texts, how), size)
        count = sum(len(text.segments) for text in prepared)
        with self._queued(count, batcher, client):
            searching = translator.searching(prepared, how, config, guard)
            for steps in (searching, translator.finishing(prepared)):
                answer: Any = None
                while step := await in_background(partial(_next, steps, answer), size):
                    if isinstance(step, Search):
                        answer = await batcher.search(step.jobs, step.config, client)
                    else:
                        answer = await asyncio.to_thread(translator.engine.align, step.pairs)
        return prepared

    def check(self, texts: Sequence[str]) -> None:
        """Refuse too many texts, and texts as `check_content` does."""
        self.check_number(texts)
        self.check_content(texts)

    def check_number(self, texts: Sequence[str]) -> None:
        """Refuse too many texts. A document may have any number."""
        if len(texts) > self.limits.texts:
            raise Problem(
                413,
                f"the request has {len(texts):,} texts: at most {self.limits.texts:,} are accepted "
                "at once; send several requests",
            )

    def check_content(self, texts: Sequence[str]) -> None:
        """Refuse texts that are too long or invalid; log the others if texts are logged."""
        self.check_length(sum(map(len, texts)))
        for text in texts:
            if "\0" in text:
                raise Problem(400, "the text has a NUL character: remove it")
            encoded(text)
            if self.log_texts:
                log_text(text)

    def check_length(self, count: int) -> None:
        """Refuse too many characters."""
        if count > self.limits.characters:
            raise Problem(
                413,
                f"the text has {count:,} characters: at most {self.limits.characters:,} are "
                "accepted at once; send it in parts",
            )

    def _count_batch(self, name: str, sentences: int, seconds: float) -> None:
        self.metrics.count_batch(name, sentences, seconds)
        lanes = len(self.batchers[self.models[name]].lanes)  # they search at the same time
        self._speed.add(sentences, seconds / lanes)

    @contextlib.contextmanager
    def _queued(self, sentences: int, batcher: Batcher, client: Client | None) -> Iterator[None]:
        """Count sentences in the queue, or refuse them if it is full."""
        self._require_share(sentences, client)
        self._require_room(sentences, batcher)
        self._count(client, 1, sentences)
        try:
            yield
        finally:
            self._count(client, -1, -sentences)

    def _count(self, client: Client | None, requests: int, sentences: int) -> None:
        self.requests += requests
        self.sentences += sentences
        self.metrics.queue.set(self.sentences)
        if client is not None:
            client.sentences += sentences

    def _require_share(self, sentences: int, client: Client | None) -> None:
        """Refuse requests that never fit into the queue or exceed the client's share of it."""
        limit, queued = self.limits.queue, 0
        if client is not None and client.max_requests:
            limit, queued = max(1, int(SHARE * limit)), client.sentences
        if sentences > limit:
            raise Problem(
                413,
                f"the text has {sentences:,} sentences: at most {limit:,} are accepted at once; "
                "send it in parts",
            )
        if queued + sentences > limit:
            raise too_many(
                f"{queued:,} of your sentences are waiting, of {limit:,} allowed",
                self._speed.seconds(queued + sentences - limit),
            )

    def _require_room(self, sentences: int, batcher: Batcher) -> None:
        """Refuse a request if the queue is full or its turn is too far away.

        Before the first sentence of a request, one sentence of every other request is searched. If
        all of these fit into the next batches, the request does not wait.
        """
        excess = self.sentences + sentences - self.limits.queue
        batch_capacity = batcher.engine.batch * len(batcher.lanes)
        overdue = self.requests + 1 - max(batch_capacity, self._speed.sentences(self.limits.wait))
        if excess <= 0 and overdue <= 0:
            return
        reason = (
            f"{self.sentences:,} sentences are waiting, of {self.limits.queue:,} allowed"
            if excess > 0
            else f"{self.requests:,} requests are waiting"
        )
        raise retry_later(503, reason, self._speed.seconds(max(excess, overdue)))


def encoded(text: str) -> bytes:
    """Return a text in UTF-8, or refuse it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Problem(400, "the text has a lone surrogate: expected valid Unicode") from None


def _next(steps: Steps[None], answer: Any) -> Search | Align | None:
    """Return the next step after an answer; None at the end."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


class _Speed:
    """A running estimate of the number of sentences searched per second."""

    def __init__(self) -> None:
        self._sentences, self._seconds = 1.0, 0.1  # a guess until the first batch
        self._measured = False

    def add(self, sentences: int, seconds: float) -> None:
        """Count a batch."""
        self._sentences = DECAY * self._sentences + sentences
        self._seconds = DECAY * self._seconds + seconds
        self._measured = True

    def seconds(self, sentences: float) -> int:
        """Return the time needed for this many sentences, for Retry-After."""
        needed = math.ceil(sentences * self._seconds / self._sentences)
        return min(MAX_RETRY_AFTER, max(1, needed))

    def sentences(self, seconds: float) -> float:
        """Return the number of sentences searched in this time; infinite before the first batch."""
        return seconds * self._sentences / self._seconds if self._measured else math.inf


async def in_background(function: Callable[[], T], characters: int) -> T:
    """Run a function, in a thread if the text is long, so that other requests do not wait."""
    return await asyncio.to_thread(function) if characters > SHORT else function()


@functools.lru_cache(256)  # validation is slow, and settings repeat
def search_config(
    config: SearchConfig, beam: int | None, alpha: float | None, nbest: int | None
) -> SearchConfig:
    """Return the search settings with the given changes."""
    changes = {"beam": beam, "alpha": alpha, "nbest": nbest}
    try:
        return config.replace(**{k: v for k, v in changes.items() if v is not None})
    except BadSetting as error:
        raise Problem(400, str(error)) from None
