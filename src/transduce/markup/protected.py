"""Texts in which each protected span, and each single tag, is one stand-in character."""

import functools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from transduce.errors import BadInput
from transduce.markup.inline import Inline, Tag
from transduce.markup.spans import SpanRules

FIRST_STAND_IN = 0xF0000  # a private-use plane; its characters in a text are spans themselves
MAX_SPANS = 0xFFF0
STAND_IN = re.compile("[\U000f0000-\U000fffef]")
# Where a line ends for `str.splitlines`; an output has as many lines as its input.
LINE_END = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Element:
    """A pair of tags around text[start:end]."""

    opening: Tag
    closing: Tag
    start: int
    end: int


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
        content = (" ".join(content.splitlines()),)
        if rules is None or not rules.find(content[0]):
            return Protected(content[0])
    paired = _paired(content)
    parts: list[str] = []
    spans: list[str | Tag] = []
    elements: list[tuple[int, Element]] = []
    opened: list[tuple[int, Tag, int]] = []
    length = 0
    for part in content:
        if isinstance(part, Tag) and part.kind == "open" and part.key in paired:
            opened.append((len(elements) + len(opened), part, length))
        elif isinstance(part, Tag) and part.kind == "close" and part.key in paired:
            number, opening, start = opened.pop()
            elements.append((number, Element(opening, part, start, length)))
        else:
            for piece, is_span in _split(part, rules):
                parts.append(stand_in(len(spans)) if is_span else _normalised(str(piece)))
                length += len(parts[-1])
                spans += [piece] if is_span else []
    if len(spans) > MAX_SPANS:
        raise BadInput(f"a text has {len(spans):,} tags and spans: expected at most {MAX_SPANS:,}")
    elements.sort(key=lambda element: element[0])
    return Protected("".join(parts), tuple(spans), tuple(element for _, element in elements))


def _paired(content: Inline) -> set[int]:
    """Return the keys of tags that are opened and closed, properly nested."""
    paired: set[int] = set()
    opened: list[int] = []
    for part in content:
        if isinstance(part, Tag) and part.kind == "open":
            opened.append(part.key)
        elif isinstance(part, Tag) and part.kind == "close" and part.key in opened:
            while opened.pop() != part.key:
                pass
            paired.add(part.key)
    return paired


def _split(part: str | Tag, rules: SpanRules | None) -> Iterator[tuple[str | Tag, bool]]:
    """Yield a tag, or the pieces of a text, each with whether it is a span."""
    if isinstance(part, Tag):
        yield part, True
        return
    position = 0
    # Private-use characters are spans even without rules: they would be taken for stand-ins.
    ranges = (
        [(span.start, span.end) for span in rules.find(part)]
        if rules
        else [match.span() for match in STAND_IN.finditer(part)]
    )
    for start, end in ranges:
        yield part[position:start], False
        yield part[start:end], True
        position = end
    yield part[position:], False


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFC", LINE_END.sub(" ", text))


def restore(text: str, spans: tuple[str | Tag, ...]) -> str:
    """Replace stand-ins by their spans; tags have no text."""
    if not spans:
        return text

    def original(match: re.Match[str]) -> str:
        index = span_index(match[0])
        span = spans[index] if index < len(spans) else ""
        return span if isinstance(span, str) else ""

    return STAND_IN.sub(original, text)


@functools.lru_cache(1024)
def _literal(span: str) -> re.Pattern[str]:
    """Return a pattern for a span that is not part of a longer word or number."""
    before = r"(?<!\w)" if re.match(r"\w", span) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", span) else ""
    return re.compile(before + re.escape(span) + after)


def find_literal(text: str, span: str) -> list[tuple[int, int]]:
    """Return where a span occurs in a text as it is."""
    return [match.span() for match in _literal(span).finditer(text)]
