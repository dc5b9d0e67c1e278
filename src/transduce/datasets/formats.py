"""Sentences from corpus formats: plain lines, tables, IWSLT's tags, SGML and XML.

Bytes that are not UTF-8 become lone surrogates, so that line n stays line n and the pair
can be left out later.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import unescape

from transduce.datasets import unpacking
from transduce.datasets.catalogue import Location, Source
from transduce.errors import BadData

TAG = re.compile(r"\s*<(/?)(\w+)")
SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.DOTALL | re.IGNORECASE)
MAX_SEGMENT_BYTES = 1 << 26  # bytes: an SGML or XML file is read into memory
ENTITIES = {"&quot;": '"', "&apos;": "'"}


def sentences(source: Source, side: int, archives: Mapping[str, Path]) -> Iterator[str]:
    """Yield the sentences of one side of a parallel text."""
    location = source.locations[side]
    lines = _decode(unpacking.lines(archives[location.archive], location.member), location)
    if source.format == "talks":
        return _talks(lines, source.keep)
    if source.format == "segments":
        return _segments(lines, location)
    assert source.format == "plain", source.format
    return lines


def _decode(lines: Iterable[bytes], location: Location) -> Iterator[str]:
    """Decode lines; take one column of a table."""
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", errors="surrogateescape").removesuffix("\r")
        if location.column is None:
            yield text
            continue
        columns = text.split("\t")
        if len(columns) <= location.column:
            raise BadData(
                f"{location.archive}, line {number:,} has {len(columns)} columns: "
                f"expected {location.column + 1} or more"
            )
        yield columns[location.column]


def _talks(lines: Iterable[str], keep: frozenset[str]) -> Iterator[str]:
    """Yield the sentences of talks, without tag lines; tags in `keep` keep their content."""
    for line in lines:
        tag = TAG.match(line)
        if tag is None:
            yield line.strip()
        elif tag[2] in keep:
            yield re.sub(rf"</?{tag[2]}>", "", line).strip()


def _segments(lines: Iterable[str], location: Location) -> Iterator[str]:
    """Yield the <seg> elements of SGML or XML, white space collapsed, XML entities decoded."""
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        size += len(line) + 1
        if size > MAX_SEGMENT_BYTES:
            raise BadData(
                f"{location.archive}: {location.member} is too large: "
                f"expected at most {MAX_SEGMENT_BYTES >> 20} MiB"
            )
    text = "\n".join(parts)
    segments = SEGMENT.findall(text)
    if not segments or len(segments) != len(re.findall(r"<seg\b", text, re.IGNORECASE)):
        raise BadData(
            f"{location.archive}: {location.member} has {len(segments):,} complete <seg> elements: "
            "expected one or more, all closed"
        )
    for segment in segments:
        yield " ".join(unescape(segment, ENTITIES).split())
