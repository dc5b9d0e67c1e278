"""Word documents as offices write them: formatting, notes, fields, tables and tracked changes."""

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from docx.text.paragraph import Paragraph

from document_corpus.author import Author

SPANS = ("brace", "mustache", "url", "email", "path", "drive", "file", "option", "call", "unit")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FORMATS = (
    *("<w:b/>", "<w:i/>", '<w:u w:val="single"/>', '<w:color w:val="C00000"/>', "<w:b/><w:i/>"),
    *('<w:vertAlign w:val="superscript"/>', '<w:highlight w:val="yellow"/>', "<w:smallCaps/>"),
    *('<w:rStyle w:val="Strong"/>', '<w:rFonts w:ascii="Courier New"/><w:sz w:val="18"/>'),
)
NOISE = ("", "", '<w:lang w:val="en-GB"/>', "<w:noProof/>")
NOTE_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
NOTE_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
LINK_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
END = "</Relationships>"
MARK = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def run(text: str, properties: str = "") -> str:
    inside = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{inside}<w:t xml:space="preserve">{escaped(text)}</w:t></w:r>'


def field(code: str, result: str) -> str:
    begin, separate, end = (MARK.format(mark) for mark in ("begin", "separate", "end"))
    code = f'<w:r><w:instrText xml:space="preserve"> {escaped(code)} </w:instrText></w:r>'
    return f"{begin}{code}{separate}{result}{end}"


