"""Web pages and Markdown texts, and their readers: html5lib and markdown-it."""

import html
import re
from collections.abc import Callable
from typing import Any

import html5lib
from markdown_it import MarkdownIt

from document_corpus.author import SPANS, Author, names
from document_corpus.reading import INSIDE, Block, Reading

# Others are code, tags or escapes in Markdown itself.
MARKDOWN = tuple(kind for kind in SPANS if kind not in ("code", "tag"))
INLINE = names(
    "a abbr b big button cite del dfn em font i img input ins label mark q s small span strong sub "
    "sup u x-mark br wbr"
)
FIXED = frozenset(
    ["code", "kbd", "math", "pre", "samp", "script", "style", "svg", "textarea", "var", "iframe"]
)
SEEN = ("alt", "title", "placeholder", "aria-label")
FRONT_MATTER = re.compile(r"---\n.*?\n---\n", re.DOTALL)


class Page:
    """A web page while it is written."""

    def __init__(self, author: Author) -> None:
        self.author = author

    def text(self, depth: int = 0) -> str:
        """Return inline content, nested up to two elements."""
        author = self.author
        parts = [html.escape(author.text(2, 7), quote=False)]
        for _ in range(author.draw.randint(0, 2)):
            parts += [self.element(depth), html.escape(author.text(1, 4, 0.3), quote=False)]
        return author.draw.choice((" ", "\n      ")).join(parts) + author.draw.choice((".", "!"))

    def element(self, depth: int) -> str:
        author, number = self.author, self.author.number()
        inside = self.text(depth + 1) if depth < 2 else html.escape(author.words())
        text = html.escape(author.text(1, 2, 0.2))
        link = f'<a href="/p{number}?a=1&amp;b=2" title="{text}">{author.words()}</a>'
        return author.draw.choice(
            (
                *(f"<b>{inside}</b>", f"<em class='c{number}'>{inside}</em>", f"<i>{inside}</i>"),
                *(link if depth else f'<a href="#s{number}"><b>{text}</b></a>', f"<u>{inside}</u>"),
                *(f"<code>run({number});</code>", f"<kbd>Ctrl+{number}</kbd>", "<br>", "<wbr>"),
                f'<img src="p{number}.png" alt="{text}">',
                f'<span class="notranslate">Acme {number}</span>',
                f"<span translate=no>Kit <b>{number}</b></span>",
                f"<!-- note {number} -->",
                f"<sup>{inside}</sup>" if depth < 2 else "<sub>x</sub>",
                f"<x-mark data-n={number}>{author.words()}</x-mark>",
                f"{author.words()}&nbsp;&ndash; {author.words()} &copy;",
                f"<svg width='9'><title>{author.words()}</title><path d='M0 {number}'/></svg>",
            )
        )

    def block(self) -> str:
        author, number = self.author, self.author.number()
        return author.draw.choice(
            (
                *(self._paragraph, self._paragraph, self._list, self._table, self._form),
                *(self._definitions, self._figure, self._quote),
                lambda: f"<pre>\n  keep {number}   <b>this</b>\n</pre>",
                lambda: f"<div translate='no'><p>Acme {number}</p></div>",
                lambda: f"<script>if (1 < {number}) document.write('<p>text</p>');</script>",
                lambda: f"<h2 id=h{number}>{self.text(1)}</h2>",
                lambda: f"<details><summary>{self.text(1)}</summary><p>{self.text()}</details>",
            )
        )()

    def _paragraph(self) -> str:
        end = self.author.draw.choice(("</p>", "</p>", ""))
        return f"<p>{self.text()}{end}"

    def _list(self) -> str:
        name = self.author.draw.choice(("ul", "ol"))
        end = self.author.draw.choice(("</li>", ""))
        inner = f"<li>{self.text(1)}\n    <ul><li>{self.text(1)}</li></ul></li>"
        items = "".join(f"  <li>{self.text(1)}{end}\n" for _ in range(3))
        return f"<{name}>\n{items}{inner}</{name}>"

    def _table(self) -> str:
        head = "".join(f"<th scope=col>{self.text(2)}</th>" for _ in range(2))
        rows = "".join(f"<tr><td>{self.text(1)}<td>{self.author.number()}" for _ in range(2))
        last = f"<tr><td colspan=2>{self.text(1)}</td></tr>"
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>{rows}{last}</tbody></table>"

    def _form(self) -> str:
        words = self.author.words
        return (
            f"<form action=/send><label>{words()} <input name=q placeholder='{words()}'></label>"
            f'<input type="submit" value="{words()}"><select><option value=1>{words()}<option>'
            f"{words()}</select><textarea>{words()}</textarea></form>"
        )

    def _definitions(self) -> str:
        return f"<dl><dt>{self.text(2)}<dd>{self.text(1)}<dt>{self.text(2)}<dd>{self.text(1)}</dl>"

    def _figure(self) -> str:
        image = f'<img src=x.png alt="{self.author.words()}">'
        return f"<figure>{image}<figcaption>{self.text(1)}</figcaption></figure>"

    def _quote(self) -> str:
        return f"<blockquote><p>{self.text()}</p><p>{self.text()}</p></blockquote>"

    def page(self, charset: str) -> str:
        author = self.author
        body = "\n\n".join(self.block() for _ in author.times(14))
        words = html.escape(author.text(2, 4), quote=True)
        return (
            f'<!DOCTYPE html>\n<html lang="en-US">\n<head>\n  <meta charset="{charset}">\n'
            f"  <title>{html.escape(author.text())}</title>\n"
            f'  <meta name="description" content="{words}">\n'
            "  <style>p > b { color: red }</style>\n"
            f"</head>\n<body class=page>\n<nav><a href=/>{author.words()}</a>\n"
            f"<a href=/b>{author.words()}</a></nav>\n<main>\n{body}\n</main>\n"
            f"<footer><small>&copy; {self.text(2)}</small></footer>\n</body>\n</html>\n"
        )


