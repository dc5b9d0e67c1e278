"""Text as corpora hold it: a sentence a line, lines between the tags of IWSLT, SGML and XML.

A line may hold bytes that are no UTF-8. Those come as lone surrogates, so that line n stays line n
and whoever pairs the lines can leave that pair out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import unescape

from transduce.datasets import unpacking
from transduce.datasets.catalogue import Place, Source
from transduce.errors import BadData

TAG = re.compile(r"\s*<(/?)(\w+)")
SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.DOTALL | re.IGNORECASE)
LARGEST_SET = 1 << 26  # bytes of a file of segments, which is read whole: test sets are small
ENTITIES = {"&quot;": '"', "&apos;": "'"}


def sentences(source: Source, side: int, archives: Mapping[str, Path]) -> Iterator[str]:
    """Yield the sentences of one language of a text."""
    place = source.places[side]
    lines = _decoded(unpacking.lines(archives[place.archive], place.member), place)
    if source.format == "talks":
        return _talks(lines, source.keep)
    if source.format == "segments":
        return _segments(lines, place)
    assert source.format == "plain", source.format
    return lines


def _decoded(lines: Iterable[bytes], place: Place) -> Iterator[str]:
    """Decode lines; of a table, one column."""
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", errors="surrogateescape").removesuffix("\r")
        if place.column is None:
            yield text
            continue
        columns = text.split("\t")
        if len(columns) <= place.column:
            raise BadData(
                f"{place.archive}, line {number:,} has {len(columns)} columns: "
                f"expected {place.column + 1} or more"
            )
        yield columns[place.column]


def _talks(lines: Iterable[str], keep: frozenset[str]) -> Iterator[str]:
    """Take the sentences of talks: lines of tags go, but for some, of which only the tags go."""
    for line in lines:
        tag = TAG.match(line)
        if tag is None:
            yield line.strip()
        elif tag[2] in keep:
            yield re.sub(rf"</?{tag[2]}>", "", line).strip()


def _segments(lines: Iterable[str], place: Place) -> Iterator[str]:
    """Take the <seg> elements of SGML or XML, white space and entities as XML means them."""
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        size += len(line) + 1
        if size > LARGEST_SET:
            raise BadData(f"{place.archive}: {place.member} is too large for a test set")
    text = "\n".join(parts)
    found = SEGMENT.findall(text)
    if not found or len(found) != len(re.findall(r"<seg\b", text, re.IGNORECASE)):
        raise BadData(
            f"{place.archive}: {place.member} has {len(found):,} whole <seg> elements: "
            "expected one or more, each with its end"
        )
    for segment in found:
        yield " ".join(unescape(segment, ENTITIES).split())
