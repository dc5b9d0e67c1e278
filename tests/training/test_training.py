"""Training: model, samples, records, and refusals."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import (
    SETTINGS,
    Files,
    records,
    train_small,
    weights,
)

from transduce.batching.prefetch import Update
from transduce.checkpoints.checkpoint import average, load_tensors
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadRun, BadSetting, Diverged
from transduce.runs.folder import RunConfig, checkpoints
from transduce.system.progress import Silent
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep, Objective
from transduce.training.optimizer import Adam
from transduce.training.train import train
from transduce.training.trainer import Trainer


def test_the_model_is_the_mean_of_the_last_scheduled_checkpoints(uninterrupted_run: Path) -> None:
    saved = checkpoints(uninterrupted_run)
    assert [checkpoint.step for checkpoint in saved] == [12, 18, 24]
    mean = average(
        [load_tensors(checkpoint.path / "weights.safetensors") for checkpoint in saved[-2:]]
    )
    for name, tensor in load_tensors(uninterrupted_run / "model.safetensors").items():
        assert torch.equal(tensor, mean[name])
    assert RunConfig.load(uninterrupted_run).weights == "mean of the checkpoints at steps 18, 24"


def test_select_best_takes_the_best_weights(upper_case_pairs: Files, tmp_path: Path) -> None:
    out = train_small(upper_case_pairs, tmp_path / "run", select="best")
    assert (out / "model.safetensors").read_bytes() == (out / "best.safetensors").read_bytes()
    assert "best validation loss" in RunConfig.load(out).weights


def test_every_step_uses_the_rate_of_equation_3(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both the rate that Adam is given and the one that is logged."""
    used: list[float] = []
    original = Adam.step

    def step(self: Adam, closure: None = None) -> None:
        used.extend(group["lr"] for group in self.param_groups)
        original(self, closure)

    monkeypatch.setattr(Adam, "step", step)
    out = train_small(upper_case_pairs, tmp_path / "run", log_every="1", cooldown="0")
    expected = [16**-0.5 * min(n**-0.5, n * 10**-1.5) for n in range(1, 25)]
    assert used == pytest.approx(expected, rel=1e-9)
    logged = [line["learning_rate"] for line in records(out) if "learning_rate" in line]
    assert logged == used


def test_training_stops_when_the_validation_loss_has_not_fallen_for_so_long(
    upper_case_pairs: Files, tmp_path: Path
) -> None:
    """With a rate of almost 0, no validation is better than the first."""
    still = {"validate_every": "2", "lr_scale": "1e-30"}
    out = train_small(upper_case_pairs, tmp_path / "run", patience="3", **still)
    assert [line["step"] for line in records(out) if "valid_loss" in line] == [2, 4, 6, 8]
    assert checkpoints(out)[-1].step == 8
    patient = train_small(upper_case_pairs, tmp_path / "patient", patience="0", **still)
    assert checkpoints(patient)[-1].step == 24


def test_processes_draw_different_dropout_and_the_same_after_resuming(
    upper_case_pairs: Files, tmp_path: Path
) -> None:
    """The losses of one update, from the same weights, show what was dropped."""
    out = train_small(upper_case_pairs, tmp_path / "run", steps="1", P_drop="0.5")

    def losses(rank: int) -> list[float]:
        config, corpus = RunConfig.load(out), open_corpus(out / "corpus")
        trainer = Trainer(out, config, corpus, torch.device("cpu"), Silent())
        trainer.processes = Processes(rank, 3)
        trainer.gradient_step.counts.zero_()
        with trainer.log:
            trainer.update()
        return trainer.gradient_step.sums.tolist()

    first, second, third = losses(0), losses(1), losses(2)
    assert len({*map(tuple, (first, second, third))}) == 3
    assert losses(1) == second


def test_training_learns(upper_case_pairs: Files, tmp_path: Path) -> None:
    out = train_small(
        upper_case_pairs,
        tmp_path / "run",
        steps="150",
        validate_every="50",
        lr_scale="2",
        warmup="60",
    )
    losses = [line["valid_loss"] for line in records(out) if "valid_loss" in line]
    assert losses[-1] < losses[0] - 0.25


