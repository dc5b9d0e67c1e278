"""XML of documents to translate: safe parsing, inline content, and writing.

Nothing outside the file is read: no DTD, no external entity, no network. Files that declare
entities are refused, because a few hundred bytes of them can stand for gigabytes. The limits of
libxml2 on depth and length stay in force.
"""

import re
from collections.abc import Callable, Hashable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from transduce.documents.base import DocumentOptions
from transduce.documents.pairing import Piece, pair, split_ends
from transduce.errors import BadInput, MissingExtra, printable
from transduce.markup import Inline, inline_text
from transduce.text.languages import language_code

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree

LANG = "{http://www.w3.org/XML/1998/namespace}lang"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
INDENTATION = re.compile(r"(?<![ \t])[ \t]*+\n\s*")
MAX_DEPTH = 50  # of nested inline elements; deeper ones are single tags
# What is before the root element, in a file that libxml2 has accepted.
PROLOGUE = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL
)
POSITION = re.compile(r",? line \d+, column \d+")  # of lxml's messages
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML 1.0
UNKNOWN = ("", "src", "tgt")  # languages of a model that was trained without codes

# How an inline element becomes tags: with its content (pair), as the start or end of a pair with a
# name, or as a single tag.
Role = tuple[Literal["pair", "start", "end", "single"], Hashable]
SINGLE: Role = ("single", None)


@dataclass(frozen=True, slots=True)
class Code:
    """What a tag of an XML format stands for."""

    element: "_Element"
    around: bool  # the element of an open and a close tag, whose content is translated


@dataclass(frozen=True, slots=True)
class Content:
    """The inline content of an element, of which the middle is translated."""

    before: Inline
    middle: Inline
    after: Inline

    @property
    def all(self) -> Inline:
        """Return the whole content."""
        return (*self.before, *self.middle, *self.after)

    @property
    def has_text(self) -> bool:
        """Return whether there is anything to translate."""
        return bool(inline_text(self.middle).strip())


def parse(data: bytes, what: str, part: str = "") -> "_ElementTree":
    """Parse an XML document; its format and its part of the file are named in messages."""
    try:
        from lxml import etree
    except ImportError:
        raise MissingExtra(f"translating {what} documents", "lxml", "documents") from None
    where = part and f"{part}: "
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        strip_cdata=False,
    )
    try:
        tree = etree.fromstring(data, parser).getroottree()
    except (etree.XMLSyntaxError, ValueError, LookupError) as error:
        number = getattr(error, "lineno", None)
        line = f" in line {number}" if number else ""
        reason = POSITION.sub("", printable(str(error.args[0] if error.args else error))[:200])
        raise BadInput(f"{where}not well-formed XML{line} ({reason}): expected {what}") from None
    doctype: Any = tree.docinfo.internalDTD
    if doctype is not None and next(iter(doctype.iterentities()), None) is not None:
        raise BadInput(
            f"{where}the DOCTYPE of this {what} document declares entities, which are not "
            "expanded: replace them by their text"
        )
    return tree


def serialise(tree: "_ElementTree", original: bytes) -> bytes:
    """Write a tree with the encoding, prologue and line ends of the original file."""
    from lxml import etree

    encoding = tree.docinfo.encoding or "UTF-8"
    prologue = PROLOGUE.match(original)
    assert prologue is not None
    if prologue.end() == 0 and not original.startswith(b"<"):  # UTF-16
        whole: Any = etree.tostring(tree, encoding=encoding, xml_declaration=True)
        return bytes(whole)
    root = tree.getroot()
    parts = [root, *root.itersiblings()]
    written: list[Any] = [
        etree.tostring(part, encoding=encoding, xml_declaration=False, with_tail=False)
        for part in parts
    ]
    content = prologue[0] + b"\n".join(written)
    if original.endswith(b"\n"):
        content += b"\n"
    lines = original.count(b"\n")
    if lines and lines == original.count(b"\r\n"):
        content = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return content


