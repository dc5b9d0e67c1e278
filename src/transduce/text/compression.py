"""Decompressing gz, xz and zst streams in bounded memory."""

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

from transduce.errors import BadInput, MissingExtra

BLOCK = 1 << 16  # bytes handed on at once
MORSEL = 1 << 10  # compressed bytes unfolded at once: a few of zst can be made to unfold to 128 KiB
LARGEST_WINDOW = 1 << 28  # bytes that decompressing may take; `xz -9` takes 65 MB

# How each compressed format begins. None of these is valid UTF-8, so no text is mistaken for one.
MAGIC = {"gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd"}


class Decompressor(Protocol):
    """What zlib, lzma and zstandard have in common."""

    @property
    def eof(self) -> bool:
        """Whether the compressed stream has come to its end."""

    @property
    def unused_data(self) -> bytes:
        """What was found after that end."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return what can be unfolded so far."""


def decompress(blocks: Iterable[bytes], kind: str, name: str) -> Iterator[bytes]:
    """Unfold one or more compressed streams, one after the other as `cat` leaves them."""
    begin = _decompressor(kind)
    current: Decompressor | None = begin()
    for block in blocks:
        parts, length = [], 0  # what has been unfolded and not handed on
        for at in range(0, len(block), MORSEL):
            rest = block[at : at + MORSEL]
            while rest := rest if current else rest.lstrip(b"\0"):  # zeros may pad what follows
                current = current or begin()
                try:
                    parts.append(current.decompress(rest))
                except MemoryError:
                    raise
                except Exception as error:  # zlib's, lzma's, zstandard's share no other ancestor
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
        raise BadInput(f"{name} is cut short: its {kind} data ends in the middle; fetch it anew")


def _decompressor(kind: str) -> Callable[[], Decompressor]:
    if kind == "gz":
        return lambda: zlib.decompressobj(wbits=31)  # 31: with the header and checksum of gzip
    if kind == "xz":
        return lambda: lzma.LZMADecompressor(memlimit=LARGEST_WINDOW)
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("reading .zst files", "zstandard", "zst") from None
    whole = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
    return lambda: cast("Decompressor", whole.decompressobj())
