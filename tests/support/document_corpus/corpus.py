"""The table of formats: how documents are made, read and translated."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from document_corpus import exchange_files, message_files, subtitle_files, table_files, web_files
from document_corpus.author import SPANS, Author
from document_corpus.reading import Reading, Verdict, compare
from document_corpus.word_files import SPANS as WORD_SPANS
from document_corpus.word_files import make_docx
from document_corpus.word_reading import read_docx
from transduce.documents import DocumentOptions
from transduce.documents.formats import FORMATS
from transduce.documents.translating import DocumentTranslator, Translate


class Read(Protocol):
    """A reader that is not ours."""

    def __call__(self, data: bytes, *, translated: bool) -> Reading: ...


@dataclass(frozen=True)
class Kind:
    """Documents of one format."""

    format: str
    share: int  # of 200 documents
    make: Callable[[Author], bytes]
    read: Read
    spans: tuple[str, ...] = tuple(SPANS)
    options: tuple[tuple[str, Any], ...] = ()


KINDS = (
    Kind("docx", 40, make_docx, read_docx, WORD_SPANS),
    Kind("html", 32, web_files.make_html, web_files.read_html),
    Kind("markdown", 28, web_files.make_markdown, web_files.read_markdown, web_files.MARKDOWN),
    Kind("po", 20, message_files.make_po, message_files.read_po, message_files.SPANS),
    Kind("xliff", 12, exchange_files.make_xliff_1, exchange_files.read_xliff),
    Kind("xliff", 12, exchange_files.make_xliff_2, exchange_files.read_xliff),
    Kind("tmx", 10, exchange_files.make_tmx, exchange_files.read_tmx),
    Kind("srt", 10, subtitle_files.make_srt, subtitle_files.read_srt, subtitle_files.SPANS),
    Kind("vtt", 10, subtitle_files.make_vtt, subtitle_files.read_vtt, subtitle_files.SPANS),
    Kind("csv", 8, table_files.make_csv, table_files.read_csv, options=(("columns", ("text",)),)),
    Kind("tsv", 4, table_files.make_tsv, table_files.read_tsv, options=(("columns", ("text",)),)),
    Kind("json", 7, table_files.make_json, table_files.read_json),
    Kind("jsonl", 4, table_files.make_jsonl, table_files.read_json),
    Kind("text", 3, table_files.make_text, table_files.read_text),
)


@dataclass(frozen=True)
class Made:
    """A document and the spans of its texts."""

    kind: Kind
    name: str
    data: bytes
    spans: frozenset[str]

    @property
    def options(self) -> DocumentOptions:
        return DocumentOptions(languages=("en", "de"), **dict(self.kind.options))

    def translated(self, translate: Translate) -> bytes:
        translator = DocumentTranslator(translate, self.options)
        result, _ = translator.convert(self.data, self.name, FORMATS[self.kind.format])
        return result

    def compared(self, result: bytes, *, exact: bool) -> Verdict:
        before = self.kind.read(self.data, translated=False)
        return compare(before, self.kind.read(result, translated=True), self.spans, exact=exact)


def documents(count: int = 200, seed: int = 1, size: float = 1.0) -> Iterator[Made]:
    """Yield documents, each format by its share."""
    for number in range(count):
        place = number * 200 // count
        for kind in KINDS:
            if place < kind.share:
                break
            place -= kind.share
        author = Author(seed * 100_000 + number, kind.spans, shape=number, size=size)
        data = kind.make(author)
        suffix = FORMATS[kind.format].suffixes[0]
        yield Made(kind, f"{number:03}.{suffix}", data, frozenset(author.spans))
