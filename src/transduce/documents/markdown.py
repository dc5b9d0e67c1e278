"""Markdown: headings, paragraphs, lists, quotes and cells are translated; all else stays.

markdown-it says in which lines a block is and what its inline elements are.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from markdown_it import MarkdownIt

from transduce.documents.base import Document, DocumentOptions, Unit
from transduce.documents.markdown_inline import images_of, make_parser, pieces_of, write
from transduce.documents.textfile import (
    BYTE_ORDER_MARK,
    TextDocument,
    decode,
    line_end,
    renumber,
    target_of,
    trim,
)
from transduce.errors import BadInput
from transduce.markup import Inline, Tag, has_words, inline_text
from transduce.system.formatting import pluralize

FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?s:.*?)^\1[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
# Marks at the beginning of a block that are text for CommonMark: footnotes, tasks, alerts.
MARKS = re.compile(r"\[\^[^\]\s]{1,100}\]:\s*|\[[ xX]\]\s+|\[![A-Za-z]+\]\s*")
# Lines of extensions, which are lines of a paragraph for CommonMark: containers, admonitions,
# templates, and the definition of a term. What follows a definition's mark is text.
LINE_MARK = re.compile(
    r":{3,}.*|(?:!!!|\?\?\?\+?)[ \t].*|\{%.*%\}[ \t]*$|\{\{[<%].*[>%]\}\}[ \t]*$|\{:.*\}[ \t]*$|"
    r"\[TOC\][ \t]*$|(?P<definition>:[ \t]+)"
)
ATTRIBUTES = re.compile(r"(?<=\S)[ \t]+\{[#.:][^{}\n]*\}[ \t]*\Z")  # of a heading
FORMULA = re.compile(r"\$\$(?!.*\$\$[ \t]*\S)")
LONGEST = 20_000  # characters of a block; markdown-it takes quadratic time for some
Place = Callable[[int], int]  # from a position in a block's content to that in the file


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read a Markdown text; soft line breaks inside a block become spaces."""
    text = decode(data)
    document = TextDocument(text=text, marked=data.startswith(BYTE_ORDER_MARK))
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    if front:
        document.left_alone.append("the front matter")
    lines = [
        (start + match.start(), match[1])
        for match in re.finditer(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)", text[start:])
    ]
    parser = make_parser()
    env: dict[str, Any] = {}
    try:
        blocks = parser.parse(text[start:], env)
    except RecursionError:
        raise BadInput("its elements are nested too deeply") from None
    offset = text.count("\n", 0, start)
    end_of_line = line_end(text)
    kinds, lost, long = "", 0, 0
    row, cursor = -1, 0
    for block in blocks:
        if block.type != "inline":
            # The text of a heading that is underlined is read like that of a paragraph.
            kinds = "paragraph" if block.markup in ("=", "-") else block.type
            continue
        if not block.map or not block.content.strip():
            continue
        if len(block.content) > LONGEST:
            long += 1
            continue
        if kinds in ("th_open", "td_open"):
            cursor = cursor if block.map[0] == row else 0
            row = block.map[0]
            place, cursor = _cell(lines[row], block.content, cursor)
        else:
            place = _place(lines, block.map[0], block.content)
        if place is None:
            lost += 1
            continue
        where = f"line {offset + block.map[0] + 1:,}"
        block_of = _Block(document, parser, env, kinds.removesuffix("_open"), end_of_line, where)
        for begin, end in _texts(block.content, kinds):
            number = block.map[0] + block.content.count("\n", 0, begin)
            block_of.add(block.content[begin:end], _shifted(place, begin), lines, number)
    _describe(document, blocks, lost, long)
    return document


