"""The folder of a data set: its record, its lock, and the protection of other files."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from transduce.datasets.catalogue import SPLITS
from transduce.errors import BadInput, BadRun
from transduce.settings.types import check_fields
from transduce.system.files import (
    created_folder,
    is_plain_name,
    open_regular,
    read_checksummed,
    write_text_file,
)
from transduce.system.locks import LOCK, is_own_lock, locked

FORMAT = 1
RECORD, ARCHIVES, WORK = "data.json", "archives", ".getting"
NAME = ".name"  # in WORK: the name of the data set, written before the first download
HEAD = 1 << 10  # bytes at the start of data.json that contain the name
# The types of the fields in data.json, and in its entries for files and archives.
FIELDS = {
    **dict.fromkeys(("name", "title", "licence"), str),
    "languages": tuple[str, str],
    "made": list[Literal["train", "valid", "test"]],
    **dict.fromkeys(("archives", "files", "parts"), dict[str, dict[str, Any]]),
}
FILE_ENTRY = {"size": int, "mtime_ns": int, "sha256": str}
ARCHIVE_ENTRY = {"file": str, "from": list[str], "size": int, "sha256": str}


def refuse_foreign(name: str, out: Path) -> None:
    """Refuse a folder with a different data set, or with files that transduce did not write."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file: expected a folder for the data set")
    for inner in (out / WORK, out / ARCHIVES):
        if inner.is_symlink():
            raise BadInput(f"{inner} is a link: expected a folder of the data set itself")
    existing = read_record(out).get("name")
    if existing not in (None, name):
        raise BadInput(f"{out} holds the data set {existing}: choose another folder for {name}")
    if existing is None and out.is_dir() and not (_is_started(out) or _was_ours(name, out)):
        names = [path.name for path in out.iterdir()]
        foreign = [
            file for file in names if Path(file).stem in SPLITS or file in (ARCHIVES, RECORD)
        ]
        if foreign:
            raise BadInput(
                f"{out} holds {max(foreign)}, which transduce did not write: choose another folder"
            )


def _is_started(out: Path) -> bool:
    """Return whether a process has started to get a data set here."""
    return is_own_lock(out / WORK / LOCK)


def _was_ours(name: str, out: Path) -> bool:
    """Return whether a damaged data.json was written for this data set."""
    with contextlib.suppress(OSError, BadRun), open_regular(out / RECORD) as file:
        head = file.read(HEAD)
        return b'"sha256": "' in head and f'"name": "{name}"'.encode() in head
    return False


def read_record(out: Path) -> dict[str, Any]:
    """Return the content of data.json, or an empty dict if it is missing or damaged."""
    try:
        record = read_checksummed(out / RECORD, FORMAT, "a data set", FIELDS)
        for field, expected in (("files", FILE_ENTRY), ("archives", ARCHIVE_ENTRY)):
            for name, entry in record[field].items():
                check_fields(entry, expected)
                _check_name(name)
        for language in record["languages"]:
            _check_name(language)
    except (BadRun, TypeError):
        return {}
    return record


def _check_name(name: str) -> None:
    if not (is_plain_name(name) and name.isprintable()):
        raise TypeError(f"{name!r:.60} is not the name of a file in the folder")


@contextlib.contextmanager
def hold_folder(name: str, out: Path) -> Iterator[None]:
    """Lock the folder of a data set; a failure before the first file leaves nothing behind."""
    before = {path.name for path in out.iterdir()} if out.is_dir() else set()
    with created_folder(out):
        try:
            with locked(out / WORK):
                write_text_file(out / WORK / NAME, f"{name}\n")
                yield
        except BaseException:
            if {path.name for path in out.iterdir()} - before <= {WORK} and WORK not in before:
                remove_work_folder(out)
            raise


def remove_work_folder(out: Path) -> None:
    """Remove the folder with the lock."""
    with contextlib.suppress(OSError):  # not empty
        for name in (NAME, LOCK):
            (out / WORK / name).unlink(missing_ok=True)
        (out / WORK).rmdir()


def remove_archives(out: Path, record: Mapping[str, Any]) -> None:
    """Delete the downloads, and nothing else in their folder."""
    suffixes = ("", ".part", ".part.json")
    with contextlib.suppress(OSError):
        for file, suffix in itertools.product(record.get("archives", {}), suffixes):
            (out / ARCHIVES / f"{file}{suffix}").unlink(missing_ok=True)
        (out / ARCHIVES).rmdir()
