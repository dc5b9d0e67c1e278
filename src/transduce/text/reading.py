"""Lines and pairs of lines from plain, compressed and TSV files and from standard input.

Only a line feed ends a line, so that all tools agree on line numbers. Text that is not valid UTF-8
is refused with its file and line. Documents in other formats are refused, except with `as_text`;
pairs are read from TMX, XLIFF and CSV too.
"""

import contextlib
import io
import itertools
import select
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import BinaryIO, NoReturn, cast

from transduce.errors import BadInput, UnsupportedFormat
from transduce.system.formatting import pluralize
from transduce.text import unsupported
from transduce.text.compression import COMPRESSIONS, decompress
from transduce.text.languages import UNKNOWN, guess_languages

STDIN = "-"
BLOCK = 1 << 16  # bytes read at once
MAX_LINE_BYTES = 1 << 24  # longer lines are not sentences, and memory must stay bounded
SHORT_WAIT = 0.005  # seconds
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: str | Path, *, as_text: bool = False, raw: bool = False) -> Iterator[str]:
    r"""Yield the lines of a text file, or of standard input if `path` is "-".

    Compression is detected from the first bytes, so it also works in a pipe. Lines end with \n; a
    \r before it, a byte-order mark at the start and a missing last \n are ignored. For `raw`, see
    `read_pairs`.
    """
    with _open(path) as stream:
        blocks = _text(path, stream, as_text=as_text)
        for lines in _split_lines(blocks, display_name(path), raw=raw):
            yield from lines


class LineReader(Iterator[str]):
    """Like `read_lines`, but can tell whether another line is available without waiting.

    So typed lines can be answered one by one, and piped lines in batches.
    """

    def __init__(self, path: str | Path, *, as_text: bool = False) -> None:
        self._lines: deque[str] = deque()
        self._stream: BinaryIO | None = None  # opened when the first line is read
        self._blocks = self._read(path, as_text=as_text)

    def __next__(self) -> str:
        while not self._lines:
            self._lines.extend(next(self._blocks))
        return self._lines.popleft()

    def ready(self) -> bool:
        """Return whether another line can be read without waiting."""
        while not self._lines:
            if self._stream is not None and not _readable(self._stream):
                return False
            lines = next(self._blocks, None)
            if lines is None:
                return False
            self._lines.extend(lines)
        return True

    def _read(self, path: str | Path, *, as_text: bool) -> Iterator[list[str]]:
        with _open(path) as self._stream:
            yield from _split_lines(_text(path, self._stream, as_text=as_text), display_name(path))


