"""JSON and JSON lines: string values are translated; keys and formatting stay as they are."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from transduce.documents.base import Document, DocumentOptions
from transduce.documents.textfile import BYTE_ORDER_MARK, TextDocument, decode, line_units
from transduce.errors import BadInput
from transduce.system.formatting import pluralize

TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")'
    r"|(?P<other>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))"
    r"|(?P<mark>[\[\]{}:,]))"
)
# Texts that are programs in ICU's message language.
ICU = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,")
# Without --keys, such values of such keys are for programs. In a file of labels, the value of
# "type" may be "Type": it is translated.
PROGRAM_KEY = re.compile(
    r"(?:.*[_-])?(?:ids?|uuid|guid|slug|type|lang|language|locale|href|src|class|icon)|\w*[a-z]Ids?"
)
IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9_.:/#-]*")
ASCII = re.compile(r"\\u00[89a-fA-F]|\\u0[1-9a-fA-F]|\\u[1-9a-fA-F]")  # escapes of other letters
MARKS = frozenset(",:]}")
MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


@dataclass(slots=True)
class Level:
    """An array or object that is open, and the key of the value that is read."""

    is_object: bool
    key: str | None = None
    expects: str = "first"  # then "key", "colon", "value" or "end"

    def accepts(self, mark: str) -> bool:
        """Apply a comma, colon or closing bracket; return whether it is allowed here."""
        if mark == ":":
            allowed = self.expects == "colon"
            self.expects = "value"
        elif mark == ",":
            allowed = self.expects == "end"
            self.expects = "key" if self.is_object else "value"
        else:
            allowed = self.expects in ("first", "end") and (mark == "}") == self.is_object
        return allowed


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read one JSON value, or several with white space between them, such as JSON lines."""
    text = decode(data)
    document = TextDocument(text=text, marked=data.startswith(BYTE_ORDER_MARK))
    escape = _Escape(text)
    programs, identifiers, line, counted = 0, 0, 1, 0
    for start, end, path in string_values(text):
        if options.keys and not any(_is_below(key, path) for key in options.keys):
            continue
        value = _decoded(text, start, end)
        if not options.keys and _is_identifier(path, value):
            identifiers += 1
            continue
        if ICU.search(value):
            programs += 1
            continue
        line, counted = line + text.count("\n", counted, start), start
        units, join = line_units(value, f"line {line:,}" + (f" ({path[-1]})" if path else ""))
        if units and _is_valid(value):
            document.add(start, end, units, _rendering(join, text[start:end], escape))
    if options.keys and not document.units and not programs:
        names = ", ".join(options.keys)
        raise BadInput(f"it has no text with the keys {names}: give others with --keys")
    if programs:
        document.left_alone.append(pluralize(programs, "ICU message") + " with plural or select")
    if identifiers:
        document.left_alone.append(pluralize(identifiers, "identifier") + " of keys such as id")
    return document


def string_values(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield where each string value is, and the keys above it; check the grammar of the rest.

    Nothing is recursive, so that deeply nested values need little memory.
    """
    top = Level(is_object=False, expects="value")  # of which any number of values follow
    levels, keys = [top], list[str]()
    position, count = 0, 0
    while match := TOKEN.match(text, position):
        kind = str(match.lastgroup)
        start, position = match.span(kind)
        level = levels[-1]
        if match[kind] in MARKS:
            if level is top or not level.accepts(match[kind]):
                raise _unexpected(text, start, level.expects)
            if match[kind] in "]}":
                _close(levels, keys)
        elif level.is_object and level.expects in ("first", "key"):
            _begin_value(level, keys, _decoded(text, start, position, kind))
        elif level.expects not in ("first", "value"):
            raise _unexpected(text, start, level.expects)
        else:
            count += 1
            level.expects = "value" if level is top else "end"
            if kind == "string":
                yield start, position, tuple(keys)
            elif kind == "mark":
                levels.append(Level(match[kind] == "{"))
    rest = text[position:].lstrip(" \t\r\n")
    if rest or len(levels) > 1 or not count:
        raise _unexpected(text, len(text) - len(rest), levels[-1].expects)


def _close(levels: list[Level], keys: list[str]) -> None:
    if levels.pop().key is not None:
        keys.pop()


def _begin_value(level: Level, keys: list[str], key: str) -> None:
    if level.key is not None:
        keys.pop()
    level.key, level.expects = key, "colon"
    keys.append(key)


def _decoded(text: str, start: int, end: int, kind: str = "string") -> str:
    """Return the content of a string."""
    if kind != "string":
        raise _unexpected(text, start, "a key in quotes")
    raw = text[start:end]
    if "\\" not in raw:
        return raw[1:-1]
    try:
        return str(json.loads(raw))
    except ValueError:
        raise _unexpected(text, start, "a string with valid escapes") from None


def _unexpected(text: str, position: int, expected: str) -> BadInput:
    names = {"first": "a value or a bracket", "key": "a key in quotes", "value": "a value"}
    names |= {"colon": "a colon", "end": "a comma or a bracket"}
    found = ascii(text[position : position + 20]) if position < len(text) else "the end"
    return BadInput(
        f"line {_line(text, position)} is not JSON: "
        f"expected {names.get(expected, expected)}, found {found}"
    )


def _line(text: str, position: int) -> str:
    return f"{text.count(chr(10), 0, position) + 1:,}"


def _is_below(key: str, path: tuple[str, ...]) -> bool:
    """Return whether a value is below a key at any depth, or below a path from the top."""
    parts = tuple(key.split("."))
    return key in path or path[: len(parts)] == parts


def _is_identifier(path: tuple[str, ...], value: str) -> bool:
    return bool(path and PROGRAM_KEY.fullmatch(path[-1]) and IDENTIFIER.fullmatch(value))


def _is_valid(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair."""
    return not re.search("[\ud800-\udfff]", text)


@dataclass(slots=True)
class _Escape:
    """How a file writes characters that may be escaped."""

    text: str
    ascii: bool = field(init=False)
    markup: bool = field(init=False)

    def __post_init__(self) -> None:
        self.ascii = self.text.isascii() and ASCII.search(self.text) is not None
        self.markup = re.search(r"\\u00(?:3[cCeE]|26)", self.text) is not None

    def __call__(self, value: str, raw: str) -> str:
        text = json.dumps(value, ensure_ascii=self.ascii)
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
        if self.markup:
            text = re.sub("[<>&]", lambda mark: MARKUP[mark[0]], text)
        return text.replace("/", "\\/") if "\\/" in raw else text


def _rendering(join: Callable[[], str], raw: str, escape: _Escape) -> Callable[[], str]:
    return lambda: escape(join(), raw)
