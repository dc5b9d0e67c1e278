"""Place tags and spans in a translation, by the alignment of its units.

A unit is a word, a punctuation mark or a stand-in; in scripts without spaces, a character. A link
is the index of the source unit that a target unit translates, or `NONE`.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from transduce.markup.inline import Inline, Tag
from transduce.markup.protected import STAND_IN, Element, Protected, span_index, stand_in
from transduce.markup.spans import WIDE, is_inside_word
from transduce.text.words import TOKEN, UNSPACED

NONE = -1
OPENING, CLOSING = "([{¿¡«„“", ".,;:!?)]}…»”"
SPACE_WANTED = "\ufdd0"  # a noncharacter, which no text has
WIDE_LETTER = re.compile(f"[{WIDE}]")
# Letters and marks of text without spaces.
UNSPACED_TEXT = re.compile(rf"[{UNSPACED}\u3000-\u303f\uff00-\uff65]")
CERTAIN = 3.0  # weight of a stand-in, whose link is known, when a range is chosen


def units(text: str) -> list[tuple[int, int]]:
    """Return the ranges of characters of a text's units; marks belong to what they follow."""
    found: list[tuple[int, int]] = []
    for match in TOKEN.finditer(text):
        start, end = match.span()
        is_mark = text[start] > "\u02ff" and unicodedata.category(text[start])[0] == "M"
        if is_mark and found and found[-1][1] == start and not STAND_IN.match(text[start - 1]):
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


@dataclass(slots=True)
class Aligned:
    """A text and its translation, both with stand-ins, and the links of the target's units."""

    source: str
    target: str
    links: Sequence[int]
    source_units: list[tuple[int, int]] = field(init=False)
    target_units: list[tuple[int, int]] = field(init=False)
    linked: dict[int, list[int]] = field(init=False)  # target units of each source unit
    weights: list[float] = field(init=False)  # of all linked target units before each one

    def __post_init__(self) -> None:
        """Link each stand-in to itself."""
        self.source_units, self.target_units = units(self.source), units(self.target)
        starts = {
            self.source[start]: number
            for number, (start, _) in enumerate(self.source_units)
            if STAND_IN.match(self.source[start])
        }
        self.links = [
            starts.get(self.target[start], link if self._alike(start, link) else NONE)
            for (start, _), link in zip(self.target_units, self.links, strict=True)
        ]
        self.linked, self.weights = {}, [0.0]
        for number, link in enumerate(self.links):
            if link != NONE:
                self.linked.setdefault(link, []).append(number)
            self.weights.append(self.weights[-1] + (self.weight(number) if link != NONE else 0.0))

    def weight(self, number: int) -> float:
        """Return how much a target unit counts when a range is chosen."""
        is_certain = STAND_IN.match(self.target[self.target_units[number][0]])
        return CERTAIN if is_certain else 1.0

    def _alike(self, start: int, link: int) -> bool:
        """Return whether a linked pair is two words or two punctuation marks."""
        if link == NONE:
            return False
        source = self.source[self.source_units[link][0]]
        return source.isalnum() == self.target[start].isalnum() and not STAND_IN.match(source)

    def source_range(self, start: int, end: int) -> range:
        """Return the source units in a range of characters, if only with a part of a word."""
        first = bisect_right(self.source_units, start, key=lambda unit: unit[1])
        last = bisect_left(self.source_units, end, key=lambda unit: unit[0])
        return range(first, last if start < end else first)


def insert_spans(aligned: Aligned, missing: Sequence[int]) -> str:
    """Return the translation with these spans, in the order of the source, inserted.

    A span follows the translation of the unit before it, or precedes that of the unit after it. A
    mark that it touches in the source may be elsewhere in the target: a space then separates the
    span from a word.
    """
    places: list[tuple[int, int]] = []  # character of the target, position in the source
    last: tuple[int, int] | None = None  # source unit and place of the span inserted before
    for index in sorted(missing):
        position = aligned.source.index(stand_in(index))
        unit = bisect_left(aligned.source_units, (position, position))
        follows = last is not None and last[0] == unit - 1
        place = last[1] if last and follows else _place(aligned, unit, unit + 1)
        last = unit, place
        places.append((place, position))
    text, done = "", 0
    for place, position in sorted(places):
        text = _joined(text, aligned.target[done:place])
        before, after = aligned.source[:position][-1:], aligned.source[position + 1 :][:1]
        if text.endswith(SPACE_WANTED):  # directly after another span
            text = text.removesuffix(SPACE_WANTED)
            text += "" if text[-1] == before else " "
        if not _touches(before, text[-1:]) and text and not text[-1].isspace():
            text += "" if text[-1] in OPENING or UNSPACED_TEXT.match(text[-1]) else " "
        following = aligned.target[place : place + 1]
        text += aligned.source[position] + ("" if _touches(after, following) else SPACE_WANTED)
        done = place
    return _joined(text, aligned.target[done:]).removesuffix(SPACE_WANTED)


