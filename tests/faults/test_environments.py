"""The short form of `make faults KIND=environments`."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.environments import (
    LATIN,
    NAME,
    Place,
    a_reader_that_goes,
    an_output_that_is_full,
    command,
)
from faults.interruptions import Task, difference


def test_with_all_streams_closed_a_run_is_trained_as_ever(
    undisturbed: tuple[Task, int], tmp_path: Path
) -> None:
    task, _ = undisturbed
    odd = Place(LATIN | {"HOME": None, "TMPDIR": "/nonexistent"}, shell="exec 0<&- 1>&- 2>&-")
    assert command(odd, *task.command(tmp_path / NAME)).returncode == 0
    assert difference(tmp_path / NAME, task.whole) == ""


def test_with_few_files_and_in_locale_c_text_is_translated_as_ever(
    undisturbed: tuple[Task, int], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(undisturbed[0].whole, tmp_path / NAME))
    source, begins = tmp_path / f"{NAME}.en", tmp_path / f"{NAME}.de"
    source.write_text("the dog sees the cat .\n" * 3, encoding="utf-8")
    begins.write_text("über\n" * 3, encoding="utf-8")
    odd = Place(LATIN, shell="ulimit -n 64; exec 0<&-")
    done = command(odd, "translate", run, source, "--prefixes", begins, "--beam", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("utf-8").count("über") == 3


@pytest.mark.parametrize("disturb", [a_reader_that_goes, an_output_that_is_full])
def test_an_output_that_nobody_takes_ends_a_command_without_a_traceback(
    disturb: Callable[[Task], str], undisturbed: tuple[Task, int], tmp_path: Path
) -> None:
    task = undisturbed[0]
    own = Task(tmp_path, task.texts, task.settings, task.preset)
    shutil.copytree(task.whole, own.whole)
    assert disturb(own) == ""
