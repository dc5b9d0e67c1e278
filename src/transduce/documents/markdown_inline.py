"""The text of a Markdown block: find its tags with markdown-it, and write its translation."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from transduce.documents.base import Unit
from transduce.documents.textfile import RawTag, one_line, pair_tags, target_of
from transduce.markup import Inline, Tag, has_words, inline_text

Rule = Callable[[StateInline, bool], bool]

BREAK = re.compile(r"(?: {2,}|\\)\r?\n")
EMPHASIS = ("*", "**", "_", "__", "~~")
FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]")
SPECIAL = re.compile(r"[\\`*_\[\]<>&~]")


@dataclass(frozen=True, slots=True)
class Image:
    """An image; its alternative text is translated on its own."""

    before: str
    alt: Unit
    after: str


def make_parser() -> MarkdownIt:
    """Return a parser of CommonMark with tables; its inline tokens say where they are."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.disable(["fragments_join", "text_join"])
    parser.core.ruler.disable(["inline"])  # done for each block by `pieces_of`
    rules = zip(
        parser.inline.ruler.get_active_rules(), parser.inline.ruler.getRules(""), strict=True
    )
    for name, rule in list(rules):
        parser.inline.ruler.at(name, _recording(rule))
    return parser


def _recording(rule: Rule) -> Rule:
    """Return a rule that stores in its tokens which part of the text they are."""

    def recorded(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        result = rule(state, silent)
        tokens = state.tokens[count:]
        if not result or silent or not tokens:
            return result
        stop, last = state.pos, tokens[-1]
        if last.type == "link_close":
            opened = next(token for token in tokens if token.type == "link_open")
            if last.info == "auto":
                opened.meta["span"] = (start, stop)
            else:
                inner = state.md.helpers.parseLinkLabel(state, start, disableNested=True)
                opened.meta["span"], last.meta["span"] = (start, start + 1), (inner, stop)
                last.meta["label"] = state.src[start + 1 : inner]
        elif last.type == "text":  # marks of emphasis, until it is known which are pairs
            for token in reversed(tokens):
                if stop > start:
                    token.meta["span"] = (stop - len(token.content), stop)
                    stop -= len(token.content)
        else:
            last.meta["span"] = (start, stop)
        return result

    return recorded


def pieces_of(text: str, parser: MarkdownIt, env: dict[str, Any], where: str) -> Inline:
    """Return a block's content with its tags."""
    tokens: list[Token] = []
    parser.inline.parse(text, parser, env, tokens)
    found = sorted((*token.meta["span"], token) for token in tokens if "span" in token.meta)
    return pair_tags(_pieces(text, found, where))


def _pieces(text: str, found: list[tuple[int, int, Token]], where: str) -> Iterator[str | RawTag]:
    position = 0
    for begin, end, token in found:
        start, stop = begin, end
        if token.type == "strong_open":
            start -= 1
        elif token.type == "strong_close":
            stop += 1
        elif token.type == "text" and not token.content:  # the other half of a strong mark
            continue
        gap = text[position:start]
        if token.type in ("softbreak", "hardbreak"):
            start -= len(gap) - len(gap.rstrip(" "))
            gap = gap.rstrip(" ")
        yield from _with_footnotes(gap)
        yield _piece(token, text[start:stop], where)
        position = stop
    yield from _with_footnotes(text[position:])


def _with_footnotes(text: str) -> Iterator[str | RawTag]:
    position = 0
    for match in FOOTNOTE.finditer(text):
        yield text[position : match.start()]
        yield RawTag("single", "", match[0])
        position = match.end()
    yield text[position:]


def _piece(token: Token, raw: str, where: str) -> str | RawTag:
    if token.type == "softbreak":
        return " "
    if token.type in ("text", "text_special"):
        return token.content
    html = re.match(r"<(/?)([A-Za-z][\w-]*)", raw) if token.type == "html_inline" else None
    if html and not raw.endswith("/>"):
        return RawTag("close" if html[1] else "open", f"<{html[2].lower()}", raw)
    if token.nesting and token.info != "auto":
        kind, _, ending = token.type.partition("_")
        if raw in ("]", "][]") and kind == "link":  # its text, which will change, is its reference
            raw = f"][{token.meta['label']}]"
        return RawTag("open" if ending == "open" else "close", kind, raw)
    alt = token.content if token.type == "image" else ""
    if has_words(alt) and not SPECIAL.search(alt) and "\n" not in alt:
        unit = Unit((alt,), f"{where}, image")
        return RawTag("single", "", Image("![", unit, raw[2 + len(alt) :]))
    return RawTag("single", "", raw)


def images_of(content: Inline) -> list[Unit]:
    """Return the units of the images in a text."""
    tags = (part.data for part in content if isinstance(part, Tag))
    return [data.alt for data in tags if isinstance(data, Image)]


def write(content: Inline, is_right: Callable[[str, Inline], bool]) -> str:
    """Return Markdown for a translation; characters are escaped only if it would change else.

    `is_right` compares a text with the content that it should have.
    """
    texts = []
    for seen in (re.compile(r"\S"), re.compile(r"\w"), None):
        tidy = _with_breaks(_outside(_with_emphasis(content, seen)))
        for stars in (False, True):
            for escaped in (False, True):
                texts.append(_joined(tidy, escaped=escaped, stars=stars))
                if is_right(texts[-1], tidy):
                    return texts[-1]
    return texts[1]


def _joined(content: Inline, *, escaped: bool, stars: bool) -> str:
    raw = []
    for part in content:
        if isinstance(part, str):
            text = one_line(part)
            raw.append(SPECIAL.sub(r"\\\g<0>", text) if escaped else text)
        elif isinstance(part.data, Image):
            alt = one_line(inline_text(target_of(part.data.alt)))
            raw += [part.data.before, SPECIAL.sub(r"\\\g<0>", alt), part.data.after]
        elif stars and part.data in ("_", "__"):
            raw.append(part.data.replace("_", "*"))
        else:
            raw.append(part.data)
    return "".join(raw)


def _with_emphasis(content: Inline, seen: re.Pattern[str] | None) -> Inline:
    """Drop emphasis of texts that have nothing `seen`, or all; move line breaks out of its ends.

    Otherwise they would be text, or other elements: **** is a line across the page.
    """
    counts, starts, dropped = [0], list[int](), set[int]()
    for number, part in enumerate(content):
        counts.append(counts[-1] + _is_seen(part, seen))
        if _is_emphasis(part, "open"):
            starts.append(number)
        elif _is_emphasis(part, "close") and counts[number] == counts[start := starts.pop()]:
            dropped |= {start, number}
    kept: list[str | Tag] = []
    for number, part in enumerate(content):
        place = len(kept)
        if _is_emphasis(part, "close"):
            while place and _is_space(kept[place - 1]):
                place -= 1
        elif _is_space(part):
            while place and _is_emphasis(kept[place - 1], "open"):
                place -= 1
        if number not in dropped:
            kept.insert(place, part)
    return tuple(kept)


def _is_emphasis(part: str | Tag, kind: str) -> bool:
    return isinstance(part, Tag) and part.kind == kind and part.data in EMPHASIS


def _is_space(part: str | Tag) -> bool:
    return _is_break(part) or (isinstance(part, str) and not part.strip())


def _is_seen(part: str | Tag, seen: re.Pattern[str] | None) -> bool:
    if isinstance(part, Tag):
        return seen is not None and not _is_break(part) and part.data not in EMPHASIS
    return seen is not None and seen.search(part) is not None


def _outside(content: Inline) -> Inline:
    """Move white space at the ends of an element outside of it, as emphasis needs it."""
    moved: list[str | Tag] = []
    for part in content:
        last = moved[-1] if moved else ""
        if isinstance(part, Tag):
            space = last[len(last.rstrip()) :] if isinstance(last, str) else ""
            if part.kind == "close" and space and last != space:
                moved[-1] = str(last).rstrip()
                moved += [part, space]
            else:
                moved.append(part)
        elif isinstance(last, Tag) and last.kind == "open" and part.strip() and part[0].isspace():
            first = len(moved)
            while first and _is_open(moved[first - 1]):
                first -= 1
            moved.insert(first, part[: len(part) - len(part.lstrip())])
            moved.append(part.lstrip())
        else:
            moved.append(part)
    return tuple(moved)


def _with_breaks(content: Inline) -> Inline:
    """Write line breaks that a translation has at an end, or next to each other.

    At the end of a block they would be text, and two spaces after a line end end the block.
    """
    parts = list(content)
    while parts and _is_space(parts[-1]):
        parts.pop()
    after_break = True
    for number, part in enumerate(parts):
        if _is_break(part) and after_break:
            assert isinstance(part, Tag)
            parts[number] = replace(part, data="\\\n")
        elif isinstance(part, str) and after_break:
            parts[number] = part.lstrip()
        after_break = _is_break(part) or (after_break and parts[number] == "")
    return tuple(parts)


def _is_break(part: str | Tag) -> bool:
    return isinstance(part, Tag) and isinstance(part.data, str) and bool(BREAK.match(part.data))


def _is_open(part: str | Tag) -> bool:
    return isinstance(part, Tag) and part.kind == "open"
