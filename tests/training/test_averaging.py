"""The moving average of the weights, and weight decay."""

from pathlib import Path

import pytest
import torch
from small_training import Files, Killed, killing, train_small
from torch import nn

from models import small_model
from transduce.checkpoints.checkpoint import load_tensors, weights_of
from transduce.config import TrainConfig
from transduce.errors import BadRun
from transduce.runs.folder import RunConfig, checkpoints
from transduce.training.averaging import MovingAverage
from transduce.training.optimizer import make_optimizer
from transduce.training.trainer import Trainer

EMA = {"ema": "0.9", "select": "ema", "weight_decay": "0.1"}


def test_the_average_forgets_the_first_weights_and_skips_skipped_updates() -> None:
    model, decay = nn.Linear(1, 1, bias=False), 0.25
    average = MovingAverage(model, decay)
    expected = torch.tensor(torch.nan, dtype=torch.float64)
    for t, (value, skipped) in enumerate([(3.0, 0.0), (5.0, 0.0), (9.0, 1.0), (4.0, 0.0)]):
        with torch.no_grad():
            model.weight.fill_(value)
        average.update(t, torch.tensor(skipped))
        rate = min(decay, t / (9 + t))
        if not skipped:
            expected = rate * expected + (1 - rate) * value if t else torch.tensor(value)
        assert average.weights["weight"].item() == pytest.approx(expected.item(), rel=1e-6)
    average.update(10**6, torch.tensor(0.0))
    assert average.weights["weight"].item() == pytest.approx(
        decay * expected.item() + (1 - decay) * 4, rel=1e-6
    )


def test_an_average_in_a_checkpoint_must_fit_the_model() -> None:
    average = MovingAverage(nn.Linear(2, 2), 0.9)
    state = average.state()
    assert average.load({**state, "step.weight": torch.zeros(1)}, Path("file")) == {
        "step.weight": torch.zeros(1)
    }
    del state["ema.bias"]
    with pytest.raises(BadRun, match="file does not fit the model"):
        average.load(state, Path("file"))


def test_a_killed_and_resumed_run_has_the_same_average(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_small(upper_case_pairs, whole, **EMA)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(16))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, resumed, **EMA)
    train_small(upper_case_pairs, resumed, **EMA)
    name = "model.safetensors"
    assert (whole / name).read_bytes() == (resumed / name).read_bytes()
    saved = load_tensors(checkpoints(whole)[-1].path / "optimizer.safetensors")
    final = load_tensors(whole / name)
    assert all(saved[f"ema.{name}"].equal(weight) for name, weight in final.items())
    assert RunConfig.load(whole).weights == "moving average of the weights at step 24, decay 0.9"


@pytest.mark.parametrize("decay", ["0.5", "0.9999"])
def test_the_average_competes_with_the_means_of_checkpoints(
    decay: str, upper_case_pairs: Files, tmp_path: Path
) -> None:
    run = train_small(upper_case_pairs, tmp_path / "run", ema=decay, select="auto")
    description = RunConfig.load(run).weights
    assert description is not None
    chosen, _, losses = description.partition(", by validation loss (means of the last ")
    means, _, moving = losses.removesuffix(")").partition("; moving average: ")
    best = min(map(float, means.split("checkpoints: ")[1].split(", ")))
    assert chosen.startswith("moving average") == (float(moving) < best)
    final = load_tensors(run / "model.safetensors")
    saved = load_tensors(checkpoints(run)[-1].path / "optimizer.safetensors")
    same = all(saved[f"ema.{name}"].equal(weight) for name, weight in final.items())
    assert same == chosen.startswith("moving average")


@pytest.mark.parametrize("optimizer_name", ["adam", "muon"])
def test_weight_decay_is_decoupled_and_of_matrices_only(optimizer_name: str) -> None:
    """With a gradient of 0, the decay alone changes the weights."""
    model = small_model()
    before = {name: weight.detach().clone() for name, weight in weights_of(model).items()}
    optimizer = make_optimizer(
        model, TrainConfig().replace(weight_decay=0.1, optimizer=optimizer_name)
    )
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    for skipped in (1.0, 0.0):
        optimizer.found_inf = torch.tensor(skipped)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        for name, weight in weights_of(model).items():
            factor = 1 if skipped or weight.ndim == 1 else 1 - 0.5 * 0.1
            torch.testing.assert_close(weight.detach(), before[name] * factor)


def test_without_weight_decay_there_is_one_group_of_all_weights() -> None:
    model = small_model()
    (group,) = make_optimizer(model, TrainConfig()).param_groups
    assert group["params"] == list(model.parameters())
    assert not group["decoupled_weight_decay"]
