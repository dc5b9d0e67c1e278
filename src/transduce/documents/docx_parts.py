"""The parts of a docx file, which is a zip archive. Small archives must not fill the memory."""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping

from transduce.errors import BadInput, printable

MAX_PARTS = 10_000
MAX_BYTES = 1 << 28  # all parts together, unpacked
RATIO = 200  # of unpacked to packed bytes; long tables of text reach 50
SLACK = 1 << 24  # bytes, for small files
COMPOUND = b"\xd0\xcf\x11\xe0"  # files of the old format, and encrypted ones
ENCRYPTED = 1  # flag of a member
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError),
    *(RuntimeError, LookupError, MemoryError, lzma.LZMAError, struct.error),
)


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the parts by name."""
    if data.startswith(COMPOUND):
        raise BadInput(
            "the document is encrypted or in the format of Word 97 (.doc): save it as .docx "
            "without a password"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            _check(members, len(data))
            return {member.filename: archive.read(member) for member in members}
    except DAMAGED as error:
        reason = printable(str(error))[:200] or type(error).__name__
        raise BadInput(
            f"the docx document is damaged and cannot be unpacked ({reason}): save it again"
        ) from None


def _check(members: list[zipfile.ZipInfo], size: int) -> None:
    names = {member.filename for member in members}
    unpacked = sum(member.file_size for member in members)
    limit = min(MAX_BYTES, RATIO * size + SLACK)
    if any(member.flag_bits & ENCRYPTED for member in members):
        raise BadInput("parts of the docx document are encrypted: save it without a password")
    if len(members) > MAX_PARTS:
        raise BadInput(
            f"the docx document has {len(members):,} parts, more than {MAX_PARTS:,}: split it"
        )
    if len(names) < len(members):
        raise BadInput("the docx document has two parts with the same name: save it again as .docx")
    if unpacked > limit:
        raise BadInput(
            f"the docx document unpacks to {unpacked:,} bytes, more than {limit:,}: split it, or "
            "remove large pictures"
        )
    if "word/document.xml" not in names:
        kind = "word/document.xml is missing"
        raise BadInput(f"the file is a zip archive but not a docx document: {kind}")


def pack(data: bytes, changed: Mapping[str, bytes]) -> bytes:
    """Return the archive with some parts replaced, in the same order."""
    result = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as archive,
        zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for member in archive.infolist():
            new = zipfile.ZipInfo(member.filename, member.date_time)
            new.external_attr = member.external_attr
            stored = member.compress_type == zipfile.ZIP_STORED
            new.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            content = changed.get(member.filename)
            written.writestr(new, archive.read(member) if content is None else content)
    return result.getvalue()
