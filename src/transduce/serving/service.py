"""Texts to translations for many clients at once, within limits."""

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from transduce.config import SearchConfig
from transduce.errors import BadSetting, TransduceError, did_you_mean
from transduce.serving.batching import Batcher
from transduce.serving.clients import Client, too_many
from transduce.serving.limits import SHARE, Limits
from transduce.serving.logs import log_text
from transduce.serving.metrics import Metrics
from transduce.serving.models import ServedModel
from transduce.serving.paragraphs import lines_of, paragraphs
from transduce.serving.problems import SHOWN, Problem
from transduce.translation.segments import SegmentedText

SHORT = 500  # characters that are split and encoded in the event loop, which takes 2 ms at most
LONGEST_WAIT = 60  # seconds that a client is told to wait at most
FADING = 0.9  # of what an earlier batch counts for

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Translated:
    """One text, searched."""

    works: list[SegmentedText]
    ends: list[str]

    @property
    def characters(self) -> int:
        """The length of the text, its line ends counted."""
        return sum(len(work.text) + 1 for work in self.works)


class Service:
    """The models, their queues and what may be asked of them."""

    def __init__(
        self,
        served: Sequence[ServedModel],
        limits: Limits,
        measures: Metrics,
        *,
        log_texts: bool = False,
    ) -> None:
        self.served = {one.name: one for one in served}
        self.limits, self.measures, self.log_texts = limits, measures, log_texts
        self.batchers = {
            one.name: Batcher(
                one.translator.engine,
                partial(self._searched, one.name),
                remember=limits.remember,
            )
            for one in served
        }
        self.held = 0  # sentences that wait or are searched
        self.asking = 0  # requests that they are of
        self._rate = _Rate()

    def stop(self) -> None:
        """Answer all that wait that the service is being ended."""
        for batcher in self.batchers.values():
            batcher.stop(Problem(503, "the service is being ended", {"Retry-After": "10"}))

    def close(self) -> bool:
        """End the threads, and tell whether all have ended."""
        ended = [batcher.close() for batcher in self.batchers.values()]
        return all(ended)

    def find(self, name: str | None) -> ServedModel:
        """Return a model by its name, or the first."""
        if not self.served:
            raise Problem(404, "no model is served here: start with `transduce serve RUN`")
        if name is None:
            return next(iter(self.served.values()))
        if name not in self.served:
            raise Problem(
                404,
                f"there is no model {name[:SHOWN]}."
                + (
                    did_you_mean(name[:SHOWN], self.served)
                    or f" The models are: {', '.join(self.served)}"
                ),
            )
        return self.served[name]

    async def translate(
        self,
        served: ServedModel,
        texts: Sequence[str],
        config: SearchConfig,
        client: Client | None = None,
        *,
        split: bool = True,
    ) -> list[Translated]:
        """Translate some texts of a client together."""
        self.take(texts)
        batcher = self.batchers[served.name]
        self._require_room(1, batcher)  # before their sentences are found, which takes its time
        lines = [lines_of(text) for text in texts]
        flat = [line for own, _ in lines for line in own]
        prepare = partial(served.translator.prepare, flat, split=split)
        try:
            works = await aside(prepare, sum(map(len, texts)) + len(flat))
        except TransduceError as error:
            raise Problem(400, str(error)) from None
        places = [(work, part) for work in works for part in range(len(work.segments))]
        with self._room(len(places), batcher, client):
            jobs = [work.job(part) for work, part in places]
            found = await batcher.search(jobs, config, client)
        for (work, part), best in zip(places, found, strict=True):
            work.hypotheses[part] = best
        rest = iter(works)
        return [Translated([next(rest) for _ in own], ends) for own, ends in lines]

    async def written(
        self, served: ServedModel, translated: Translated
    ) -> tuple[str, list[dict[str, Any]]]:
        """Return the whole translation of a text and its sentences, line by line."""
        write = partial(paragraphs, served.translator, translated.works, translated.ends)
        return await aside(write, translated.characters)

    def take(self, texts: Sequence[str]) -> None:
        """Refuse what is too long or not text; log the rest if the log is to have texts."""
        if len(texts) > self.limits.texts:
            raise Problem(
                413,
                f"the request has {len(texts):,} texts: at most {self.limits.texts:,} are taken "
                "at once; send several requests",
            )
        count = sum(map(len, texts))
        if count > self.limits.characters:
            raise Problem(
                413,
                f"the text has {count:,} characters: at most {self.limits.characters:,} are taken "
                "at once; send it in pieces",
            )
        for text in texts:
            if "\0" in text:
                raise Problem(400, "the text holds a NUL character: expected text without it")
            if not is_text(text):
                raise Problem(400, "the text holds half a surrogate pair: expected whole letters")
            if self.log_texts:
                log_text("asked", text)

    def _searched(self, name: str, sentences: int, seconds: float) -> None:
        """Count a batch; others are searched at the same time, in the other threads."""
        self.measures.searched(name, sentences, seconds)
        self._rate.add(sentences, seconds / len(self.batchers[name].lanes))

    @contextlib.contextmanager
    def _room(self, sentences: int, batcher: Batcher, client: Client | None) -> Iterator[None]:
        """Hold places in the queue, or refuse where there are none."""
        self._require_share(sentences, client)
        self._require_room(sentences, batcher)
        self._hold(client, 1, sentences)
        try:
            yield
        finally:
            self._hold(client, -1, -sentences)

    def _hold(self, client: Client | None, requests: int, sentences: int) -> None:
        self.asking += requests
        self.held += sentences
        self.measures.queue.set(self.held)
        if client is not None:
            client.sentences += sentences

    def _require_share(self, sentences: int, client: Client | None) -> None:
        """Refuse what would never fit into the queue, or into one client's part of it."""
        most, held = self.limits.queue, 0
        if client is not None and client.most:
            most, held = max(1, int(SHARE * most)), client.sentences
        if sentences > most:
            raise Problem(
                413,
                f"the text has {sentences:,} sentences: at most {most:,} are taken at once; "
                "send it in pieces",
            )
        if held + sentences > most:
            raise too_many(
                f"{held:,} sentences of yours are waiting already, of {most:,} that may",
                self._rate.seconds(held + sentences - most),
            )

    def _require_room(self, sentences: int, batcher: Batcher) -> None:
        """Refuse what finds the queue full, or its turn too far away.

        A request's first sentence is searched after one of each other request; where they fit into
        the next batches, it does not wait.
        """
        over = self.held + sentences - self.limits.queue
        together = batcher.engine.batch * len(batcher.lanes)
        late = self.asking + 1 - max(together, self._rate.sentences(self.limits.wait))
        if over <= 0 and late <= 0:
            return
        seconds = self._rate.seconds(max(over, late))
        waiting = (
            f"{self.held:,} sentences are waiting already, of {self.limits.queue:,} that may"
            if over > 0
            else f"{self.asking:,} requests are waiting already"
        )
        raise Problem(
            503,
            f"{waiting}: try again in {seconds} second{'s' * (seconds > 1)}",
            {"Retry-After": str(seconds)},
        )


