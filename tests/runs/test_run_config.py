"""config.json is read as it was written, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadRun
from transduce.runs.folder import RunConfig, Selection
from transduce.system.files import write_checksummed, write_json


def test_the_settings_of_a_run_are_loaded_as_saved(tmp_path: Path) -> None:
    config = RunConfig(
        model=ModelConfig(N=2, positions="learned"),
        train=TrainConfig(steps=7, seconds=1.5, select="best"),
        search=SearchConfig(beam=9, alpha=0.0),
        languages=("en", "de"),
        preset="small",
        device="cuda",
        weights="mean of the checkpoints at steps 5, 7",
        selection=Selection("average 5", 7),
        versions={"torch": "9.9"},
        hashes={"subwords.json": ("ab",)},
    )
    config.save(tmp_path)
    assert RunConfig.load(tmp_path) == config


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=f"there is no run folder {tmp_path / 'run'}"):
        RunConfig.load(tmp_path / "run")
    with pytest.raises(BadRun, match=f"{tmp_path} is not a run folder: it has no config.json$"):
        RunConfig.load(tmp_path)
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "config.json", {})
    with pytest.raises(BadRun, match=rf"; did you mean {tmp_path / 'run'}\?$"):
        RunConfig.load(tmp_path)


def test_settings_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"model_type": "marian", "d_model": 512})
    with pytest.raises(BadRun, match=f"^{path} is not a file of settings"):
        RunConfig.load(tmp_path)
    write_checksummed(path, {"format": 99})
    with pytest.raises(BadRun, match=f"^{path} has format 99: expected 1"):
        RunConfig.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"N": 6, "d_modl": 3}},
        {"model": {"N": "six"}},
        {"model": {"d_model": 7}},
        {"train": None},
        {"search": {"beam": 0}},
        {"languages": ["en"]},
        {"languages": 5},
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    RunConfig(model=ModelConfig(), train=TrainConfig()).save(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_bytes())
    del content["sha256"]
    write_checksummed(path, content | change)
    with pytest.raises(BadRun, match=f"^{path} is damaged: "):
        RunConfig.load(tmp_path)
    del content[next(iter(change))]
    write_checksummed(path, content)
    with pytest.raises(BadRun, match=f"^{path} is damaged: "):
        RunConfig.load(tmp_path)


def test_changed_settings_are_noticed(tmp_path: Path) -> None:
    RunConfig(model=ModelConfig(), train=TrainConfig()).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"N": 6', '"N": 5'))
    with pytest.raises(BadRun, match=f"^{path} is damaged: its content does not match"):
        RunConfig.load(tmp_path)


def test_the_selection_of_a_run_of_version_0_1_is_read(tmp_path: Path) -> None:
    """It was a text; newer runs write it too, so that older versions read them."""
    selection = Selection("average 5", 120)
    config = RunConfig(model=ModelConfig(), train=TrainConfig(), selection=selection)
    config.save(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_bytes())
    del content["sha256"], content["selection"]
    assert content["chosen"] == "average 5 at step 120"
    write_checksummed(path, content)
    old = RunConfig.load(tmp_path)
    assert old.selection == selection
    assert old.ended_at(120)
    assert not old.ended_at(20)
    write_checksummed(path, content | {"chosen": ""})
    assert RunConfig.load(tmp_path).selection is None
