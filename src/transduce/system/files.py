"""Atomic files and folders: written to a temporary path, flushed to disk, then renamed.

A write uses a private folder next to its target:

    .transduce-0123456789abcdef/    a random name, mode 0700
      record.json                   identifies the folder as transduce's and names its target
      new                           the file or folder being written
      old                           the folder being replaced or deleted

`remove_leftovers` cleans up after a killed process. It deletes only folders whose name has exactly
this form and whose record matches the name, so it never touches other programs' files.
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

MAX_JSON_BYTES = 1 << 25  # a parsed file takes many times its size in memory
MAX_PICTURE_BYTES = 1 << 28
MAX_LOG_BYTES = 1 << 28  # metrics.jsonl or samples.jsonl: more than a million lines
WINDOWS = os.name == "nt"
OWN_NAME = re.compile(r"\.transduce-([0-9a-f]{16})")
RECORD, NEW, OLD = "record.json", "new", "old"
# Written into every picture and page, so that a later command may overwrite the file.
FILE_MARK = "made-by-transduce"
PAGE_MARK = '<meta name="generator" content="transduce">'
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has neither of these
NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def sync(path: Path) -> None:
    """Flush a file's bytes, or a folder's entries, to the disk.

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
    """Open a text file in a run folder for appending; refuse links, pipes and devices."""

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
        if error.errno == errno.ELOOP:  # the link was created after the check above
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
    """Refuse a path that is not a regular file; a missing file is not an error."""
    if path.exists() and not path.is_file():
        raise _irregular(path)
    return path


def read_regular(path: Path, largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes."""
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
def name_errors_after(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Make system errors name `path` if they name no file, or a file in the folder `temporary`."""
    try:
        yield
    except OSError as error:
        name = None if error.filename is None else Path(os.fsdecode(error.filename))
        inside = name is not None and temporary is not None and name.is_relative_to(temporary)
        if error.errno is None or not (name is None or inside):
            raise
        if name and temporary:
            path = path.joinpath(*name.relative_to(temporary).parts[1:])
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def created_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; if the block fails, remove those that are empty."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # not empty
            for path in missing:
                path.rmdir()
        raise


@contextlib.contextmanager
def working_folder(path: Path, *, restore: bool = False) -> Iterator[Path]:
    """Yield a private folder next to `path` that is removed at the end.

    With `restore`, its entry `old` is moved back to `path` if `path` does not exist then.
    """
    token = secrets.token_hex(8)
    folder = path.with_name(f".transduce-{token}")
    with created_folder(path.parent), name_errors_after(path, folder):
        # mkdir fails if the name exists, even as a link. On Windows the mode is inherited.
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
        new = folder / NEW
        yield new
        sync(new)
        new.replace(path)
        sync(path.parent)


@contextlib.contextmanager
def atomic_folder(path: Path, required: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a folder to fill; it replaces `path` only if the block succeeds.

    It must then contain the files `required`, which another program may have deleted meanwhile.
    """
    with working_folder(path, restore=True) as folder:
        new, old = folder / NEW, folder / OLD
        new.mkdir()
        yield new
        for file in new.iterdir():
            sync(file)
        sync(new)
        for name in required:
            (new / name).stat()
        if os.path.lexists(path):  # a rename cannot replace a folder that is not empty
            sync(folder / RECORD)  # from here on, it says where to restore `old`
            sync(folder)
            path.replace(old)
        new.replace(path)
        sync(path.parent)


def remove_folder(path: Path) -> None:
    """Delete a folder atomically: it is moved away first, so a kill leaves it whole or gone."""
    with working_folder(path) as folder:
        path.replace(folder / OLD)


def remove_leftovers(folder: Path, *within: str) -> None:
    """Delete temporary folders left by killed processes, in a folder and its subfolders `within`.

    No other process may be writing there. A folder that was moved away and not replaced is
    restored. Links are not followed.
    """
    real = folder.resolve()
    inner = [real / name for name in within if (real / name).resolve() == real / name]
    for parent in [real, *inner]:
        if not parent.is_dir():
            continue
        for path in sorted(parent.iterdir()):
            if OWN_NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                _clean(path, _record_of(path))


def _clean(folder: Path, record: Mapping[str, Any] | None) -> None:
    """Remove a working folder, after restoring the folder that was moved away.

    The record is removed last, because it identifies the folder as ours.
    """
    # `remove_leftovers` tries again later. ValueError: the record contains an invalid file name.
    with contextlib.suppress(OSError, ValueError):
        if record is not None:
            target, old = folder.with_name(record["for"]), folder / OLD
            if record["restore"] and os.path.lexists(old) and not os.path.lexists(target):
                old.replace(target)
            for path in folder.iterdir():
                if path.name != RECORD:
                    delete(path)
        path = folder / RECORD
        # A process that was killed early leaves an empty record or no record.
        if record is not None or (os.path.lexists(path) and not path.lstat().st_size):
            path.unlink(missing_ok=True)
        folder.rmdir()  # fails if it contains another program's file


def _record_of(folder: Path) -> dict[str, Any] | None:
    """Return the record of a working folder, or None if it is not one of ours."""
    path, name = folder / RECORD, OWN_NAME.fullmatch(folder.name)
    try:
        if name is None or path.is_symlink():
            return None
        record = read_json(path)
        types.check_fields(record, {"for": str, "restore": bool})
    except (BadRun, TypeError):
        return None
    is_ours = (record.get("made_by"), record.get("token")) == ("transduce", name[1])
    return record if is_ours and is_plain_name(record["for"]) else None


def is_plain_name(name: str) -> bool:
    """Return whether a string is a file name without a path, so it cannot leave its folder."""
    return name == Path(name).name and name not in ("", "..") and "\0" not in name


def delete(path: Path) -> None:
    """Delete a file, a folder or a link, but not the target of a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def refuse_foreign_file(path: Path, option: str = "--out") -> None:
    """Refuse to overwrite a file that transduce did not write."""
    if not os.path.lexists(path):
        return
    try:
        content = b"" if path.is_symlink() else read_regular(path, MAX_PICTURE_BYTES)
        is_ours = FILE_MARK.encode() in content or PAGE_MARK.encode() in content
    except (OSError, BadRun):
        is_ours = False
    if not is_ours:
        raise BadInput(
            f"{option} {path} exists and was not made by transduce: "
            "choose another name, or delete it"
        )


def write_text_file(path: Path, text: str, *, errors: str = "strict") -> None:
    """Write a text file in UTF-8, completely or not at all; `errors` as for `str.encode`."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors=errors, newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # File names that are not UTF-8 contain lone surrogates, which must be escaped.
    text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
    write_text_file(path, text + "\n")


def checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, independent of the order of its keys."""
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
    stored = content.pop("sha256", None)
    if stored is None or "format" not in content:
        raise BadRun(f"{path} is not a file of {what}: it has no format or no checksum")
    if content["format"] != version:
        raise BadRun(
            f"{path} has format {content['format']!r:.60}: expected {version}; "
            "it was written by another version of transduce"
        )
    if stored != checksum(content):
        raise BadRun(f"{path} is damaged: its content does not match its checksum")
    try:
        types.check_fields(content, expected or {})
    except TypeError as error:
        raise BadRun(f"{path} is damaged: {error}") from None
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; raise BadRun if it is missing or damaged."""
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
