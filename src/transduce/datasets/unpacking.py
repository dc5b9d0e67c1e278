"""Members of archives as streams, without unpacking to disk.

So malicious member names are harmless. A member must be a regular file and occur once, and its
size is limited in proportion to the archive, so that a small archive cannot fill the disk.
"""

import contextlib
import fnmatch
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from transduce.errors import BadData, BadInput
from transduce.text.compression import COMPRESSIONS, decompress
from transduce.text.reading import MAX_LINE_BYTES

RATIO = 60  # typical ratios: text 4, repetitive tables 20, decompression bombs 1000
BLOCK = 1 << 20  # bytes read at once
SLACK = 1 << 22  # bytes, for small archives
DAMAGED = (  # raised by zipfile and tarfile
    *(EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
    NotImplementedError,  # a compression that zipfile does not support
)
MAX_NAMES = 5  # members listed in an error
TARS = (".tgz", ".tar.gz", ".tar", ".tar.xz")
COMPRESSION_BY_SUFFIX = {f".{kind}": kind for kind in COMPRESSIONS} | {".tgz": "gz"}


class _Bounded(io.RawIOBase):
    """A stream over blocks of bytes that raises an error after too many bytes."""

    def __init__(self, blocks: Iterator[bytes], limit: int, name: str) -> None:
        self._blocks, self._left, self._limit, self._name = blocks, limit, limit, name
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
            self._left -= len(self._rest)
        if self._left < 0:
            raise BadData(
                f"{self._name} unpacks to more than {self._limit:,} bytes, over {RATIO} times its "
                "size: it is not the expected text"
            )
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def lines(path: Path, member: str) -> Iterator[bytes]:
    """Yield the lines of a member, or of the file if `member` is empty, without line ends."""
    name = f"{path.name}: {member}" if member else path.name
    limit = RATIO * path.stat().st_size + SLACK
    try:
        with _open(path, member, limit) as stream:
            yield from _split_lines(stream, name)
    except BadInput as error:  # raised by `decompress`
        raise BadData(str(error)) from None
    except (*DAMAGED, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # a disk error; bz2 errors in a zip have no errno
        raise BadData(f"{name} is damaged and cannot be unpacked ({error})") from None


def _split_lines(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Split a stream at line feeds, as `text.reading` does."""
    first = True
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise BadData(
                f"{name} has a line of more than {MAX_LINE_BYTES >> 20} MiB: it is not text"
            )
        if first:
            line, first = line.removeprefix(b"\xef\xbb\xbf"), False
        yield line.removesuffix(b"\n")


@contextlib.contextmanager
def _open(path: Path, member: str, limit: int) -> Iterator[IO[bytes]]:
    """Open a member, decompressed according to its name, with a limited size."""
    with contextlib.ExitStack() as stack:
        if not member:
            file = stack.enter_context(path.open("rb"))
            stream, name = cast("IO[bytes]", file), path.name
        elif path.name.endswith(".zip"):
            stream, name = stack.enter_context(_zip_member(path, member))
        elif path.name.endswith(TARS):
            stream, name = stack.enter_context(_tar_member(path, member, limit))
        else:
            raise BadData(f"{path.name} is not a supported archive: expected zip, tar or tgz")
        label = f"{path.name}: {name}" if member else name
        blocks = _decompressed(stream, name, label)
        yield io.BufferedReader(_Bounded(blocks, limit, path.name), BLOCK)


def _decompressed(stream: IO[bytes], name: str, label: str) -> Iterator[bytes]:
    """Yield the bytes of a stream, decompressed according to its name."""
    blocks = iter(partial(stream.read, BLOCK), b"")
    kind = COMPRESSION_BY_SUFFIX.get(PurePosixPath(name).suffix)
    return blocks if kind is None else decompress(blocks, kind, label)


@contextlib.contextmanager
def _zip_member(path: Path, pattern: str) -> Iterator[tuple[IO[bytes], str]]:
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if _matches(info.filename, pattern)]
        _check_count(len(members), path, pattern, archive.namelist())
        (member,) = members
        mode = member.external_attr >> 16 & 0o170000
        if member.is_dir() or mode not in (0, 0o100000):
            raise BadData(f"{path.name}: {member.filename} is not a regular file")
        if member.flag_bits & 1:
            raise BadData(f"{path.name}: {member.filename} is encrypted")
        with archive.open(member) as stream:
            yield stream, member.filename


@contextlib.contextmanager
def _tar_member(path: Path, pattern: str, limit: int) -> Iterator[tuple[IO[bytes], str]]:
    """Open a member of a tar, then read to the end: a second one with that name may follow."""
    names: list[str] = []
    count = 0
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        blocks = _decompressed(cast("IO[bytes]", file), path.name, path.name)
        bounded = cast("IO[bytes]", io.BufferedReader(_Bounded(blocks, limit, path.name), BLOCK))
        archive = stack.enter_context(tarfile.open(fileobj=bounded, mode="r|", bufsize=BLOCK))
        for info in archive:
            names += [info.name] if len(names) < MAX_NAMES else []
            if not _matches(info.name, pattern):
                continue
            count += 1
            _check_count(count, path, pattern, names)
            if not info.isreg():
                raise BadData(f"{path.name}: {info.name} is not a regular file")
            member = archive.extractfile(info)
            assert member is not None
            yield member, info.name
        _check_count(count, path, pattern, names)


def _matches(name: str, pattern: str) -> bool:
    name = name.removeprefix("./")
    return fnmatch.fnmatchcase(name, pattern) if "*" in pattern else name == pattern


def _check_count(count: int, path: Path, pattern: str, names: Sequence[str]) -> None:
    """Refuse an archive in which a member is missing or occurs twice."""
    if not count:
        raise BadData(
            f"{path.name} has no member {pattern}: its first members are "
            f"{', '.join(names[:MAX_NAMES]) or 'none'}"
        )
    if count > 1:
        raise BadData(f"{path.name} has more than one member {pattern}: expected one")