class _Rate:
    """How many sentences a second are searched, of late."""

    def __init__(self) -> None:
        self._sentences, self._seconds = 1.0, 0.1  # a guess, until there is more
        self._known = False

    def add(self, sentences: int, seconds: float) -> None:
        """Count a batch, and let earlier ones fade."""
        self._sentences = FADING * self._sentences + sentences
        self._seconds = FADING * self._seconds + seconds
        self._known = True

    def seconds(self, sentences: float) -> int:
        """Return how long so many will take."""
        needed = math.ceil(sentences * self._seconds / self._sentences)
        return min(LONGEST_WAIT, max(1, needed))

    def sentences(self, seconds: float) -> float:
        """Return how many are searched in so long; without end, until that is known."""
        return seconds * self._sentences / self._seconds if self._known else math.inf


async def aside(function: Callable[[], T], characters: int) -> T:
    """Do work that grows with the text: for a long text in a thread, so that nobody else waits."""
    return await asyncio.to_thread(function) if characters > SHORT else function()


@functools.lru_cache(256)  # they are checked at length, and mostly the same
def changed(
    config: SearchConfig, beam: int | None, alpha: float | None, nbest: int | None
) -> SearchConfig:
    """Return the settings of a search with those changed that are given."""
    changes = {"beam": beam, "alpha": alpha, "nbest": nbest}
    try:
        return config.replace(**{k: v for k, v in changes.items() if v is not None})
    except BadSetting as error:
        raise Problem(400, str(error)) from None


def is_text(text: str) -> bool:
    """Tell whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
