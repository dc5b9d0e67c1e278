"""Decompressing gz, xz and zst streams in bounded memory."""

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, cast

from transduce.errors import BadInput, MissingExtra

BLOCK = 1 << 16  # bytes yielded at once
COMPRESSED_BLOCK = 1 << 10  # bytes decompressed at once: a few zst bytes can become 128 KiB
MAX_MEMORY = 1 << 28  # bytes of memory for decompression; `xz -9` needs 65 MB


class Decompressor(Protocol):
    """The common interface of zlib, lzma and zstandard."""

    @property
    def eof(self) -> bool:
        """Whether the end of the compressed stream was reached."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the compressed stream."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the bytes that can be decompressed so far."""


def decompress(blocks: Iterable[bytes], kind: str, name: str) -> Iterator[bytes]:
    """Decompress one or more concatenated streams."""
    start = COMPRESSIONS[kind].open()
    current: Decompressor | None = start()
    for block in blocks:
        parts, length = [], 0  # decompressed and not yet yielded
        for begin in range(0, len(block), COMPRESSED_BLOCK):
            rest = block[begin : begin + COMPRESSED_BLOCK]
            while rest := rest if current else rest.lstrip(b"\0"):  # zeros may pad a stream
                current = current or start()
                try:
                    parts.append(current.decompress(rest))
                except MemoryError:
                    raise
                except Exception as error:  # the libraries' errors have no common base class
                    raise BadInput(
                        f"{name} is damaged: its {kind} data cannot be read ({error})"
                    ) from None
                length += len(parts[-1])
                rest = b""
                if current.eof:
                    rest, current = current.unused_data, None
            if length >= BLOCK:
                yield b"".join(parts)
                parts, length = [], 0
        if length:
            yield b"".join(parts)
    if current is not None:
        raise BadInput(
            f"{name} is truncated: its {kind} data ends in the middle; download it again"
        )


def _gz() -> Callable[[], Decompressor]:
    return lambda: zlib.decompressobj(wbits=31)  # 31: with gzip's header and checksum


def _xz() -> Callable[[], Decompressor]:
    return lambda: lzma.LZMADecompressor(memlimit=MAX_MEMORY)


def _zst() -> Callable[[], Decompressor]:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("reading .zst files", "zstandard", "zst") from None
    zstd = zstandard.ZstdDecompressor(max_window_size=MAX_MEMORY)
    return lambda: cast("Decompressor", zstd.decompressobj())


class Compression(NamedTuple):
    """A compression format: the first bytes of its files, and how to decompress them."""

    magic: bytes  # not valid UTF-8, so text cannot be mistaken for it
    open: Callable[[], Callable[[], Decompressor]]  # imports the library, returns a factory


# By file name suffix.
COMPRESSIONS = {
    "gz": Compression(b"\x1f\x8b", _gz),
    "xz": Compression(b"\xfd7zXZ\x00", _xz),
    "zst": Compression(b"\x28\xb5\x2f\xfd", _zst),
}
