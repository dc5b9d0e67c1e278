"""CSV and TSV: the cells of chosen columns are translated in place."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.documents.base import Document, DocumentOptions
from transduce.documents.textfile import BYTE_ORDER_MARK, TextDocument, decode, line_units
from transduce.errors import BadInput, did_you_mean
from transduce.text.tables import find_delimiter

SHOWN = 20  # columns listed in a question


class Cell(NamedTuple):
    """Where a cell is in the text, with its quotation marks, and its content."""

    start: int
    end: int
    quoted: bool
    text: str


def read(data: bytes, options: DocumentOptions) -> Document:
    """Read a table. With names as columns, its first row is the header."""
    text = decode(data)
    document = TextDocument(text=text, marked=data.startswith(BYTE_ORDER_MARK))
    delimiter = find_delimiter(text)
    table = rows(text, delimiter)
    first = next(table, None)
    if first is None:
        raise BadInput("it is empty: expected a table")
    chosen, has_header = _columns([cell.text for cell in first], options.columns)
    for number, row in enumerate(table if has_header else itertools.chain([first], table), 1):
        for index in chosen:
            if index < len(row):
                cell = row[index]
                where = f"row {number:,}, column {index + 1}"
                units, join = line_units(cell.text, where)
                if units:
                    document.add(
                        cell.start, cell.end, units, _rendering(join, delimiter, quoted=cell.quoted)
                    )
    return document


def rows(text: str, delimiter: str) -> Iterator[list[Cell]]:
    """Yield the cells of each row. A quotation mark inside a quoted cell is doubled."""
    mark = re.escape(delimiter)
    cell = re.compile(rf'"(?P<quoted>(?:[^"]+|"")*+)"(?={mark}|[\r\n]|\Z)|[^{mark}\r\n]*')
    position, row = 0, list[Cell]()
    if declared := re.match(r"sep=.\r?\n", text):
        position = declared.end()
    while position < len(text) or row:
        match = cell.match(text, position)
        assert match is not None
        quoted = match["quoted"]
        if quoted is None and match[0].startswith('"') and delimiter != "\t":
            line = text.count("\n", 0, position) + 1
            raise BadInput(
                f"line {line:,} has a quotation mark that is not closed before the end of the "
                "cell: expected a table in which quotation marks inside of cells are doubled"
            )
        content = match[0] if quoted is None else quoted.replace('""', '"')
        row.append(Cell(match.start(), match.end(), quoted is not None, content))
        position = match.end()
        if text.startswith(delimiter, position):
            position += 1
            continue
        yield row
        row = []
        position += 2 if text.startswith("\r\n", position) else 1


def _columns(first: Sequence[str], wanted: Sequence[str]) -> tuple[list[int], bool]:
    """Return which columns to translate, and whether the first row is a header."""
    names = [name.strip() for name in first]
    listed = ", ".join(f"{n} {name[:30]!r}" for n, name in enumerate(names[:SHOWN], 1))
    listed += f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    if not wanted:
        if len(names) == 1:
            return [0], False
        raise BadInput(
            f"it has {len(names)} columns ({listed}): say which to translate, by names in the "
            "first row or by numbers, such as --columns 2"
        )
    if all(name in names for name in wanted):
        return sorted({index for index, name in enumerate(names) if name in wanted}), True
    numbers = [int(name) for name in wanted if name.isascii() and name.isdigit() and len(name) < 6]
    if len(numbers) == len(wanted) and all(1 <= number <= len(names) for number in numbers):
        return sorted({number - 1 for number in numbers}), False
    missing = next(name for name in wanted if name not in names)
    raise BadInput(
        f"it has no column {missing!r}, but these: {listed}.{did_you_mean(missing, names)}"
    )


def _rendering(join: Callable[[], str], delimiter: str, *, quoted: bool) -> Callable[[], str]:
    def render() -> str:
        text = join()
        if delimiter == "\t" and not quoted:  # many TSV files use no quotation marks
            return text.replace("\t", " ")
        if quoted or any(mark in text for mark in (delimiter, '"', "\n", "\r")):
            text = '"' + text.replace('"', '""') + '"'
        return text

    return render
