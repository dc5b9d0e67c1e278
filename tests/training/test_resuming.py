"""A run resumes exactly where it was stopped, and only with the same settings and text."""

import dataclasses
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from small_training import (
    SETTINGS,
    Files,
    Killed,
    killing,
    records,
    samples,
    train_small,
    weights,
)

from transduce.config import ModelConfig, TrainConfig
from transduce.corpus.token_files import Corpus
from transduce.errors import BadRun, BadSetting, Interrupted
from transduce.runs.folder import RunConfig, checkpoints
from transduce.system.files import read_json, write_checksummed
from transduce.system.signals import StopSignal
from transduce.training.log import Log
from transduce.training.saving import Checkpointer
from transduce.training.settings import with_identity
from transduce.training.train import train
from transduce.training.trainer import Trainer


@pytest.mark.parametrize("at", range(1, 24, 3))
def test_a_run_killed_at_any_step_and_resumed_ends_with_the_same_bits(
    at: int,
    upper_case_pairs: Files,
    uninterrupted_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(at))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run")
    train_small(upper_case_pairs, tmp_path / "run")
    for name in ("model.safetensors", "best.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (uninterrupted_run / name).read_bytes()
    assert records(tmp_path / "run") == records(uninterrupted_run)
    assert samples(tmp_path / "run") == samples(uninterrupted_run)


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        *((Trainer, method) for method in ("save", "validate", "_validate")),
        (Trainer, "finish"),
        (Checkpointer, "save"),
        *((Log, method) for method in ("add", "_write", "save_window")),
    ],
)
def test_a_run_killed_while_saving_or_validating_ends_with_the_same_bits(
    owner: type,
    method: str,
    upper_case_pairs: Files,
    uninterrupted_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, killing(12, owner, method))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run")
    train_small(upper_case_pairs, tmp_path / "run")
    assert weights(tmp_path / "run") == weights(uninterrupted_run)
    assert records(tmp_path / "run") == records(uninterrupted_run)
    assert samples(tmp_path / "run") == samples(uninterrupted_run)


