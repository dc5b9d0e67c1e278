"""Word documents (.docx).

A unit is a paragraph of the text, of tables, text boxes, headers, footers, footnotes and endnotes,
or the title in the document's properties.

Tracked insertions are translated and stay insertions; tracked deletions stay as they are. So do
fields (page numbers, references, dates), form controls, formulas, comments, charts and diagrams.
The text of hyperlinks is translated, also where the hyperlink is a field.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING

from transduce.documents.base import Document, DocumentOptions, Unit, list_left_alone
from transduce.documents.docx_parts import pack, unpack
from transduce.documents.docx_text import Paragraph, name_of, read_paragraph
from transduce.documents.xml import append_text, parse, serialise
from transduce.errors import BadInput

if TYPE_CHECKING:
    from lxml.etree import _Element, _ElementTree

TEXT_PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")
CORE = "docProps/core.xml"
TITLE = "{http://purl.org/dc/elements/1.1/}title"
UNTRANSLATED_PARTS = {
    r"word/comments\.xml": "part(s) with comments",
    r"word/charts/chart[^/]*\.xml": "chart(s)",
    r"word/diagrams/data[^/]*\.xml": "diagram(s) (SmartArt)",
    r"word/embeddings/[^/]+": "embedded document(s)",
}
UNTRANSLATED = {
    "del": "tracked deletion(s)",
    "moveFrom": "tracked move(s), at the old place",
    "ruby": "text(s) with pronunciation (ruby)",
    "fldSimple": "field(s)",
    "dropDownList": "form control(s)",
    "comboBox": "form control(s)",
    "date": "form control(s)",
}


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read a Word document; its languages are not checked, because few files state them well."""
    return Docx(data, options)


class Docx(Document):
    """A Word document."""

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        super().__init__()
        self._data = data
        self._parts = unpack(data)
        self._trees: dict[str, _ElementTree] = {}
        self._places: list[tuple[str, Paragraph | _Element]] = []  # of each unit: part, place
        skipped: Counter[str] = Counter()
        order = sorted(filter(TEXT_PARTS.fullmatch, self._parts), key=lambda p: "document" not in p)
        markup = sum(len(self._parts[part]) for part in order)
        if options.max_markup is not None and markup > options.max_markup:
            raise BadInput(
                f"the docx document has {markup:,} bytes of text and formatting, more than "
                f"{options.max_markup:,}: split it"
            )
        for part in order:
            self._read_part(part, skipped)
        if CORE in self._parts:
            self._read_title()
        for part in self._parts:
            skipped.update(
                what for name, what in UNTRANSLATED_PARTS.items() if re.fullmatch(name, part)
            )
        self.left_alone = list_left_alone(skipped)

    def to_bytes(self) -> bytes:
        """Return the file with the translations; other parts stay as they are."""
        changed: dict[str, bytes] = {}
        for unit, (part, place) in zip(self.units, self._places, strict=True):
            if unit.target is None or unit.target == unit.source:
                continue
            changed[part] = b""
            if isinstance(place, Paragraph):
                place.write(unit.target)
            else:
                place.text = None
                append_text(place, "".join(text for text in unit.target if isinstance(text, str)))
        for part in changed:
            changed[part] = serialise(self._trees[part], self._parts[part])
        return pack(self._data, changed) if changed else self._data

    def _read_part(self, part: str, skipped: Counter[str]) -> None:
        tree = self._trees[part] = parse(self._parts[part], "docx", part)
        root = tree.getroot()
        if not name_of(root):
            raise BadInput(f"{part} of the docx document is not WordprocessingML: save it again")
        number = 0
        for element in root.iter():
            name = name_of(element)
            parent = element.getparent()
            if name == "p":
                number += 1
                self._add(part, number, read_paragraph(element))
            elif name in UNTRANSLATED:
                is_mark = parent is not None and name_of(parent) in ("rPr", "trPr")
                skipped.update([] if is_mark else [UNTRANSLATED[name]])
            elif name == "fldChar":
                begins = any(value == "begin" for value in element.attrib.values())
                skipped.update(["field(s)"] if begins else [])
            elif name == "instrText" and (element.text or "").strip().upper().startswith(
                "HYPERLINK"
            ):
                skipped["field(s)"] -= 1  # its text is translated
            elif isinstance(element.tag, str) and element.tag.endswith("}oMath"):
                skipped["formula(s)"] += 1

    def _add(self, part: str, number: int, paragraph: Paragraph) -> None:
        if paragraph.has_text:
            where = part.removeprefix("word/").removesuffix(".xml")
            self.units.append(Unit(paragraph.middle, f"paragraph {number} of {where}"))
            self._places.append((part, paragraph))

    def _read_title(self) -> None:
        tree = self._trees[CORE] = parse(self._parts[CORE], "docx", CORE)
        title = tree.getroot().find(TITLE)
        if title is not None and not len(title) and (title.text or "").strip():
            self.units.append(Unit(((title.text or "").strip(),), "title"))
            self._places.append((CORE, title))
