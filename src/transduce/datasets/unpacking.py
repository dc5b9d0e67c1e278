"""Members of archives, read as streams: nothing is ever unpacked onto the disk.

So no name in an archive can lead anywhere. A member is taken only if it is a plain file, is there
once, and stays within bounds that grow with the archive, so that a small one cannot fill a disk.
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
from transduce.text.compression import decompress
from transduce.text.reading import MAX_LINE_BYTES

RATIO = (
    60  # text shrinks to a fourth or so, tables of the same to a twentieth; bombs to a thousandth
)
BLOCK = 1 << 20  # bytes read at once
SLACK = 1 << 22  # bytes, for small archives
DAMAGED = (  # what zipfile and tarfile raise
    *(EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
    NotImplementedError,  # a way of packing that zipfile does not know
)
NAMED = 5  # members that an error names
TARS = (".tgz", ".tar.gz", ".tar", ".tar.xz")
PACKED = {".gz": "gz", ".tgz": "gz", ".xz": "xz", ".zst": "zst"}


class _Bounded(io.RawIOBase):
    """Blocks as a stream, which ends in an error where more comes than may."""

    def __init__(self, blocks: Iterator[bytes], most: int, what: str) -> None:
        self._blocks, self._left, self._most, self._what = blocks, most, most, what
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
            self._left -= len(self._rest)
        if self._left < 0:
            raise BadData(
                f"{self._what} unpacks to more than {self._most:,} bytes, {RATIO} times its size "
                "and more: it is no text of the kind that is expected"
            )
        taken = min(len(buffer), len(self._rest))
        buffer[:taken], self._rest = self._rest[:taken], self._rest[taken:]
        return taken


def lines(path: Path, member: str) -> Iterator[bytes]:
    """Yield the lines of a member, without their ends; of a file that is no archive, its own."""
    name = f"{path.name}: {member}" if member else path.name
    most = RATIO * path.stat().st_size + SLACK
    try:
        with _opened(path, member, most) as stream:
            yield from _cut(stream, name)
    except BadInput as error:  # so says `decompress`
        raise BadData(str(error)) from None
    except (*DAMAGED, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the disk's; bz2 inside a zip has none
            raise
        raise BadData(f"{name} is damaged and cannot be unpacked ({error})") from None


def _cut(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Cut a stream into lines that end with a line feed, as `text` does."""
    first = True
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise BadData(
                f"{name} has a line of more than {MAX_LINE_BYTES >> 20} MiB: it is no text"
            )
        if first:
            line, first = line.removeprefix(b"\xef\xbb\xbf"), False
        yield line.removesuffix(b"\n")


@contextlib.contextmanager
def _opened(path: Path, member: str, most: int) -> Iterator[IO[bytes]]:
    """Open a member, unpacked as far as its name says; bounded all the way."""
    with contextlib.ExitStack() as stack:
        if not member:
            file = stack.enter_context(path.open("rb"))
            stream, name = cast("IO[bytes]", file), path.name
        elif path.name.endswith(".zip"):
            stream, name = stack.enter_context(_of_zip(path, member))
        elif path.name.endswith(TARS):
            stream, name = stack.enter_context(_of_tar(path, member, most))
        else:
            raise BadData(f"{path.name} is no archive that can be read: expected zip, tar or tgz")
        what = f"{path.name}: {name}" if member else name
        yield io.BufferedReader(_Bounded(_unpacked(stream, name, what), most, path.name), BLOCK)


def _unpacked(stream: IO[bytes], name: str, what: str) -> Iterator[bytes]:
    """Yield the bytes of a stream, unpacked where its name says that it is packed."""
    blocks = iter(partial(stream.read, BLOCK), b"")
    kind = PACKED.get(PurePosixPath(name).suffix)
    return blocks if kind is None else decompress(blocks, kind, what)


@contextlib.contextmanager
def _of_zip(path: Path, pattern: str) -> Iterator[tuple[IO[bytes], str]]:
    with zipfile.ZipFile(path) as archive:
        found = [one for one in archive.infolist() if _matches(one.filename, pattern)]
        _only(found, path, pattern, [one.filename for one in archive.infolist()])
        mode = found[0].external_attr >> 16 & 0o170000
        if found[0].is_dir() or mode not in (0, 0o100000):
            raise BadData(f"{path.name}: {found[0].filename} is no plain file")
        if found[0].flag_bits & 1:
            raise BadData(f"{path.name}: {found[0].filename} is encrypted")
        with archive.open(found[0]) as stream:
            yield stream, found[0].filename


@contextlib.contextmanager
def _of_tar(path: Path, pattern: str, most: int) -> Iterator[tuple[IO[bytes], str]]:
    """Open a member of a tar, which is read to its end: another of that name may follow."""
    seen: list[str] = []
    found = 0
    with contextlib.ExitStack() as stack:
        packed = stack.enter_context(path.open("rb"))
        blocks = _unpacked(cast("IO[bytes]", packed), path.name, path.name)
        bounded = cast("IO[bytes]", io.BufferedReader(_Bounded(blocks, most, path.name), BLOCK))
        archive = stack.enter_context(tarfile.open(fileobj=bounded, mode="r|", bufsize=BLOCK))
        for one in archive:
            seen += [one.name] if len(seen) < NAMED else []
            if not _matches(one.name, pattern):
                continue
            found += 1
            _only([one] * found, path, pattern, seen)
            if not one.isreg() or _leads_out(one):
                raise BadData(f"{path.name}: {one.name} is no plain file of the archive")
            member = archive.extractfile(one)
            assert member is not None
            yield member, one.name
        _only([path] * found, path, pattern, seen)


def _leads_out(member: tarfile.TarInfo) -> bool:
    """Tell whether a member would lie outside of the folder that it is unpacked in."""
    parts = PurePosixPath(member.name).parts
    if ".." in parts or member.name.startswith("/"):
        return True
    try:
        tarfile.data_filter(member, "unpacked")
    except tarfile.FilterError:
        return True
    return False


def _matches(name: str, pattern: str) -> bool:
    name = name.removeprefix("./")
    return fnmatch.fnmatchcase(name, pattern) if "*" in pattern else name == pattern


def _only(found: Sequence[object], path: Path, pattern: str, names: Sequence[str]) -> None:
    """Refuse an archive that has none or several of a member."""
    if not found:
        raise BadData(
            f"{path.name} has no member {pattern}: it begins with "
            f"{', '.join(list(names)[:NAMED]) or 'nothing'}"
        )
    if len(found) > 1:
        raise BadData(f"{path.name} has more than one member {pattern}: expected one")
