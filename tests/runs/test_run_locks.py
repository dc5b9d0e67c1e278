"""A run folder is locked by one process, and a folder of something else is refused."""

from pathlib import Path

import pytest

from transduce.errors import BadRun
from transduce.runs.locks import locked_run


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BadRun) as caught, locked_run(tmp_path):
        pass
    assert str(caught.value) == (
        f"{tmp_path} holds something else (thesis.tex): choose another folder"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("mine")
    with pytest.raises(BadRun, match="is a file: expected a folder"), locked_run(path):
        pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize("inside", [[], ["corpus"], [".lock"], ["config.json", "other"]])
def test_an_empty_folder_and_a_run_can_be_locked(tmp_path: Path, inside: list[str]) -> None:
    for name in inside:
        (tmp_path / name).touch()
    with locked_run(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {*inside, ".lock"}


def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    with locked_run(tmp_path / "runs" / "run"):
        assert (tmp_path / "runs" / "run").is_dir()
