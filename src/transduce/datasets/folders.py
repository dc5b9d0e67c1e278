"""The folder of a data set: what this program put there, and what belongs to somebody else."""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from transduce.datasets.catalogue import PARTS
from transduce.errors import BadInput, BadRun
from transduce.settings.types import check_fields
from transduce.system.files import (
    atomic_write,
    created_folder,
    is_plain_name,
    open_regular,
    read_checksummed,
)
from transduce.system.locks import LOCK, is_own_lock, locked

FORMAT = 1
RECORD, ARCHIVES, WORK = "data.json", "archives", ".getting"
NAME = ".name"  # of the data set, in WORK: the folder is ours from its first download on
BEGIN = 1 << 10  # bytes of data.json that tell what it is
# The types of the fields of data.json, and of what it says of each file and each archive.
FIELDS = {
    **dict.fromkeys(("name", "title", "licence"), str),
    "languages": tuple[str, str],
    "made": list[Literal["train", "valid", "test"]],
    **dict.fromkeys(("archives", "files", "parts"), dict[str, dict[str, Any]]),
}
OF_FILE = {"size": int, "mtime_ns": int, "sha256": str}
OF_ARCHIVE = {"file": str, "from": list[str], "size": int, "sha256": str}


def refuse_foreign(name: str, out: Path) -> None:
    """Refuse a folder of another data set, or with files in our places that are somebody's own."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file: expected a folder for the data set")
    for inner in (out / WORK, out / ARCHIVES):
        if inner.is_symlink():
            raise BadInput(f"{inner} is a link: expected a folder of the data set itself")
    there = record_of(out).get("name")
    if there not in (None, name):
        raise BadInput(f"{out} holds the data set {there}: choose another folder for {name}")
    if there is None and out.is_dir() and not (_is_begun(out) or _was_ours(name, out)):
        names = [path.name for path in out.iterdir()]
        own = [one for one in names if Path(one).stem in PARTS or one in (ARCHIVES, RECORD)]
        if own:
            raise BadInput(
                f"{out} holds {max(own)}, which transduce did not write: choose another folder"
            )


def _is_begun(out: Path) -> bool:
    """Tell whether a process has begun to get a data set here."""
    return is_own_lock(out / WORK / LOCK)


def _was_ours(name: str, out: Path) -> bool:
    """Tell whether data.json, though damaged, is one that was written for this data set."""
    with contextlib.suppress(OSError, BadRun), open_regular(out / RECORD) as file:
        begin = file.read(BEGIN)
        return b'"sha256": "' in begin and f'"name": "{name}"'.encode() in begin
    return False


def record_of(out: Path) -> dict[str, Any]:
    """Return what data.json says, or nothing where it is missing or damaged."""
    try:
        record = read_checksummed(out / RECORD, FORMAT, "a data set", FIELDS)
        for kind, expected in (("files", OF_FILE), ("archives", OF_ARCHIVE)):
            for name, facts in record[kind].items():
                check_fields(facts, expected)
                _require_plain(name)
        for language in record["languages"]:
            _require_plain(language)
    except (BadRun, TypeError):
        return {}
    return record


def _require_plain(name: str) -> None:
    if not (is_plain_name(name) and name.isprintable()):
        raise TypeError(f"{name!r:.60} is not the name of a file in the folder")


@contextlib.contextmanager
def working(name: str, out: Path) -> Iterator[None]:
    """Hold the folder of a data set; a failure before the first file leaves nothing behind."""
    before = {path.name for path in out.iterdir()} if out.is_dir() else set()
    with created_folder(out):
        try:
            with locked(out / WORK):
                with atomic_write(out / WORK / NAME) as beside:
                    beside.write_text(f"{name}\n", encoding="utf-8", newline="\n")
                yield
        except BaseException:
            if {path.name for path in out.iterdir()} - before <= {WORK} and WORK not in before:
                end(out)
            raise


def end(out: Path) -> None:
    """Remove the folder that says that a process is at work."""
    with contextlib.suppress(OSError):  # a file of somebody else is there
        for name in (NAME, LOCK):
            (out / WORK / name).unlink(missing_ok=True)
        (out / WORK).rmdir()


def remove_archives(out: Path, record: Mapping[str, Any]) -> None:
    """Delete what was downloaded, and nothing that somebody else has put beside it."""
    endings = ("", ".part", ".part.json")
    with contextlib.suppress(OSError):
        for file, ending in itertools.product(record.get("archives", {}), endings):
            (out / ARCHIVES / f"{file}{ending}").unlink(missing_ok=True)
        (out / ARCHIVES).rmdir()
