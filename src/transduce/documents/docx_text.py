"""Paragraphs of WordprocessingML as inline content, and back.

A paragraph consists of runs, each with its formatting, and of other elements. Neighbouring runs
with the same formatting are one text. The formatting of most of the text needs no tags; other
formatting is a pair of tags, as are hyperlinks and other elements around runs. Anything else (tabs,
breaks, pictures, notes, bookmarks, fields) is a single tag, of which the elements are moved, not
copied: they may contain paragraphs of their own, such as the text of a text box.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from transduce.documents.pairing import Piece, pair, split_ends
from transduce.documents.xml import SPACE, append_text, local_name
from transduce.markup import Inline, Tag, inline_text

if TYPE_CHECKING:
    from lxml.etree import _Element


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


NAMESPACES = (
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",  # of the format's strict variant
)
# Elements around runs. Deletions (del, moveFrom) are not among them: they stay as they are.
AROUND = _names("hyperlink ins moveTo smartTag customXml dir bdo sdt")
PROPERTIES = _names("pPr rPr smartTagPr customXmlPr sdtPr sdtEndPr")
FIXED_CONTROLS = _names("dataBinding date dropDownList comboBox picture checkbox docPartList")
NOISE = frozenset(("lang", "noProof"))  # run properties that do not show
DROPPED = frozenset(("proofErr", "lastRenderedPageBreak"))  # Word computes them again
HYPHENS = {"noBreakHyphen": "\N{NON-BREAKING HYPHEN}", "softHyphen": "\N{SOFT HYPHEN}"}
HYPHEN = re.compile(f"([{''.join(HYPHENS.values())}])")
# Single tags that stay outside a unit if they are at its ends.
LAYOUT = _names(
    "bookmarkStart bookmarkEnd commentRangeStart commentRangeEnd commentReference permStart "
    "permEnd tab ptab br cr drawing pict AlternateContent"
)
MAX_DEPTH = 20  # of elements around runs, and of fields; deeper ones are single tags


@dataclass(frozen=True, slots=True)
class Format:
    """The formatting of a run; runs with the same key look the same."""

    key: bytes = b""
    properties: "_Element | None" = None


@dataclass(frozen=True, slots=True)
class Around:
    """The data of a pair: an element around runs, or only a formatting."""

    format: Format
    element: "_Element | None" = None


@dataclass(frozen=True, slots=True)
class Atom:
    """A child of a paragraph, or a child of a run with the run's formatting."""

    element: "_Element"
    format: Format | None = None


Atoms = tuple[Atom, ...]  # the data of a single tag


@dataclass(frozen=True, slots=True)
class Item:
    """A part of the content of a paragraph, or of an element around runs."""

    kind: Literal["text", "single", "start", "end", "around"]
    atoms: Atoms = ()
    format: Format | None = None
    text: str = ""


@dataclass(slots=True)
class Paragraph:
    """A paragraph, of which the middle is a unit."""

    element: "_Element"
    format: Format
    before: Inline
    middle: Inline
    after: Inline

    @property
    def has_text(self) -> bool:
        """Return whether there is anything to translate."""
        return bool(inline_text(self.middle).strip())

    def write(self, target: Inline) -> None:
        """Replace the text by a translation."""
        Writer(self.element, self.format).write((*self.before, *target, *self.after))


def name_of(element: "_Element") -> str:
    """Return the name of an element of WordprocessingML; "" for all others."""
    is_word = isinstance(element.tag, str) and element.tag.startswith(NAMESPACES)
    return local_name(element) if is_word else ""


def read_paragraph(element: "_Element") -> Paragraph:
    """Read a paragraph; the paragraphs inside it, of text boxes, are not read."""
    items = _items(element)
    base = _most_common(items)
    content = pair(_pieces(items, base, 0))
    return Paragraph(element, base, *split_ends(content, _is_layout))


def _is_layout(tag: Tag) -> bool:
    return isinstance(tag.data, tuple) and all(
        local_name(atom.element) in LAYOUT for atom in tag.data
    )