def make_html(author: Author) -> bytes:
    charsets = (("utf-8", ""), ("utf-8", "\ufeff"), ("windows-1252", ""), ("utf-16", "\ufeff"))
    charset, mark = charsets[author.shape % 4]
    if author.shape % 5 == 4:  # a fragment
        page = Page(author)
        return "\n".join(page.block() for _ in author.times(14)).encode()
    text = mark + Page(author).page(charset)
    if author.shape % 3 == 2:
        text = text.replace("\n", "\r\n")
    encoding = "utf-16-le" if charset == "utf-16" else charset
    return text.encode(encoding, "xmlcharrefreplace")


def read_html(data: bytes, *, translated: bool) -> Reading:
    del translated
    reading = Reading()
    text: str | bytes = data
    if data.startswith(b"\xff\xfe"):
        text = data.decode("utf-16")
    elif b"charset" not in data:
        text = data.decode()
    tree = html5lib.parse(text, treebuilder="etree", namespaceHTMLElements=False)
    for element in tree.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]  # SVG has a namespace
    tree.attrib.pop("lang", None)
    _walk(reading, tree, tree.tag)
    return reading


def _walk(reading: Reading, element: Any, path: str) -> None:
    """Read a block element; each child that is a block ends a text."""
    _add_attributes(reading, element, path)
    if element.tag in FIXED or _is_fixed(element):
        reading.frame.append(_source(element))
        return
    part = 0
    block = reading.block(f"{path} 0")
    _add_text(block, "", element.text)
    for number, child in enumerate(element):
        if _is_inline(child):
            _inline(reading, block, child, "")
        elif not isinstance(child.tag, str):
            block.loose[f"comment {child.text}"] += 1
        else:
            part += 1
            _walk(reading, child, f"{path}/{child.tag}{part}")
            block = reading.block(f"{path} {part}")
        _add_text(block, "", child.tail)
        del number


def _is_inline(element: Any) -> bool:
    is_fixed = element.tag in FIXED and element.tag not in ("pre", "script", "style", "textarea")
    return element.tag in INLINE or is_fixed


def _is_fixed(element: Any) -> bool:
    classes = element.attrib.get("class", "").split()
    return element.attrib.get("translate") == "no" or {"notranslate", "raw"} & {*classes} != set()


def _inline(reading: Reading, block: Block, element: Any, around: str) -> None:
    if not isinstance(element.tag, str):
        block.loose[f"comment {element.text}"] += 1
        return
    if element.tag in FIXED or _is_fixed(element):
        block.loose[_source(element)] += 1
        return
    attributes = sorted((k, v) for k, v in element.attrib.items() if k not in SEEN)
    if element.attrib.get("type") == "submit":
        attributes = [(k, v) for k, v in attributes if k != "value"]
        _add_text(block, "value", element.attrib["value"])
    here = f"{around}{INSIDE}{element.tag}{attributes}"
    block.loose[here] += 1
    for name in SEEN:
        if name in element.attrib:
            _add_text(block, f"{here} {name}", element.attrib[name])
    _add_text(block, here, element.text)
    for child in element:
        _inline(reading, block, child, here)
        _add_text(block, here, child.tail)


def _add_text(block: Block, formatting: str, text: str | None) -> None:
    if text:
        block.add(formatting, text)


