"""The table of document formats, and which of them a file has."""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import PurePath
from typing import cast

from transduce.documents.base import Document, DocumentOptions
from transduce.errors import BadInput, MissingExtra, UnsupportedFormat, did_you_mean
from transduce.text import unsupported
from transduce.text.compression import COMPRESSIONS

MAX_BYTES = 1 << 26  # a document that was read takes many times its size in memory


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format that can be translated."""

    name: str  # for --format
    title: str
    suffixes: tuple[str, ...]
    module: str
    library: str | None  # of the extra `documents`
    binary: bool  # not for a terminal
    media_type: str


def _row(
    name: str,
    title: str,
    suffixes: str,
    module: str,
    library: str | None,
    media_type: str,
    *,
    binary: bool = False,
) -> DocumentFormat:
    return DocumentFormat(name, title, tuple(suffixes.split()), module, library, binary, media_type)


WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
FORMATS = {
    row.name: row
    for row in (
        _row("docx", "Word document", "docx", "docx", "lxml", WORD, binary=True),
        _row("html", "HTML", "html htm xhtml", "html", "lxml", "text/html"),
        _row("xliff", "XLIFF", "xliff xlf", "xliff", "lxml", "application/xliff+xml"),
        _row("tmx", "TMX", "tmx", "tmx", "lxml", "application/x-tmx+xml"),
        _row("po", "gettext PO", "po pot", "po", None, "text/x-gettext-translation"),
        _row("srt", "SubRip subtitles", "srt", "subtitles", None, "application/x-subrip"),
        _row("vtt", "WebVTT subtitles", "vtt", "subtitles", None, "text/vtt"),
        _row("markdown", "Markdown", "md markdown", "markdown", "markdown_it", "text/markdown"),
        _row("csv", "CSV", "csv", "csv_file", None, "text/csv"),
        _row("tsv", "TSV", "tsv", "csv_file", None, "text/tab-separated-values"),
        _row("json", "JSON", "json", "json_file", None, "application/json"),
        _row("jsonl", "JSON lines", "jsonl ndjson", "json_file", None, "application/jsonl"),
        _row("text", "plain text", "txt", "plain", None, "text/plain"),
    )
}
BY_SUFFIX = {suffix: row for row in FORMATS.values() for suffix in row.suffixes}
PACKAGES = {"markdown_it": "markdown-it-py"}  # names for pip that differ from the module's


def extensions() -> list[str]:
    """Return the extensions of the formats whose libraries are installed: .docx and so on."""
    return [
        f".{suffix}"
        for row in FORMATS.values()
        if row.library is None or importlib.util.find_spec(row.library) is not None
        for suffix in row.suffixes
    ]


def find_format(name: str, head: bytes, given: str | None = None) -> DocumentFormat | None:
    """Return the format of a document: as given, else by suffix, else by its first bytes.

    None means that nothing is known, so it may be plain text. Other formats are refused.
    """
    if given is not None:
        named = BY_SUFFIX | FORMATS
        if given not in named:
            raise BadInput(
                f"there is no format {given!r}: expected {', '.join(FORMATS)}."
                + did_you_mean(given, named)
            )
        return named[given]
    suffix = PurePath(name).suffix.removeprefix(".").lower()
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    known = unsupported.format_of_content(head) or unsupported.format_of_name(name)
    if known is None:
        return None
    if known.document and suffix in COMPRESSIONS:
        raise BadInput(f"{name} is compressed {known.name}: unpack it first")
    if known.document:
        return FORMATS[known.document]
    raise UnsupportedFormat(
        f"{name} is {known.name}, which transduce does not read yet: {known.advice}",
        binary=known.binary,
    )


def read_document(
    data: bytes, name: str, document_format: DocumentFormat, options: DocumentOptions
) -> Document:
    """Read a document; errors begin with its name."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name} is larger than {MAX_BYTES >> 20} MiB: split it first")
    library = document_format.library
    if library is not None and importlib.util.find_spec(library) is None:
        raise MissingExtra(
            f"translating {document_format.title} files",
            PACKAGES.get(library, library),
            "documents",
        )
    module = importlib.import_module(f"transduce.documents.{document_format.module}")
    try:
        return cast("Document", module.read(data, options))
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
