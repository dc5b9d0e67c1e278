"""Word documents, checked with python-docx and LibreOffice."""

import contextlib
import io
import random
import shutil
import struct
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from xml_documents import (
    OPTIONS,
    assert_refused,
    assert_survives_damage,
    mapped,
    part,
    run,
    shuffled,
    sources,
    translate,
    with_part,
    word_bytes,
    word_document,
    word_elements,
    word_names,
    word_paragraph,
    word_runs,
    word_text,
)

from transduce.documents.docx import read
from transduce.documents.docx_text import read_paragraph
from transduce.errors import BadInput

LIBREOFFICE = (Path(__file__).parent / "files" / "libreoffice.docx").read_bytes()
BODY = "word/document.xml"
BOLD, ITALIC = "<w:b/>", "<w:i/>"
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'


def field(code: str, result: str) -> str:
    begin, separate, end = (FIELD.format(mark) for mark in ("begin", "separate", "end"))
    return f"{begin}<w:r><w:instrText>{code}</w:instrText></w:r>{separate}{run(result)}{end}"


def inner_text(element: Any) -> str:
    return "".join(element.xpath(".//*[local-name() = 't']/text()"))


@pytest.fixture(scope="module")
def report() -> bytes:
    return word_bytes(word_document())


def test_units_are_paragraphs_with_tags_where_the_formatting_changes(report: bytes) -> None:
    assert sources(read, report) == [
        "Sales of the year",
        "We sold <1>many</1> books, more <2>than ever<3/>before</2>.",
        "Details: <1>See below</1>.",
        "Year",
        "Books & maps",
        "Confidential",
        "Page",
        "The report",
    ]
    assert read(report, OPTIONS).units[1].where == "paragraph 2 of document"


@pytest.mark.parametrize("name", ["report", "libreoffice"])
def test_targets_that_equal_their_sources_change_no_byte(name: str, report: bytes) -> None:
    data = report if name == "report" else LIBREOFFICE
    assert read(data, OPTIONS).to_bytes() == data
    assert translate(read, data, lambda text: text) == data


def test_only_the_text_changes(report: bytes) -> None:
    written = translate(read, report)
    assert word_text(written) == [text.upper() for text in word_text(report)]
    title = docx.Document(io.BytesIO(written)).core_properties.title
    assert title == "THE REPORT"
    assert word_runs(written)[:6] == [
        ("SALES OF THE YEAR", False, False),
        ("WE SOLD ", False, False),
        ("MANY", True, False),
        (" BOOKS, MORE ", False, False),
        ("THAN EVER\tBEFORE", False, True),
        (".", False, False),
    ]
    (link,) = word_elements(written, "w:hyperlink")
    assert inner_text(link) == "SEE BELOW"
    assert len(link.findall(".//{*}color")) == 1


def test_parts_without_text_keep_their_bytes(report: bytes) -> None:
    written = translate(read, report)
    with zipfile.ZipFile(io.BytesIO(report)) as old, zipfile.ZipFile(io.BytesIO(written)) as new:
        assert old.namelist() == new.namelist()
        changed = {name for name in old.namelist() if old.read(name) != new.read(name)}
    assert changed == {BODY, "word/header1.xml", "word/footer1.xml", "docProps/core.xml"}


def rewritten(data: bytes) -> Any:
    """Return the text of a document, all paragraphs written again with their own content."""
    root = etree.fromstring(part(data, BODY))
    for element in list(root.iter("{*}p")):
        paragraph = read_paragraph(element)
        if paragraph.has_text:
            paragraph.write(paragraph.middle)
    return root


def looks(root: Any) -> list[tuple[str, bytes, tuple[str, ...]]]:
    """Return each visible character with its formatting and the elements around it."""
    result = []
    element: Any
    for element in root.iter("{*}t", "{*}tab", "{*}br", "{*}footnoteReference", "{*}fldChar"):
        parent = element.getparent()
        properties = parent.find("{*}rPr")
        shown = [] if properties is None else [p for p in properties if not p.tag.endswith("}lang")]
        key = b"".join(sorted(etree.tostring(p, method="c14n", with_tail=False) for p in shown))
        around = tuple(etree.QName(a).localname for a in parent.iterancestors())
        name = etree.QName(element).localname
        texts = list(element.text or "") if name == "t" else [name]
        result += [(text, key, around) for text in texts]
    return result


@pytest.mark.parametrize("name", ["report", "libreoffice"])
def test_writing_the_same_content_keeps_the_look_of_each_character(
    name: str, report: bytes
) -> None:
    data = report if name == "report" else LIBREOFFICE
    assert looks(rewritten(data)) == looks(etree.fromstring(part(data, BODY)))


