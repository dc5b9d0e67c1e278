"""XLIFF and TMX files of translation tools, read with lxml."""

import html
from typing import Any

from lxml import etree

from document_corpus.author import Author
from document_corpus.reading import DONE, INSIDE, Block, Reading

PAIRS = ("g", "pc", "hi", "mrk")
ADDED = ("state", "state-qualifier", "subState", "creationid", "target-language", "trgLang")


def _text(author: Author, spans: float = 0.5) -> str:
    text = author.text(2, 8, spans)
    if author.chance(0.15) and "]]>" not in text:
        return f"<![CDATA[{text} <b>]]>"
    return html.escape(text, quote=False)


def _content(author: Author, codes: str, depth: int = 0) -> str:
    """Return text with inline elements: of XLIFF 1 (1), XLIFF 2 (2) or TMX (t)."""
    parts = [_text(author)]
    for _ in range(author.draw.randint(0, 2)):
        number = author.number()
        inside = _content(author, codes, depth + 1) if depth < 2 else author.words()
        raw = f"&lt;br n='{number}'/&gt;"
        choices = {
            "1": (
                *(f'<g id="{number}" ctype="bold">{inside}</g>', f'<x id="{number}"/>'),
                f'<bpt id="{number}">&lt;b&gt;</bpt>{inside}<ept id="{number}">&lt;/b&gt;</ept>',
                f'<bx id="{number}"/>{inside}<ex id="{number}"/>',
                *(f'<ph id="{number}">{raw}</ph>', f'<it id="{number}" pos="open">{raw}</it>'),
                f'<mrk mtype="term">{inside}</mrk>',
                f'<mrk mtype="protected">Kit {number}</mrk>',
            ),
            "2": (
                *(f'<pc id="{number}">{inside}</pc>', f'<ph id="{number}" disp="{raw}"/>'),
                f'<sc id="{number}"/>{inside}<ec startRef="{number}"/>',
                f'<mrk id="m{number}" type="term">{inside}</mrk>',
                f'<mrk id="m{number}" translate="no">Kit {number}</mrk>',
                '<cp hex="0001"/>',
            ),
            "t": (
                *(f'<hi type="b">{inside}</hi>', f'<ph x="{number}">{raw}</ph>'),
                f'<bpt i="{number}">&lt;b&gt;</bpt>{inside}<ept i="{number}">&lt;/b&gt;</ept>',
                f'<it pos="begin" x="{number}">{raw}</it>',
            ),
        }
        parts += [author.draw.choice(choices[codes]), _text(author, 0.2)]
    return author.draw.choice((" ", "\n          ")).join(parts)


def _unit_1(author: Author) -> str:
    number = author.number()
    source = _content(author, "1")
    note = f'<note from="a">{author.words()}</note>' if author.chance(0.3) else ""
    match author.draw.randrange(8):
        case 0:
            rest = f'<target state="translated">{DONE} {number}</target>'
        case 1:
            rest = f'<target state="new">{source}</target>'
        case 2:
            second = _content(author, "1")
            segments = "".join(
                f'<mrk mtype="seg" mid="{mid}">{text}</mrk> '
                for mid, text in enumerate((source, second))
            )
            source, rest = f"{source} {second}", f"<seg-source>{segments}</seg-source>"
        case 3:
            return (
                f'<trans-unit id="u{number}" translate="no"><source>{source}</source></trans-unit>'
            )
        case _:
            rest = ""
    return (
        f'<trans-unit id="u{number}" resname="r{number}">\n        <source>{source}</source>'
        f"{rest}\n        {note}</trans-unit>"
    )


def make_xliff_1(author: Author) -> bytes:
    units = "\n      ".join(_unit_1(author) for _ in author.times(30))
    text = (
        '<?xml version="1.0" encoding="{}"?>\n<!-- by a tool -->\n<xliff version="1.2" '
        'xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:k="urn:kit">\n'
        '  <file original="a.html" source-language="en-US" target-language="de" datatype="html">\n'
        f"    <header><k:about n='1'/></header>\n    <body>\n      {units}\n    </body>\n"
        "  </file>\n</xliff>\n"
    )
    return _encoded(author, text)


def _segment_2(author: Author) -> str:
    number = author.number()
    source = f"<source>{_content(author, '2')}</source>"
    if author.chance(0.15):
        done = f'<segment id="s{number}" state="final">{source}'
        return f"{done}<target>{DONE} {number}</target></segment>"
    return f'<segment id="s{number}">{source}</segment>'


def make_xliff_2(author: Author) -> bytes:
    units = []
    for _ in author.times(20):
        number = author.number()
        segments = "<ignorable><source> </source></ignorable>".join(
            _segment_2(author) for _ in range(author.draw.randint(1, 2))
        )
        attribute = ' translate="no"' if author.chance(0.1) else ""
        notes = f"<notes><note>{author.words()}</note></notes>" if author.chance(0.3) else ""
        units.append(f'<unit id="u{number}"{attribute}>{notes}{segments}</unit>')
    text = (
        '<?xml version="1.0" encoding="{}"?>\n<xliff version="2.1" srcLang="en" trgLang="de" '
        'xmlns="urn:oasis:names:tc:xliff:document:2.0">\n<file id="f1"><group id="g1">\n'
        + "\n".join(units)
        + "\n</group></file>\n</xliff>\n"
    )
    return _encoded(author, text)


def make_tmx(author: Author) -> bytes:
    units = []
    for _ in author.times(30):
        number = author.number()
        german = f'\n      <tuv xml:lang="de"><seg>{DONE} {number}</seg></tuv>'
        units.append(
            f'    <tu tuid="t{number}" creationdate="20260101T000000Z">\n      <prop type="p">Kit'
            f'</prop>\n      <tuv xml:lang="en">\n        <seg>{_content(author, "t")}</seg>\n'
            f"      </tuv>{german if author.chance(0.2) else ''}\n    </tu>"
        )
    text = (
        '<?xml version="1.0" encoding="{}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
        '<tmx version="1.4">\n  <header srclang="en" segtype="block" adminlang="en" o-tmf="x" '
        'datatype="html" creationtool="kit" creationtoolversion="1"/>\n  <body>\n'
        + "\n".join(units)
        + "\n  </body>\n</tmx>\n"
    )
    return _encoded(author, text)


def _encoded(author: Author, text: str) -> bytes:
    encoding = ("UTF-8", "UTF-8", "ISO-8859-1", "UTF-16")[author.shape % 4]
    text = text.replace("{}", encoding, 1)
    if author.shape % 3 == 0:
        text = text.replace("\n", "\r\n")
    mark = b"\xef\xbb\xbf" if author.shape % 4 == 1 else b""
    return mark + text.encode(encoding, "xmlcharrefreplace")


def _units(root: Any) -> list[tuple[str, Any, list[tuple[str, Any, str]]]]:
    """Return the units: name, element, and its texts: name, source, path of the target."""
    result = []
    for number, unit in enumerate(root.iter("{*}trans-unit", "{*}segment", "{*}tu")):
        name = f"{etree.QName(unit).localname} {number}"
        owner = unit.getparent() if name.startswith("segment") else unit
        segments = unit.findall("{*}seg-source/{*}mrk")
        if owner.get("translate") == "no" or DONE in "".join(unit.itertext()):
            texts = []
        elif segments:
            texts = [
                (f"{name} mrk {mark.get('mid')}", mark, f"{{*}}target/{{*}}mrk[{place}]")
                for place, mark in enumerate(segments, 1)
            ]
        elif name.startswith("tu "):
            texts = [(name, unit.find("{*}tuv/{*}seg"), "{*}tuv[2]/{*}seg")]
        else:
            texts = [(name, unit.find("{*}source"), "{*}target")]
        result.append((name, unit, texts))
    return result


def read_xliff(data: bytes, *, translated: bool) -> Reading:
    reading = Reading()
    root = etree.fromstring(data)
    for name, unit, texts in _units(root):
        for place, source, path in texts:
            target = unit.find(path)
            if translated:
                assert target is not None, place
            block = reading.block(place)
            _read(block, target if translated else source, "")
        if texts:
            for target in [*unit.findall("{*}target"), *unit.findall("{*}tuv")[1:]]:
                unit.remove(target)
        reading.frame.append(name)
    element: Any
    for element in root.iter():
        for attribute in ADDED:
            element.attrib.pop(attribute, None)
        around = [element.text or "", element.tail or ""]
        attributes = sorted(element.attrib.items())
        reading.frame.append(f"{element.tag} {attributes} {[' '.join(t.split()) for t in around]}")
    declared: Any = root.getroottree().docinfo
    reading.frame += [str(declared.encoding), str(declared.doctype), str(b"\r\n" in data)]
    return reading


read_tmx = read_xliff


def _read(block: Block, element: Any, around: str) -> None:
    block.add(around, element.text or "")
    for child in element:
        name = etree.QName(child).localname
        attributes = sorted(child.attrib.items())
        here = f"{around}{INSIDE}{name}{attributes}"
        is_fixed = child.get("translate") == "no" or child.get("mtype") == "protected"
        if name in PAIRS and not is_fixed:
            block.loose[here] += 1
            _read(block, child, here)
        else:
            block.loose[f"{around}{INSIDE}{name}{attributes}{''.join(child.itertext())}"] += 1
        block.add(around, child.tail or "")
