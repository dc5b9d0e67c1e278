"""The lines of subtitles: wrap a text, or divide it over several cues."""

import itertools
import re
import unicodedata
from collections.abc import Sequence

from transduce.markup import Inline, Tag, find_spans, inline_text
from transduce.markup.spans import is_inside_word


def width_of(text: str) -> int:
    """Return the width of a text in columns: East Asian characters have two."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else not unicodedata.combining(letter)
        for letter in text
    )


def wrap(content: Inline, width: int) -> list[Inline]:
    """Return one line, or two of similar width if it is too wide; tags are not cut."""
    content = tuple(
        part if isinstance(part, Tag) else re.sub(r"[^\S\xa0]+", " ", part) for part in content
    )
    text = inline_text(content)
    if width_of(text) <= width:
        return [content]
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    breaks = [position for position in _spaces(text) if begin <= position < end]
    gap = 1
    if not breaks and _is_wide(text):
        gap, breaks = 0, _starts(text)
    if not breaks:
        return [content]
    left = [0, *itertools.accumulate(width_of(letter) for letter in text)]
    best = min(breaks, key=lambda position: abs(left[position] - (left[-1] - left[position + gap])))
    return list(_cut(content, best, gap))


def divide(content: Inline, lengths: Sequence[int]) -> list[Inline]:
    """Divide a text without tags over cues, at spaces, in proportion to lengths.

    If it has too few words, each cue gets the whole text.
    """
    if len(lengths) == 1:
        return [content]
    text = inline_text(content)
    ends_of_words = [*_spaces(text), len(text)]
    words = [text[i:j].strip() for i, j in itertools.pairwise([0, *ends_of_words])]
    words = [word for word in words if word]
    joint = " "
    if len(words) < len(lengths):
        is_wide = len(words) == 1 and _is_wide(text)
        starts = [0, *_starts(text), len(text)]
        words = [text[i:j] for i, j in itertools.pairwise(starts)] if is_wide else []
        joint = ""
    if len(words) < len(lengths):
        return [content] * len(lengths)
    ends = [*itertools.accumulate(len(word) + len(joint) for word in words)]
    total, wanted, cuts = sum(lengths), 0, [0]
    for index, length in enumerate(lengths[:-1]):
        wanted += length
        goal = ends[-1] * wanted / total
        allowed = range(cuts[-1] + 1, len(words) - (len(lengths) - index - 2))
        cuts.append(min(allowed, key=lambda count: abs(ends[count - 1] - goal)))
    cuts.append(len(words))
    return [(joint.join(words[begin:end]),) for begin, end in itertools.pairwise(cuts)]


def _spaces(text: str) -> list[int]:
    """Return the white space at which a text may be divided: not inside of 5 km."""
    inside = _inside_spans(text)
    return [
        place
        for place, letter in enumerate(text)
        if letter.isspace() and letter != "\xa0" and place not in inside
    ]


def _starts(text: str) -> list[int]:
    """Return where a text without spaces may be divided: no line begins with a mark."""
    inside = _inside_spans(text)
    return [
        place
        for place in range(1, len(text))
        if unicodedata.category(text[place])[0] == "L"
        and place not in inside
        and not is_inside_word(text, place)
    ]


def _inside_spans(text: str) -> set[int]:
    return {place for span in find_spans(text) for place in range(span.start + 1, span.end)}


def _is_wide(text: str) -> bool:
    """Return whether a script without spaces is used."""
    return any(unicodedata.east_asian_width(letter) in "WF" for letter in text)


def _cut(content: Inline, position: int, gap: int) -> tuple[Inline, Inline]:
    """Cut content at a position of its text, leaving out `gap` characters."""
    left: list[str | Tag] = []
    right: list[str | Tag] = []
    done = 0
    for part in content:
        if isinstance(part, Tag):
            # An open tag at the cut belongs to the second line, a close tag to the first.
            is_left = done < position + gap if part.kind != "close" else done <= position + gap
            (left if is_left and not right else right).append(part)
            continue
        if done < position:
            left.append(part[: max(0, position - done)])
        rest = part[max(0, position + gap - done) :]
        if rest and done + len(part) > position + gap:
            right.append(rest)
        done += len(part)
    return tuple(left), tuple(right)
