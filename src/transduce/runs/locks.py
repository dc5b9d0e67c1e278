"""Run folders held by one process: the lock, and the refusal of folders that are not runs."""

import contextlib
import importlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from transduce.errors import BadRun
from transduce.runs.folder import LEXICON, RECIPE, START, SUBWORDS, require_own_folders
from transduce.system.files import (
    WINDOWS,
    folder_made,
    naming,
    open_own,
    open_regular,
    read_regular,
)

FAR = 1 << 30  # bytes
LOCK = ".lock"
LOCK_TRIES = 5
# Names that a run folder may hold before its config.json; a corpus is checked by itself.
BEFORE_CONFIG = (
    *("corpus", SUBWORDS, START, "distilled"),
    *("trees", LEXICON, RECIPE),
)
A_LOOK = 0.05  # seconds; `in_use` holds a lock for far less


@contextlib.contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold a run folder for this process alone; the system releases it when the process ends.

    If the work fails before it has written anything, nothing that was made here stays.
    """
    require_run_folder(run)
    with folder_made(run):
        before = {path.name for path in run.iterdir()}
        file = _lock_file(run)
        try:
            with naming(run / LOCK):
                file.truncate(0)
                file.write(f"{os.getpid()}\n")
                file.flush()
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if WINDOWS:  # which deletes no file that is open
                    file.close()
                if {path.name for path in run.iterdir()} - before <= {LOCK} and LOCK not in before:
                    (run / LOCK).unlink()
            raise
        finally:
            with contextlib.suppress(OSError):  # closing releases the lock even if it fails
                file.close()


def _lock_file(run: Path) -> IO[str]:
    """Open and lock the file `.lock` of a run folder."""
    path = run / LOCK
    for _ in range(LOCK_TRIES):
        run.mkdir(parents=True, exist_ok=True)
        file = open_own(path, "a+", errors="replace")
        try:
            if not _lock(file):
                time.sleep(A_LOOK)  # `in_use` may have held it for a moment
                if not _lock(file):
                    file.seek(0)
                    holder = file.read(20).strip()
                    other = f"process {holder}" if holder.isdecimal() else "another process"
                    raise BadRun(f"{run} is in use by {other}")
            # A process that failed may have deleted the file since it was opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()
    raise BadRun(f"{run} is in use by another process")


def require_run_folder(run: Path) -> None:
    """Refuse a place for a run that holds something else."""
    if run.exists() and not run.is_dir():
        raise BadRun(f"{run} is a file: expected a folder for the run")
    require_own_folders(run)
    if not run.is_dir() or (run / "config.json").exists():
        return
    # A process that is killed before it writes config.json leaves these, and its lock.
    ours = BEFORE_CONFIG if is_own_lock(run / LOCK) else BEFORE_CONFIG[:1]
    for path in sorted(run.iterdir()):
        if path.name not in ours and not path.name.startswith(".") and not _is_empty(path):
            raise BadRun(f"{run} holds something else ({path.name}): choose another folder")


def is_own_lock(path: Path) -> bool:
    """Tell whether a file holds nothing but the number of a process, as ours do."""
    try:
        return re.fullmatch(rb"[0-9]{0,20}\n?", read_regular(path, 1 << 20)) is not None
    except (OSError, BadRun):
        return False


def in_use(run: Path) -> bool:
    """Tell whether a process holds a run folder with `locked`."""
    try:
        with open_regular(run / LOCK) as file:
            return not _lock(file, shared=True)  # given back at once, as the file is closed
    except (OSError, BadRun):
        return False


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Try to lock a file, which other programs may go on reading."""
    try:
        if (fcntl := _module("fcntl")) is not None:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        elif (msvcrt := _module("msvcrt")) is not None:
            # Windows locks bytes, against reading too: one far behind the text stands for all.
            place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            os.lseek(file.fileno(), FAR, os.SEEK_SET)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(file.fileno(), place, os.SEEK_SET)
    except OSError:
        return False
    return True


def _module(name: str) -> Any:
    """Return a module that only some systems have, or nothing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
