"""Damaged and missing files of a run are named, and nothing is changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_helpers import Files, flip, train_command, truncate
from conftest import (
    TINY,
    CommandLine,
    snapshot,
)
from interrupted_writes import leave_unfinished


@pytest.mark.parametrize("damage", [flip, truncate])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("info", "config.json"),
        ("translate", "config.json"),
        ("translate", "subwords.json"),
        ("translate", "model.safetensors"),
        ("average", "config.json"),
        ("average", "checkpoints/step-0000020/weights.safetensors"),
        ("train", "config.json"),
        ("train", "checkpoints/step-0000020/weights.safetensors"),
        ("train", "checkpoints/step-0000020/optimizer.safetensors"),
        ("train", "checkpoints/step-0000020/state.json"),
        ("train", "corpus/manifest.json"),
        ("train", "corpus/subwords.json"),
        ("train", "corpus/train.source.tokens"),
        ("train", "corpus/valid.target.offsets"),
    ],
)
def test_a_damaged_file_is_named_and_nothing_is_changed(
    command: str,
    name: str,
    damage: Callable[[Path], None],
    cli: CommandLine,
    tiny_files: Files,
    own_run: Path,
) -> None:
    damage(own_run / name)
    before = snapshot(own_run)
    arguments = train_command(tiny_files, own_run) if command == "train" else [command, own_run]
    if command == "translate":  # another engine may have an export that is whole
        arguments += ["--engine", "torch"]
    error = cli(*arguments, input="a dog\n").error
    assert error.startswith(f"{own_run / name} is damaged")
    assert snapshot(own_run) == before


def test_after_a_damaged_checkpoint_is_deleted_training_resumes_from_the_one_before(
    cli: CommandLine, tiny_files: Files, own_run: Path, tiny_run: Path
) -> None:
    newest = own_run / "checkpoints" / "step-0000020"
    truncate(newest / "weights.safetensors")
    assert f"delete {newest} to resume" in cli(*train_command(tiny_files, own_run)).error
    shutil.rmtree(newest)
    result = cli(*train_command(tiny_files, own_run))
    assert result.status == 0, result.stderr
    assert "resuming from step 15" in result.stderr
    assert (own_run / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 3, "loss": 1.5, "qerplexity": 4.5, "target_tokens_per_second": 1}',
        '{"step": 3, "loss": "1.5", "perplexity": 4.5, "target_tokens_per_second": 1}',
        '{"step": 3, "valid_loss": null}',
        '{"step": 3, "valid_loss": NaN}',
    ],
)
def test_info_ignores_a_damaged_metrics_record(line: str, cli: CommandLine, own_run: Path) -> None:
    before = cli("info", own_run)
    with (own_run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert cli("info", own_run) == before


@pytest.mark.parametrize(
    "name", ["subwords.json", "checkpoints/step-0000020/weights.safetensors", "model.safetensors"]
)
def test_a_missing_file_is_named(
    name: str, cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    (own_run / name).unlink()
    if name in ("subwords.json", "model.safetensors"):  # a checkpoint would be another model
        error = cli("translate", own_run, input="a dog\n").error
        assert error.startswith(f"{own_run / name} is missing")
    else:
        error = cli(*train_command(tiny_files, own_run)).error
        assert error.startswith(f"{own_run / name} is missing")


def test_unfinished_files_of_a_killed_process_are_deleted(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    half_made = [
        leave_unfinished(own_run / "checkpoints", "step-0000023") / "new" / "weights.safetensors",
        leave_unfinished(own_run / "checkpoints", "step-0000020", restore=True) / "old" / "weights",
        leave_unfinished(own_run, "corpus") / "new" / "train.source.tokens",
        leave_unfinished(own_run, "model.safetensors") / "new",
    ]
    for path in half_made:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    result = cli(*train_command(tiny_files, own_run, TINY | {"steps": "25"}))
    assert result.status == 0, result.stderr
    assert [path for path in half_made if path.exists()] == []