def test_an_update_in_micro_batches_learns_the_same_from_the_same_sentences_at_the_same_rate(
    upper_case_pairs: Files, tmp_path: Path
) -> None:
    changes = {"P_drop": "0", "steps": "6", "log_every": "1", "validate_every": "6"}
    uninterrupted_run, pieces = (
        records(train_small(upper_case_pairs, tmp_path / count, accumulate=count, **changes))
        for count in ("1", "3")
    )
    assert uninterrupted_run[0]["learning_rate"] == pytest.approx(16**-0.5 * 10**-1.5)
    assert len(uninterrupted_run) == len(pieces) == 6 + 1
    for record, expected in zip(uninterrupted_run, pieces, strict=True):
        assert record == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"epochs": "2"}, "epoch"), ({"seconds": "1.5"}, "seconds")],
)
def test_epochs_and_time_end_a_run(
    changes: dict[str, str], expected: str, upper_case_pairs: Files, tmp_path: Path
) -> None:
    settings = {k: v for k, v in SETTINGS.items() if k != "steps"} | changes
    out = train(
        *upper_case_pairs, out=tmp_path / "run", preset="tiny", settings=settings, device="cpu"
    )
    assert RunConfig.load(out).train.steps is None
    state = checkpoints(out)[-1].state()
    if expected == "epoch":
        assert (state["place"]["epoch"], state["place"]["update"]) == (2, 0)
    else:
        assert 1.5 <= state["seconds"] < 6
        train(*upper_case_pairs, out=out, preset="tiny", settings=settings, device="cpu")
        assert checkpoints(out)[-1].step == state["step"]


def test_a_folder_of_something_else_is_left_alone(upper_case_pairs: Files, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("mine")
    with pytest.raises(BadRun, match="holds something else"):
        train_small(upper_case_pairs, tmp_path / "letters")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["dear.txt"]


def test_after_ten_skipped_updates_the_checkpoints_since_the_last_one_are_deleted(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last update that was not skipped, the 6th, may have damaged the weights."""
    steps = itertools.count(1)
    clip = GradientStep.clip

    def diverging(self: GradientStep) -> torch.Tensor:
        return clip(self) * (1 if next(steps) <= 6 else math.nan)

    monkeypatch.setattr(GradientStep, "clip", diverging)
    message = (
        r"^the gradient of the last 10 updates is not finite .* after step 16; it was not "
        r"saved: the same command resumes from .*step-0000004; "
    )
    with pytest.raises(Diverged, match=message):
        train_small(
            upper_case_pairs, tmp_path / "run", save_every="2", keep="9", validate_every="99"
        )
    assert [checkpoint.step for checkpoint in checkpoints(tmp_path / "run")] == [2, 4]


def test_a_loss_that_is_not_finite_ends_the_run(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Objective, batch: object) -> tuple[torch.Tensor, torch.Tensor]:
        loss = self.model.output.sum() * math.nan
        return loss, loss.detach()

    monkeypatch.setattr(Objective, "forward", broken)
    with pytest.raises(Diverged, match="is not finite"):
        train_small(upper_case_pairs, tmp_path / "run")
    assert not checkpoints(tmp_path / "run")


@pytest.mark.parametrize("kind", ["weight", "exp_avg", "exp_avg_sq"])
def test_a_weight_or_a_moment_that_is_not_finite_is_never_saved(
    kind: str, upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        train_small(upper_case_pairs, tmp_path / "run", save_every="1", validate_every="100")
    assert not checkpoints(tmp_path / "run")


def test_separate_vocabularies_and_wordpiece_train(upper_case_pairs: Files, tmp_path: Path) -> None:
    out = train_small(
        upper_case_pairs, tmp_path / "run", joint="false", subwords="wordpiece", vocabulary="600"
    )
    assert RunConfig.load(out).model.tie == "decoder"


def test_tensorboard_files_are_written(upper_case_pairs: Files, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = train(
        *upper_case_pairs,
        out=tmp_path / "run",
        preset="tiny",
        settings=SETTINGS | {"steps": "6"},
        device="cpu",
        tensorboard=True,
    )
    assert list((out / "tensorboard").glob("events.*"))


def test_settings_may_be_python_values_and_names_of_other_toolkits(
    upper_case_pairs: Files, tmp_path: Path
) -> None:
    """They give the same bits as the texts of --set."""
    values: dict[str, Any] = {
        name: int(value) if value.isdecimal() else value for name, value in SETTINGS.items()
    }
    renamed = {"layers": values.pop("N"), "dropout": 0.3, "max_skew": 4, "joint": False}
    assert values.pop("steps") == 24
    out = train(
        *upper_case_pairs,
        out=tmp_path / "values",
        preset="tiny",
        steps=2,
        settings=values | renamed,
        device="cpu",
    )
    text = {"steps": "2", "P_drop": "0.3", "joint": "false"}
    expected = train_small(upper_case_pairs, tmp_path / "texts", **text)
    assert RunConfig.load(out).model == RunConfig.load(expected).model
    assert RunConfig.load(out).train == RunConfig.load(expected).train
    assert weights(out) == weights(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
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
    arguments: Any, message: str, upper_case_pairs: Files, tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match=f"^{message}"):
        train(*upper_case_pairs, out=tmp_path / "run", preset="tiny", device="cpu", **arguments)
    assert not (tmp_path / "run").exists()
