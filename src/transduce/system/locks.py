"""A lock file `.lock` in a folder, so that only one process works there."""

import contextlib
import importlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from transduce.errors import BadRun
from transduce.system.files import (
    WINDOWS,
    created_folder,
    name_errors_after,
    open_for_append,
    open_regular,
    read_regular,
)

LOCK = ".lock"
LOCK_TRIES = 5
RETRY_AFTER = 0.05  # seconds; `in_use` holds a lock for far less
LOCKED_BYTE = 1 << 30  # Windows locks bytes; this one is far beyond the file's text


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends.

    The folder is created if it is missing. If the work fails before it has written anything, the
    lock file and the new folder are removed.
    """
    with created_folder(folder):
        before = {path.name for path in folder.iterdir()}
        file = _lock_file(folder)
        try:
            with name_errors_after(folder / LOCK):
                file.truncate(0)
                file.write(f"{os.getpid()}\n")
                file.flush()
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if WINDOWS:  # Windows cannot delete an open file
                    file.close()
                added = {path.name for path in folder.iterdir()} - before
                if added == {LOCK}:
                    (folder / LOCK).unlink()
            raise
        finally:
            with contextlib.suppress(OSError):  # closing releases the lock even if it fails
                file.close()


def _lock_file(folder: Path) -> IO[str]:
    """Open and lock the file `.lock` in a folder."""
    path = folder / LOCK
    for _ in range(LOCK_TRIES):
        folder.mkdir(parents=True, exist_ok=True)
        file = open_for_append(path, "a+", errors="replace")
        try:
            with name_errors_after(path):
                if not _lock(file):
                    time.sleep(RETRY_AFTER)  # `in_use` may have held it for a moment
                    if not _lock(file):
                        raise BadRun(f"{folder} is in use by {_holder(file)}")
            # Another process may have failed and deleted the file since it was opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()
    raise BadRun(f"{folder} is in use by another process")


def _holder(file: IO[str]) -> str:
    """Describe the process whose ID is in a lock file."""
    file.seek(0)
    number = file.read(20).strip()
    return f"process {number}" if number.isdecimal() else "another process"


def is_own_lock(path: Path) -> bool:
    """Return whether a file contains only a process ID, as our lock files do."""
    try:
        return re.fullmatch(rb"[0-9]{0,20}\n?", read_regular(path, 1 << 20)) is not None
    except (OSError, BadRun):
        return False


def in_use(folder: Path) -> bool:
    """Return whether a process has locked a folder with `locked`."""
    try:
        with open_regular(folder / LOCK) as file:
            return not _lock(file, shared=True)  # closing the file releases it at once
    except (OSError, BadRun):
        return False


def _lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Lock a file, which other programs may still read; return False if it is locked already.

    Any other failure, such as a file system without locks, is raised.
    """
    try:
        if (fcntl := _module("fcntl")) is not None:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        elif (msvcrt := _module("msvcrt")) is not None:
            # Windows locks bytes, and a locked byte cannot be read either.
            position = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            os.lseek(file.fileno(), LOCKED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(file.fileno(), position, os.SEEK_SET)
    except (BlockingIOError, PermissionError):  # EWOULDBLOCK from flock, EACCES on Windows
        return False
    return True


def _module(name: str) -> Any:
    """Import a module that only some systems have; return None if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
