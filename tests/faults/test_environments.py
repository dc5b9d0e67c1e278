"""The short form of `make faults KIND=environments`."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.environments import (
    LATIN,
    NAME,
    Environment,
    a_reader_that_closes_its_pipe,
    an_output_that_is_full,
    command,
)
from faults.interruptions import Task, difference


def test_training_with_all_streams_closed_gives_the_same_result(
    uninterrupted: tuple[Task, int], tmp_path: Path
) -> None:
    task, _ = uninterrupted
    odd = Environment(LATIN | {"HOME": None, "TMPDIR": "/nonexistent"}, shell="exec 0<&- 1>&- 2>&-")
    assert command(odd, *task.command(tmp_path / NAME)).returncode == 0
    assert difference(tmp_path / NAME, task.whole) == ""


def test_translating_with_few_files_and_locale_c_gives_the_same_result(
    uninterrupted: tuple[Task, int], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(uninterrupted[0].whole, tmp_path / NAME))
    source, begins = tmp_path / f"{NAME}.en", tmp_path / f"{NAME}.de"
    source.write_text("the dog sees the cat .\n" * 3, encoding="utf-8")
    begins.write_text("über\n" * 3, encoding="utf-8")
    odd = Environment(LATIN, shell="ulimit -n 64; exec 0<&-")
    done = command(odd, "translate", run, source, "--prefixes", begins, "--beam", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("utf-8").count("über") == 3


@pytest.mark.parametrize("disturb", [a_reader_that_closes_its_pipe, an_output_that_is_full])
def test_output_that_cannot_be_written_ends_a_command_without_a_traceback(
    disturb: Callable[[Task], str], uninterrupted: tuple[Task, int], tmp_path: Path
) -> None:
    task = uninterrupted[0]
    own = Task(tmp_path, task.texts, task.settings, task.preset)
    shutil.copytree(task.whole, own.whole)
    assert disturb(own) == ""
