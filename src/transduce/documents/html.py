"""HTML and XHTML, whole pages or fragments.

A unit is the text between two tags of block elements. Inline elements are pairs of tags. Code, SVG,
formulas, comments, and elements with translate="no" or the class notranslate are single tags, or
stay as they are if they are blocks. Some attributes that readers see are units, too: alt, title,
placeholder, aria-label, the labels of buttons, and the description and keywords of a page.

Broken HTML is not repaired. All positions of the source are kept, and only units whose target
differs from the source are written again.
"""

import html
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from transduce.documents.base import Document, DocumentOptions, Unit
from transduce.documents.html_elements import (
    BLOCKS,
    ENDS,
    FOREIGN,
    IN_PARAGRAPH,
    PARAGRAPH,
    PROTECTED,
    VOID,
)
from transduce.documents.html_encoding import decode
from transduce.documents.html_tokens import Attribute, Token, tokens
from transduce.documents.pairing import Piece, pair
from transduce.documents.xml import is_known
from transduce.markup import Inline, inline_text
from transduce.text.languages import language_code

ATTRIBUTES = ("alt", "title", "placeholder", "aria-label")
BUTTONS = ("submit", "button", "reset")
MAX_SEARCH = 500  # open elements: deeper nesting is not made by people
SPACE = re.compile(r"[ \t\n\r\f]+")
LEADING = re.compile(r"(?:\s++|&nbsp;|&#160;|&#xA0;)*+", re.IGNORECASE)
UNSEEN = re.compile(r"<(?:[!?]|%(?![=-])|(?:script|style)[\s/>])", re.IGNORECASE)
TRAILING_ENTITY = re.compile(r"(?:&nbsp;|&#160;|&#xA0;)\Z", re.IGNORECASE)


class Range(NamedTuple):
    """A part of the source, as the data of a tag."""

    start: int
    end: int


