"""Files that are whole or absent: written beside, flushed to the disk, then renamed."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from transduce.errors import BadRun

LARGEST_JSON = 1 << 25  # bytes; what is read whole takes many times its size
WINDOWS = os.name == "nt"


def sync(path: Path) -> None:
    """Make sure that a file's bytes, or a folder's names, are on the disk.

    Windows opens no folder, and a file only for who may write to it.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_own(path: Path, mode: str, errors: str = "strict") -> IO[str]:
    """Open a text file of a run folder to add to; a link there might lead out of the folder."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)  # Windows has none

    try:
        return open(path, mode, encoding="utf-8", errors=errors, newline="\n", opener=opener)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadRun(f"{path} is a link: expected a file of the run itself") from None
        raise


@contextlib.contextmanager
def naming(path: Path, beside: Path | None = None) -> Iterator[None]:
    """Have an error of the system name `path`, where it names no file or one `beside` it."""
    try:
        yield
    except OSError as error:
        name = None if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno is None or not (name is None or (beside and name.is_relative_to(beside))):
            raise
        meant = path / name.relative_to(beside) if name and beside else path
        raise OSError(error.errno, error.strerror, str(meant)) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it takes the place of `path` only if all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing-{os.getpid()}")
    with naming(path, beside):
        try:
            yield beside
            sync(beside)
            beside.replace(path)
            sync(path.parent)
        finally:
            with contextlib.suppress(OSError):  # `remove_leftovers` tries once more
                beside.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path: Path, holding: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a folder to fill; it becomes `path` only if all went well, `holding` these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing-{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    with naming(path, beside):
        try:
            beside.mkdir()
            yield beside
            for file in beside.iterdir():
                sync(file)
            sync(beside)
            for name in holding:
                (beside / name).stat()  # it may have been removed underneath
            if path.exists():  # a rename cannot replace a folder that holds files
                old = path.with_name(f".{path.name}.old-{os.getpid()}")
                path.replace(old)
                try:
                    beside.replace(path)
                except BaseException:
                    with contextlib.suppress(OSError):  # `remove_leftovers` puts it back
                        old.replace(path)
                    raise
                shutil.rmtree(old, ignore_errors=True)
            else:
                beside.replace(path)
            sync(path.parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder, from its place at once: what a kill leaves of it must not seem whole."""
    beside = path.with_name(f".{path.name}.removing-{os.getpid()}")
    path.replace(beside)
    shutil.rmtree(beside, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Delete what writers left half-done when they were killed; nobody else may be writing.

    A folder that was moved aside and not yet replaced goes back to its place.
    """
    for old in [*folder.glob(".*.old-*"), *folder.glob("*/.*.old-*")]:
        home = old.with_name(old.name[1:].rpartition(".old-")[0])
        if not home.exists():
            old.replace(home)
    kinds = (
        *(".*.writing-*", ".*.old-*", ".*.removing-*", ".*.spool-*"),
        ".tmp" + 6 * "[0-9A-Za-z]",  # safetensors writes one of these, and renames it
    )
    patterns = [*kinds, *(f"*/{kind}" for kind in kinds)]
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON for people and machines."""
    with replacing(path) as beside:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        # A file name that is no UTF-8 comes as lone surrogates, which JSON can only escape.
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
        beside.write_text(text + "\n", encoding="utf-8", newline="\n")


def checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, whatever the order of its names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object together with its checksum."""
    write_json(path, {"sha256": checksum(content), **content})


def read_sealed(path: Path, version: int, what: str) -> dict[str, Any]:
    """Read a JSON object that `write_sealed` wrote, or say what is wrong with the file."""
    content = read_json(path)
    seal = content.pop("sha256", None)
    if seal is None or "format" not in content:
        raise BadRun(f"{path} is no file of {what}: it has no format or no checksum")
    if content["format"] != version:
        raise BadRun(
            f"{path} has format {content['format']!r}: expected {version}; "
            "it was written by another version of transduce"
        )
    if seal != checksum(content):
        raise BadRun(f"{path} is damaged: its content does not agree with its checksum")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that we wrote, or say what is wrong with the file."""
    if not path.is_file():  # a device or a pipe might never end
        raise BadRun(f"{path} is {'no file' if path.exists() else 'missing'}")
    if path.stat().st_size > LARGEST_JSON:
        raise BadRun(f"{path} is larger than {LARGEST_JSON >> 20} MiB: it is no file of ours")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