def _touches(of_source: str, of_target: str) -> bool:
    """Return whether a span touches a character of the target as it did one of the source."""
    if STAND_IN.match(of_target):  # of another span, which may begin or end with a letter
        return of_source == of_target
    if not of_source.strip() or not of_target.isalnum():
        return bool(of_source.strip())
    # Beside a letter of another script, a span may end with a letter: %s in 用户%s你好.
    is_alike = WIDE_LETTER.match(of_target) or is_inside_word(of_source + of_target, 1)
    return of_source.isalnum() and bool(is_alike)


def _joined(text: str, rest: str) -> str:
    """Append the rest of a target, with a space where the source has one and the target none."""
    if not rest or not text.endswith(SPACE_WANTED):
        return text + rest
    text = text.removesuffix(SPACE_WANTED)
    if rest[0].isspace():
        return text + rest
    is_close = rest[0] in CLOSING or UNSPACED_TEXT.match(rest[0]) is not None
    return text + rest if is_close else f"{text} {rest}"


def _place(aligned: Aligned, unit: int, following: int) -> int:
    """Return the character of the target where something belongs.

    In the source it stands at a unit, between the unit before and the `following` one.
    """
    if linked := aligned.linked.get(unit - 1):
        return aligned.target_units[linked[-1]][1]
    if linked := aligned.linked.get(following):
        return aligned.target_units[linked[0]][0]
    if not aligned.target_units or unit == 0:
        return aligned.target_units[0][0] if aligned.target_units else len(aligned.target)
    share = unit / max(1, len(aligned.source_units) - 1)
    number = min(len(aligned.target_units) - 1, round(share * len(aligned.target_units)))
    return aligned.target_units[number][0] if share < 1 else aligned.target_units[-1][1]


@dataclass(slots=True)
class _Node:
    """An element in the target: its range of characters, and the elements inside it."""

    element: Element | None
    first: int  # target units
    last: int
    start: int  # characters
    end: int
    children: list["_Node"] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.gaps = [(self.first, self.last)]  # target units that no child has

    def add(self, child: "_Node") -> None:
        """Add an element; its units are in one of the gaps."""
        self.children.append(child)
        index = self.gap_of(child.first)
        first, last = self.gaps[index]
        if first <= child.first <= child.last <= last:
            self.gaps[index : index + 1] = [(first, child.first), (child.last, last)]

    def gap_of(self, unit: int) -> int:
        """Return the index of the last gap that begins at a unit or before it."""
        return max(0, bisect_right(self.gaps, unit, key=lambda gap: gap[0]) - 1)


def place_tags(aligned: Aligned, protected: Protected) -> Inline:
    """Return the translation with all tags; elements are nested as in the source."""
    root = _Node(None, 0, len(aligned.target_units), 0, len(aligned.target))
    nodes: list[_Node] = []
    for element in protected.elements:  # outer before inner
        parent = root if element.parent < 0 else nodes[element.parent]
        nodes.append(_node(aligned, element, parent))
        parent.add(nodes[-1])
    return _serialised(aligned.target, root, protected.spans)


def _node(aligned: Aligned, element: Element, parent: _Node) -> _Node:
    """Choose the units of the target that an element has around them."""
    inside = aligned.source_range(element.start, element.end)
    outer = parent.element
    around = (
        aligned.source_range(outer.start, outer.end) if outer else range(len(aligned.source_units))
    )
    if inside and inside == around and not parent.children:
        return _Node(element, parent.first, parent.last, parent.start, parent.end)
    first, last = _best_range(aligned, inside, parent)
    if first == last and inside:
        first, last = _by_position(inside, around, parent)
    if first == last:
        place = min(max(_place(aligned, inside.start, inside.start), parent.start), parent.end)
        for child in parent.children:  # not inside another element
            if child.start < place < child.end:
                place = child.end
        unit = min(max(_unit_at(aligned, place), parent.first), parent.last)
        return _Node(element, unit, unit, place, place)
    start, end = aligned.target_units[first][0], aligned.target_units[last - 1][1]
    start += _letters_outside(aligned, first, element.start)
    inner_end = _letters_outside(aligned, last - 1, element.end)
    if inner_end:
        end = aligned.target_units[last - 1][0] + inner_end
    return _Node(element, first, last, start, max(start, end))


