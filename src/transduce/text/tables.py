"""Pairs of sentences from two columns of a CSV or TSV file, chosen by the names in its first row.

A cell with several lines becomes one line.
"""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from transduce.errors import BadInput, did_you_mean
from transduce.text.languages import UNKNOWN, language_code
from transduce.text.memories import tidy

if TYPE_CHECKING:
    import _csv

Pair = tuple[str, str]

DELIMITERS = ",;\t|"
SAMPLE = 50  # rows from which the delimiter is found
SHOWN = 20  # columns listed in an error
MAX_CELL = 1 << 24  # characters
CODE = re.compile(r"[a-z]{2,3}([-_][a-z]{2,4})?")
# Names of the two columns in files of many tools.
SIDES = (
    ("source", "src", "original", "source_text", "source text", "sentence1"),
    ("target", "tgt", "trg", "translation", "target_text", "target text", "sentence2"),
)


def find_delimiter(text: str) -> str:
    """Return the delimiter: that which gives most rows of the same length, of at least 2 cells."""
    declared = re.match(r"sep=(.)\r?\n", text)  # Excel's
    if declared:
        return declared[1]
    sample = text[: 1 << 20]

    def quality(delimiter: str) -> tuple[float, int]:
        try:
            reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
            lengths = [len(row) for row in itertools.islice(reader, SAMPLE) if row]
        except csv.Error:
            return 0, 0
        most = max(set(lengths), key=lambda length: (lengths.count(length), length), default=0)
        return (lengths.count(most) / len(lengths), most) if most > 1 else (0, 0)

    best = max(DELIMITERS, key=quality)
    return best if quality(best) > (0, 0) else "\t"


def csv_pairs(
    lines: Iterable[str], name: str, languages: Pair | None, columns: Pair | None
) -> Iterator[Pair]:
    """Yield the pairs of a CSV file, whose delimiter is found in its first rows."""
    rows = _csv_rows(lines)
    try:
        yield from _pairs(filter(None, rows), name, languages, columns)
    except csv.Error as error:
        raise BadInput(
            f"{name}, line {rows.line_num:,} cannot be read ({error}): expected CSV"
        ) from None


def csv_languages(lines: Iterable[str]) -> Pair | None:
    """Return the languages of a CSV file with two columns that are named by codes, such as en."""
    try:
        first = next(filter(None, _csv_rows(lines)), [])
    except csv.Error:
        return None  # reading the file will report the reason
    names = [cell.strip().lower() for cell in first]
    codes = [language_code(name) for name in names if CODE.fullmatch(name)]
    different = len(names) == len(codes) == len({*codes}) == 2
    return (codes[0], codes[1]) if different else None


def _csv_rows(lines: Iterable[str]) -> "_csv.Reader":
    lines = (f"{line}\n" for line in lines)
    head = list(itertools.islice(lines, SAMPLE))
    delimiter = find_delimiter("".join(head))
    if head and re.match(r"sep=.\r?\n", head[0]):
        del head[0]
    csv.field_size_limit(MAX_CELL)
    return csv.reader(itertools.chain(head, lines), delimiter=delimiter)


def tsv_pairs(
    lines: Iterable[str], name: str, languages: Pair | None, columns: Pair | None
) -> Iterator[Pair]:
    """Yield the pairs of a TSV file with named columns; quotation marks have no meaning."""
    yield from _pairs((line.split("\t") for line in lines), name, languages, columns)


def _pairs(
    rows: Iterable[Sequence[str]], name: str, languages: Pair | None, columns: Pair | None
) -> Iterator[Pair]:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        raise BadInput(f"{name} is empty: expected a table with two columns of text")
    (source, target), has_header = choose_columns(first, name, languages, columns)
    number = 0
    body = rows if has_header else itertools.chain([first], rows)
    for number, row in enumerate(body, start=1 + has_header):
        if max(source, target) >= len(row):
            raise BadInput(
                f"{name}, row {number:,} has {len(row)} columns: expected {len(first)}, as in "
                "the first row"
            )
        yield tidy(row[source]), tidy(row[target])
    if not number:
        raise BadInput(f"{name} has no rows after the names of its columns: expected text")


def choose_columns(
    first: Sequence[str], name: str, languages: Pair | None, columns: Pair | None
) -> tuple[tuple[int, int], bool]:
    """Return the columns of source and target, and whether the first row has their names."""
    names = [cell.strip() for cell in first]
    if columns is not None:
        return _columns_named(names, name, columns)
    lowered = [cell.lower() for cell in names]
    if languages is not None:
        codes = [language_code(cell) if CODE.fullmatch(cell) else "" for cell in lowered]
        wanted = [language_code(language) for language in languages]
        if wanted[0] != wanted[1] and all(codes.count(code) == 1 for code in wanted):
            return (codes.index(wanted[0]), codes.index(wanted[1])), True
    found = [[index for index, cell in enumerate(lowered) if cell in side] for side in SIDES]
    if all(len(indices) == 1 for indices in found):
        return (found[0][0], found[1][0]), True
    if len(names) == 2:
        has_codes = all(map(CODE.fullmatch, lowered))
        if has_codes and languages is not None and UNKNOWN[0] not in languages:
            raise BadInput(
                f"{name} has the columns {' and '.join(names)}: expected {' and '.join(languages)}"
            )
        return (0, 1), has_codes
    raise BadInput(
        f"{name} has {len(names)} columns ({_listed(names)}): expected two, or names such as "
        "source and target, or the codes of --languages, in the first row"
    )


def _columns_named(names: Sequence[str], name: str, columns: Pair) -> tuple[tuple[int, int], bool]:
    """Return the columns with these names, or these numbers if no column has the names."""
    if all(column in names for column in columns):
        return (names.index(columns[0]), names.index(columns[1])), True
    if all(column.isascii() and column.isdigit() and len(column) < 6 for column in columns):
        source, target = (int(column) - 1 for column in columns)
        if min(source, target) >= 0 and max(source, target) < len(names):
            return (source, target), False
    missing = next((column for column in columns if column not in names), columns[0])
    raise BadInput(
        f"{name} has no column {missing!r}, but these: {_listed(names)}."
        + did_you_mean(missing, names)
    )


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(f"{number} {name[:30]!r}" for number, name in enumerate(names[:SHOWN], 1))
    return listed + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