def test_a_run_killed_while_selecting_weights_ends_with_the_same_bits(
    upper_case_pairs: Files,
    uninterrupted_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finish", killing(24, method="finish"))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()
    train_small(upper_case_pairs, tmp_path / "run")
    assert weights(tmp_path / "run") == weights(uninterrupted_run)


def test_old_checkpoints_are_deleted_on_resuming_after_a_kill(
    upper_case_pairs: Files,
    uninterrupted_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("transduce.training.saving.prune", lambda *_: None)
        patch.setattr(Trainer, "finish", killing(24, method="finish"))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run")
    assert len(checkpoints(tmp_path / "run")) > len(checkpoints(uninterrupted_run))
    train_small(upper_case_pairs, tmp_path / "run")
    assert [checkpoint.step for checkpoint in checkpoints(tmp_path / "run")] == [
        checkpoint.step for checkpoint in checkpoints(uninterrupted_run)
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_saves_and_the_same_command_resumes(
    number: signal.Signals,
    upper_case_pairs: Files,
    uninterrupted_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Trainer.update

    def interrupted(self: Trainer) -> None:
        original(self)
        if self.state.step == 10:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        with pytest.raises(Interrupted, match=r"step 10.*run the same command to resume"):
            train_small(upper_case_pairs, tmp_path / "run")
    assert [
        (checkpoint.step, checkpoint.scheduled) for checkpoint in checkpoints(tmp_path / "run")
    ] == [
        (6, True),
        (10, False),
    ]
    train_small(upper_case_pairs, tmp_path / "run")
    assert weights(tmp_path / "run") == weights(uninterrupted_run)
    assert all(checkpoint.scheduled for checkpoint in checkpoints(tmp_path / "run"))


def test_patience_and_the_best_validation_survive_resuming(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a learning rate of almost 0, no validation is better than the first."""
    changes = {"patience": "2", "validate_every": "2", "save_every": "2", "lr_scale": "1e-30"}
    out = train_small(upper_case_pairs, tmp_path / "a", **changes)
    ended = checkpoints(out)[-1].step
    assert ended < 24
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(ended - 1))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "b", **changes)
    again = train_small(upper_case_pairs, tmp_path / "b", **changes)
    assert checkpoints(again)[-1].step == ended
    assert records(again) == records(out)


def test_training_a_finished_run_changes_nothing(upper_case_pairs: Files, tmp_path: Path) -> None:
    out = train_small(upper_case_pairs, tmp_path / "run")
    before = weights(out), records(out), [checkpoint.step for checkpoint in checkpoints(out)]
    train_small(upper_case_pairs, out)
    assert before == (
        weights(out),
        records(out),
        [checkpoint.step for checkpoint in checkpoints(out)],
    )


def test_a_finished_run_can_be_trained_further(upper_case_pairs: Files, tmp_path: Path) -> None:
    out = train_small(upper_case_pairs, tmp_path / "run")
    train_small(upper_case_pairs, out, steps="30")
    assert checkpoints(out)[-1].step == 30
    without = {name: value for name, value in SETTINGS.items() if name != "steps"}
    train(
        *upper_case_pairs, out=out, preset="tiny", settings=without | {"epochs": "9"}, device="cpu"
    )
    assert checkpoints(out)[-1].state()["place"] == {"epoch": 9, "update": 0}


def test_a_refused_command_does_not_change_the_settings_of_a_run(
    upper_case_pairs: Files, uninterrupted_run: Path, tmp_path: Path
) -> None:
    before = (uninterrupted_run / "config.json").read_bytes()
    other = tmp_path / "other.de"
    other.write_text("Etwas anderes.\n" * 20, encoding="utf-8")
    with pytest.raises(BadRun, match="prepared from other text"):
        train(
            other, other, out=uninterrupted_run, settings=SETTINGS | {"steps": "99"}, device="cpu"
        )
    assert (uninterrupted_run / "config.json").read_bytes() == before


def test_a_run_that_lost_its_subwords_is_refused(upper_case_pairs: Files, tmp_path: Path) -> None:
    out = train_small(upper_case_pairs, tmp_path / "run")
    config = RunConfig.load(out)
    hashes = {name: digest for name, digest in config.hashes.items() if name != "subwords.json"}
    dataclasses.replace(config, hashes=hashes).save(out)  # as older versions did
    (out / "subwords.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"subwords\.json"):
        train_small(upper_case_pairs, out, steps="30")


def test_the_corpus_of_a_run_of_an_older_version_is_kept(
    upper_case_pairs: Files, uninterrupted_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(uninterrupted_run, tmp_path / "run")
    config = RunConfig.load(tmp_path / "run")
    dataclasses.replace(config, identity="of other fields").save(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*/state.json"):
        state = read_json(path)
        del state["sha256"]
        write_checksummed(path, state | {"run": "of other fields"})
    train_small(upper_case_pairs, tmp_path / "run")
    assert (tmp_path / "run" / "corpus" / "manifest.json").exists()


def test_a_deleted_corpus_is_prepared_again_only_from_the_same_text(
    upper_case_pairs: Files, uninterrupted_run: Path, tmp_path: Path
) -> None:
    before = weights(uninterrupted_run)
    shutil.copytree(uninterrupted_run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "corpus")
    other = tmp_path / "other.de"
    lines = upper_case_pairs[1].read_text(encoding="utf-8").splitlines(keepends=True)
    other.write_text("".join(reversed(lines)), encoding="utf-8")
    with pytest.raises(BadRun, match="started with other text than this"):
        train(
            upper_case_pairs[0],
            other,
            out=tmp_path / "run",
            preset="tiny",
            settings=SETTINGS,
            device="cpu",
        )
    assert not (tmp_path / "run" / "corpus").exists()
    train_small(upper_case_pairs, tmp_path / "run")
    assert weights(tmp_path / "run") == before


def test_other_settings_or_another_text_are_refused(
    upper_case_pairs: Files, uninterrupted_run: Path, tmp_path: Path
) -> None:
    before = weights(uninterrupted_run)
    with pytest.raises(BadSetting, match="started with d_ff = 32, not 64"):
        train_small(upper_case_pairs, uninterrupted_run, d_ff="64")
    with pytest.raises(BadSetting, match="preset tiny, not base"):
        train(*upper_case_pairs, out=uninterrupted_run, preset="base")
    other = tmp_path / "other.de"
    other.write_text("Etwas anderes.\n" * 20, encoding="utf-8")
    with pytest.raises(BadRun, match="prepared from other text"):
        train(other, other, out=uninterrupted_run, preset="tiny", settings=SETTINGS, device="cpu")
    assert weights(uninterrupted_run) == before


def test_a_run_that_is_removed_while_it_is_trained_is_reported_and_starts_over(
    upper_case_pairs: Files,
    tmp_path: Path,
    uninterrupted_run: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validate = Trainer.validate

    def removed(self: Trainer, interrupted: StopSignal) -> bool:
        shutil.rmtree(self.run)
        return validate(self, interrupted)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "validate", removed)
        with pytest.raises(BadRun, match=f"^{tmp_path / 'run'} was removed while it was being"):
            train_small(upper_case_pairs, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    again = train_small(upper_case_pairs, tmp_path / "run")
    for name in ("model.safetensors", "config.json"):
        assert (again / name).read_bytes() == (uninterrupted_run / name).read_bytes()


def test_a_repeated_last_validation_is_logged_once(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"steps": "8", "validate_every": "5", "save_every": "4"}
    expected = train_small(upper_case_pairs, tmp_path / "expected", **settings)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finish", killing(1, method="finish"))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run", **settings)
    # As if killed before the checkpoint recorded the validation.
    (newest,) = [checkpoint for checkpoint in checkpoints(tmp_path / "run") if checkpoint.step == 8]
    state = newest.state()
    write_checksummed(newest.path / "state.json", state | {"validated": 5})
    for path in (
        train_small(upper_case_pairs, tmp_path / "run", **settings),
        train_small(upper_case_pairs, tmp_path / "run", **settings),
    ):
        assert samples(path) == samples(expected)
        assert records(path) == records(expected)


@pytest.mark.parametrize("name", ["config.json", "subwords.json", "best.safetensors"])
def test_a_file_of_another_run_is_refused_on_resuming(
    name: str, upper_case_pairs: Files, uninterrupted_run: Path, tmp_path: Path
) -> None:
    other = train_small(upper_case_pairs, tmp_path / "other", seed="7", vocabulary="270")
    copy = Path(shutil.copytree(uninterrupted_run, tmp_path / "copy"))
    shutil.copy(other / name, copy / name)
    with pytest.raises((BadRun, BadSetting), match="copy"):
        train(*upper_case_pairs, out=copy, settings={"select": "best"}, device="cpu")


def test_new_settings_do_not_change_the_identity_of_older_runs() -> None:
    """If this fails, a setting is missing in ADDED: older runs could not prepare their corpus."""
    files = {"train.source": {"size": 1}}
    corpus = cast("Corpus", SimpleNamespace(manifest=SimpleNamespace(files=files)))
    config = RunConfig(model=ModelConfig(), train=TrainConfig())
    assert with_identity(config, corpus).identity == IDENTITY
    changed = RunConfig(model=ModelConfig(init="small"), train=TrainConfig())
    assert with_identity(changed, corpus).identity != IDENTITY


IDENTITY = "e56d8b8ab93a6578113fad9078d2c2ecadd75b4b40b42034004f6d62775d9593"