RUNS = st.sampled_from(
    [
        *(
            run("a "),
            run("b", BOLD),
            run(" c ", ITALIC),
            run("d", BOLD + ITALIC),
            "<w:r><w:tab/></w:r>",
        ),
        *('<w:bookmarkStart w:id="1" w:name="x"/>', '<w:bookmarkEnd w:id="1"/>', "<w:proofErr/>"),
        *(
            field(" PAGE ", "1"),
            field(' HYPERLINK "u" ', "link"),
            f"<w:ins>{run('new', BOLD)}</w:ins>",
        ),
        *(
            f'<w:hyperlink w:anchor="y">{run("h")}{run("i", ITALIC)}</w:hyperlink>',
            run("e", "<w:lang/>"),
        ),
        *(
            "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>",
            FIELD.format("begin"),
            FIELD.format("end"),
        ),
        *(
            "<w:sdt><w:sdtPr/><w:sdtContent>" + run("s") + "</w:sdtContent></w:sdt>",
            "<w:r><w:br/></w:r>",
        ),
    ]
)
LOST = {"r", "rPr", "t", "b", "i", "lang", "proofErr"}  # runs are joined and split


@settings(max_examples=60, deadline=None)
@given(st.lists(RUNS, max_size=10), st.randoms(use_true_random=False))
def test_each_element_is_kept_once_in_any_order(children: list[str], rng: random.Random) -> None:
    xmlns = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    source = f'<w:p xmlns:w="{xmlns}"><w:pPr><w:jc/></w:pPr>{"".join(children)}</w:p>'
    element, before = etree.fromstring(source), etree.fromstring(source)
    paragraph = read_paragraph(element)
    paragraph.write(paragraph.middle)
    assert looks(element) == looks(before)
    paragraph = read_paragraph(element)
    paragraph.write(shuffled(paragraph.middle, rng))
    names = [
        sorted(name for e in root.iter() if (name := etree.QName(e).localname) not in LOST)
        for root in (before, element)
    ]
    assert names[0] == names[1]
    texts = [sorted("".join(str(root.xpath("string()")).split())) for root in (before, element)]
    assert texts[0] == texts[1]
    assert element[0].tag.endswith("}pPr")


def test_runs_that_look_the_same_are_one_text() -> None:
    data = word_paragraph(
        run("One ", "<w:lang w:val='en-US'/>"),
        "<w:proofErr w:type='spellStart'/>",
        run("wo"),
        run("rd."),
    )
    assert sources(read, data) == ["One word."]
    data = word_paragraph(run("All ", BOLD), run("bold", BOLD + "<w:noProof/>"))
    assert sources(read, data) == ["All bold"]
    assert word_runs(translate(read, data)) == [("ALL BOLD", True, False)]


def test_bookmarks_and_breaks_at_the_ends_are_not_part_of_the_text() -> None:
    data = word_paragraph(
        '<w:bookmarkStart w:id="1" w:name="x"/><w:r><w:br w:type="page"/></w:r>',
        run(" Text "),
        '<w:bookmarkEnd w:id="1"/>',
    )
    assert sources(read, data) == ["Text"]
    names = word_names(translate(read, data))
    assert [name for name in names if name in ("bookmarkStart", "br", "t", "bookmarkEnd")] == [
        *("bookmarkStart", "br", "t", "bookmarkEnd")
    ]


def test_fields_are_single_tags_and_hyperlink_fields_are_pairs() -> None:
    data = word_paragraph(
        run("On "), field(" PAGE ", "7"), run(" see "), field(' HYPERLINK "http://x" ', "a link")
    )
    assert sources(read, data) == ["On <1/> see <2>a link</2>"]
    assert read(data, OPTIONS).left_alone == ["1 field"]
    written = translate(read, data)
    assert word_text(written)[0].split() == ["ON", "7", "SEE", "A", "LINK"]
    marks = [e.values()[0] for e in word_elements(written, "w:fldChar")]
    assert marks == ["begin", "separate", "end"] * 2


def test_tracked_changes_stay_tracked() -> None:
    data = word_paragraph(
        run("We "),
        f'<w:ins w:id="1" w:author="A">{run("really ")}</w:ins>',
        '<w:del w:id="2" w:author="A"><w:r><w:delText>never </w:delText></w:r></w:del>',
        run("try."),
    )
    assert sources(read, data) == ["We <1>really </1><2/>try."]
    assert read(data, OPTIONS).left_alone == ["1 tracked deletion"]
    written = translate(read, data)
    (inserted,), (deleted,) = word_elements(written, "w:ins"), word_elements(written, "w:del")
    assert inner_text(inserted) == "REALLY "
    assert b">never <" in etree.tostring(deleted)


def test_libreoffice_documents_have_their_notes_and_text_boxes_translated() -> None:
    texts = sources(read, LIBREOFFICE)
    assert any(text.startswith("This year we sold <") for text in texts)
    assert any("Numbers from the" in text for text in texts), "the footnote"
    assert sum("Inside a" in text for text in texts) == 2, "the text box, and its form for old Word"
    written = translate(read, LIBREOFFICE)
    assert b"NUMBERS FROM THE" in part(written, "word/footnotes.xml")
    body = etree.fromstring(part(written, BODY))
    boxes = [inner_text(box) for box in body.iter("{*}txbxContent")]
    assert boxes == ["INSIDE A TEXT BOX"] * 2
    assert len(list(body.iter("{*}footnoteReference"))) == 1


