"""data.json, the record of a data set in a folder: origins, counts, sizes and hashes."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.data.catalogue import PARTS
from transduce.errors import BadRun
from transduce.files import read_sealed, sha256

FORMAT = 1
RECORD = "data.json"
BEGIN = 1 << 10  # bytes of data.json that are read to identify it
FACTS = {"size": int, "mtime_ns": int, "sha256": str}  # of each text
ORIGIN = {"file": str, "size": int, "sha256": str}  # of each archive


def read(out: Path) -> dict[str, Any]:
    """Return the content of data.json, or nothing if it is missing, damaged or incomplete.

    The checksum proves that the file is as it was written, not that a program wrote every field,
    so the fields are checked too.
    """
    try:
        record = read_sealed(out / RECORD, FORMAT, "a data set")
    except BadRun:
        return {}
    return record if _is_complete(record) else {}


def was_ours(name: str, out: Path) -> bool:
    """Tell whether data.json, though damaged, is one that was written for this data set."""
    with contextlib.suppress(OSError), (out / RECORD).open("rb") as file:
        begin = file.read(BEGIN)
        return b'"sha256": "' in begin and f'"name": "{name}"'.encode(errors="replace") in begin
    return False


def whole(record: Mapping[str, Any], out: Path) -> set[str]:
    """Return the parts whose two files are as they were written."""
    by_part: dict[str, list[bool]] = {}
    for file, then in record.get("files", {}).items():
        by_part.setdefault(Path(file).stem, []).append(_as_written(out / file, then))
    return {part for part, good in by_part.items() if len(good) == 2 and all(good)}


def facts(path: Path) -> dict[str, Any]:
    """Return what the record keeps of a text."""
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256(path)}


def _as_written(path: Path, then: Mapping[str, Any]) -> bool:
    """Tell whether a file is unchanged; only one that was touched since is hashed."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != then["size"]:
        return False
    untouched: bool = path.stat().st_mtime_ns == then["mtime_ns"]
    return untouched or sha256(path) == then["sha256"]


def _is_complete(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has every field that is read, each of the type that was written."""
    languages, made = record.get("languages"), record.get("made")
    return (
        isinstance(record.get("name"), str)
        and isinstance(languages, list)
        and len(languages) == 2
        and all(isinstance(one, str) for one in languages)
        and isinstance(made, list)
        and all(one in PARTS for one in made)
        and isinstance(record.get("parts"), dict)
        and _is_table(record.get("archives"), ORIGIN)
        and _is_table(record.get("files"), FACTS)
    )


def _is_table(value: Any, fields: Mapping[str, type]) -> bool:
    """Tell whether a value is an object of objects that all have these fields."""
    return isinstance(value, dict) and all(
        isinstance(row, dict) and all(type(row.get(name)) is kind for name, kind in fields.items())
        for row in value.values()
    )