def _items(parent: "_Element", depth: int = 0) -> list[Item]:
    items: list[Item] = []
    formats: dict[bytes, Format] = {}
    for child in parent:
        name = name_of(child)
        if name == "r":
            items += _run_items(child, formats)
        elif name in AROUND and not _is_fixed(child):
            items.append(Item("around", (Atom(child),)))
        elif name not in PROPERTIES and name not in DROPPED:
            items.append(Item("single", (Atom(child),)))
    return _with_fields(items, 0)


def _is_fixed(element: "_Element") -> bool:
    """Return whether an element is a form control, whose text depends on other data."""
    if name_of(element) != "sdt":
        return False
    children = {name_of(child): child for child in element}
    controls = children.get("sdtPr", ())
    return "sdtContent" not in children or any(local_name(c) in FIXED_CONTROLS for c in controls)


def _run_items(run: "_Element", formats: dict[bytes, Format]) -> Iterator[Item]:
    from lxml import etree

    properties = next((child for child in run if name_of(child) == "rPr"), None)
    visible = [] if properties is None else [c for c in properties if name_of(c) not in NOISE]
    key = b"".join(sorted(etree.tostring(child, with_tail=False) for child in visible))
    format_ = formats.setdefault(key, Format(key, properties if visible else None))
    for child in run:
        name = name_of(child)
        if name == "t":
            text = child.text or ""
            text = text if child.get(SPACE) == "preserve" else text.strip(" \t\r\n")
            if len(child):  # a comment or an instruction inside the text
                yield Item("single", (Atom(child, format_),), format_)
            else:
                yield Item("text", (Atom(child, format_),), format_, text)
        elif name in HYPHENS:
            yield Item("text", (Atom(child, format_),), format_, HYPHENS[name])
        elif name != "rPr" and name not in DROPPED:
            yield Item("single", (Atom(child, format_),), format_)


def _field_mark(item: Item) -> str:
    """Return begin, separate or end for the marks of a complex field."""
    element = item.atoms[0].element
    if item.kind != "single" or name_of(element) != "fldChar":
        return ""
    return next((str(v) for k, v in element.attrib.items() if str(k).endswith("fldCharType")), "")


def _with_fields(items: list[Item], depth: int) -> list[Item]:
    """Join the items of each complete field; the text of a hyperlink stays translatable."""
    ends: dict[int, int] = {}  # of the begin mark of each complete field
    begins: list[int] = []
    for index, item in enumerate(items):
        mark = _field_mark(item)
        if mark == "begin":
            begins.append(index)
        elif mark == "end" and begins:
            ends[begins.pop()] = index
    result: list[Item] = []
    index = 0
    while index < len(items):
        end = ends.get(index, index)
        result += _field(items[index : end + 1], depth) if end > index else [items[index]]
        index = end + 1
    return result


def _field(items: list[Item], depth: int) -> list[Item]:
    marks = [_field_mark(item) for item in items]
    whole = Item("single", tuple(atom for item in items for atom in item.atoms))
    if "separate" not in marks or marks.count("begin") > MAX_DEPTH:
        return [whole]
    middle = marks.index("separate")
    code = "".join(item.atoms[0].element.text or "" for item in items[1:middle])
    if not code.strip().upper().startswith("HYPERLINK") or "begin" in marks[1:middle]:
        return [whole]
    atoms = tuple(atom for item in items[: middle + 1] for atom in item.atoms)
    result = items[middle + 1 : -1]
    inner = _with_fields(result, depth + 1) if depth < MAX_DEPTH else result
    return [Item("start", atoms), *inner, Item("end", items[-1].atoms)]


def _most_common(items: Sequence[Item]) -> Format:
    """Return the formatting of most of the text."""
    lengths: Counter[bytes] = Counter()
    formats: dict[bytes, Format] = {}
    for item in items:
        if item.kind == "text" and item.format is not None:
            formats.setdefault(item.format.key, item.format)
            lengths[item.format.key] += len(item.text)
    return formats[lengths.most_common(1)[0][0]] if lengths else Format()