class WordFile:
    """A Word document while it is written."""

    def __init__(self, author: Author) -> None:
        self.author = author
        self.document: Any = docx.Document()
        self.notes: list[str] = []

    def to_bytes(self) -> bytes:
        author, document = self.author, self.document
        document.core_properties.title = author.text()
        document.add_heading(author.text(2, 5), 0)
        for _ in author.times(3):
            document.add_heading(author.text(2, 5), author.draw.choice((1, 2)))
            for _ in range(3):
                self.fill(document.add_paragraph())
            self.add_list()
        self.add_table()
        self.fill(document.add_paragraph(style="Intense Quote"))
        if author.chance(0.5):
            document.add_picture(io.BytesIO(PIXEL))
            self.fill(document.add_paragraph(style="Caption"))
        if author.chance(0.5):
            document.add_page_break()
            document.add_section()
        self.add_text_box()
        self.add_control()
        section = document.sections[0]
        section.header.paragraphs[0].text = author.text()
        self.fill(section.footer.paragraphs[0], "Page ", field("PAGE", run("1")))
        if author.chance(0.3):
            section.different_first_page_header_footer = True
            section.first_page_header.paragraphs[0].text = author.text()
        if author.chance(0.5):
            first = document.paragraphs[3]
            document.add_comment(first.runs or [first.add_run(" end")], text="Please check.")
        file = io.BytesIO()
        document.save(file)
        return self.with_notes(file.getvalue())

    def fill(self, paragraph: Paragraph, *last: str) -> None:
        """Add runs to a paragraph, with all that occurs inside of sentences."""
        pieces = [run(self.author.sentence() + " ", self.author.draw.choice(NOISE))]
        for _ in range(self.author.draw.randint(1, 4)):
            pieces += [self.piece(), run(f" {self.author.text()} ")]
        pieces += [run(text) if not text.startswith("<") else text for text in last]
        content = parse_xml(f"<w:p {nsdecls('w', 'r')}>{''.join(pieces)}</w:p>")
        paragraph._p.extend(list(content))

    def piece(self) -> str:
        """Return a part of a paragraph that is more than a run of text."""
        author = self.author
        text, number = author.text(1, 3, 0.3), author.number()
        bold, mark = run(author.words(), "<w:b/>"), f'w:id="{number}" w:author="A"'
        deleted = f"<w:r><w:delText>{author.words()}</w:delText></w:r>"
        address = f"https://example.com/{number}"
        start = f'<w:bookmarkStart w:id="{number}" w:name="b{number}"/>'
        formatted = run(text, author.draw.choice(FORMATS) + author.draw.choice(NOISE))
        choices: tuple[Callable[[], str], ...] = (
            *(lambda: formatted, lambda: formatted, lambda: formatted),
            lambda: self.link(address, run(text, '<w:rStyle w:val="Strong"/>')),
            lambda: f'<w:hyperlink w:anchor="b{number}">{run(text)}{bold}</w:hyperlink>',
            lambda: f"<w:ins {mark}>{run(text, '<w:i/>')}</w:ins>",
            lambda: f"<w:del {mark}>{deleted}</w:del>",
            lambda: field(f"REF b{number}", run(f"Section {number}")),
            lambda: field(f'HYPERLINK "{address}"', run(text)),
            self.note,
            lambda: f'{start}{run(text)}<w:bookmarkEnd w:id="{number}"/>',
            lambda: '<w:proofErr w:type="spellStart"/>' + run(text[:3]) + run(text[3:]),
            lambda: run("well") + "<w:r><w:noBreakHyphen/></w:r>" + run("known"),
            lambda: author.draw.choice(("<w:r><w:tab/></w:r>", "<w:r><w:br/></w:r>")),
        )
        return author.draw.choice(choices)()

    def link(self, address: str, content: str) -> str:
        relation = self.document.part.relate_to(address, LINK_RELATION, True)
        return f'<w:hyperlink r:id="{relation}">{content}</w:hyperlink>'

    def note(self) -> str:
        """Add a footnote, and return the reference to it."""
        text = run(f" {self.author.sentence()}") + run(self.author.words(), "<w:i/>")
        number = len(self.notes) + 1
        self.notes.append(
            f'<w:footnote w:id="{number}"><w:p><w:r><w:footnoteRef/></w:r>{text}</w:p></w:footnote>'
        )
        reference = f'<w:footnoteReference w:id="{number}"/>'
        return f'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr>{reference}</w:r>'

    def add_list(self) -> None:
        names = ("List Bullet", "List Bullet 2", "List Bullet 3", "List Number", "List Number 2")
        for _ in range(self.author.draw.randint(2, 5)):
            self.fill(self.document.add_paragraph(style=self.author.draw.choice(names)))

    def add_table(self) -> None:
        table = self.document.add_table(3, 3, style="Table Grid")
        for row in table.rows:
            for cell in row.cells:
                self.fill(cell.paragraphs[0])
        table.cell(0, 0).merge(table.cell(0, 1))
        inner = table.cell(2, 2).add_table(1, 2)
        for cell in inner.rows[0].cells:
            cell.text = self.author.text()

    def add_text_box(self) -> None:
        inside = f"<w:p>{run(self.author.sentence())}{run(self.author.words(), '<w:b/>')}</w:p>"
        box = (
            f'<w:p {nsdecls("w")} xmlns:v="urn:schemas-microsoft-com:vml">{run("See the box ")}'
            '<w:r><w:pict><v:shape style="width:200pt;height:50pt"><v:textbox><w:txbxContent>'
            f"{inside}</w:txbxContent></v:textbox></v:shape></w:pict></w:r>{run(' here')}</w:p>"
        )
        self.document.add_paragraph()._p.addnext(parse_xml(box))

    def add_control(self) -> None:
        text = run(self.author.text()) + run(self.author.words(), "<w:b/>")
        control = (
            f'<w:sdt {nsdecls("w")}><w:sdtPr><w:alias w:val="Note"/></w:sdtPr>'
            f"<w:sdtContent><w:p>{text}</w:p></w:sdtContent></w:sdt>"
        )
        self.document.add_paragraph()._p.addnext(parse_xml(control))

    def with_notes(self, data: bytes) -> bytes:
        """Return the archive with a part of footnotes, which python-docx cannot write."""
        if not self.notes:
            return data
        separator = '<w:footnote w:type="separator" w:id="-1"><w:p><w:r><w:separator/></w:r></w:p>'
        notes = f"{separator}</w:footnote>{''.join(self.notes)}"
        changes = {
            "[Content_Types].xml": (
                "</Types>",
                f'<Override PartName="/word/footnotes.xml" ContentType="{NOTE_TYPE}"/></Types>',
            ),
            "word/_rels/document.xml.rels": (
                END,
                f'<Relationship Id="notes" Type="{NOTE_RELATION}" Target="footnotes.xml"/>{END}',
            ),
        }
        result = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(data)) as old,
            zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as new,
        ):
            for name in old.namelist():
                content = old.read(name)
                if name in changes:
                    old_end, new_end = changes[name]
                    content = content.replace(old_end.encode(), new_end.encode())
                new.writestr(name, content)
            new.writestr(
                "word/footnotes.xml",
                '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
                f"<w:footnotes {nsdecls('w')}>{notes}</w:footnotes>",
            )
        return result.getvalue()


def make_docx(author: Author) -> bytes:
    return WordFile(author).to_bytes()
