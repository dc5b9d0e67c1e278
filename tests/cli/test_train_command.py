"""`transduce train`: options, finished runs, changed settings, interruption by signals."""

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_helpers import SHORT, Files, lines_of, train_command
from conftest import (
    COMMAND,
    TINY,
    CommandLine,
    environment,
    options,
    snapshot,
    tiny_pairs,
    write_pairs,
)

from transduce.runs.folder import RunConfig, checkpoints
from transduce.training.trainer import Trainer

LONG = TINY | {
    "steps": "119",
    "save_every": "7",
    "validate_every": "20",  # never at a step that is saved, so that interruptions are seen
    "log_every": "10",
    "validate_bleu": "2",
}


def test_training_a_finished_run_says_so_and_changes_nothing(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    before = snapshot(own_run)
    result = cli(*train_command(tiny_files, own_run))
    assert result.status == 0
    assert snapshot(own_run) == before
    stderr = result.stderr.replace(str(own_run), "RUN")
    assert re.search(r"finished|ended|already|nothing (is )?left", stderr), stderr


def test_a_finished_run_keeps_the_average_that_was_chosen(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    assert cli("average", own_run, "--last", "2").status == 0
    before = snapshot(own_run)
    assert cli(*train_command(tiny_files, own_run)).status == 0
    assert snapshot(own_run) == before


def test_more_steps_resume_a_finished_run(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    result = cli(*train_command(tiny_files, own_run, TINY | {"steps": "25"}))
    assert result.status == 0, result.stderr
    assert "resuming from step 20" in result.stderr
    assert RunConfig.load(own_run).weights.endswith("steps 5 to 25, every 5")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--set", "d_ff=128"], "was started with d_ff = 64, not 128"),
        (["--set", "batch_tokens=500"], "was started with batch_tokens = 400, not 500"),
        (["--seed", "2"], "was started with seed = 1, not 2"),
        (["--preset", "small"], "was started with the preset tiny, not small"),
        (["--preset", "smal"], "there is no preset smal. Did you mean small?"),
        (["--set", "d_f=128"], "there is no setting d_f. Did you mean d_ff?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_resuming_with_other_settings_is_refused(
    more: list[str], expected: str, cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    before = snapshot(own_run)
    assert expected in cli(*train_command(tiny_files, own_run), *more).error
    assert snapshot(own_run) == before


def test_another_text_or_validation_text_is_refused(
    cli: CommandLine, tiny_files: Files, own_run: Path, tmp_path: Path
) -> None:
    before = snapshot(own_run)
    other = write_pairs(tmp_path, "other", tiny_pairs(200, seed=9))
    longer = TINY | {"steps": "30"}
    assert str(own_run) in cli(*train_command(other, own_run, longer)).error
    valid = [*train_command(tiny_files, own_run, longer), "--valid", *map(str, other)]
    assert str(own_run) in cli(*valid).error
    after = snapshot(own_run)
    assert {name: after[name] for name in before if name != "config.json"} == {
        name: before[name] for name in before if name != "config.json"
    }


def test_train_options_set_the_config(cli: CommandLine, tiny_files: Files, tmp_path: Path) -> None:
    settings = {name: value for name, value in SHORT.items() if name != "steps"}
    command = train_command(tiny_files, tmp_path / "run", settings)
    result = cli(*command, "--epochs", "1", "--time", "20s", "--seed", "7", "--languages", "x-y")
    assert result.status == 0, result.stderr
    config = RunConfig.load(tmp_path / "run")
    assert (config.train.steps, config.train.epochs) == (None, 1)
    assert (config.train.seconds, config.train.seed) == (20.0, 7)
    assert config.languages == ("x", "y")
    assert f"transduce translate {tmp_path / 'run'}" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"source_vocabulary": "500", "target_vocabulary": "500"},
        {"joint": "false"},
        {"N_decoder": "2", "positions": "learned", "tie": "none", "attention_bias": "yes"},
        {"subwords": "wordpiece", "vocabulary": "600", "max_len": "40", "accumulate": "2"},
    ],
    ids=" ".join,
)
def test_a_run_resumes_with_unusual_settings(
    settings: dict[str, str], cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    arguments = train_command(tiny_files, tmp_path / "run", SHORT | settings)
    first = cli(*arguments)
    if first.status:
        assert next(iter(settings)) in first.error
    else:
        assert cli(*arguments).status == 0
        assert cli("translate", tmp_path / "run", "--beam", "1", input="a dog\n").status == 0


def test_pairs_may_come_through_a_pipe(cli: CommandLine, tmp_path: Path) -> None:
    text = "".join(f"{source}\t{target}\n" for source, target in tiny_pairs(100))
    run = tmp_path / "run"
    arguments = ["train", "-", "--out", str(run), "--preset", "tiny", *options(SHORT)]
    result = cli(*arguments, input=text)
    assert result.status == 0, result.stderr
    assert (run / "model.safetensors").exists()
    before = snapshot(run)
    assert cli(*arguments, input=text).status == 0
    assert snapshot(run) == before


@pytest.fixture(scope="module")
def uninterrupted(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A longer run that nothing disturbed."""
    from conftest import threads_kept

    from transduce.training.train import train

    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    with threads_kept():
        train(*tiny_files, out=run, settings=LONG, preset="tiny", device="cpu")
    return run


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_stopped_by_a_signal_the_same_command_ends_with_the_same_bytes(
    number: signal.Signals,
    cli: CommandLine,
    tiny_files: Files,
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    arguments = train_command(tiny_files, run, LONG)
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 40: validation"):
                break
        time.sleep(random.uniform(0, 0.1))
        process.send_signal(number)
        stderr = process.stderr.read()
    assert "Traceback" not in stderr
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        newest = checkpoints(run)[-1]  # the step that was just made, not the last scheduled one
        assert newest.scheduled == (newest.step % 7 == 0)
        assert stderr.splitlines()[-1] == (
            f"stopped after step {newest.step}; everything is saved in {run}: "
            "run the same command to resume"
        )
    assert not (run / "model.safetensors").exists()
    result = cli(*arguments)
    assert result.status == 0, result.stderr
    assert re.search(r"resuming from step \d+", result.stderr)
    for name in ("model.safetensors", "best.safetensors"):
        assert (run / name).read_bytes() == (uninterrupted / name).read_bytes()
    assert {checkpoint.step for checkpoint in checkpoints(run)} == {91, 98, 105, 112, 119}


@pytest.mark.parametrize("step", [1, 14, 19, 20])
def test_interrupted_at_any_step_even_the_last_it_ends_with_the_same_bytes(
    step: int, cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TINY | {"save_every": "7", "validate_bleu": "0"}
    assert cli(*train_command(tiny_files, tmp_path / "whole", settings)).status == 0
    update = Trainer.update

    def signalled(self: Trainer) -> None:
        update(self)
        if self.state.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", signalled)
        assert cli(*train_command(tiny_files, tmp_path / "run", settings)).status == 130
    assert cli(*train_command(tiny_files, tmp_path / "run", settings)).status == 0
    for name in ("model.safetensors", "best.safetensors", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_interrupted_while_preparing_text_it_says_so_and_leaves_nothing(
    cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    monkeypatch.setattr("transduce.subwords.Subwords.learn", interrupt)
    result = cli(*train_command(tiny_files, tmp_path / "run"))
    assert result.status == 130
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr
    assert snapshot(tmp_path / "run") == {}


def test_two_text_files_become_a_translator(
    run_cli: CommandLine, tiny_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    trained = run_cli(*train_command(tiny_files, tmp_path / "run"))
    assert trained.status == 0, trained.stderr
    assert trained.stdout == ""
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()
    translated = run_cli("translate", tmp_path / "run", "--beam", "1", input="a dog\n\na man")
    assert translated.status == 0, translated.stderr
    assert len(lines_of(translated.stdout)) == 3
    scored = run_cli("score", "-", tiny_files[1], input=translated.stdout)
    assert scored.error.startswith(f"standard input has 3 lines but {tiny_files[1]} has 300")
