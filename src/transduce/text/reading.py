"""Text in: plain files, gz, xz, zst, TSV and standard input become lines and pairs of lines.

A line ends with a line feed and with nothing else, so that line n of one file is line n of the
other in every tool. What cannot be read exactly is refused, with the file and the line named; so is
a document in another format, unless it is read as text on request (`as_text`).
"""

import contextlib
import io
import itertools
import re
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
from transduce.text.compression import MAGIC, decompress

STDIN = "-"
BLOCK = 1 << 16  # bytes read at once, and handed on at once
MORSEL = 1 << 10  # compressed bytes unfolded at once: a few of zst can be made to unfold to 128 KiB
LARGEST_WINDOW = 1 << 28  # bytes that decompressing may take; `xz -9` takes 65 MB
MAX_LINE_BYTES = 1 << 24  # bytes; what is longer is no sentence, and memory must stay bounded
MOMENT = 0.005  # seconds to wait for a line that may be on its way
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Endings that say how a text is stored, not which language it is in.
STORAGE_ENDINGS = frozenset(
    {"gz", "xz", "zst", "txt", "tsv", "raw", "tok", "src", "tgt", "ref", "out", "hyp", "log", "dat"}
)
CODE = re.compile(r"[a-z]{2,3}(_[a-z]{2,4})?", re.IGNORECASE)


def read_lines(path: str | Path, *, as_text: bool = False) -> Iterator[str]:
    r"""Yield the lines of a text file, or of standard input if `path` is "-".

    Compressed text is known by its first bytes, so it may come through a pipe as well. Lines end
    with \n; a \r before it, a byte-order mark at the start and a missing last \n do not matter.
    """
    with _opened(path) as stream:
        for lines in _lines(_text(path, stream, as_text=as_text), display_name(path)):
            yield from lines


class LineReader(Iterator[str]):
    """The lines of `read_lines`, and whether there are more of them at once.

    So a program that writes a line and waits for the answer gets it, and one that writes many has
    them answered together.
    """

    def __init__(self, path: str | Path, *, as_text: bool = False) -> None:
        self._come: deque[str] = deque()
        self._stream: BinaryIO | None = None  # until the first line is asked for
        self._blocks = self._read(path, as_text=as_text)

    def __next__(self) -> str:
        while not self._come:
            self._come.extend(next(self._blocks))
        return self._come.popleft()

    def ready(self) -> bool:
        """Tell whether another line can be had without waiting more than a moment."""
        while not self._come:
            if self._stream is not None and not _readable(self._stream):
                return False
            lines = next(self._blocks, None)
            if lines is None:
                return False
            self._come.extend(lines)
        return True

    def _read(self, path: str | Path, *, as_text: bool) -> Iterator[list[str]]:
        with _opened(path) as self._stream:
            yield from _lines(_text(path, self._stream, as_text=as_text), display_name(path))


