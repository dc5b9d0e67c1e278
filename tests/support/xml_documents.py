"""Documents to translate, translations of them that keep the tags, and damaged copies."""

import contextlib
import io
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import docx
import pytest
from docx.document import Document as WordDocument
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn

from transduce.documents import Document, DocumentOptions
from transduce.errors import BadInput
from transduce.markup import Inline, Tag

OPTIONS = DocumentOptions(languages=("en", "de"))
Reader = Callable[[bytes, DocumentOptions], Document]

HTML = b"""<!DOCTYPE html>
<html lang="en-US">
<head>
  <meta charset="utf-8">
  <title>Prices &amp; terms</title>
  <meta name="description" content="What it costs">
  <style>p > b { color: red }</style>
  <script>if (1 < 2) document.write("<p>text</p>");</script>
</head>
<body class="page">
  <!-- navigation -->
  <h1>  Prices   for
    <em>all</em> plans </h1>
  <p>Pay <b>10&nbsp;euros <i>a month</i></b> with <code>pay --now</code>,<br>
     or <a href="/contact?a=1&amp;b=2" title="Write to us">contact us</a>.</p>
  <ul><li>One user<li>Ten <span class="notranslate">Acme</span> users</ul>
  <table><tr><td>A &lt; B<td>C</table>
  <pre>  keep   this </pre>
  <p translate="no">Acme GmbH</p>
  <form><label>Name <input placeholder="Your name"></label><input type="submit" value="Send"></form>
  <img src="a.png" alt="A graph">
</body>
</html>
"""

XLIFF_1 = b"""<?xml version="1.0" encoding="UTF-8"?>
<!-- made by a tool -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:x="urn:tool">
  <file original="a.html" source-language="en-US" datatype="html">
    <?tool keep?>
    <body>
      <trans-unit id="1" x:note="n">
        <source> Press <g id="1" x:k="v">the <x id="2"/> key</g>
          <bpt id="3">&lt;b></bpt>now<ept id="3">&lt;/b></ept>. </source>
      </trans-unit>
      <trans-unit id="2">
        <source>One. Two.</source>
        <seg-source><mrk mtype="seg" mid="a">One.</mrk>
          <mrk mtype="seg" mid="b">Two.</mrk></seg-source>
        <alt-trans><target>Old</target></alt-trans>
      </trans-unit>
      <group translate="no"><trans-unit id="3"><source>Acme</source></trans-unit></group>
      <trans-unit id="4"><source>Done</source><target>Fertig</target></trans-unit>
      <trans-unit id="5" approved="yes"><source>Approved</source><target/></trans-unit>
      <trans-unit id="6"><source>Copied</source><target state="new">Copied</target></trans-unit>
      <trans-unit id="7"><source>Said so</source><target state="translated"></target></trans-unit>
      <trans-unit id="8"><source><![CDATA[A <b> tag]]></source><note>CDATA</note></trans-unit>
    </body>
  </file>
</xliff>
"""

XLIFF_2 = b"""<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en">
  <file id="f1">
    <unit id="u1">
      <originalData><data id="d1">&lt;br/></data></originalData>
      <segment id="s1">
        <source>Click <pc id="1">the <ph id="2" dataRef="d1"/> button</pc>
          <sc id="3"/>now<ec startRef="3"/><cp hex="0001"/></source>
      </segment>
      <ignorable><source> </source></ignorable>
      <segment id="s2" state="initial">
        <source>The <mrk id="m1" translate="no">Acme</mrk>
          <mrk id="m2" type="term">press</mrk>.</source>
        <target></target>
      </segment>
    </unit>
    <unit id="u2" translate="no"><segment><source>Acme</source></segment></unit>
    <unit id="u3"><segment state="final"><source>End</source><target>Ende</target></segment></unit>
    <unit id="u4"><segment><source>Open</source><target>Offen</target></segment></unit>
  </file>
</xliff>
"""

TMX = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header srclang="en-US" segtype="sentence" adminlang="en"
    o-tmf="x" datatype="html" creationtool="t" creationtoolversion="1"/>
  <body>
    <tu tuid="a">
      <tuv xml:lang="en-GB"><seg>Colour</seg></tuv>
      <tuv xml:lang="en-US"><seg>The
        <bpt i="1">&lt;b></bpt>new <hi>color</hi><ept i="1">&lt;/b></ept>
        <ph x="1">{0}</ph></seg></tuv>
    </tu>
    <tu tuid="b">
      <tuv xml:lang="EN"><seg>Yes</seg></tuv>
      <tuv xml:lang="de-DE"><seg>Ja</seg></tuv>
    </tu>
    <tu tuid="c"><tuv xml:lang="fr"><seg>Oui</seg></tuv></tu>
  </body>
