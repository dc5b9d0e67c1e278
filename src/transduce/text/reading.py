"""Lines and pairs of lines from plain, compressed and TSV files and from standard input.

Only a line feed ends a line, so that all tools agree on line numbers. Text that is not valid UTF-8
is refused with its file and line. Documents in other formats are refused, except with `as_text`.
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
from typing import BinaryIO, cast

from transduce.errors import BadInput, UnsupportedFormat
from transduce.system.formatting import pluralize
from transduce.text import unsupported
from transduce.text.compression import COMPRESSIONS, decompress

STDIN = "-"
BLOCK = 1 << 16  # bytes read at once
MAX_LINE_BYTES = 1 << 24  # longer lines are not sentences, and memory must stay bounded
SHORT_WAIT = 0.005  # seconds
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: str | Path, *, as_text: bool = False) -> Iterator[str]:
    r"""Yield the lines of a text file, or of standard input if `path` is "-".

    Compression is detected from the first bytes, so it also works in a pipe. Lines end with \n; a
    \r before it, a byte-order mark at the start and a missing last \n are ignored.
    """
    with _open(path) as stream:
        for lines in _split_lines(_text(path, stream, as_text=as_text), display_name(path)):
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
    source: str | Path, target: str | Path | None, *, as_text: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines from two files, or from one TSV if `target` is None."""
    if target is None:
        return _pairs_of_tsv(source, as_text=as_text)
    if str(source) == str(target) == STDIN:
        raise BadInput(
            "source and target cannot both be standard input: "
            "give one file of each, or one TSV on standard input"
        )
    return _pairs_of_two(source, target, as_text=as_text)


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


def _pairs_of_tsv(path: str | Path, *, as_text: bool) -> Iterator[tuple[str, str]]:
    number = 0
    for number, line in enumerate(read_lines(path, as_text=as_text), start=1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            content = f"{line.count(chr(9)) + 1} columns" if tab else "no tab"
            raise BadInput(
                f"{display_name(path)}, line {number:,} has {content}: expected two columns, a "
                "sentence and its translation, with one tab between them"
            )
        yield source, target
    if not number:
        raise BadInput(f"{display_name(path)} is empty: expected one pair of sentences per line")


def _pairs_of_two(
    source: str | Path, target: str | Path, *, as_text: bool
) -> Iterator[tuple[str, str]]:
    sources, targets = (read_lines(path, as_text=as_text) for path in (source, target))
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
    if as_text:
        return blocks
    head = next(blocks, b"")
    format_ = unsupported.format_of_content(head) or unsupported.format_of_name(path)
    if format_ is not None:
        reads = (
            "which is not read as lines"
            if format_.document
            else "which transduce does not read yet"
        )
        raise UnsupportedFormat(
            f"{display_name(path)} is {format_.name}, {reads}: {format_.advice}",
            binary=format_.binary,
            document=format_.document,
        )
    return itertools.chain([head], blocks) if head else iter(())


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
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(
            f"{display_name(path)} is UTF-16: expected UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)"
        )
    return blocks


def _split_lines(blocks: Iterable[bytes], name: str) -> Iterator[list[str]]:
    """Split bytes into lines of text, one list per block."""
    number = 0  # lines yielded so far
    unfinished: list[bytes] = []  # parts of a line whose end has not been read yet
    length = 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        lines: list[str] = []
        if cut:
            whole = b"".join((*unfinished, block[:cut]))
            lines = _decode(whole if number else whole.removeprefix(BYTE_ORDER_MARK), number, name)
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
        yield _decode(rest + b"\n", number, name)


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