def _add_attributes(reading: Reading, element: Any, path: str) -> None:
    attributes = dict(element.attrib)
    if attributes.get("name") == "description":
        reading.block(f"{path} content").add("", attributes.pop("content"))
    reading.frame.append(f"{path} {sorted(attributes.items())}")


def _source(element: Any) -> str:
    attributes = sorted(element.attrib.items())
    inside = "".join(f"{_source(child)}{child.tail or ''}" for child in element)
    return f"<{element.tag} {attributes}>{element.text or ''}{inside}</{element.tag}>"


class Notes:
    """A Markdown text while it is written."""

    def __init__(self, author: Author) -> None:
        self.author = author
        self.references: list[str] = []

    def text(self, *, breaks: bool = True) -> str:
        author = self.author
        parts = [_escaped(author.text(3, 8))]
        for _ in range(author.draw.randint(0, 3)):
            parts += [self.element(), _escaped(author.text(1, 5))]
        joint = "\n" if breaks and author.chance(0.3) else " "
        return joint.join(parts) + author.draw.choice((".", "!", ""))

    def element(self) -> str:
        author, number = self.author, self.author.number()
        words = author.words(1, 3)
        address, note = f"https://example.com/{number}", f"[^n{number}]"
        author.spans |= {address, note}
        if author.chance(0.2):
            self.references.append(f'[r{number}]: {address} "The {number}"')
            return f"[{words}][r{number}]"
        return author.draw.choice(
            (
                *(f"**{words}**", f"*{words}*", f"_{words}_", f"***{words}***", f"~~{words}~~"),
                *(f"[{words}]({address})", f"`code {number}`"),
                f'[**{words}** {author.words(1, 2)}](/p{number} "t{number}")',
                *(f"![{words}](p{number}.png)", f"<{address}>"),
                *(f"**{words} *{author.words(1, 2)}***", f"<span class='x{number}'>{words}</span>"),
                *(f"{words}{note}", f"{words} \\* {words}", f"{words} &amp; {words}"),
            )
        )

    def block(self) -> str:
        author, number = self.author, self.author.number()

        def line() -> str:
            return self.text(breaks=False)

        choices: tuple[Callable[[], str], ...] = (
            *(self.text, self.text, self.text),
            lambda: f"## {line()}",
            lambda: f"{author.words()}\n{'-' * 9}",
            lambda: f"- {line()}\n- {line()}\n  - {line()}\n    1. {line()}\n- [ ] {line()}",
            lambda: f"1. {line()}\n\n   {line()}\n2. {line()}",
            lambda: f"> {line()}\n> {line()}\n>\n> - {line()}",
            lambda: f"| {line()} | {author.words()} |\n|:--|--:|\n| {line()} | {number} |",
            lambda: f"```python\nprint({number})  # keep\n\n```",
            lambda: f"    indented({number})",
            lambda: f'<div class="raw">\n<b>kept {number}</b>\n</div>',
            lambda: f"{self.text()}  \n{self.text()}\\\n{self.text()}",
            lambda: "***",
        )
        return author.draw.choice(choices)()


def _escaped(text: str) -> str:
    return re.sub(r"[`*_<]", r"\\\g<0>", text.replace("\\", "\\\\"))


def make_markdown(author: Author) -> bytes:
    notes = Notes(author)
    blocks = [f"# {author.words()}", *(notes.block() for _ in author.times(16))]
    text = "\n\n".join([*blocks, *notes.references]) + "\n"
    if author.shape % 3 == 0:
        text = f"---\ntitle: Kept\ntags: [a, b{author.number()}]\n---\n\n{text}"
    mark = "\ufeff" if author.shape % 5 == 0 else ""
    return (mark + (text.replace("\n", "\r\n") if author.shape % 4 == 0 else text)).encode()


def read_markdown(data: bytes, *, translated: bool) -> Reading:
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    front = FRONT_MATTER.match(text)
    page = (
        MarkdownIt("commonmark")
        .enable(["table", "strikethrough"])
        .render(text[front.end() :] if front else text)
    )
    page = page.replace(' title="', ' data-title="')  # titles of links stay as they are
    reading = read_html(page.encode("utf-16"), translated=translated)
    for block in reading.blocks.values():
        block.loose.pop(f"{INSIDE}br[]", None)  # one at the end of a paragraph cannot be written
    reading.droppable = frozenset(("em[]", "strong[]", "s[]", "br[]"))
    line_ends = {data.count(b"\r\n") == data.count(b"\n"), data.count(b"\r\n") > 0}
    references = re.findall(r"^\[r\d+\]: .*$", text, re.MULTILINE)
    reading.frame += [front[0] if front else "", str(line_ends), *references]
    reading.frame.append(str(data.startswith(b"\xef\xbb\xbf")))
    return reading
