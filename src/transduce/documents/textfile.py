"""Documents that are text: the parts that are translated are replaced, all else stays as it is."""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from transduce.documents.base import Document, Unit
from transduce.errors import BadInput
from transduce.markup import Inline, Tag, has_words, inline_text

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def decode(data: bytes) -> str:
    """Return the text of a file in UTF-8, without its byte-order mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput("it is UTF-16: expected UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)")
    if (nul := data.find(b"\0")) >= 0:
        raise BadInput(f"{_line(data, nul)} has a NUL byte: expected a text file in UTF-8")
    try:
        return data.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        start = error.start + len(BYTE_ORDER_MARK) * data.startswith(BYTE_ORDER_MARK)
        raise BadInput(
            f"{_line(data, start)} is not UTF-8 (byte 0x{data[start]:02x}): "
            "expected text in UTF-8; iconv converts other encodings"
        ) from None


def _line(data: bytes, position: int) -> str:
    line = data.count(b"\n", 0, position) + 1
    return f"line {line:,}"


def line_end(text: str) -> str:
    """Return the line end of a text, which new lines use too."""
    return "\r\n" if re.search(r"\r?\n|$", text)[0] == "\r\n" else "\n"  # type: ignore[index]


@dataclass(slots=True, eq=False)
class Part:
    """A part of a text, which is replaced if one of its units is translated."""

    start: int
    end: int
    units: list[Unit]
    render: Callable[[], str]


@dataclass(slots=True)
class TextDocument(Document):
    """A text and its parts, in order."""

    text: str = ""
    marked: bool = False  # begins with a byte-order mark
    parts: list[Part] = field(default_factory=list)

    def add(self, start: int, end: int, units: list[Unit], render: Callable[[], str]) -> None:
        """Add a part and its units."""
        self.add_part(start, end, units, render)
        self.units += units

    def add_part(self, start: int, end: int, units: list[Unit], render: Callable[[], str]) -> None:
        """Add a part whose units are in the document already, or are added later."""
        self.parts.append(Part(start, end, units, render))

    def is_changed(self, part: Part) -> bool:
        """Return whether a part is written with its translation."""
        return any(unit.target not in (None, unit.source) for unit in part.units)

    def to_bytes(self) -> bytes:
        """Return the text with the translated parts."""
        pieces, position = [], 0
        for part in self.parts:
            if self.is_changed(part):
                pieces += [self.text[position : part.start], part.render()]
                position = part.end
        pieces.append(self.text[position:])
        text = "".join(pieces).encode("utf-8", "replace")  # a translation may have half a surrogate
        return BYTE_ORDER_MARK * self.marked + text


def target_of(unit: Unit) -> Inline:
    """Return the translation of a unit, or its source if it has none."""
    return unit.source if unit.target is None else unit.target


def one_line(text: str) -> str:
    """Replace each run of white space that has a line end by a space."""
    return (
        " ".join(text.split()) if re.search(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text) else text
    )


def line_units(text: str, where: str) -> tuple[list[Unit], Callable[[], str]]:
    """Return a unit for each line that has words, and a function that joins the translations.

    White space around a line is kept.
    """
    pieces: list[str | Unit] = []
    for piece in re.split(r"(\r\n?|\n)", text):
        body = piece.strip()
        if has_words(body):
            before, _, after = piece.partition(body)
            pieces += [before, Unit((body,), where), after]
        else:
            pieces.append(piece)

    def join() -> str:
        return "".join(
            one_line(inline_text(target_of(piece))) if isinstance(piece, Unit) else piece
            for piece in pieces
        )

    return [piece for piece in pieces if isinstance(piece, Unit)], join


@dataclass(frozen=True, slots=True)
class RawTag:
    """A tag of a text format, before it is known which tags form an element."""

    kind: Literal["open", "close", "single"]
    name: str
    data: Any


def pair_tags(pieces: Iterable[str | RawTag]) -> Inline:
    """Return content with numbered tags; those without a partner become single tags."""
    content = list(pieces)
    partner: dict[int, int] = {}  # position of an open tag -> of its close tag, and back
    opened: list[tuple[str, int]] = []
    names: Counter[str] = Counter()
    for position, piece in enumerate(content):
        if isinstance(piece, str) or piece.kind == "single":
            continue
        if piece.kind == "open":
            opened.append((piece.name, position))
            names[piece.name] += 1
            continue
        while names[piece.name]:
            name, start = opened.pop()
            names[name] -= 1
            if name == piece.name:
                partner |= {start: position, position: start}
                break
    keys: dict[int, int] = {}
    paired: list[str | Tag] = []
    for position, piece in enumerate(content):
        if isinstance(piece, str):
            if paired and isinstance(paired[-1], str):
                paired[-1] += piece
            elif piece:
                paired.append(piece)
            continue
        first = min(position, partner.get(position, position))
        key = keys.setdefault(first, len(keys) + 1)
        paired.append(Tag(piece.kind if position in partner else "single", key, piece.data))
    return tuple(paired)


def trim(content: Inline) -> tuple[Inline, Inline, Inline]:
    """Cut off white space, single tags, and elements around the whole text."""
    before: list[str | Tag] = []
    after: deque[str | Tag] = deque()
    rest = deque(content)
    while rest:
        first, last = rest[0], rest[-1]
        if isinstance(first, str) and first != first.lstrip():
            before.append(first[: len(first) - len(first.lstrip())])
            rest.popleft()
            if first.strip():
                rest.appendleft(first.lstrip())
        elif isinstance(last, str) and last != last.rstrip():
            after.appendleft(last[len(last.rstrip()) :])
            rest[-1] = last.rstrip()
        elif isinstance(first, Tag) and first.kind == "single":
            before.append(rest.popleft())
        elif isinstance(last, Tag) and last.kind == "single":
            after.appendleft(rest.pop())
        elif isinstance(first, Tag) and isinstance(last, Tag) and first.key == last.key:
            before.append(rest.popleft())
            after.appendleft(rest.pop())
        else:
            break
    return tuple(before), tuple(rest), tuple(after)


def renumber(content: Inline) -> Inline:
    """Return content with tags numbered from 1, so that equal texts are translated once."""
    keys: dict[int, int] = {}
    return tuple(
        part
        if isinstance(part, str)
        else Tag(part.kind, keys.setdefault(part.key, len(keys) + 1), part.data)
        for part in content
    )