@dataclass(slots=True)
class Open:
    """An element whose end tag has not come."""

    name: str
    translate: bool
    forced: bool  # translate="yes" inside has no effect


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read an HTML document."""
    return Html(data, options)


class Html(Document):
    """A page or a fragment."""

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        super().__init__()
        self._data = data
        self._source, self._encoding = decode(data)
        self._names_spaces = "&nbsp;" in self._source
        reader = Reader(self._source)
        reader.read()
        lines = [match.start() for match in re.finditer("\n", self._source)]
        self._texts: list[tuple[Range, Unit]] = []
        for place, content in reader.texts:
            self._texts.append(
                (place, Unit(content, f"line {bisect_left(lines, place.start) + 1}"))
            )
        self._attributes: list[tuple[Range, Unit, str]] = []
        for place, attribute in reader.attributes:
            where = f"{attribute.name} in line {bisect_left(lines, place.start) + 1}"
            unit = Unit((html.unescape(self._source[slice(*place)]),), where)
            self._attributes.append((place, unit, attribute.quote))
        placed = [(place.start, unit) for place, unit in self._texts]
        placed += [(place.start, unit) for place, unit, _ in self._attributes]
        self.units = [unit for _, unit in sorted(placed, key=lambda item: item[0])]
        source, target = options.languages
        self._language_edits = [
            (place, target)
            for place in reader.languages
            if language_code(self._source[slice(*place)]) == language_code(source)
            or (is_known(target) and not is_known(source))  # nothing says that it is another
        ]

    def to_bytes(self) -> bytes:
        """Return the file with the translations; all other bytes stay as they are."""
        if not any(map(_changed, self.units)):
            return self._data
        edits = list(self._language_edits)
        for place, unit, quote in self._attributes:
            if _changed(unit):
                text = self._escape(inline_text(unit.target or ()), quote or '"')
                edits.append((place, text if quote else f'"{text}"'))
        edits.sort()
        result, position = [], 0
        for place, unit in self._texts:
            if _changed(unit):
                result += [
                    self._raw(Range(position, place.start), edits),
                    self._render(unit.target or (), edits),
                ]
                position = place.end
        result.append(self._raw(Range(position, len(self._source)), edits))
        return "".join(result).encode(self._encoding, "xmlcharrefreplace")

    def _raw(self, place: Range, edits: list[tuple[Range, str]]) -> str:
        """Return a part of the source, with the edits of attributes in it."""
        result, position = [], place.start
        first = bisect_left(edits, place.start, key=lambda edit: edit[0].start)
        for index in range(first, len(edits)):
            edited, text = edits[index]
            if edited.start >= place.end:
                break
            result += [self._source[position : edited.start], text]
            position = edited.end
        return "".join(result) + self._source[position : place.end]

    def _render(self, content: Inline, edits: list[tuple[Range, str]]) -> str:
        return "".join(
            self._escape(part) if isinstance(part, str) else self._raw(part.data, edits)
            for part in content
        )

    def _escape(self, text: str, quote: str = "") -> str:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        if quote:
            text = text.replace(quote, "&quot;" if quote == '"' else "&#39;")
        return text.replace("\xa0", "&nbsp;") if self._names_spaces else text


def _changed(unit: Unit) -> bool:
    return unit.target is not None and unit.target != unit.source


class Reader:
    """Finds the units of a page."""

    def __init__(self, source: str) -> None:
        self.texts: list[tuple[Range, Inline]] = []
        self.attributes: list[tuple[Range, Attribute]] = []
        self.languages: list[Range] = []  # the languages of the whole page
        self._source = source
        self._is_xml = source.lstrip("\ufeff \t\r\n").startswith("<?xml")
        self._open: list[Open] = []
        self._names: Counter[str] = Counter()  # of open elements
        self._parts: list[tuple[Range, Piece | None]] = []  # of the current unit; None: text
        # An inline element that is not translated: where it starts, and the elements around it.
        self._protected: tuple[int, int] | None = None

    def read(self) -> None:
        """Read the whole source."""
        start = 1 if self._source.startswith("\ufeff") else 0
        for token in tokens(self._source, is_xml=self._is_xml):
            if token.kind == "start":
                self._start(token)
            elif token.kind == "end":
                self._end(token)
            elif self._translates() and self._protected is None:
                place = Range(max(token.start, start), token.end)
                is_text = token.kind == "text"
                self._add(place, None if is_text else Piece("single", None, place))
        self._close(0, len(self._source))
        self._flush()

    def _translates(self) -> bool:
        return not self._open or self._open[-1].translate

    def _start(self, token: Token) -> None:
        is_block = self._is_block(token.name)
        if is_block or token.name not in BLOCKS:
            self._end_implied(token)
        translates, forced = self._translation_of(token)
        if token.name in ("html", "body"):
            self.languages += [
                Range(attribute.start, attribute.end)
                for attribute in token.attributes
                if attribute.name in ("lang", "xml:lang")
            ]
        if is_block and self._protected is None:
            self._flush()
        place = Range(token.start, token.end)
        empty = token.name in VOID or (self._is_xml and token.closed)
        if translates:
            self._add_attributes(token)
        if not is_block and self._translates() and self._protected is None:
            if empty:
                self._add(place, Piece("single", None, place))
            elif translates:
                self._add(place, Piece("start", token.name, place))
            else:
                self._protected = token.start, len(self._open)
        if not empty:
            self._open.append(Open(token.name, translates, forced))
            self._names[token.name] += 1

    def _end(self, token: Token) -> None:
        is_block = self._is_block(token.name)
        index = self._find((token.name,), () if is_block else BLOCKS)
        was_protected = self._protected is not None
        if index is not None:
            self._close(index, token.start, token.end)
        if self._protected is not None:
            return
        if is_block:
            self._flush()
        elif self._translates() and not was_protected:
            place = Range(token.start, token.end)
            self._add(place, Piece("end", token.name, place))

    def _is_block(self, name: str) -> bool:
        """Return whether a tag separates texts; the title of an SVG picture does not."""
        is_foreign = name == "title" and any(self._names[other] for other in FOREIGN)
        return name in BLOCKS and not is_foreign

    def _add(self, place: Range, piece: Piece | None) -> None:
        """Add a part to the unit; a unit ends where something between is not translated."""
        if self._parts and self._parts[-1][0].end != place.start:
            self._flush()
        self._parts.append((place, piece))

    def _find(self, names: tuple[str, ...], stops: frozenset[str] | tuple[str, ...]) -> int | None:
        """Return the index of the innermost open element with a name, unless a stop is inside."""
        if any(self._names[name] for name in names):
            lowest = max(0, len(self._open) - MAX_SEARCH)
            for index in range(len(self._open) - 1, lowest - 1, -1):
                if self._open[index].name in names:
                    return index
                if self._open[index].name in stops:
                    return None
        return None

    def _end_implied(self, token: Token) -> None:
        """Close the elements that a start tag ends."""
        rules = [ENDS[token.name]] if token.name in ENDS else []
        if token.name in BLOCKS and token.name not in IN_PARAGRAPH:
            rules.append(PARAGRAPH)
        for names, stops in rules:
            index = self._find(names, stops)
            if index is not None:
                self._close(index, token.start)

    def _close(self, index: int, start: int, end: int | None = None) -> None:
        """Close elements up to an index, at a token; `end` is given if it is an end tag."""
        while len(self._open) > index:
            self._names[self._open.pop().name] -= 1
        if self._protected is not None and self._protected[1] >= len(self._open):
            begin, depth = self._protected
            is_own_tag = end is not None and depth == len(self._open)
            place = Range(begin, end if end is not None and is_own_tag else start)
            self._add(place, Piece("single", None, place))
            self._protected = None
            if end is not None and not is_own_tag:
                self._add(Range(start, end), Piece("single", None, Range(start, end)))

    def _translation_of(self, token: Token) -> tuple[bool, bool]:
        """Return whether an element is translated, and whether that is final."""
        parent = self._open[-1] if self._open else Open("", translate=True, forced=False)
        if parent.forced or token.name in PROTECTED:
            return False, True
        values = {
            attribute.name: self._source[attribute.start : attribute.end].strip().lower()
            for attribute in token.attributes
            if attribute.name in ("translate", "class")
        }
        if values.get("translate") == "no" or "notranslate" in values.get("class", "").split():
            return False, token.name not in BLOCKS
        return parent.translate or values.get("translate") in ("yes", ""), False

    def _add_attributes(self, token: Token) -> None:
        values = {
            attribute.name: self._source[attribute.start : attribute.end].lower()
            for attribute in token.attributes
            if attribute.name in ("type", "name")
        }
        wanted: tuple[str, ...] = ATTRIBUTES
        if token.name == "input" and values.get("type") in BUTTONS:
            wanted = (*ATTRIBUTES, "value")
        if token.name == "meta" and values.get("name") in ("description", "keywords"):
            wanted = (*ATTRIBUTES, "content")
        for attribute in token.attributes:
            if attribute.name in wanted:
                place = self._trimmed(Range(attribute.start, attribute.end))
                if attribute.quote == "":
                    place = Range(attribute.start, attribute.end)
                if place.end > place.start:
                    self.attributes.append((place, attribute))

    def _trimmed(self, place: Range) -> Range:
        """Return a part of the source without white space at its ends."""
        start, end = place
        leading = LEADING.match(self._source, start, end)
        start = leading.end() if leading else start
        while end > start:
            trimmed = start + len(self._source[start:end].rstrip())
            entity = TRAILING_ENTITY.search(self._source, max(start, trimmed - 6), trimmed)
            if entity is None:
                return Range(start, trimmed)
            end = entity.start()
        return Range(start, end)

    def _flush(self) -> None:
        """End the current unit."""
        parts, self._parts = self._parts, []
        while parts:
            end = self._without_end(parts.pop(), leading=False)
            if end is not None:
                parts.append(end)
                break
        first = 0
        while first < len(parts):
            start = self._without_end(parts[first], leading=True)
            if start is not None:
                parts[first] = start
                break
            first += 1
        parts = parts[first:]
        if not parts:
            return
        content = pair(self._text(place) if piece is None else piece for place, piece in parts)
        if inline_text(content).strip():
            self.texts.append((Range(parts[0][0].start, parts[-1][0].end), content))

    def _without_end(
        self, part: tuple[Range, Piece | None], *, leading: bool
    ) -> tuple[Range, Piece | None] | None:
        """Return a part without white space at one end, or None if nothing is left."""
        place, piece = part
        if piece is not None:
            return None if UNSEEN.match(self._source, place.start) else part
        trimmed = self._trimmed(place)
        if trimmed.end == trimmed.start:
            return None
        kept = Range(trimmed.start, place.end) if leading else Range(place.start, trimmed.end)
        return kept, None

    def _text(self, place: Range) -> str:
        return SPACE.sub(" ", html.unescape(self._source[place.start : place.end]))
