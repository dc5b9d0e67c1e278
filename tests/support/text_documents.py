"""Helpers for tests of documents: read, translate with a function, spoil."""

import random
from collections.abc import Callable
from typing import Any

from transduce.documents import Document, DocumentOptions
from transduce.documents.formats import FORMATS, read_document
from transduce.errors import BadInput
from transduce.markup import Inline, Tag


def read(name: str, data: bytes | str, **options: Any) -> Document:
    data = data.encode() if isinstance(data, str) else data
    chosen = DocumentOptions(**({"languages": ("en", "de")} | options))
    return read_document(data, "the file", FORMATS[name], chosen)


def texts(document: Document) -> list[str]:
    """Return the units as text; tags as <1>, </1> and <1/>."""
    return ["".join(map(_shown, unit.source)) for unit in document.units]


def _shown(part: str | Tag) -> str:
    if isinstance(part, str):
        return part
    return {"open": f"<{part.key}>", "close": f"</{part.key}>"}.get(part.kind, f"<{part.key}/>")


def with_texts(content: Inline, change: Callable[[str], str]) -> Inline:
    return tuple(part if isinstance(part, Tag) else change(part) for part in content)


def translated(
    name: str, data: bytes | str, change: Callable[[str], str] = str.upper, **options: Any
) -> str:
    """Return the document with each text changed by a function."""
    document = read(name, data, **options)
    for unit in document.units:
        unit.target = with_texts(unit.source, change)
    return document.to_bytes().decode()


def assert_unchanged(name: str, data: bytes | str, **options: Any) -> None:
    """Without translations, or with the same texts, the bytes stay the same."""
    data = data.encode() if isinstance(data, str) else data
    document = read(name, data, **options)
    assert document.to_bytes() == data
    for unit in document.units:
        unit.target = unit.source
    assert document.to_bytes() == data


def spoil_and_read(name: str, data: bytes | str, count: int = 100, **options: Any) -> None:
    """Read spoiled variants: each is refused with one sentence or becomes a document."""
    data = data.encode() if isinstance(data, str) else data
    draw = random.Random(7)
    marks = [
        b'"',
        b"\\",
        b"\n",
        b"\r",
        b"<",
        b">",
        b"{",
        b"]",
        b"\0",
        b"\xff",
        b",",
        b"[",
        b"-->",
        b"`",
    ]
    for _ in range(count):
        spoiled = bytearray(data)
        for _ in range(draw.randint(1, 6)):
            start = draw.randrange(len(spoiled) + 1)
            stop = min(len(spoiled), start + draw.choice((0, 0, 1, 3, 20)))
            spoiled[start:stop] = draw.choice([b"", *marks, data[start : start + 30]])
        if draw.random() < 0.2:
            del spoiled[draw.randrange(len(spoiled) + 1) :]
        try:
            document = read(name, bytes(spoiled), **options)
        except BadInput:
            continue
        assert document.to_bytes() == bytes(spoiled)
        for unit in document.units:
            unit.target = with_texts(unit.source, lambda text: f"{text[::-1]} ÄÖ")
        document.to_bytes().decode()
