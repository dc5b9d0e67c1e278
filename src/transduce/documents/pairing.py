"""Inline content from a sequence of texts and codes, of which some form pairs."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from transduce.markup import Inline, Tag


@dataclass(frozen=True, slots=True)
class Piece:
    """A code inside a text.

    `open` and `close` are the ends of an element that is complete, as all elements of XML are.
    A `start` and an `end` with the same name form a pair if they are properly nested.
    """

    kind: Literal["open", "close", "start", "end", "single"]
    name: Hashable = None
    data: Any = None


@dataclass(slots=True)
class _Level:
    """The starts without an end, inside one complete element."""

    opened_at: int = -1  # index of the element's open tag
    starts: list[tuple[Hashable, int]] = field(default_factory=list)  # name, index
    names: Counter[Hashable] = field(default_factory=Counter)


def pair(parts: Iterable[str | Piece]) -> Inline:
    """Return parts as inline content; starts and ends without a partner become single tags."""
    result: list[str | Tag] = []
    levels = [_Level()]
    last_key = 0
    for part in parts:
        if isinstance(part, str):
            if result and isinstance(result[-1], str):
                result[-1] += part
            elif part:
                result.append(part)
            continue
        level = levels[-1]
        if part.kind == "close":
            result.append(_close(result, level.opened_at, part.data))
            levels.pop()
        elif part.kind == "end" and level.names[part.name]:
            name: Hashable = object()
            while name != part.name:  # starts inside the pair stay single tags
                name, index = level.starts.pop()
                level.names[name] -= 1
            result.append(_close(result, index, part.data))
        else:
            last_key += 1
            if part.kind == "open":
                levels.append(_Level(len(result)))
            elif part.kind == "start":
                level.starts.append((part.name, len(result)))
                level.names[part.name] += 1
            result.append(Tag("single", last_key, part.data))
    return tuple(result)


def _close(result: list[str | Tag], index: int, data: Any) -> Tag:
    """Make a single tag the open tag of a pair, and return the close tag."""
    start = result[index]
    assert isinstance(start, Tag)
    result[index] = replace(start, kind="open")
    return Tag("close", start.key, data)


def split_ends(
    content: Inline, outside: Callable[[Tag], bool] = lambda _: False
) -> tuple[Inline, Inline, Inline]:
    """Return what stays before a unit, the unit, and what stays after it.

    White space at the ends is not translated, nor are single tags there that are `outside`.
    """
    before, rest = _split_start(content, outside)
    after, middle = _split_start(_reversed(rest), outside)
    return before, _reversed(middle), _reversed(after)


def _split_start(content: Inline, outside: Callable[[Tag], bool]) -> tuple[Inline, Inline]:
    for index, part in enumerate(content):
        if isinstance(part, Tag):
            if part.kind != "single" or not outside(part):
                return content[:index], content[index:]
        elif text := part.lstrip():
            space = part[: len(part) - len(text)]
            return (*content[:index], *([space] if space else [])), (text, *content[index + 1 :])
    return content, ()


def _reversed(content: Inline) -> Inline:
    return tuple(part[::-1] if isinstance(part, str) else part for part in reversed(content))