def local_name(element: "_Element") -> str:
    """Return the name of an element without its namespace; "" for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def read_content(element: "_Element", role: Callable[["_Element"], Role]) -> Content:
    """Return the content of an element; `role` says how inline elements become tags.

    Indentation, that is white space with a line end, is one space unless xml:space preserves it.
    """
    content = pair(_pieces(element, role))
    if inherited(element, SPACE) != "preserve":
        content = tuple(
            INDENTATION.sub(" ", part) if isinstance(part, str) else part for part in content
        )
    return Content(*split_ends(content))


def _pieces(
    element: "_Element", role: Callable[["_Element"], Role], depth: int = 0
) -> Iterator[str | Piece]:
    if element.text:
        yield element.text
    for child in element:
        kind, name = role(child) if isinstance(child.tag, str) else SINGLE
        if kind != "pair":
            yield Piece(kind, name, Code(child, around=False))
        elif depth == MAX_DEPTH:
            yield Piece("single", None, Code(child, around=False))
        else:
            yield Piece("open", None, Code(child, around=True))
            yield from _pieces(child, role, depth + 1)
            yield Piece("close", None, Code(child, around=True))
        if child.tail:
            yield child.tail


def fill(element: "_Element", content: Inline) -> None:
    """Replace the content of an element; its attributes stay."""
    del element[:]
    element.text = None
    inside = [element]
    for part in content:
        if isinstance(part, str):
            append_text(inside[-1], part)
        elif not part.data.around:
            copy = deepcopy(part.data.element)
            copy.tail = None
            inside[-1].append(copy)
        elif part.kind == "open":
            original: Any = part.data.element
            inner = original.makeelement(original.tag, dict(original.attrib), original.nsmap)
            inside[-1].append(inner)
            inside.append(inner)
        else:
            inside.pop()


def append_text(element: "_Element", text: str) -> None:
    """Append text to an element, without characters that XML forbids."""
    text = FORBIDDEN.sub("", text)
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text


def insert_after(element: "_Element", new: "_Element") -> None:
    """Insert an element after another, with the same indentation."""
    parent = element.getparent()
    assert parent is not None
    previous = element.getprevious()
    before = parent.text if previous is None else previous.tail
    after = element.tail
    parent.insert(parent.index(element) + 1, new)
    new.tail = after
    element.tail = before if before and not before.strip() else None


def sibling(element: "_Element", name: str) -> "_Element":
    """Return a new element in the namespace of another."""
    namespace, brace, _ = str(element.tag).rpartition("}")
    prefixes: Any = element.nsmap  # the stubs allow no default namespace here
    return element.makeelement(f"{namespace}{brace}{name}", nsmap=prefixes)


def has_text(element: "_Element | None") -> bool:
    """Return whether an element has any text that is not white space."""
    return element is not None and bool(text_of(element))


def text_of(element: "_Element") -> str:
    """Return all text inside an element, without white space at the ends."""
    return str(element.xpath("string()")).strip()


def copy_content(source: "_Element", target: "_Element") -> None:
    """Replace the content of an element by that of another."""
    del target[:]
    target.text = source.text
    target.extend(deepcopy(child) for child in source)


def is_known(language: str) -> bool:
    """Return whether a language of a model is a code, not a placeholder."""
    return language not in UNKNOWN


def check_language(found: str | None, options: DocumentOptions, side: int, where: str) -> None:
    """Refuse a file whose source (side 0) or target (side 1) language is not the model's."""
    model = options.languages[side]
    if not found or not is_known(model) or language_code(found) == language_code(model):
        return
    source, target = options.languages
    origin = f"from {source} " if is_known(source) else ""
    raise BadInput(
        f"{where} is {printable(found)!r}, but the model translates {origin}to {target}: use "
        f"a model for {printable(found)}, or correct the file if its language is {model}"
    )


def inherited(element: "_Element", attribute: str) -> Any:
    """Return an attribute of an element or, if it has none, of the nearest ancestor with it."""
    owner: _Element | None = element
    while owner is not None:
        if (value := owner.get(attribute)) is not None:
            return value
        owner = owner.getparent()
    return None