def _texts(content: str, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a block that are text: all of it, unless extensions divide it."""
    if kind != "paragraph_open":
        attributes = ATTRIBUTES.search(content)
        yield 0, attributes.start() if attributes else len(content)
        return
    begin, position, in_formula = 0, 0, False
    for line in re.findall(r"[^\n]*\n|[^\n]+", content):
        mark = LINE_MARK.match(line)
        is_formula = FORMULA.match(line) is not None
        if mark or is_formula or in_formula:
            if content[begin:position].strip():
                yield begin, position - 1
            definition = mark is not None and not in_formula and mark["definition"]
            begin = position + (len(definition) if definition else len(line))
            begin += len(content[begin:]) - len(content[begin:].lstrip(" \t"))
        if in_formula or is_formula:
            in_formula ^= line.count("$$") % 2 == 1
        position += len(line)
    if content[begin:].strip():
        yield begin, len(content)


def _shifted(place: Place, by: int) -> Place:
    return lambda position: place(position + by)


def _describe(document: Document, blocks: list[Any], lost: int, long: int) -> None:
    html = sum(block.type == "html_block" for block in blocks)
    if html:
        document.left_alone.append(pluralize(html, "HTML block"))
    if lost:
        document.left_alone.append(pluralize(lost, "block") + " with unusual white space")
    if long:
        document.left_alone.append(
            f"{pluralize(long, 'block')} of more than {LONGEST:,} characters"
        )


def _place(lines: list[tuple[int, str]], first: int, content: str) -> Place | None:
    """Return where the lines of a block are: each is the end of a line of the file."""
    begins = []
    for number, part in enumerate(content.split("\n"), first):
        begin, line = lines[number] if number < len(lines) else (0, "")
        column = line.rfind(part.rstrip(" \t"))
        if column < 0 or len(line[column:].rstrip(" \t#")) > len(part):
            return None
        begins.append(begin + column)

    def place(position: int) -> int:
        before = content[:position]
        return begins[before.count("\n")] + position - (before.rfind("\n") + 1)

    return place


def _cell(line: tuple[int, str], content: str, cursor: int) -> tuple[Place | None, int]:
    """Return where the content of a table's cell is, and where it ends in the line."""
    begin, text = line
    raw = content.replace("|", "\\|")
    column = text.find(raw, cursor)
    if column < 0:
        return None, cursor

    def place(position: int) -> int:
        return begin + column + position + content.count("|", 0, position)

    return place, column + len(raw)


class _Block:
    """A block of a document, which is added as one unit and those of its images."""

    def __init__(
        self,
        document: TextDocument,
        parser: MarkdownIt,
        env: dict[str, Any],
        kind: str,
        end_of_line: str,
        where: str,
    ) -> None:
        self.document, self.parser, self.env = document, parser, env
        self.kind, self.end_of_line, self.where = kind, end_of_line, where

    def add(self, content: str, place: Place, lines: list[tuple[int, str]], first: int) -> None:
        """Add the block, whose content is in these lines of the file."""
        mark = MARKS.match(content)
        skipped = mark.end() if mark else 0
        start, end = place(skipped), place(len(content))
        inline = pieces_of(content[skipped:], self.parser, self.env, self.where)
        before, core, after = trim(inline)
        core = renumber(core)
        units = images_of(inline)
        unit = Unit(core, self.where)
        if has_words(inline_text(core)):
            units = [unit, *units]
        if not units:
            return
        # What comes before the text in the second line, such as "> ", comes before further lines.
        prefix = ""
        if "\n" in content:
            second = place(content.index("\n") + 1)
            prefix = self.document.text[lines[first + 1][0] : second]
        end_of_line = self.end_of_line + prefix

        def render() -> str:
            target = (*before, *target_of(unit), *after)
            raw = write(target, self._is_right).strip()
            raw = raw or content[skipped:]
            raw = raw.replace("|", "\\|") if self.kind in ("th", "td") else self._safe(raw)
            return raw.replace("\n", end_of_line)

        self.document.add(start, end, units, render)

    def _is_right(self, raw: str, target: Inline) -> bool:
        """Return whether Markdown has the text and the tags of a translation."""
        found = pieces_of(raw, self.parser, self.env, "")
        return list(_outline(found)) == list(_outline(target))

    def _safe(self, raw: str) -> str:
        """Escape the beginning if it would be a list, a heading, or another block."""
        if self._is_one_block(raw):
            return raw
        safe = re.sub(r"\A(\s*)(?:(\d+)([.)])|([^\w\s]))", _escaped, raw)
        return safe if self._is_one_block(safe) else re.sub(r"#(?=\s*\Z)", r"\\#", safe)

    def _is_one_block(self, raw: str) -> bool:
        begin = "# " if self.kind == "heading" else ""
        kind = self.kind if self.kind == "heading" and "\n" not in raw else "paragraph"
        env = {"references": dict(self.env.get("references", {}))}
        tokens = self.parser.parse((begin if kind == "heading" else "") + raw, env)
        types = [token.type for token in tokens]
        expected = [f"{kind}_open", "inline", f"{kind}_close"]
        return types == expected and tokens[1].content == raw.strip()


def _escaped(match: re.Match[str]) -> str:
    if match[2]:
        return f"{match[1]}{match[2]}\\{match[3]}"
    return f"{match[1]}\\{match[4]}"


def _outline(content: Inline) -> Iterator[str]:
    """Yield texts and kinds of tags, without white space next to tags."""
    text = ""
    for part in content:
        if isinstance(part, Tag):
            if text.strip():
                yield " ".join(text.split())
            yield f"\0{part.kind}"
            text = ""
        else:
            text += part
    if text.strip():
        yield " ".join(text.split())
