"""The cache of CTranslate2 exports, in the user's cache folder, outside every run folder.

CTranslate2 trusts the files that it loads: a crafted model.bin can crash the process, read out of
bounds, or translate differently from the weights next to it. A run folder may come from anyone, so
an export in a run folder is never loaded. The engine makes its own export and keeps it here:

    hashes.json        SHA-256 of weights files, by path and file identity
    ctranslate2/KEY/   an export; KEY is the hash of everything that determines it

The weights are identified by the SHA-256 of the file's bytes, not by the checksum in its header,
which is a claim. Hashing takes a large part of the start-up time, so hashes.json caches it for a
file whose device, inode, size, modification time and change time are the same. Only the user can
write to hashes.json, and the change time cannot be set back without changing the system's clock.
The files of an export are hashed at every load: a damaged model.bin could crash the process.
"""

import contextlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from transduce.errors import BadRun
from transduce.interop.export.ctranslate2 import (
    STAMP,
    checked_weights,
    is_export_of,
    stamp_of,
    write,
)
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec
from transduce.system.files import (
    OWN_NAME,
    checksum,
    read_checksummed,
    remove_folder,
    sha256,
    write_checksummed,
)

VARIABLE = "TRANSDUCE_CACHE"
EXPORTS, HASHES, MAKING = "ctranslate2", "hashes.json", ".making-"
KEY = re.compile("[0-9a-f]{64}")
# Left behind by a killed process: an unfinished export, or one that it was deleting.
LEFTOVER = re.compile(rf"{re.escape(MAKING)}.*|{OWN_NAME.pattern}")
FORMAT = 1
LIMIT = 4 << 30  # bytes of all exports; a big model in float32 has 0.9 GB
MAX_HASHES = 200  # of weights files
# A file that changed this recently may change again within one tick of its file system's clock.
SETTLED = 2_000_000_000  # nanoseconds
ABANDONED = 24 * 3600  # seconds after which an unfinished export belongs to a killed process

Loaded = TypeVar("Loaded")

logger = logging.getLogger("transduce")
_lock = threading.Lock()
_warned: set[str] = set()


def load_export(
    run: Path, config: RunConfig, codec: Codec, quantize: str, load: Callable[[Path], Loaded]
) -> Loaded:
    """Call `load` with the export of a run folder, taken from the cache or made now.

    Without a usable cache the export is made in a temporary folder, which is deleted after `load`.
    """
    weights = checked_weights(run, config)
    with _lock:
        try:
            cache = open_cache()
        except OSError as error:
            return _load_temporary(run, config, codec, quantize, load, because=error)
        stamp = stamp_of(run, config, quantize, weights_hash(weights, cache))
        entry = cache / EXPORTS / checksum(stamp)
        with contextlib.suppress(OSError):  # another process may be deleting it
            if is_export_of(entry, stamp):
                loaded = load(entry)
                with contextlib.suppress(OSError):  # the cache may be read-only
                    os.utime(entry)  # the most recently used is deleted last
                return loaded
        try:
            with tempfile.TemporaryDirectory(
                prefix=MAKING, dir=entry.parent, ignore_cleanup_errors=True
            ) as making:
                finished = Path(making, "model")
                write(run, config, codec, finished, stamp, tokenizers=False)
                return load(_move_to_cache(finished, entry, stamp))
        except OSError as error:
            return _load_temporary(run, config, codec, quantize, load, because=error)


def cache_folder() -> Path:
    """Return the cache folder: TRANSDUCE_CACHE, or the user's cache folder of the system."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute()
    try:
        home = Path.home().absolute()
    except RuntimeError:
        raise FileNotFoundError("there is no home folder") from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "transduce")
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "transduce"
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else home / ".cache") / "transduce"


def open_cache() -> Path:
    """Return the cache folder, created if missing; refuse one that other users could write to."""
    cache = cache_folder()
    for folder in (cache, cache / EXPORTS):
        if not os.path.lexists(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)  # another process may make it at the same time
        status = folder.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise PermissionError(f"{folder} is a symbolic link")
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{folder} is not a folder")
        if hasattr(os, "geteuid"):
            if status.st_uid != os.geteuid():
                raise PermissionError(f"{folder} is owned by another user")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(f"{folder} is writable by other users")
    return cache


def weights_hash(path: Path, cache: Path) -> str:
    """Return the SHA-256 of a weights file; it is cached while the file is unchanged."""
    name, before = str(path.resolve()), _identity(path)
    try:
        expected = {"files": dict[str, Any]}
        known: dict[str, Any] = read_checksummed(cache / HASHES, FORMAT, "hashes", expected)[
            "files"
        ]
    except BadRun:
        known = {}
    match known.get(name):
        case [identity, str(cached)] if identity == before:
            return cached
    settled = time.time_ns() - max(before[-2:]) > SETTLED
    digest = sha256(path)
    if settled and _identity(path) == before:
        kept = [item for item in known.items() if item[0] != name][1 - MAX_HASHES :]
        files = dict([*kept, (name, [before, digest])])
        with contextlib.suppress(OSError):  # then the next start only takes longer
            write_checksummed(cache / HASHES, {"format": FORMAT, "files": files})
    return digest


def prune(exports: Path, keep: Path) -> None:
    """Delete the least recently used exports beyond LIMIT, and leftovers of killed processes.

    Only folders with the name and the stamp of an export are deleted, and leftovers by their name.
    """
    entries = []
    for path in exports.iterdir():
        with contextlib.suppress(OSError):  # another process may have deleted it
            used = path.lstat().st_mtime
            if not path.is_dir() or path.is_symlink():
                continue
            if KEY.fullmatch(path.name) and (path / STAMP).is_file():
                size = sum(file.stat().st_size for file in path.iterdir())
                entries.append((path == keep, used, path, size))
            elif time.time() - used > ABANDONED and LEFTOVER.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)
    total = sum(size for *_, size in entries)
    for kept, _, path, size in sorted(entries):
        if total <= LIMIT or kept:
            break
        with contextlib.suppress(OSError):
            remove_folder(path)
            total -= size


def _move_to_cache(finished: Path, entry: Path, stamp: dict[str, Any]) -> Path:
    """Move a finished export into the cache; return the folder to load it from."""
    try:
        if entry.exists() and not is_export_of(entry, stamp):
            remove_folder(entry)  # it is damaged
        finished.replace(entry)
    except OSError:  # another process was faster, or the entry cannot be replaced
        return entry if is_export_of(entry, stamp) else finished
    with contextlib.suppress(OSError):
        prune(entry.parent, entry)
    return entry


def _load_temporary(
    run: Path,
    config: RunConfig,
    codec: Codec,
    quantize: str,
    load: Callable[[Path], Loaded],
    *,
    because: OSError,
) -> Loaded:
    named = because.filename is not None
    reason = f"{because.filename}: {because.strerror}" if named else because.strerror or because
    text = (
        f"the CTranslate2 export of the model is not cached ({reason}): every start makes it again;"
        f" set {VARIABLE} to a folder that only you can write to"
    )
    if text not in _warned:
        _warned.add(text)
        logger.warning(text)
    stamp = stamp_of(run, config, quantize, sha256(checked_weights(run, config)))
    with tempfile.TemporaryDirectory(prefix="transduce-") as temporary:
        folder = Path(temporary, "model")
        write(run, config, codec, folder, stamp, tokenizers=False)
        return load(folder)


def _identity(path: Path) -> list[int]:
    status = path.stat()
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]
