"""Tags, text and comments of HTML with their positions in the source.

This is the tokenisation of the HTML standard as far as positions need it. html.parser of the
standard library is not used: some malformed declarations raise AssertionError in it, some of its
versions take quadratic time for unclosed comments, and versions differ in how scripts end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# Up to their end tag these contain text only; the text of a title is translated.
RAW_TEXT = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
TAG_NAME = re.compile(r"[A-Za-z][^\s/>]*")
SPACE = re.compile(r"[\s/]*")
ATTRIBUTE = re.compile(r"[^\s/>][^\s/>=]*")
EQUALS = re.compile(r"\s*=\s*")
UNQUOTED = re.compile(r"[^\s>]*")
LONGEST_CODE = (
    2_000  # characters of <% … %>, which is code of a template, but text for the standard
)
COMMENT_END = re.compile(r"--!?>")


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute and the position of its value, without quotation marks."""

    name: str
    start: int
    end: int
    quote: str  # "" if the value is not quoted


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the source; all parts together are the source."""

    kind: Literal["text", "start", "end", "other"]  # other: comments, declarations
    start: int
    end: int
    name: str = ""  # of a tag, in lower case
    attributes: tuple[Attribute, ...] = ()
    closed: bool = False  # <br/>


def tokens(source: str, *, is_xml: bool = False) -> Iterator[Token]:
    """Yield the tokens of HTML, or of XHTML, in which <script/> has no content."""
    position = 0
    while position < len(source):
        begin = source.find("<", position)
        if begin < 0:
            begin = len(source)
        token = _markup(source, begin) if begin < len(source) else None
        while token is None and begin < len(source):  # a < that is text
            begin = source.find("<", begin + 1)
            begin = len(source) if begin < 0 else begin
            token = _markup(source, begin) if begin < len(source) else None
        if begin > position:
            yield Token("text", position, begin)
        position = begin
        if token is not None:
            yield token
            position = token.end
            has_content = token.kind == "start" and not (is_xml and token.closed)
            if token.name in RAW_TEXT and has_content:
                end = _raw_end(source, position, token.name)
                if end > position:
                    yield Token("text", position, end)
                position = end


def _markup(source: str, begin: int) -> Token | None:
    """Return the token that starts with <, or None if it is text."""
    following = source[begin + 1 : begin + 2]
    if following in ("!", "?"):
        return Token("other", begin, _declaration_end(source, begin))
    if following == "%" and source.find("%>", begin, begin + LONGEST_CODE) >= 0:
        return Token("other", begin, _after(source, "%>", begin))
    name_at = begin + 2 if following == "/" else begin + 1
    name = TAG_NAME.match(source, name_at)
    if name is not None:
        return _tag(source, begin, name, is_end=following == "/")
    if following == "/" and begin + 2 < len(source):  # a comment, according to the standard
        return Token("other", begin, _after(source, ">", begin))
    return None


def _declaration_end(source: str, begin: int) -> int:
    if source.startswith(("<!-->", "<!--->"), begin):
        return source.index(">", begin) + 1
    if source.startswith("<!--", begin):
        end = COMMENT_END.search(source, begin + 4)
        return end.end() if end else len(source)
    if source.startswith("<![CDATA[", begin):
        return _after(source, "]]>", begin)
    return _after(source, ">", begin)


def _after(source: str, end: str, begin: int) -> int:
    """Return the position after the next `end`, or the end of the source."""
    found = source.find(end, begin)
    return len(source) if found < 0 else found + len(end)


def _tag(source: str, begin: int, name: re.Match[str], *, is_end: bool) -> Token:
    """Return a tag; one that never ends is a token of its own, up to the end of the source."""
    attributes = []
    position = name.end()
    while True:
        space = SPACE.match(source, position)
        assert space is not None
        position = space.end()
        if position >= len(source):
            return Token("other", begin, len(source))
        if source[position] == ">":
            break
        attribute, position = _attribute(source, position)
        if attribute is None:
            return Token("other", begin, len(source))
        attributes.append(attribute)
    closed = source[position - 1] == "/" and space.group() != ""
    kind: Literal["start", "end"] = "end" if is_end else "start"
    return Token(kind, begin, position + 1, name[0].lower(), tuple(attributes), closed)


def _attribute(source: str, position: int) -> tuple[Attribute | None, int]:
    """Return an attribute and where it ends; None if its quotation mark is never closed."""
    name = ATTRIBUTE.match(source, position)
    assert name is not None
    lower = name[0].lower()
    equals = EQUALS.match(source, name.end())
    if equals is None:
        return Attribute(lower, name.end(), name.end(), ""), name.end()
    start = equals.end()
    quote = source[start : start + 1]
    if quote and quote in "\"'":
        end = source.find(quote, start + 1)
        if end < 0:
            return None, len(source)
        return Attribute(lower, start + 1, end, quote), end + 1
    value = UNQUOTED.match(source, start)
    assert value is not None
    return Attribute(lower, start, value.end(), ""), value.end()


def _raw_end(source: str, position: int, name: str) -> int:
    """Return where the end tag of an element with text only begins."""
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(source, position)
    return end.start() if end else len(source)
