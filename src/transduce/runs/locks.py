"""Locking a run folder, and refusing folders that contain something else."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from transduce.errors import BadRun
from transduce.runs.folder import LEXICON, RECIPE, START, SUBWORDS, require_own_folders
from transduce.system.locks import LOCK, is_own_lock, locked

# Files and folders that a run folder may contain before its config.json is written.
BEFORE_CONFIG = ("corpus", SUBWORDS, START, "distilled", "trees", LEXICON, RECIPE)


@contextlib.contextmanager
def locked_run(run: Path) -> Iterator[None]:
    """Lock a run folder for this process; create it if it is missing."""
    require_run_folder(run)
    with locked(run):
        yield


def require_run_folder(run: Path) -> None:
    """Refuse a folder that contains something other than a run."""
    if run.exists() and not run.is_dir():
        raise BadRun(f"{run} is a file: expected a folder for the run")
    require_own_folders(run)
    if not run.is_dir() or (run / "config.json").exists():
        return
    # A process killed before it wrote config.json leaves these files and its lock. A corpus is
    # checked when it is opened.
    ours = BEFORE_CONFIG if is_own_lock(run / LOCK) else ("corpus",)
    for path in sorted(run.iterdir()):
        if path.name not in ours and not path.name.startswith(".") and not _is_empty(path):
            raise BadRun(f"{run} holds something else ({path.name}): choose another folder")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
