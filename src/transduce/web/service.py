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
from transduce.translator import Work
from transduce.web.batching import Batcher
from transduce.web.limits import Limits
from transduce.web.measures import Measures
from transduce.web.paragraphs import lines_of, paragraphs
from transduce.web.problems import SHOWN, Problem
from transduce.web.served import Served

SHORT = 2_000  # characters that are split and encoded at once; more would keep others waiting
LONGEST_WAIT = 60  # seconds that a client is told to wait at most
FADING = 0.9  # of what an earlier batch counts for

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Translated:
    """One text, searched."""

    works: list[Work]
    ends: list[str]

    @property
    def characters(self) -> int:
        """How long it is."""
        return sum(len(work.text) for work in self.works)


class Service:
    """The models, their queues and what may be asked of them."""

    def __init__(self, served: Sequence[Served], limits: Limits, measures: Measures) -> None:
        self.served = {one.name: one for one in served}
        self.limits, self.measures = limits, measures
        self.batchers = {
            one.name: Batcher(
                one.translator.engine,
                partial(self._searched, one.name),
                remember=limits.remember,
            )
            for one in served
        }
        self.held = 0  # sentences that wait or are searched
        self._rate = _Rate()

    def stop(self) -> None:
        """Answer all that wait that the service is being ended."""
        for batcher in self.batchers.values():
            batcher.stop(Problem(503, "the service is being ended", {"Retry-After": "10"}))

    def close(self) -> bool:
        """End the threads, and tell whether all have ended."""
        ended = [batcher.close() for batcher in self.batchers.values()]
        return all(ended)

    def find(self, name: str | None) -> Served:
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
        self, served: Served, texts: Sequence[str], config: SearchConfig, *, split: bool = True
    ) -> list[Translated]:
        """Translate some texts together."""
        self.refuse(texts)
        lines = [lines_of(text) for text in texts]
        flat = [line for own, _ in lines for line in own]
        prepare = partial(served.translator.works, flat, split=split)
        try:
            works = await aside(prepare, sum(map(len, texts)))
        except TransduceError as error:
            raise Problem(400, str(error)) from None
        places = [(work, part) for work in works for part in range(len(work.parts))]
        with self._room(len(places)):
            jobs = [work.job(part) for work, part in places]
            found = await self.batchers[served.name].search(jobs, config)
        for (work, part), best in zip(places, found, strict=True):
            work.found[part] = best
        rest = iter(works)
        return [Translated([next(rest) for _ in own], ends) for own, ends in lines]

    async def written(
        self, served: Served, translated: Translated
    ) -> tuple[str, list[dict[str, Any]]]:
        """Return the whole translation of a text and its sentences, line by line."""
        write = partial(paragraphs, served.translator, translated.works, translated.ends)
        return await aside(write, translated.characters)

    def refuse(self, texts: Sequence[str]) -> None:
        """Refuse what is too long or no text."""
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

    def _searched(self, name: str, sentences: int, seconds: float) -> None:
        """Count a batch; others are searched at the same time, in the other threads."""
        self.measures.searched(name, sentences, seconds)
        self._rate.add(sentences, seconds / len(self.batchers[name].lanes))

    @contextlib.contextmanager
    def _room(self, sentences: int) -> Iterator[None]:
        """Hold places in the queue, or refuse where there are none."""
        most = self.limits.queue
        if sentences > most:
            raise Problem(
                413,
                f"the text has {sentences:,} sentences: at most {most:,} are taken at once; "
                "send it in pieces",
            )
        if self.held + sentences > most:
            seconds = self._rate.seconds(self.held + sentences - most)
            raise Problem(
                503,
                f"{self.held:,} sentences are waiting already, of {most:,} that may: "
                f"try again in {seconds} second{'s' * (seconds > 1)}",
                {"Retry-After": str(seconds)},
            )
        self.held += sentences
        self.measures.queue.set(self.held)
        try:
            yield
        finally:
            self.held -= sentences
            self.measures.queue.set(self.held)


class _Rate:
    """How many sentences a second are searched, of late."""

    def __init__(self) -> None:
        self._sentences, self._seconds = 1.0, 0.1  # a guess, until there is more

    def add(self, sentences: int, seconds: float) -> None:
        """Count a batch, and let earlier ones fade."""
        self._sentences = FADING * self._sentences + sentences
        self._seconds = FADING * self._seconds + seconds

    def seconds(self, sentences: int) -> int:
        """Return how long so many will take."""
        needed = math.ceil(sentences * self._seconds / self._sentences)
        return min(LONGEST_WAIT, max(1, needed))


async def aside(function: Callable[[], T], characters: int) -> T:
    """Do what takes the longer the more text there is: for a long one, in a thread of its own."""
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