def _pieces(items: list[Item], base: Format, depth: int) -> Iterator[str | Piece]:
    current = base
    for item, format_ in zip(items, _formats(items, base), strict=True):
        if format_.key != current.key:
            if current.key != base.key:
                yield Piece("close", None, Around(current))
            if format_.key != base.key:
                yield Piece("open", None, Around(format_))
            current = format_
        if item.kind == "text":
            yield item.text
        elif item.kind == "around" and depth < MAX_DEPTH:
            element = item.atoms[0].element
            inside = _items(_holder(element))
            format_inside = _most_common(inside)
            yield Piece("open", None, Around(format_inside, element))
            yield from _pieces(inside, format_inside, depth + 1)
            yield Piece("close", None, Around(format_inside, element))
        elif item.kind in ("start", "end"):
            yield Piece("start" if item.kind == "start" else "end", "field", item.atoms)
        else:
            yield Piece("single", None, item.atoms)
    if current.key != base.key:
        yield Piece("close", None, Around(current))


def _formats(items: list[Item], base: Format) -> list[Format]:
    """Return the formatting at each item: between texts of the same formatting, it is theirs."""
    before, after = [base], [base]
    for item in items:
        before.append(_after_item(item, before[-1], base))
    for item in reversed(items):
        after.append(_after_item(item, after[-1], base))
    after.reverse()
    result = []
    for index, item in enumerate(items):
        if item.kind == "text" and item.format is not None:
            result.append(item.format)
        elif item.kind in ("start", "end") or before[index].key != after[index + 1].key:
            result.append(base)
        else:
            result.append(before[index])
    return result


def _after_item(item: Item, current: Format, base: Format) -> Format:
    if item.kind == "text" and item.format is not None:
        return item.format
    return base if item.kind in ("start", "end") else current


def _holder(element: "_Element") -> "_Element":
    """Return the element that contains the runs."""
    if name_of(element) != "sdt":
        return element
    return next(child for child in element if name_of(child) == "sdtContent")


class Writer:
    """Writes inline content into a paragraph."""

    def __init__(self, paragraph: "_Element", format_: Format) -> None:
        self._namespace = str(paragraph.tag).rpartition("}")[0] + "}"
        self._inside = [(paragraph, format_)]
        self._run: _Element | None = None  # the last one, while content can be added to it
        self._run_format = Format()
        _clear(paragraph)

    def write(self, content: Inline) -> None:
        """Write all content."""
        for part in content:
            if isinstance(part, str):
                self._write_text(part)
            elif isinstance(part.data, tuple):
                self._write_atoms(part.data)
            elif part.kind == "close":
                self._run = self._run if part.data.element is None else None
                self._inside.pop()
            elif part.data.element is None:
                self._inside.append((self._inside[-1][0], part.data.format))
            else:
                self._append(part.data.element)
                holder = _holder(part.data.element)
                _clear(holder)
                self._inside.append((holder, part.data.format))

    def _append(self, element: "_Element") -> None:
        element.tail = None
        self._inside[-1][0].append(element)
        self._run = None

    def _open_run(self, format_: Format) -> "_Element":
        """Return a run with a formatting: the last one if possible."""
        if self._run is None or self._run_format.key != format_.key:
            parent = self._inside[-1][0]
            run = parent.makeelement(self._namespace + "r")
            if format_.properties is not None:
                run.append(deepcopy(format_.properties))
            self._append(run)
            self._run, self._run_format = run, format_
        return self._run

    def _write_text(self, text: str) -> None:
        run = self._open_run(self._inside[-1][1])
        for part in filter(None, HYPHEN.split(text)):
            name = next((name for name, hyphen in HYPHENS.items() if hyphen == part), "t")
            if name != "t" or not len(run) or name_of(run[-1]) != "t":
                run.append(run.makeelement(self._namespace + name))
            if name == "t":
                append_text(run[-1], part)
                written = run[-1].text or ""
                if written != written.strip():
                    run[-1].set(SPACE, "preserve")

    def _write_atoms(self, atoms: Atoms) -> None:
        for atom in atoms:
            if atom.format is None:
                self._append(atom.element)
            else:
                run = self._open_run(atom.format)
                atom.element.tail = None
                run.append(atom.element)


def _clear(element: "_Element") -> None:
    """Remove the content of an element, but not its properties."""
    element.text = None
    for child in list(element):
        if name_of(child) not in PROPERTIES:
            element.remove(child)