def read_pairs(
    source: str | Path, target: str | Path | None, *, as_text: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines: of two files line by line, or of one TSV if there is no `target`."""
    if target is None:
        return _pairs_of_tsv(source, as_text=as_text)
    if str(source) == str(target) == STDIN:
        raise BadInput(
            "source and target cannot both be standard input: "
            "give one file of each, or one TSV on standard input"
        )
    return _pairs_of_two(source, target, as_text=as_text)


def guess_languages(
    source: str | Path, target: str | Path | None, given: str | None = None
) -> tuple[str, str]:
    """Tell the languages: as given ("en-de"), else from the files' endings, else src and tgt.

    Two files say it as train.en and train.de (or train.en.xz, train.de.txt); one TSV says it as
    train.en-de.tsv.
    """
    if given is not None:
        codes = given.split("-")
        if len(codes) != 2 or not all(re.fullmatch(r"\w+", code) for code in codes):
            raise BadInput(
                f"languages {given!r}: expected two codes with a hyphen between them, such as en-de"
            )
        return codes[0], codes[1]
    codes = _ending(source).split("-") if target is None else [_ending(source), _ending(target)]
    if len(codes) == 2 and all(map(CODE.fullmatch, codes)):
        return codes[0], codes[1]
    return "src", "tgt"


def language_code(language: str | None) -> str:
    """Return a language without its script or region: zh of zh-CN and of zh_Hans."""
    return (language or "").replace("_", "-").split("-")[0].lower()


def is_file_argument(argument: str) -> bool:
    """Tell whether an argument of a command names a file; otherwise it is text itself.

    Text has white space or ends with a punctuation mark. Everything else is a file's name, existing
    or not, so that a mistyped name is never taken for text.
    """
    if argument == STDIN or path_exists(argument):
        return True
    place = Path(argument)
    if len(place.parts) > 1 and path_exists(str(place.parent)):  # a mistyped name may have a space
        return True
    end = argument[-1:]
    closes = end and unicodedata.category(end) in ("Po", "Pe", "Pf") and end not in ")]}/\\*&#%@"
    return not (closes or any(map(str.isspace, argument)))


def path_exists(path: str) -> bool:
    """Tell whether there is such a file or folder, whatever the name."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def display_name(path: str | Path) -> str:
    """Name a file in a message for people."""
    return "standard input" if str(path) == STDIN else str(path)


def _ending(path: str | Path) -> str:
    """Return the last ending of a file's name that does not just say how it is stored."""
    endings = [suffix.removeprefix(".") for suffix in PurePath(path).suffixes]
    while endings and endings[-1].lower() in STORAGE_ENDINGS:
        endings.pop()
    return endings[-1] if endings else ""


def _pairs_of_tsv(path: str | Path, *, as_text: bool) -> Iterator[tuple[str, str]]:
    number = 0
    for number, line in enumerate(read_lines(path, as_text=as_text), start=1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            found = f"{line.count(chr(9)) + 1} columns" if tab else "no tab"
            raise BadInput(
                f"{display_name(path)}, line {number:,} has {found}: expected two columns, a "
                "sentence and its translation, with one tab between them"
            )
        yield source, target
    if not number:
        raise BadInput(f"{display_name(path)} is empty: expected one pair of sentences a line")


def _pairs_of_two(
    source: str | Path, target: str | Path, *, as_text: bool
) -> Iterator[tuple[str, str]]:
    left, right = (read_lines(path, as_text=as_text) for path in (source, target))
    number = 0
    for number, (sentence, translation) in enumerate(itertools.zip_longest(left, right), start=1):
        if sentence is None or translation is None:
            lines = number - 1
            lines_left = lines + (sentence is not None) + sum(1 for _ in left)
            lines_right = lines + (translation is not None) + sum(1 for _ in right)
            raise BadInput(
                f"{display_name(source)} has {pluralize(lines_left, 'line')} but "
                f"{display_name(target)} has {lines_right:,}: "
                "line n of one must translate line n of the other"
            )
        yield sentence, translation
    if not number:
        raise BadInput(
            f"{display_name(source)} and {display_name(target)} are empty: "
            "expected one sentence per line"
        )


def check_readable(path: str | Path) -> None:
    """Refuse a text that is missing or may not be read; a pipe is left for whom it is meant."""
    place = Path(path)
    if place.is_file() or place.is_dir() or not place.exists():
        with _opened(path):
            pass


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; standard input stays open afterwards."""
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
    """Tell whether something can be read from a stream, or its end, without waiting for it."""
    try:
        return bool(select.select([stream], [], [], MOMENT)[0])
    except io.UnsupportedOperation:  # it lies in memory
        return True
    except (OSError, ValueError):  # Windows can tell of sockets alone
        return False


def _blocks(path: str | Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield bytes as they come: a line typed or piped must not wait for a whole block."""
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
    """Yield the bytes of a text; refuse other documents, known by how they begin or by ending."""
    blocks = _unfolded(path, stream)
    if as_text:
        return blocks
    head = next(blocks, b"")
    found = unsupported.format_of_content(head) or unsupported.format_of_name(path)
    if found is not None:
        raise UnsupportedFormat(
            f"{display_name(path)} is {found.name}, which transduce does not read yet: "
            f"{found.advice}",
            binary=found.binary,
        )
    return itertools.chain([head], blocks) if head else iter(())


def _unfolded(path: str | Path, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of the text, decompressed if its first bytes say that it is compressed."""
    blocks = _blocks(path, stream)
    head = b""
    for block in blocks:
        head += block
        if len(head) >= max(map(len, MAGIC.values())) or b"\n" in head:
            break
    blocks = itertools.chain([head] if head else [], blocks)
    for kind, magic in MAGIC.items():
        if head.startswith(magic):
            return decompress(blocks, kind, display_name(path))
    claimed = PurePath(path).suffix.removeprefix(".")
    if claimed in MAGIC:
        raise BadInput(f"{path} does not begin as {claimed} files do: it is damaged or misnamed")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(
            f"{display_name(path)} is UTF-16: expected UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)"
        )
    return blocks


def _lines(blocks: Iterable[bytes], name: str) -> Iterator[list[str]]:
    """Cut bytes into lines of text, those of a block at once: a loop over bytes would be slow."""
    number = 0  # lines that have been yielded
    begun: list[bytes] = []  # the parts of a line whose end has not come yet
    length = 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        lines: list[str] = []
        if cut:
            whole = b"".join((*begun, block[:cut]))
            lines = _decoded(whole if number else whole.removeprefix(BYTE_ORDER_MARK), number, name)
            number += len(lines)
            begun, length = [], 0
        yield lines
        begun.append(block[cut:])
        length += len(block) - cut
        if length > MAX_LINE_BYTES:
            raise BadInput(
                f"{name}, line {number + 1:,} is longer than {MAX_LINE_BYTES >> 20} MiB: "
                "expected text with one sentence per line"
            )
    rest = b"".join(begun)
    rest = rest if number else rest.removeprefix(BYTE_ORDER_MARK)
    if rest:
        yield _decoded(rest + b"\n", number, name)


def _decoded(whole: bytes, number: int, name: str) -> list[str]:
    """Decode lines that end with a line feed; `number` lines came before them."""

    def line_of(position: int) -> str:
        line = number + whole.count(b"\n", 0, position) + 1
        return f"{name}, line {line:,}"

    if (nul := whole.find(b"\0")) >= 0:
        raise BadInput(f"{line_of(nul)} holds a NUL byte: expected a text file in UTF-8")
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{line_of(error.start)} is not UTF-8 (byte 0x{whole[error.start]:02x}): "
            "expected text in UTF-8; iconv converts other encodings"
        ) from None
    lines = text.split("\n")
    lines.pop()  # what follows the last line feed is nothing
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines
