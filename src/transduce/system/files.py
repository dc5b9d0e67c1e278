"""Files that are complete or absent: written aside, flushed to disk, then renamed.

A write works in a private folder beside its target:

    .transduce-0123456789abcdef/    a random name, mode 0700
      record.json                   says that this program made the folder, and for which target
      new                           the file or folder that is being written
      old                           the folder that is being replaced or deleted

`remove_leftovers` cleans up after a killed process. It trusts only folders whose name has exactly
this form and whose record agrees with the name, so it never touches other programs' files.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from transduce.errors import BadInput, BadRun
from transduce.settings import types

Stream = TypeVar("Stream", IO[str], io.BufferedReader)

MAX_JSON_BYTES = 1 << 25  # bytes; a parsed file takes many times its size in memory
MAX_PICTURE_BYTES = 1 << 28  # bytes
MAX_LOG_BYTES = 1 << 28  # bytes of metrics.jsonl or samples.jsonl: a million lines and more
WINDOWS = os.name == "nt"
OWN_NAME = re.compile(r"\.transduce-([0-9a-f]{16})")
RECORD, NEW, OLD = "record.json", "new", "old"
# In every picture and page that we write, so that a later command may replace it.
FILE_MARK = "made-by-transduce"
PAGE_MARK = '<meta name="generator" content="transduce">'
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has neither of these
NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def sync(path: Path) -> None:
    """Make sure that a file's bytes, or a folder's names, are on the disk.

    Windows cannot open a folder, and flushes a file only through a writable handle.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_for_append(path: Path, mode: str, errors: str = "strict") -> IO[str]:
    """Open a text file of a run folder for appending; refuse links, pipes and devices."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | NO_FOLLOW | NO_WAIT, 0o666)

    if path.is_symlink():
        raise BadRun(f"{path} is a link: expected a file of the run itself")
    if path.exists() and not path.is_file():
        raise _irregular(path)
    try:
        return _only_regular(
            open(path, mode, encoding="utf-8", errors=errors, newline="\n", opener=opener), path
        )
    except OSError as error:
        if error.errno == errno.ELOOP:  # the link was made since the check above
            raise BadRun(f"{path} is a link: expected a file of the run itself") from None
        raise


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; refuse pipes and devices, which may never end."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | NO_WAIT)

    if path.exists() and not path.is_file():
        raise _irregular(path)
    return _only_regular(open(path, "rb", opener=opener), path)


def require_regular(path: Path) -> Path:
    """Refuse a path that is not a regular file; a missing file is left to its reader."""
    if path.exists() and not path.is_file():
        raise _irregular(path)
    return path


def read_regular(path: Path, largest: int) -> bytes:
    """Read a regular file of at most so many bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise BadRun(f"{path} is larger than {largest >> 20} MiB: expected a smaller file")
        return file.read(size)


def _only_regular(file: Stream, path: Path) -> Stream:
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise _irregular(path)


def _irregular(path: Path) -> BadRun:
    kind = "a folder" if path.is_dir() else "a pipe or a device"
    return BadRun(f"{path} is {kind}: expected a regular file")


@contextlib.contextmanager
def name_errors_after(path: Path, aside: Path | None = None) -> Iterator[None]:
    """Make system errors name `path` where they name no file, or one in the folder `aside`."""
    try:
        yield
    except OSError as error:
        name = None if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno is None or not (name is None or (aside and name.is_relative_to(aside))):
            raise
        meant = path.joinpath(*name.relative_to(aside).parts[1:]) if name and aside else path
        raise OSError(error.errno, error.strerror, str(meant)) from error


@contextlib.contextmanager
def created_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; if the work fails, remove those made that are empty."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # not empty
            for one in missing:
                one.rmdir()
        raise


@contextlib.contextmanager
def working_folder(path: Path, *, restore: bool = False) -> Iterator[Path]:
    """Yield a private folder beside `path` that is removed at the end.

    With `restore`, what was moved to `old` in it goes back to `path` if nothing is there.
    """
    token = secrets.token_hex(8)
    folder = path.with_name(f".transduce-{token}")
    with created_folder(path.parent), name_errors_after(path, folder):
        # mkdir fails on whatever is there, links included. On Windows the mode would be inherited.
        folder.mkdir(mode=0o777 if WINDOWS else 0o700)
        record = {"made_by": "transduce", "token": token, "for": path.name, "restore": restore}
        try:
            with (folder / RECORD).open("x", encoding="utf-8", newline="\n") as file:
                json.dump(record, file)
            yield folder
        finally:
            _clean(folder, record)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it replaces `path` only if the block succeeds."""
    with working_folder(path) as folder:
        beside = folder / NEW
        yield beside
        sync(beside)
        beside.replace(path)
        sync(path.parent)


@contextlib.contextmanager
def atomic_folder(path: Path, holding: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a folder to fill; it replaces `path` only if the block succeeds.

    It must then hold the files `holding`: somebody may have deleted them meanwhile.
    """
    with working_folder(path, restore=True) as folder:
        beside, old = folder / NEW, folder / OLD
        beside.mkdir()
        yield beside
        for file in beside.iterdir():
            sync(file)
        sync(beside)
        for name in holding:
            (beside / name).stat()
        if os.path.lexists(path):  # a rename cannot replace a folder that holds files
            sync(folder / RECORD)  # from here on it tells where `old` belongs
            sync(folder)
            path.replace(old)
        beside.replace(path)
        sync(path.parent)


def remove_folder(path: Path) -> None:
    """Delete a folder. It leaves its place at once, so that a kill leaves no part of it there."""
    with working_folder(path) as folder:
        path.replace(folder / OLD)


def remove_leftovers(folder: Path, *within: str) -> None:
    """Delete what killed processes left in a folder and in some folders `within` it.

    No other process may be writing there. A folder that was moved aside and not replaced goes back
    to its place. Links are not followed.
    """
    real = folder.resolve()
    inner = [real / name for name in within if (real / name).resolve() == real / name]
    for place in [real, *inner]:
        if not place.is_dir():
            continue
        for path in sorted(place.iterdir()):
            if OWN_NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                _clean(path, _record_of(path))


def _clean(folder: Path, record: Mapping[str, Any] | None) -> None:
    """Remove a working folder, after putting back what belongs elsewhere.

    The record goes last: without it nobody would know whose folder this is.
    """
    # `remove_leftovers` tries again later. A ValueError: a record's name that no file can have.
    with contextlib.suppress(OSError, ValueError):
        if record is not None:
            home, old = folder.with_name(record["for"]), folder / OLD
            if record["restore"] and os.path.lexists(old) and not os.path.lexists(home):
                old.replace(home)
            for path in folder.iterdir():
                if path.name != RECORD:
                    delete(path)
        own = folder / RECORD
        # A process that was killed early leaves an empty record or none.
        if record is not None or (os.path.lexists(own) and not own.lstat().st_size):
            own.unlink(missing_ok=True)
        folder.rmdir()  # which fails if somebody else's file is in it


def _record_of(folder: Path) -> dict[str, Any] | None:
    """Return the record of a working folder, or None where it is not one of ours."""
    own, name = folder / RECORD, OWN_NAME.fullmatch(folder.name)
    try:
        if name is None or own.is_symlink():
            return None
        record = read_json(own)
        types.check_fields(record, {"for": str, "restore": bool})
    except (BadRun, TypeError):
        return None
    made_here = (record.get("made_by"), record.get("token")) == ("transduce", name[1])
    return record if made_here and is_plain_name(record["for"]) else None


def is_plain_name(name: str) -> bool:
    """Tell whether a text from a file names an entry of a folder, and nothing outside of it."""
    return name == Path(name).name and name not in ("", "..") and "\0" not in name


def delete(path: Path) -> None:
    """Delete a file or a folder; of a link the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def refuse_foreign_file(path: Path, option: str = "--out") -> None:
    """Refuse to overwrite a file that this program did not make."""
    if not os.path.lexists(path):
        return
    try:
        content = b"" if path.is_symlink() else read_regular(path, MAX_PICTURE_BYTES)
        own = FILE_MARK.encode() in content or PAGE_MARK.encode() in content
    except (OSError, BadRun):
        own = False
    if not own:
        raise BadInput(
            f"{option} {path} exists, and it does not say that transduce made it: "
            "choose another name, or delete it"
        )


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON for people and machines."""
    with atomic_write(path) as beside:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        # A file name that is not UTF-8 has lone surrogates, which JSON can only escape.
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
        beside.write_text(text + "\n", encoding="utf-8", newline="\n")


def checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, whatever the order of its names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def write_checksummed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object together with its checksum."""
    write_json(path, {"sha256": checksum(content), **content})


def read_checksummed(
    path: Path, version: int, what: str, expected: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read a JSON object that `write_checksummed` wrote, and check the types of its fields."""
    content = read_json(path)
    seal = content.pop("sha256", None)
    if seal is None or "format" not in content:
        raise BadRun(f"{path} is no file of {what}: it has no format or no checksum")
    if content["format"] != version:
        raise BadRun(
            f"{path} has format {content['format']!r:.60}: expected {version}; "
            "it was written by another version of transduce"
        )
    if seal != checksum(content):
        raise BadRun(f"{path} is damaged: its content does not agree with its checksum")
    try:
        types.check_fields(content, expected or {})
    except TypeError as error:
        raise BadRun(f"{path} is damaged: {error}") from None
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that we wrote, or say what is wrong with the file."""
    try:
        value = json.loads(read_regular(path, MAX_JSON_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise BadRun(f"{path} is missing") from None
    except OSError as error:
        raise BadRun(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged: it is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadRun(f"{path} is damaged: expected a JSON object, found {type(value).__name__}")
    return value


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
