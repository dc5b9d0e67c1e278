"""Texts in which each protected span, and each single tag, is one stand-in character."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from transduce.errors import BadInput
from transduce.markup.inline import Inline, Tag
from transduce.markup.spans import Span, SpanRules, is_inside_word

FIRST_STAND_IN = 0xF0000  # a private-use plane; its characters in a text are spans themselves
MAX_SPANS = 0xFFF0
STAND_IN = re.compile("[\U000f0000-\U000fffef]")
# Where a line ends for `str.splitlines`; an output has as many lines as its input.
LINE_END = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

TAG = re.compile(r"<(?P<closes>/)?(?P<name>[A-Za-z][\w:.-]*).*?(?P<single>/)?>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """A pair of tags around text[start:end]."""

    opening: Tag
    closing: Tag
    start: int
    end: int
    parent: int = -1  # the number of the element around it


@dataclass(frozen=True, slots=True)
class Protected:
    """A text with stand-ins for its spans, without its paired tags."""

    text: str
    spans: tuple[str | Tag, ...] = ()  # span n is the character FIRST_STAND_IN + n
    elements: tuple[Element, ...] = ()  # outer before inner, in order


def stand_in(index: int) -> str:
    """Return the character that stands for a span."""
    return chr(FIRST_STAND_IN + index)


def span_index(character: str) -> int:
    """Return the index of the span that a character stands for."""
    return ord(character) - FIRST_STAND_IN


def stand_ins(text: str) -> list[int]:
    """Return the indices of the spans in a text, in order."""
    return [span_index(match[0]) for match in STAND_IN.finditer(text)]


def protect(content: str | Inline, rules: SpanRules | None) -> Protected:
    """Replace the spans and single tags of a text by stand-ins; take out its paired tags.

    The rest is normalised to NFC, as subwords are, so that positions in the text are positions in
    what the model reads. A tag without its other half counts as a single tag.
    """
    if isinstance(content, str):
        line = " ".join(content.splitlines())
        if not (spans_of_line := _spans(line, rules)):
            return Protected(line)
        pieces = [*_pieces(line, spans_of_line)]
    else:
        pieces = [piece for part in content for piece in _pieces_of(part, rules)]
    return _build(pieces, _paired([piece.part for piece in pieces]))


class _Piece(NamedTuple):
    part: str | Tag
    is_span: bool = False


def _build(pieces: Sequence[_Piece], paired: Collection[int]) -> Protected:
    parts: list[str] = []
    spans: list[str | Tag] = []
    elements: list[tuple[int, Element]] = []
    opened: list[tuple[int, Tag, int]] = []
    length = 0
    for part, is_span in pieces:
        if isinstance(part, Tag) and part.kind == "open" and part.key in paired:
            opened.append((len(elements) + len(opened), part, length))
        elif isinstance(part, Tag) and part.kind == "close" and part.key in paired:
            number, opening, start = opened.pop()
            parent = opened[-1][0] if opened else -1
            elements.append((number, Element(opening, part, start, length, parent)))
        elif isinstance(part, Tag) or is_span:
            parts.append(stand_in(len(spans)))
            spans.append(part)
            length += 1
        else:
            parts.append(_normalised(part))
            length += len(parts[-1])
    if len(spans) > MAX_SPANS:
        raise BadInput(f"a text has {len(spans):,} tags and spans: expected at most {MAX_SPANS:,}")
    elements.sort(key=lambda element: element[0])
    return Protected("".join(parts), tuple(spans), tuple(element for _, element in elements))


def _paired(content: Sequence[str | Tag]) -> set[int]:
    """Return the keys of tags that are opened and closed, properly nested."""
    paired: set[int] = set()
    opened: dict[int, None] = {}  # in order
    for part in content:
        if isinstance(part, Tag) and part.kind == "open":
            opened[part.key] = None
        elif isinstance(part, Tag) and part.kind == "close" and part.key in opened:
            while opened.popitem()[0] != part.key:
                pass
            paired.add(part.key)
    return paired


def _spans(text: str, rules: SpanRules | None) -> list[Span]:
    """Return the spans; stand-ins are spans even without rules, so that none is taken for ours."""
    if rules:
        return rules.find(text)
    return [Span(*match.span(), "private") for match in STAND_IN.finditer(text)]


def _pieces_of(part: str | Tag, rules: SpanRules | None) -> Iterator[_Piece]:
    """Yield a tag, or the pieces of a text."""
    if isinstance(part, Tag):
        yield _Piece(part)
        return
    position = 0
    for span in _spans(part, rules):
        yield _Piece(part[position : span.start])
        yield _Piece(part[span.start : span.end], is_span=True)
        position = span.end
    yield _Piece(part[position:])


def _pieces(text: str, spans: Sequence[Span]) -> Iterator[_Piece]:
    """Yield the pieces of a text; tags such as <b> and </b> that belong together are tags."""
    partners = _partners(text, [span for span in spans if span.kind == "tag"])
    position = 0
    for span in spans:
        yield _Piece(text[position : span.start])
        raw = text[span.start : span.end]
        if span.start in partners:
            kind: Literal["open", "close"] = "close" if raw.startswith("</") else "open"
            yield _Piece(Tag(kind, partners[span.start], raw))
        else:
            yield _Piece(raw, is_span=True)
        position = span.end
    yield _Piece(text[position:])


def _partners(text: str, tags: Sequence[Span]) -> dict[int, int]:
    """Return a key for the position of each tag that is one of a pair."""
    partners: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    names = Counter[str]()  # of those
    for tag in tags:
        match = TAG.fullmatch(text, tag.start, tag.end)
        if not match or match["single"]:
            continue
        name = match["name"].lower()
        if not match["closes"]:
            opened.append((name, tag.start))
            names[name] += 1
        elif names[name]:
            other, start = "", 0
            while other != name:
                other, start = opened.pop()
                names[other] -= 1
            partners[start] = partners[tag.start] = len(partners) // 2
    return partners


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFC", LINE_END.sub(" ", text))


def restore(text: str, spans: Sequence[str | Tag]) -> str:
    """Replace stand-ins by their spans; tags of a document have no text."""
    if not spans:
        return text

    def original(match: re.Match[str]) -> str:
        index = span_index(match[0])
        span = spans[index] if index < len(spans) else ""
        return span if isinstance(span, str) else ""

    return STAND_IN.sub(original, text)


def find_literal(text: str, span: str) -> list[tuple[int, int]]:
    """Return where a span occurs in a text, not as a part of a longer word or number."""
    found: list[tuple[int, int]] = []
    begin = text.find(span)
    while begin >= 0:
        end = begin + len(span)
        alone = not (is_inside_word(text, begin) or is_inside_word(text, end))
        if alone:
            found.append((begin, end))
        begin = text.find(span, end if alone else begin + 1)
    return found
