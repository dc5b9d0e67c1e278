"""Read Word documents with python-docx and lxml."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import docx
from lxml import etree

from document_corpus.reading import Block, Reading

TEXT_PARTS = ("word/document", "word/header", "word/footer", "word/footnotes")
PLACES = ("tbl", "tr", "tc", "txbxContent", "footnote", "sdtContent")
AROUND = ("hyperlink", "ins", "sdt", "smartTag")
INVISIBLE = ("lang", "noProof")
TITLE = "{http://purl.org/dc/elements/1.1/}title"


def name_of(element: Any) -> str:
    return str(etree.QName(element).localname) if isinstance(element.tag, str) else ""


def shown(element: Any) -> str:
    return str(etree.tostring(element, method="c14n", with_tail=False).decode())


def read_docx(data: bytes, *, translated: bool) -> Reading:
    del translated
    docx.Document(io.BytesIO(data))
    reading = Reading()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            content = archive.read(name)
            reading.frame.append(name)
            if name.startswith(TEXT_PARTS) and name.endswith(".xml"):
                read_part(reading, name, etree.fromstring(content))
            elif name == "docProps/core.xml":
                root = etree.fromstring(content)
                title = root.find(TITLE)
                assert title is not None
                reading.block("title").add("", title.text or "")
                title.text = ""
                reading.frame.append(shown(root))
            else:
                reading.frame.append(repr(content))
    return reading


def read_part(reading: Reading, part: str, root: Any) -> None:
    numbers = 0
    for element in root.iter():
        name = name_of(element)
        places = ">".join(name_of(a) for a in element.iterancestors() if name_of(a) in PLACES)
        if name == "p":
            numbers += 1
            block = reading.block(f"{part} p{numbers} in {places}")
            properties = element.find("{*}pPr")
            reading.frame.append("" if properties is None else shown(properties))
            read_paragraph(block, element)
        elif name in ("tblPr", "tblGrid", "tcPr", "trPr", "sectPr", "sdtPr") or name in PLACES:
            attributes = sorted(element.attrib.items())
            frame = shown(element) if name.endswith("Pr") else str(attributes)
            reading.frame.append(f"{part} {places} {name} {frame}")


def read_paragraph(block: Block, paragraph: Any) -> None:
    """Collect the words by formatting, and all elements that are no text."""
    codes: list[list[str]] = []  # of the fields that are open
    results: list[bool] = []  # of each: whether the result has begun
    for element in _inside(paragraph):
        name = name_of(element)
        if name == "fldChar":
            kind = element.values()[0]
            block.loose[f"fldChar {kind}"] += 1
            if kind == "begin":
                codes.append([])
                results.append(False)
            elif kind == "separate":
                results[-1] = True
            else:
                block.loose[f"field {''.join(codes.pop())}"] += 1
                results.pop()
        elif name == "instrText":
            codes[-1].append(element.text or "")
        elif name in ("t", "noBreakHyphen"):
            around = [
                f"{name_of(a)}{sorted(a.attrib.items())}"
                for a in element.iterancestors()
                if name_of(a) in AROUND
            ]
            code = "".join(codes[-1]) if codes else ""
            if code and not code.strip().startswith("HYPERLINK"):
                block.loose[f"result of {code}: {element.text}"] += 1
                continue
            text = (element.text or "") if name == "t" else "\N{NON-BREAKING HYPHEN}"
            block.add(f"{_formatting(element)} {around} {code}", text)
        elif name not in ("r", "rPr", "pPr", "proofErr", *AROUND, "sdtContent", "sdtPr"):
            attributes = sorted(element.attrib.items())
            block.loose[f"{name} {attributes} {(element.text or '').strip()}"] += 1
        elif name in AROUND:
            block.loose[f"{name} {sorted(element.attrib.items())}"] += 1


def _inside(element: Any) -> Iterator[Any]:
    """Yield what is inside a paragraph, without its properties and the paragraphs inside it."""
    for child in element:
        if name_of(child) in ("p", "pPr", "rPr", ""):
            continue
        yield child
        yield from _inside(child)


def _formatting(text: Any) -> str:
    properties = text.getparent().find("{*}rPr")
    if properties is None:
        return ""
    return "".join(sorted(shown(p) for p in properties if name_of(p) not in INVISIBLE))