def _letters_outside(aligned: Aligned, number: int, position: int) -> int:
    """Return how far inside a word a tag stands, if the word was copied: H<sub>2</sub>O."""
    link = aligned.links[number]
    if link == NONE:
        return 0
    (begin, end), (start, stop) = aligned.source_units[link], aligned.target_units[number]
    inside = begin < position < end
    return (
        position - begin
        if inside and aligned.source[begin:end] == aligned.target[start:stop]
        else 0
    )


def _best_range(aligned: Aligned, inside: range, parent: _Node) -> tuple[int, int]:
    """Return the free units with the largest weight: linked inside, less those linked outside.

    It begins and ends with units linked inside, so only these are tried.
    """
    best, total, begin = (0.0, 0, 0), 0.0, 0
    previous, previous_gap = -1, -1
    for number in sorted(number for unit in inside for number in aligned.linked.get(unit, ())):
        gap = parent.gap_of(number)
        if not parent.gaps[gap][0] <= number < parent.gaps[gap][1]:
            continue
        total -= aligned.weights[number] - aligned.weights[previous + 1]
        if gap != previous_gap or total <= 0:
            total, begin = 0.0, number
        total += aligned.weight(number)
        if total > best[0]:
            best = total, begin, number + 1
        previous, previous_gap = number, gap
    return best[1:]


def _by_position(inside: range, around: range, parent: _Node) -> tuple[int, int]:
    """Return the free units of the parent at the same relative position as in the source."""
    first, last = max(parent.gaps, key=lambda gap: gap[1] - gap[0])
    if first == last:
        return first, first
    size = max(1, len(around))
    length = max(1, round(len(inside) / size * (parent.last - parent.first)))
    begin = parent.first + round(
        (inside.start - around.start) / size * (parent.last - parent.first)
    )
    begin = min(max(begin, first), last - 1)
    return begin, min(last, begin + length)


def _unit_at(aligned: Aligned, place: int) -> int:
    """Return the first target unit that starts at a character or after it."""
    return bisect_left(aligned.target_units, (place, place))


def _serialised(target: str, root: _Node, spans: Sequence[str | Tag]) -> Inline:
    """Write the tree of elements: text, tags, and the spans for their stand-ins."""
    parts: list[str | Tag] = []
    position = 0

    def append_until(end: int) -> None:
        nonlocal position
        for character in target[position:end]:
            span = spans[span_index(character)] if STAND_IN.match(character) else character
            if isinstance(span, str) and parts and isinstance(parts[-1], str):
                parts[-1] += span
            else:
                parts.append(span)
        position = max(position, end)

    stack: list[tuple[_Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            append_until(node.end)
            if node.element:
                parts.append(node.element.closing)
            continue
        append_until(node.start)
        if node.element:
            parts.append(node.element.opening)
        stack.append((node, True))
        children = sorted(node.children, key=lambda child: (child.start, child.end))
        stack += [(child, False) for child in reversed(children)]
    append_until(len(target))
    return tuple(part for part in parts if part != "")


def has_each_once(content: Inline, protected: Protected) -> bool:
    """Return whether a translation has each tag of a text exactly once, properly nested."""
    opened: list[int] = []
    tags = [part for part in content if isinstance(part, Tag)]
    paired = {element.opening.key for element in protected.elements}
    for tag in (tag for tag in tags if tag.key in paired):
        if tag.kind == "open":
            opened.append(tag.key)
        elif tag.kind == "close" and (not opened or opened.pop() != tag.key):
            return False
    expected = [span for span in protected.spans if isinstance(span, Tag)]
    for element in protected.elements:
        expected += [element.opening, element.closing]
    return not opened and sorted(map(_name, tags)) == sorted(map(_name, expected))


def _name(tag: Tag) -> tuple[str, int]:
    return tag.kind, tag.key
