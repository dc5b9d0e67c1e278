"""What a training makes: model, samples, records, and refusals."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import (
    SETTINGS,
    Files,
    records,
    samples,
    train_small,
    weights,
    write_upper_case_pairs,
)

from transduce.batching.prefetch import Update
from transduce.checkpoints.checkpoint import average, load_tensors, load_weights
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadRun, BadSetting, Diverged
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig, checkpoints
from transduce.runs.metrics import Translated
from transduce.training.gradient import Objective
from transduce.training.settings import choose_preset
from transduce.training.train import train
from transduce.training.trainer import Trainer
from transduce.training.validation import SHOWN, spread, translations


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_upper_case_pairs(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def whole(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    return train_small(files, tmp_path_factory.mktemp("whole") / "run")


def test_the_model_is_the_mean_of_the_last_scheduled_checkpoints(whole: Path) -> None:
    kept = checkpoints(whole)
    assert [one.step for one in kept] == [12, 18, 24]
    mean = average([load_tensors(one.path / "weights.safetensors") for one in kept[-2:]])
    for name, tensor in load_tensors(whole / "model.safetensors").items():
        assert torch.equal(tensor, mean[name])
    assert RunConfig.load(whole).weights == "mean of the checkpoints at steps 18, 24"


def test_what_validation_translates_is_shown_by_some_sentences_of_it(
    files: Files, whole: Path, tmp_path: Path
) -> None:
    sentences, *validations = map(json.loads, samples(whole))
    assert [one["step"] for one in validations] == [8, 16, 24]
    text = [path.read_text(encoding="utf-8").splitlines() for path in files]
    pairs = zip(sentences["source"], sentences["reference"], strict=True)
    assert set(pairs) <= set(zip(*text, strict=True))
    model, newest = Transformer(RunConfig.load(whole).model), checkpoints(whole)[-1].path
    path = newest / "weights.safetensors"
    load_weights(model, load_tensors(path), path)
    last = translations(model.eval(), open_corpus(whole / "corpus"), 4)
    assert sentences == {"source": last.source, "reference": last.reference}
    assert validations[-1]["outputs"] == last.outputs
    mute = train_small(files, tmp_path / "run", validate_bleu="0")
    held_out = len(open_corpus(mute / "corpus").valid)
    assert len(samples(mute)) == 4
    assert len(json.loads(samples(mute)[-1])["outputs"]) == min(SHOWN, held_out)


def test_samples_are_spread_over_all_that_was_translated() -> None:
    many = [str(i) for i in range(200)]
    found = spread(Translated(many, many, many), 8)
    assert found.source == found.outputs == ["0", "25", "50", "75", "100", "125", "150", "175"]
    few = Translated(["a"], ["b"], ["c"])
    assert spread(few, 8) == few


def test_the_best_is_chosen_if_asked(files: Files, tmp_path: Path) -> None:
    out = train_small(files, tmp_path / "run", select="best")
    assert (out / "model.safetensors").read_bytes() == (out / "best.safetensors").read_bytes()
    assert "best validation loss" in RunConfig.load(out).weights


def test_training_learns(files: Files, tmp_path: Path) -> None:
    out = train_small(
        files, tmp_path / "run", steps="150", validate_every="50", lr_scale="2", warmup="60"
    )
    losses = [line["valid_loss"] for line in records(out) if "valid_loss" in line]
    assert losses[-1] < losses[0] - 0.5


def test_an_update_in_micro_batches_learns_the_same_from_the_same_sentences_at_the_same_rate(
    files: Files, tmp_path: Path
) -> None:
    changes = {"P_drop": "0", "steps": "6", "log_every": "1", "validate_every": "6"}
    whole, pieces = (
        records(train_small(files, tmp_path / count, accumulate=count, **changes))
        for count in ("1", "3")
    )
    assert whole[0]["learning_rate"] == pytest.approx(16**-0.5 * 10**-1.5)
    assert len(whole) == len(pieces) == 6 + 1
    for one, other in zip(whole, pieces, strict=True):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"epochs": "2"}, "epoch"), ({"seconds": "1.5"}, "seconds")],
)
def test_epochs_and_time_end_a_run(
    changes: dict[str, str], expected: str, files: Files, tmp_path: Path
) -> None:
    settings = {k: v for k, v in SETTINGS.items() if k != "steps"} | changes
    out = train(*files, out=tmp_path / "run", preset="tiny", settings=settings, device="cpu")
    assert RunConfig.load(out).train.steps is None
    state = checkpoints(out)[-1].state()
    if expected == "epoch":
        assert (state["place"]["epoch"], state["place"]["update"]) == (2, 0)
    else:
        assert 1.5 <= state["seconds"] < 6
        train(*files, out=out, preset="tiny", settings=settings, device="cpu")
        assert checkpoints(out)[-1].step == state["step"]


def test_a_folder_of_something_else_is_left_alone(files: Files, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("mine")
    with pytest.raises(BadRun, match="holds something else"):
        train_small(files, tmp_path / "letters")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["dear.txt"]


def test_a_loss_that_is_not_finite_ends_the_run(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Objective, batch: object) -> tuple[torch.Tensor, torch.Tensor]:
        loss = self.model.output.sum() * math.nan
        return loss, loss.detach()

    monkeypatch.setattr(Objective, "forward", broken)
    with pytest.raises(Diverged, match="is not finite"):
        train_small(files, tmp_path / "run")
    assert not checkpoints(tmp_path / "run")


@pytest.mark.parametrize("kind", ["weight", "exp_avg", "exp_avg_sq"])
def test_a_weight_or_a_moment_that_is_not_finite_is_never_saved(
    kind: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Trainer.update

    def poisoned(self: Trainer) -> Update:
        done = update(self)
        with torch.no_grad():
            moments = self.optimizer.state[self.model.output]
            (self.model.output if kind == "weight" else moments[kind])[0, 0] = math.inf
        return done

    monkeypatch.setattr(Trainer, "update", poisoned)
    with pytest.raises(Diverged, match=r"a weight or a moment is not finite .* after step 1;"):
        train_small(files, tmp_path / "run", save_every="1", validate_every="100")
    assert not checkpoints(tmp_path / "run")


def test_separate_vocabularies_and_wordpiece_train(files: Files, tmp_path: Path) -> None:
    out = train_small(
        files, tmp_path / "run", joint="false", subwords="wordpiece", vocabulary="600"
    )
    assert RunConfig.load(out).model.tie == "decoder"


def test_tensorboard_is_written_if_asked(files: Files, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = train(
        *files,
        out=tmp_path / "run",
        preset="tiny",
        settings=SETTINGS | {"steps": "6"},
        device="cpu",
        tensorboard=True,
    )
    assert list((out / "tensorboard").glob("events.*"))


def test_settings_may_be_python_values_and_names_of_other_toolkits(
    files: Files, tmp_path: Path
) -> None:
    """They give the same bits as the texts of --set."""
    values: dict[str, Any] = {
        name: int(value) if value.isdecimal() else value for name, value in SETTINGS.items()
    }
    renamed = {"layers": values.pop("N"), "dropout": 0.3, "max_skew": 4, "joint": False}
    assert values.pop("steps") == 24
    out = train(
        *files,
        out=tmp_path / "values",
        preset="tiny",
        steps=2,
        settings=values | renamed,
        device="cpu",
    )
    text = {"steps": "2", "P_drop": "0.3", "joint": "false"}
    expected = train_small(files, tmp_path / "texts", **text)
    assert RunConfig.load(out).model == RunConfig.load(expected).model
    assert RunConfig.load(out).train == RunConfig.load(expected).train
    assert weights(out) == weights(expected)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"steps": 2, "settings": {"steps": 3}}, "steps is given as an argument and in settings"),
        ({"steps": 2, "settings": {"max_steps": 3}}, "steps is given as an argument and in"),
        ({"steps": "two"}, "steps = 'two': expected a whole number or none"),
        ({"steps": 2.5}, "steps = 2.5: expected a whole number or none"),
        ({"settings": {"N": 2.5}}, "N = 2.5: expected a whole number"),
        ({"settings": {"N": [2]}}, r"N = \[2\]: expected a whole number"),
        ({"settings": ["N=2"]}, r"settings = \['N=2'\]: expected names and values"),
        ({"settings": {"lr": 0.1}}, "lr is an absolute learning rate in other toolkits"),
    ],
)
def test_settings_of_the_wrong_type_are_refused_before_anything_is_written(
    arguments: Any, said: str, files: Files, tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match=f"^{said}"):
        train(*files, out=tmp_path / "run", preset="tiny", device="cpu", **arguments)
    assert not (tmp_path / "run").exists()


def test_presets_are_chosen_by_data_and_machine() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert choose_preset(29_000, cpu) == "tiny"
    assert choose_preset(500_000, cpu) == "small"
    assert choose_preset(29_000, cuda) == "small"
    assert choose_preset(4_500_000, cuda) == "base"