def read_pairs(
    source: str | Path,
    target: str | Path | None,
    *,
    as_text: bool = False,
    languages: tuple[str, str] | None = None,
    columns: tuple[str, str] | None = None,
    raw: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines from two files, or from one TSV, CSV, TMX or XLIFF if `target` is None.

    `languages` chooses the texts of a TMX or XLIFF file and the columns of a table, by default
    those of the file's name. `columns` names the columns of a table, or numbers them from 1. With
    `raw`, lines are returned as they are: damaged UTF-8 becomes lone surrogates
    (`surrogateescape`), and a carriage return before the line end stays.
    """
    if target is None:
        if languages is None or languages == UNKNOWN:
            guessed = guess_languages(source, None)
            languages = None if guessed == UNKNOWN else guessed
        return _pairs_of_one(source, as_text=as_text, languages=languages, columns=columns, raw=raw)
    if str(source) == str(target) == STDIN:
        raise BadInput(
            "source and target cannot both be standard input: "
            "give one file of each, or one TSV on standard input"
        )
    return _pairs_of_two(source, target, as_text=as_text, raw=raw)


def find_languages(
    source: str | Path, target: str | Path | None, given: str | None = None
) -> tuple[str, str]:
    """Return the languages as `guess_languages` does, else those in a TMX, XLIFF or CSV."""
    guessed = guess_languages(source, target, given)
    if guessed != UNKNOWN or target is not None or not Path(source).is_file():
        return guessed
    from transduce.text import memories, tables

    with _open(source) as stream:
        blocks = _decompressed(source, stream)
        head = next(blocks, b"")
        kind = format_of(source, head)
        if kind is not None and kind.document == "csv":
            lines = _split_lines(itertools.chain([head], blocks), display_name(source), raw=True)
            return tables.csv_languages(itertools.chain.from_iterable(lines)) or UNKNOWN
        if kind is None or kind.document not in memories.FORMATS:
            return UNKNOWN
        parser = memories.FORMATS[kind.document](display_name(source), None)
        next(parser.pairs(itertools.chain([head], blocks)), None)
        return parser.chosen if parser.chosen and all(parser.chosen) else UNKNOWN


def is_file_argument(argument: str) -> bool:
    """Return whether a command's argument is a file name; otherwise it is text.

    Text contains white space or ends with a punctuation mark. Everything else is a file name, even
    if the file does not exist, so that a mistyped name is never taken for text.
    """
    if argument == STDIN or path_exists(argument):
        return True
    path = Path(argument)
    if len(path.parts) > 1 and path_exists(str(path.parent)):  # a mistyped name may have a space
        return True
    last = argument[-1:]
    mark = last and unicodedata.category(last) in ("Po", "Pe", "Pf") and last not in ")]}/\\*&#%@"
    return not (mark or any(map(str.isspace, argument)))


def path_exists(path: str) -> bool:
    """Return whether a path exists; False if the name is invalid."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def display_name(path: str | Path) -> str:
    """Return the name of a path for use in messages."""
    return "standard input" if str(path) == STDIN else str(path)


def _pairs_of_one(
    path: str | Path,
    *,
    as_text: bool,
    languages: tuple[str, str] | None,
    columns: tuple[str, str] | None,
    raw: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of one file of any format that has both sides."""
    from transduce.text import memories, tables

    name = display_name(path)
    with _open(path) as stream:
        blocks = _decompressed(path, stream)
        head = next(blocks, b"")
        blocks = itertools.chain([head], blocks)
        kind = None if as_text else format_of(path, head)
        if kind is not None and kind.document in memories.FORMATS:
            yield from memories.FORMATS[kind.document](name, languages).pairs(blocks)
            return
        _refuse_utf16(name, head)
        if kind is not None and kind.document != "csv":
            _refuse_format(name, kind)
        lines = itertools.chain.from_iterable(_split_lines(blocks, name, raw=raw))
        if kind is not None:
            yield from tables.csv_pairs(lines, name, languages, columns)
            return
        first = next(lines, None)
        if first is None:
            raise BadInput(f"{name} is empty: expected one pair of sentences per line")
        lines = itertools.chain([first], lines)
        if columns is not None or (not as_text and first.count("\t") > 1):
            yield from tables.tsv_pairs(lines, name, languages, columns)
        else:
            yield from _pairs_of_tsv(lines, name)


def _pairs_of_tsv(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            content = f"{line.count(chr(9)) + 1} columns" if tab else "no tab"
            raise BadInput(
                f"{name}, line {number:,} has {content}: expected two columns, a "
                "sentence and its translation, with one tab between them"
            )
        yield source, target


def _pairs_of_two(
    source: str | Path, target: str | Path, *, as_text: bool, raw: bool
) -> Iterator[tuple[str, str]]:
    sources, targets = (read_lines(path, as_text=as_text, raw=raw) for path in (source, target))
    number = 0
    for number, pair in enumerate(itertools.zip_longest(sources, targets), start=1):
        sentence, translation = pair
        if sentence is None or translation is None:
            complete = number - 1
            source_lines = complete + (sentence is not None) + sum(1 for _ in sources)
            target_lines = complete + (translation is not None) + sum(1 for _ in targets)
            raise BadInput(
                f"{display_name(source)} has {pluralize(source_lines, 'line')} but "
                f"{display_name(target)} has {target_lines:,}: "
                "line n of one must translate line n of the other"
            )
        yield sentence, translation
    if not number:
        raise BadInput(
            f"{display_name(source)} and {display_name(target)} are empty: "
            "expected one sentence per line"
        )


def check_readable(path: str | Path) -> None:
    """Refuse a text that is missing or unreadable; pipes are not opened."""
    if Path(path).is_file() or Path(path).is_dir() or not Path(path).exists():
        with _open(path):
            pass


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file as bytes; standard input stays open afterwards."""
    if str(path) == STDIN:
        yield cast("BinaryIO", sys.stdin.buffer)
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
        except FileNotFoundError:
            raise BadInput(f"{path} does not exist: expected a text file") from None
        except IsADirectoryError:
            raise BadInput(f"{path} is a folder: expected a text file") from None
        except PermissionError:
            raise BadInput(f"{path} may not be read: permission denied") from None
        except (OSError, ValueError) as error:
            raise BadInput(f"{path!s} cannot be opened: {error}") from None
        yield cast("BinaryIO", file)


def _readable(stream: BinaryIO) -> bool:
    """Return whether a stream has bytes to read, or is at its end."""
    try:
        return bool(select.select([stream], [], [], SHORT_WAIT)[0])
    except io.UnsupportedOperation:  # a stream in memory
        return True
    except (OSError, ValueError):  # Windows supports only sockets
        return False


def _blocks(path: str | Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield bytes as they arrive: a typed line must not wait for a whole block."""
    read = cast("Callable[[int], bytes]", stream.read1)  # type: ignore[attr-defined]
    while True:
        try:
            block = read(BLOCK)
        except OSError as error:
            raise BadInput(f"{display_name(path)} cannot be read: {error}") from None
        if not block:
            return
        yield block


def _text(path: str | Path, stream: BinaryIO, *, as_text: bool) -> Iterator[bytes]:
    """Yield the decompressed bytes of a text file; refuse documents in other formats."""
    blocks = _decompressed(path, stream)
    head = next(blocks, b"")
    _refuse_utf16(display_name(path), head)
    if not as_text and (kind := format_of(path, head)) is not None:
        _refuse_format(display_name(path), kind)
    return itertools.chain([head], blocks) if head else iter(())


def format_of(path: str | Path, head: bytes) -> unsupported.Format | None:
    """Return the format of a file by its first bytes, else by its name; None if it may be text."""
    return unsupported.format_of_content(head) or unsupported.format_of_name(path)


def _refuse_format(name: str, kind: unsupported.Format) -> NoReturn:
    reads = "which is not read as lines" if kind.document else "which transduce does not read yet"
    raise UnsupportedFormat(
        f"{name} is {kind.name}, {reads}: {kind.advice}",
        binary=kind.binary,
        document=kind.document,
    )


def _refuse_utf16(name: str, head: bytes) -> None:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"{name} is UTF-16: expected UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)")


def _decompressed(path: str | Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a stream, decompressed if its first bytes show that it is compressed."""
    blocks = _blocks(path, stream)
    head = b""
    for block in blocks:
        head += block
        if len(head) >= max(len(kind.magic) for kind in COMPRESSIONS.values()) or b"\n" in head:
            break
    blocks = itertools.chain([head] if head else [], blocks)
    for kind, (magic, _) in COMPRESSIONS.items():
        if head.startswith(magic):
            return decompress(blocks, kind, display_name(path))
    suffix = PurePath(path).suffix.removeprefix(".")
    if suffix in COMPRESSIONS:
        raise BadInput(f"{path} does not begin like a {suffix} file: it is damaged or misnamed")
    return blocks


def _split_lines(blocks: Iterable[bytes], name: str, *, raw: bool = False) -> Iterator[list[str]]:
    """Split bytes into lines of text, one list per block."""
    number = 0  # lines yielded so far
    unfinished: list[bytes] = []  # parts of a line whose end has not been read yet
    length = 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        lines: list[str] = []
        if cut:
            whole = b"".join((*unfinished, block[:cut]))
            whole = whole if number else whole.removeprefix(BYTE_ORDER_MARK)
            lines = _decode_raw(whole) if raw else _decode(whole, number, name)
            number += len(lines)
            unfinished, length = [], 0
        yield lines
        unfinished.append(block[cut:])
        length += len(block) - cut
        if length > MAX_LINE_BYTES:
            raise BadInput(
                f"{name}, line {number + 1:,} is longer than {MAX_LINE_BYTES >> 20} MiB: "
                "expected text with one sentence per line"
            )
    rest = b"".join(unfinished)
    rest = rest if number else rest.removeprefix(BYTE_ORDER_MARK)
    if rest:
        yield _decode_raw(rest + b"\n") if raw else _decode(rest + b"\n", number, name)


def _decode_raw(whole: bytes) -> list[str]:
    """Decode lines that end with a line feed, so that encoding them gives the same bytes."""
    lines = whole.decode("utf-8", "surrogateescape").split("\n")
    lines.pop()  # empty: the text ends with a line feed
    return lines


def _decode(whole: bytes, number: int, name: str) -> list[str]:
    """Decode lines that end with a line feed; `number` lines were read before them."""

    def line_of(position: int) -> str:
        line = number + whole.count(b"\n", 0, position) + 1
        return f"{name}, line {line:,}"

    if (nul := whole.find(b"\0")) >= 0:
        raise BadInput(f"{line_of(nul)} has a NUL byte: expected a text file in UTF-8")
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{line_of(error.start)} is not UTF-8 (byte 0x{whole[error.start]:02x}): "
            "expected text in UTF-8; iconv converts other encodings"
        ) from None
    lines = text.split("\n")
    lines.pop()  # empty: the text ends with a line feed
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines
