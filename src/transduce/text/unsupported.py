"""Document formats that are not plain text: recognised by content or suffix.

Commands that read lines refuse them. `transduce translate` translates those with a `document`;
TMX, XLIFF and CSV are also read as parallel text.
"""

import re
from dataclasses import dataclass
from pathlib import PurePath

from transduce.text.compression import COMPRESSIONS

LINES = "write its sentences into a text file, one on each line"
PAIRS = f"{LINES}, or as pairs with a tab between them into a .tsv file"
ALONE = f"as parallel text, give it alone, without a second file; otherwise {LINES}"
CUES = "write the text of each subtitle on a line of its own, without numbers and times"
PANDOC = "extract its text first, for example with pandoc --to plain --wrap none"


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is not plain text, and what to do where lines are expected."""

    name: str
    advice: str = LINES
    binary: bool = False  # not readable as lines of text
    document: str = ""  # its name in transduce.documents.formats; empty if it is not supported


SUBTITLES = Format("SubRip subtitles", CUES, document="srt")
WEBVTT = Format("WebVTT subtitles", CUES, document="vtt")
HTML, XML = Format("HTML", PANDOC, document="html"), Format("XML")
TMX = Format("TMX", ALONE, document="tmx")
XLIFF = Format("XLIFF", ALONE, document="xliff")
PO = Format("gettext PO", PAIRS, document="po")
JSON, JSON_LINES = Format("JSON", document="json"), Format("JSON lines", document="jsonl")
YAML = Format("YAML")
CSV = Format("CSV", ALONE, document="csv")
MARKDOWN = Format("Markdown", PANDOC, document="markdown")
WORD = Format("a Word document", PANDOC, binary=True, document="docx")
OLD_OFFICE = Format("an old Office document", PANDOC, binary=True)
OPEN_DOCUMENT = Format("an OpenDocument file", PANDOC, binary=True)
SHEET = Format("a spreadsheet", PAIRS, binary=True)
SLIDES = Format("a presentation", binary=True)
RTF = Format("RTF", PANDOC)
EPUB = Format("an EPUB book", PANDOC, binary=True)
PDF = Format("PDF", "extract its text first, for example with pdftotext", binary=True)
ARCHIVE = Format("an archive", "unpack it first", binary=True)
BZIP2 = Format("compressed with bzip2", "unpack it first, or use gz, xz or zst", binary=True)

BY_SUFFIX = {
    "srt": SUBTITLES,
    "vtt": WEBVTT,
    **dict.fromkeys(("ass", "ssa", "sbv", "ttml", "dfxp"), Format("subtitles", CUES)),
    **dict.fromkeys(("html", "htm", "xhtml"), HTML),
    "xml": XML,
    "tmx": TMX,
    **dict.fromkeys(("xliff", "xlf", "sdlxliff"), XLIFF),
    **dict.fromkeys(("po", "pot"), PO),
    **dict.fromkeys(("jsonl", "ndjson"), JSON_LINES),
    "json": JSON,
    "ipynb": Format("a Jupyter notebook"),
    **dict.fromkeys(("yaml", "yml"), YAML),
    "csv": CSV,
    **dict.fromkeys(("md", "markdown"), MARKDOWN),
    "rst": Format("reStructuredText", PANDOC),
    "tex": Format("LaTeX", PANDOC),
    **dict.fromkeys(("properties", "strings", "resx"), Format("a file of program messages")),
    "docx": WORD,
    "doc": OLD_OFFICE,
    "odt": OPEN_DOCUMENT,
    **dict.fromkeys(("xlsx", "xls", "ods", "parquet"), SHEET),
    **dict.fromkeys(("pptx", "ppt", "odp"), SLIDES),
    "rtf": RTF,
    "epub": EPUB,
    "pdf": PDF,
    **dict.fromkeys(("zip", "tar", "tgz", "7z", "rar"), ARCHIVE),
    "bz2": BZIP2,
}

# First bytes of documents; plain text never begins like this. Text formats may have a byte-order
# mark before them.
BY_CONTENT = [
    (rb"%PDF-", PDF),
    (rb"PK\x03\x04.{26}mimetypeapplication/epub", EPUB),
    (rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument", OPEN_DOCUMENT),
    (rb"PK\x03\x04.*?word/", WORD),
    (rb"PK\x03\x04.*?xl/", SHEET),
    (rb"PK\x03\x04.*?ppt/", SLIDES),
    (rb"PK\x03\x04|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|.{257}ustar", ARCHIVE),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLD_OFFICE),
    (rb"BZh[1-9]1AY&SY", BZIP2),
    (rb"\{\\rtf\d", RTF),
    (rb"WEBVTT\s", WEBVTT),
    (rb"\s*\d+\s*\n\d\d:\d\d:\d\d[,.]\d{3} --> \d\d:", SUBTITLES),
    (rb"\s*(?:#[^\n]*\n\s*)*msgid \"", PO),
    (rb"\s*(?:<[?!][^>]*>\s*)*<tmx\s", TMX),
    (rb"\s*(?:<[?!][^>]*>\s*)*<xliff\s", XLIFF),
    (rb"\s*(?:<[?!][^>]*>\s*)*<html[\s>]|\s*<!doctype html", HTML),
    (rb"\s*<\?xml\s", XML),
]
PATTERNS = [
    (re.compile(rb"(?:\xef\xbb\xbf)?(?:%b)" % begin, re.DOTALL | re.IGNORECASE), format_)
    for begin, format_ in BY_CONTENT
]


def format_of_content(head: bytes) -> Format | None:
    """Return the format of a document that begins with these bytes; None if it may be text."""
    return next((format_ for pattern, format_ in PATTERNS if pattern.match(head)), None)


def format_of_name(path: str | PurePath) -> Format | None:
    """Return the format of a file's suffix, compressed or not."""
    suffixes = [suffix[1:].lower() for suffix in PurePath(path).suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return BY_SUFFIX.get(suffixes[-1]) if suffixes else None