def test_special_hyphens_and_spaces_survive() -> None:
    data = word_paragraph(
        "<w:r><w:t>A</w:t><w:noBreakHyphen/><w:t>B</w:t><w:softHyphen/><w:t> C</w:t></w:r>"
    )
    assert sources(read, data) == ["A\u2011B\xadC"]
    written = translate(read, data, lambda text: f"{text} \x00&<")
    assert (
        word_names(written).count("noBreakHyphen") == word_names(written).count("softHyphen") == 1
    )
    assert word_text(written)[0].replace("\u2011", "-").startswith("A-B")


def test_form_controls_comments_and_formulas_are_named_as_left_alone(report: bytes) -> None:
    control = (
        "<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>"
        + run("x")
        + "</w:sdtContent></w:sdt>"
    )
    math = '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"/>'
    data = with_part(word_paragraph(run("Pick "), control, math), "word/comments.xml", b"<x/>")
    assert sources(read, data) == ["Pick <1/><2/>"]
    assert sorted(read(data, OPTIONS).left_alone) == [
        "1 form control",
        "1 formula",
        "1 part with comments",
    ]


def test_what_is_not_a_word_document_is_refused(report: bytes) -> None:
    assert_refused(read, b"", "damaged and cannot be unpacked")
    assert_refused(read, b"PK\x03\x04 and so on", "damaged and cannot be unpacked")
    assert_refused(read, b"\xd0\xcf\x11\xe0" + bytes(600), "encrypted or in the format of Word 97")
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
    assert_refused(read, empty.getvalue(), "word/document.xml is missing")
    assert_refused(
        read, with_part(report, BODY, b"<a></b>"), "word/document.xml: not well-formed XML"
    )
    assert_refused(read, with_part(report, BODY, b"<a/>"), "is not WordprocessingML")
    entities = b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"
    assert_refused(read, with_part(report, BODY, entities), "document.xml: the DOCTYPE")
    flags = bytearray(report)
    central = flags.index(b"PK\x01\x02")
    struct.pack_into("<H", flags, central + 8, 1)
    assert_refused(read, bytes(flags), "encrypted: save it without a password")


def test_bombs_are_refused_before_they_are_unpacked(report: bytes) -> None:
    start = time.perf_counter()
    large = io.BytesIO()
    with zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(BODY, bytes(40_000_000))
    assert_refused(read, large.getvalue(), "unpacks to 40,000,000 bytes, more than")
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(10_001):
            archive.writestr(str(number), b"")
    assert_refused(read, many.getvalue(), "10,001 parts, more than 10,000")
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("word/document1xml", b"<a/>")
        archive.writestr(BODY, b"<a/>")
    twice = io.BytesIO(twice.getvalue().replace(b"document1xml", b"document.xml"))
    assert_refused(read, twice.getvalue(), "two parts with the same name")
    assert time.perf_counter() - start < 10


def test_damaged_files_are_read_or_refused(report: bytes) -> None:
    assert_survives_damage(read, LIBREOFFICE, 60)
    body = part(report, BODY)
    rng = random.Random(1)
    for _ in range(40):
        start = rng.randrange(len(body))
        end = rng.choice([start + 1, body.find(b">", start) + 1, len(body)])
        with contextlib.suppress(BadInput):
            translate(read, with_part(report, BODY, body[:start] + body[end:]))


def test_deep_elements_and_fields_take_bounded_time() -> None:
    ins = "<w:ins>" * 200 + run("deep") + "</w:ins>" * 200
    begin, end = FIELD.format("begin"), FIELD.format("end")
    start = time.perf_counter()
    for content in (
        ins,
        begin * 3_000 + end * 3_000,
        field(" HYPERLINK ", "x") * 2_000,
        begin * 9_000,
    ):
        data = word_paragraph(run("a "), content, run("b", BOLD))
        document = read(data, OPTIONS)
        for unit in document.units:
            unit.target = mapped(unit.source, str.upper)
        assert b">A" in part(document.to_bytes(), BODY)
    assert time.perf_counter() - start < 10


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_libreoffice_opens_what_we_write(report: bytes, tmp_path: Path) -> None:
    for name, data in (("report", report), ("libreoffice", LIBREOFFICE)):
        (tmp_path / f"{name}.docx").write_bytes(translate(read, data))
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    names = ["report.docx", "libreoffice.docx"]
    command = ["soffice", profile, "--headless", "--convert-to", "txt:Text (encoded):UTF8", *names]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert "WE SOLD MANY BOOKS, MORE THAN EVER" in (tmp_path / "report.txt").read_text("utf-8")
    text = (tmp_path / "libreoffice.txt").read_text("utf-8")
    assert "THIS YEAR WE SOLD MORE BOOKS THAN IN ANY YEAR BEFORE" in text