</tmx>
"""


def word_document() -> WordDocument:
    """Return a document with formatting, a table, a header and a hyperlink."""
    document = docx.Document()
    document.core_properties.title = "The report"
    document.add_heading("Sales of the year", 1)
    paragraph = document.add_paragraph("We sold ")
    paragraph.add_run("many").bold = True
    paragraph.add_run(" books, ")
    paragraph.add_run("more ")
    paragraph.add_run("than ever\tbefore").italic = True
    paragraph.add_run(".")
    link = parse_xml(
        f'<w:hyperlink {nsdecls("w")} w:anchor="x"><w:r><w:rPr><w:color w:val="0000FF"/></w:rPr>'
        "<w:t>See below</w:t></w:r></w:hyperlink>"
    )
    other = document.add_paragraph("Details: ")
    other._p.append(link)
    other.add_run(".")
    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "Year", "Books & maps"
    document.sections[0].header.paragraphs[0].text = "Confidential"
    document.sections[0].footer.paragraphs[0].text = "Page"
    return document


def word_bytes(document: WordDocument) -> bytes:
    """Return the file of a document."""
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def word_paragraph(*children: str) -> bytes:
    """Return a document whose only paragraph has this content of WordprocessingML."""
    document = docx.Document()
    content = parse_xml(f"<w:p {nsdecls('w', 'r')}>{''.join(children)}</w:p>")
    document.add_paragraph()._p.extend(list(content))
    return word_bytes(document)


def run(text: str, properties: str = "") -> str:
    """Return a run of WordprocessingML."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def word_text(data: bytes) -> list[str]:
    """Return the text of all paragraphs that python-docx finds in the body, and in the header."""
    document = docx.Document(io.BytesIO(data))
    cells = [cell for table in document.tables for row in table.rows for cell in row.cells]
    paragraphs = [*document.paragraphs, *(p for cell in cells for p in cell.paragraphs)]
    for section in document.sections:
        paragraphs += [*section.header.paragraphs, *section.footer.paragraphs]
    return [paragraph.text for paragraph in paragraphs]


def with_part(data: bytes, name: str, content: bytes) -> bytes:
    """Return an archive with a part replaced or added."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for member in old.namelist():
            if member != name:
                new.writestr(member, old.read(member))
        new.writestr(name, content)
    return result.getvalue()


def part(data: bytes, name: str) -> bytes:
    """Return a part of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


def word_runs(data: bytes) -> list[tuple[str, bool, bool]]:
    """Return text, bold and italic of all runs."""
    paragraphs = docx.Document(io.BytesIO(data)).paragraphs
    runs = [run for paragraph in paragraphs for run in paragraph.runs]
    return [(run.text, bool(run.bold), bool(run.italic)) for run in runs]


def word_names(data: bytes) -> list[str]:
    """Return the names of all elements of the text, in order."""
    body = docx.Document(io.BytesIO(data)).element
    return [str(element.tag).rpartition("}")[2] for element in body.iter() if element is not None]


def word_elements(data: bytes, name: str) -> list[Any]:
    """Return the elements of the text with a name such as w:ins."""
    return list(docx.Document(io.BytesIO(data)).element.iter(qn(name)))


def mapped(content: Inline, change: Callable[[str], str]) -> Inline:
    """Return content with changed text and the same tags."""
    return tuple(change(part) if isinstance(part, str) else part for part in content)


def translate(read: Reader, data: bytes, change: Callable[[str], str] = str.upper) -> bytes:
    """Return a document with the text of all units changed."""
    document = read(data, OPTIONS)
    for unit in document.units:
        unit.target = mapped(unit.source, change)
    return document.to_bytes()


def shown(content: Inline) -> str:
    """Return content with tags as <1>, </1> and <1/>."""
    forms = {"open": "<{}>", "close": "</{}>", "single": "<{}/>"}
    return "".join(p if isinstance(p, str) else forms[p.kind].format(p.key) for p in content)


def sources(read: Reader, data: bytes, options: DocumentOptions = OPTIONS) -> list[str]:
    """Return the units of a document, with tags as <1>, </1> and <1/>."""
    return [shown(unit.source) for unit in read(data, options).units]


def shuffled(content: Inline, rng: random.Random) -> Inline:
    """Return the words and tags in another order, properly nested."""
    parts = list(_trees(iter(content)))
    rng.shuffle(parts)
    result: list[str | Tag] = []
    for item in parts:
        if isinstance(item, tuple):
            opened, inside, closed = item
            result += [opened, *shuffled(inside, rng), closed]
        else:
            result.append(item)
    return tuple(result)


def _trees(parts: Iterator[str | Tag]) -> Iterator[str | Tag | tuple[Tag, Inline, Tag]]:
    for item in parts:
        if isinstance(item, str):
            yield from (f"{word} " for word in item.split())
        elif item.kind == "single":
            yield item
        else:
            inside: list[str | Tag] = []
            for inner in parts:
                if isinstance(inner, Tag) and inner.kind == "close" and inner.key == item.key:
                    yield item, tuple(inside), inner
                    break
                inside.append(inner)


def assert_survives_damage(read: Reader, data: bytes, count: int = 100) -> None:
    """Damaged copies must be refused or read, in bounded time; nothing else may be raised."""
    rng = random.Random(7)
    for _ in range(count):
        damaged = _damaged(data, rng)
        start = time.perf_counter()
        with contextlib.suppress(BadInput):
            translate(read, damaged)
        assert time.perf_counter() - start < 5


def _damaged(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + bytes([data[start] ^ (1 << rng.randrange(8))]) + data[start + 1 :]
        case 2:
            return data[:start] + data[start + rng.randrange(40) :]
        case _:
            tags = [index for index, byte in enumerate(data) if byte == ord("<")] or [0]
            tag = rng.choice(tags)
            return data[:tag] + data[data.find(b">", tag) + 1 :]


def assert_refused(read: Reader, data: bytes, match: str) -> None:
    """A document must be refused with a message."""
    with pytest.raises(BadInput, match=match):
        read(data, OPTIONS)
