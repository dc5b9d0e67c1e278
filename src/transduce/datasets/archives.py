"""The archives of a data set: which are needed, which are present, and where they came from."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.datasets.catalogue import Archive, DataSet, SplitName
from transduce.datasets.folders import ARCHIVES, RECORD
from transduce.errors import BadData, BadInput
from transduce.system.files import sha256
from transduce.system.progress import Progress

OTHER_SUFFIXES = ("", ".xz", ".zst")  # accepted for a text in --from, instead of .gz


def needed_archives(
    data: DataSet, splits: tuple[SplitName, ...], record: Mapping[str, Any]
) -> dict[str, Archive]:
    """Return the archives for some splits; hashes missing in the catalogue come from data.json."""
    archives = data.archives_of(splits)
    for file, entry in record.get("archives", {}).items():
        if file in archives and archives[file].hash is None and entry["file"] == file:
            archives[file] = dataclasses.replace(
                archives[file], sha256=entry["sha256"], size=entry["size"]
            )
    return archives


def present_archives(
    archives: Mapping[str, Archive], out: Path, folder: Path | None, progress: Progress
) -> dict[str, Path]:
    """Return the archives that are in --from or already downloaded, after checking them."""
    if folder is not None and not folder.is_dir():
        raise BadInput(f"{folder} is not a folder: --from expects a folder with downloaded files")
    files = {}
    for file, archive in archives.items():
        path = None if folder is None else _find_given(archive, folder)
        downloaded = out / ARCHIVES / file
        if path is None and downloaded.is_file() and not find_mismatch(downloaded, archive):
            path = downloaded
        if path is not None:
            files[file] = path
    given = {file: path for file, path in files.items() if path.parent == folder}
    if given:
        progress.say(f"taken from {folder}: {', '.join(path.name for path in given.values())}")
    if any(
        archives[file].hash and not path.name.endswith(Path(file).suffix)
        for file, path in given.items()
    ):
        progress.say("  compressed in another way than the downloads: their hashes are not checked")
    return files


def _find_given(archive: Archive, folder: Path) -> Path | None:
    """Return an archive in --from, checked; a text may be compressed differently."""
    for name in dict.fromkeys([archive.file, *(url.rpartition("/")[2] for url in archive.urls)]):
        path = folder / name
        if path.is_file():
            if mismatch := find_mismatch(path, archive):
                raise BadData(f"{path} is not the file that is needed: {mismatch}")
            return path
    if archive.file.endswith(".gz") and not archive.file.endswith(".tar.gz"):
        stem = archive.file.removesuffix(".gz")
        paths = (folder / f"{stem}{suffix}" for suffix in OTHER_SUFFIXES)
        return next((path for path in paths if path.is_file()), None)
    return None


def find_mismatch(path: Path, archive: Archive) -> str | None:
    """Return how a file differs from its catalogue entry, or None if it matches."""
    size = path.stat().st_size
    if archive.size is not None and size != archive.size:
        return f"it has {size:,} bytes: expected {archive.size:,}"
    if archive.hash is not None:
        algorithm, expected = archive.hash
        with path.open("rb") as file:
            # MD5 detects damage, but not tampering; some catalogues offer nothing better.
            digest = hashlib.file_digest(
                file, lambda: hashlib.new(algorithm, usedforsecurity=False)
            ).hexdigest()
        if digest != expected:
            return f"its {algorithm} is {digest}: expected {expected}"
    return None


def bytes_present(out: Path, file: str) -> int:
    """Return how many bytes of an archive have been downloaded."""
    paths = (out / ARCHIVES / file, out / ARCHIVES / f"{file}.part")
    return next((path.stat().st_size for path in paths if path.is_file()), 0)


def origins(
    archives: Mapping[str, Archive], files: Mapping[str, Path], out: Path, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return the origin, size and hash of each archive for data.json; report unknown hashes."""
    entries = {}
    for file, path in files.items():
        checked = archives[file].sha256 if path.suffix == Path(file).suffix else None
        size, digest = path.stat().st_size, checked or sha256(path)
        if archives[file].hash is None:
            progress.say(
                f"{path.name}: no hash was known; it has {size:,} bytes and the sha256 {digest}, "
                f"which {RECORD} keeps"
            )
        downloaded = path.parent == out / ARCHIVES
        urls = list(archives[file].urls) if downloaded else [str(path)]
        entries[file] = {"file": path.name, "from": urls, "size": size, "sha256": digest}
    return entries


def delete_unchecked(error: BadData, archives: Mapping[str, Archive], out: Path) -> BadData:
    """Delete downloads without a known hash, which may be damaged; return the error to raise."""
    unchecked = [
        out / ARCHIVES / file for file, archive in archives.items() if archive.hash is None
    ]
    if not any(path.is_file() for path in unchecked):
        return error
    for path in unchecked:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty
        (out / ARCHIVES).rmdir()
    return BadData(f"{error}; no hash of it is known: the same command downloads it again")
