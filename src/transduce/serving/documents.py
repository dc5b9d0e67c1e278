"""Translation of documents for many clients.

Documents are read and written in threads of their own: texts are translated meanwhile. A thread
cannot be stopped, so the place of a document is free only when its thread has ended.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from transduce.config import SearchConfig
from transduce.documents import Document, DocumentOptions
from transduce.documents.formats import DocumentFormat, extensions, find_format, read_document
from transduce.documents.translating import HEAD, new_name
from transduce.errors import TransduceError
from transduce.markup import inline_text
from transduce.serving.clients import Client, too_many
from transduce.serving.downloads import Download, Downloads
from transduce.serving.forms import Upload
from transduce.serving.limits import SHARE, Limits
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem, retry_later
from transduce.serving.service import Service
from transduce.translation.translation import Translation

THREADS = 1  # several would slow down other requests: Python runs one at a time
BUSY = 5  # seconds for Retry-After

T = TypeVar("T")


class Translated(NamedTuple):
    """A translated document."""

    file: Download
    document: Document
    translations: list[Translation]  # of its units

    @property
    def characters(self) -> int:
        """The length of its texts."""
        return sum(len(translation.source) for translation in self.translations)

    def remarks(self) -> list[dict[str, Any]]:
        """Return the texts whose translations have flags, lack terms, or have doubtful spans."""
        remarks = []
        for unit, translation in zip(self.document.units, self.translations, strict=True):
            lost = [term.to_json() for term in translation.terms if not term.found]
            spans = [span.to_json() for span in translation.spans if span.is_doubtful]
            if lost or spans or translation.flags:
                flags = [flag.to_json() for flag in translation.flags]
                texts = {"source": translation.source, "text": translation.text}
                doubts = {"terms": lost, "spans": spans, "flags": flags}
                remarks.append({"where": unit.where, **texts, **doubts})
        return remarks


@dataclass(eq=False, slots=True)
class Place:
    """The place of a document among those in progress, and what still uses it."""

    documents: "Documents"
    client: Client | None
    users: int = 0

    def use(self) -> None:
        """Count a user: the request, or a thread."""
        self.users += 1
        if self.users == 1:
            self.documents.count(self.client, 1)

    def leave(self) -> None:
        """Remove a user."""
        self.users -= 1
        if not self.users:
            self.documents.count(self.client, -1)


class Documents:
    """The documents in progress, and those that can be downloaded."""

    def __init__(self, service: Service) -> None:
        self.service, self.limits = service, service.limits
        self.downloads = Downloads(service.limits)
        self.active = 0
        self._executor: ThreadPoolExecutor | None = None
        self._running: set[Future[Any]] = set()

    def close(self, seconds: float = 0.5) -> bool:
        """End the threads; return whether they ended within `seconds`."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
        return not wait(self._running, seconds).not_done

    def to_json(self) -> dict[str, Any] | None:
        """Return which documents are accepted; None: none are."""
        limit = self.limits.document_bytes
        return {"extensions": extensions(), "max_bytes": limit} if limit else None

    def count(self, client: Client | None, change: int) -> None:
        """Count the documents in progress."""
        self.active += change
        if client is not None:
            client.documents += change

    @contextlib.contextmanager
    def place(self, client: Client | None) -> Iterator[Place]:
        """Take a place, or refuse a document if there are too many, or too many of this client."""
        if not self.limits.document_bytes:
            raise Problem(403, "this service translates no documents: see --document-bytes")
        share = max(1, int(SHARE * self.limits.documents))
        if client is not None and client.max_requests and client.documents >= share:
            raise too_many(f"{client.documents} of your documents are in progress", seconds=BUSY)
        if self.active >= self.limits.documents:
            raise retry_later(503, f"{self.active} documents are in progress", BUSY)
        place = Place(self, client)
        place.use()
        try:
            yield place
        finally:
            place.leave()

    async def texts(self, place: Place, upload: Upload, options: DocumentOptions) -> list[str]:
        """Return the texts of a document."""
        reading = partial(self._read, upload, self._format(upload), options)
        document = await self._in_thread(place, reading)
        return [inline_text(unit.source) for unit in document.units]

    async def translate(
        self,
        place: Place,
        model: ServedModel,
        upload: Upload,
        options: DocumentOptions,
        config: SearchConfig,
        **how: Any,
    ) -> Translated:
        """Translate a document; `how` has further arguments of `Service.translate_units`."""
        chosen = self._format(upload)
        document = await self._in_thread(place, partial(self._read, upload, chosen, options))
        client = place.client
        translations = await self.service.translate_units(
            model, document.units, config, client, **how
        )
        content = await self._in_thread(place, document.to_bytes)
        name = new_name(upload.name, model.languages)
        return Translated(Download(name, chosen.media_type, content), document, translations)

    def _format(self, upload: Upload) -> DocumentFormat:
        try:
            chosen = find_format(upload.name, upload.content[:HEAD])
        except TransduceError as error:
            raise Problem(400, str(error)) from None
        if chosen is None:
            raise Problem(
                400, f"{upload.name} has no known format: expected {', '.join(extensions())}"
            )
        limit = self.limits.document_bytes
        limit = limit if chosen.binary else min(limit, self.limits.body)
        if len(upload.content) > limit:
            raise Problem(
                413,
                f"{upload.name} has {len(upload.content):,} bytes: at most {limit:,} are accepted; "
                "split it",
            )
        return chosen

    def _read(self, upload: Upload, chosen: DocumentFormat, options: DocumentOptions) -> Document:
        """Read a document, and refuse it if its texts are too long."""
        document = read_document(upload.content, upload.name, chosen, options)
        self.service.check_length(sum(len(inline_text(unit.source)) for unit in document.units))
        return document

    async def _in_thread(self, place: Place, function: Callable[[], T]) -> T:
        """Run a function in a thread, which has the place until it ends."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="documents")
        loop = asyncio.get_running_loop()
        place.use()
        future = self._executor.submit(function)
        self._running.add(future)

        def end(_: Future[T]) -> None:
            self._running.discard(future)
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(place.leave)

        future.add_done_callback(end)
        try:
            return await asyncio.wrap_future(future)
        except TransduceError as error:
            raise Problem(400, str(error)) from None


def document_options(
    model: ServedModel, limits: Limits, columns: str = "", keys: str = ""
) -> DocumentOptions:
    """Return how to read a document for a model."""
    return DocumentOptions(
        languages=model.languages,
        columns=tuple(filter(None, map(str.strip, columns.split(",")))),
        keys=tuple(filter(None, map(str.strip, keys.split(",")))),
        max_markup=limits.document_markup,
    )
