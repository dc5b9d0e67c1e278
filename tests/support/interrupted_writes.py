"""Files that a process leaves if it is killed during a write."""

from pathlib import Path

import pytest

from transduce.system.files import working_folder


def leave_unfinished(folder: Path, name: str, *, restore: bool = False) -> Path:
    """Create the working folder of an unfinished write to `name`, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transduce.system.files._clean", lambda *_: None)
        with working_folder(folder / name, restore=restore) as unfinished:
            return unfinished
