"""The learning rate is Eq. 3."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import Files, Killed, killing, train_small, weights

from transduce.config import ModelConfig, TrainConfig, apply_settings
from transduce.errors import BadSetting
from transduce.model.transformer import Transformer
from transduce.presets import PRESETS, find_preset
from transduce.runs.folder import RunConfig
from transduce.training.optimizer import (
    fit_ramp,
    fit_residual_lr,
    learning_rate,
    make_optimizer,
)
from transduce.training.trainer import Trainer

PAPER = TrainConfig()


def test_step_1_and_the_peak_are_the_papers() -> None:
    assert learning_rate(1, 512, PAPER) == pytest.approx(512**-0.5 * 4000**-1.5)
    rates = [learning_rate(step, 512, PAPER) for step in range(1, 12_000)]
    assert rates.index(max(rates)) + 1 == 4000
    assert max(rates) == pytest.approx((512 * 4000) ** -0.5)


@pytest.mark.parametrize("step", [1, 100, 3999, 4000, 4001, 100_000])
def test_every_step_is_equation_3(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, 512, PAPER, done=0.99) == pytest.approx(expected)


def test_cooldown_falls_in_a_straight_line_to_zero() -> None:
    config = TrainConfig(warmup=1, cooldown=0.5)
    plain = TrainConfig(warmup=1)
    factors = [
        learning_rate(9, 64, config, done) / learning_rate(9, 64, plain)
        for done in (0.0, 0.5, 0.75, 0.9, 1.0)
    ]
    assert factors == pytest.approx([1, 1, 0.5, 0.2, 0])


def test_a_constant_schedule_is_equation_3_up_to_the_peak_and_keeps_it() -> None:
    constant = PAPER.replace(schedule="constant", lr_scale=2.0)
    for step in (1, 100, 3999, 4000):
        assert learning_rate(step, 512, constant) == pytest.approx(
            2 * learning_rate(step, 512, PAPER)
        )
    for step in (4001, 100_000):
        assert learning_rate(step, 512, constant) == learning_rate(4000, 512, constant)


def test_a_constant_schedule_with_a_cooldown_is_warm_up_stable_decay() -> None:
    config = TrainConfig(warmup=10, schedule="constant", cooldown=0.2)
    peak = (64 * 10) ** -0.5
    rates = [learning_rate(step, 64, config, (step - 1) / 100) for step in (5, 10, 80, 91, 101)]
    assert rates == pytest.approx([peak / 2, peak, peak, peak / 2, 0])


def test_a_short_run_with_a_constant_schedule_reaches_the_same_peak_and_keeps_it() -> None:
    before = TrainConfig(warmup=400, schedule="constant")
    after = fit_ramp(before, 200)
    assert after.ramp == 50
    rates = [learning_rate(step, 512, after) for step in (25, 50, 51, 400, 9999)]
    peak = learning_rate(400, 512, before)
    assert rates == pytest.approx([peak / 2, peak, peak, peak, peak])


def test_adam_has_the_papers_constants() -> None:
    optimizer = make_optimizer(torch.nn.Linear(2, 2), PAPER)
    assert optimizer.defaults["betas"] == (0.9, 0.98)
    assert optimizer.defaults["eps"] == 1e-9
    assert optimizer.defaults["weight_decay"] == 0


def test_residual_lr_scales_the_steps_of_the_last_matrices_alone() -> None:
    """Adam's first step moves every weight by its learning rate."""
    model = Transformer(ModelConfig(N=1, d_model=8, d_ff=8, h=2, d_k=4, d_v=4, target_vocabulary=9,
                                    source_vocabulary=9))  # fmt: skip
    outputs = model.residual_outputs()
    optimizer = make_optimizer(model, TrainConfig(residual_lr=0.25), outputs)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.set_rate(0.01)
    optimizer.step()
    assert len(outputs) == 5
    for name, weight in model.named_parameters():
        rate = 0.0025 if name.endswith(("W_O.weight", "W_2.weight")) else 0.01
        torch.testing.assert_close(before[name] - weight, torch.full_like(weight, rate))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_position_lr_scales_the_steps_of_learned_positions_alone(
    optimizer: str, positions: str
) -> None:
    """Adam's first step moves every weight by its learning rate."""
    sizes: dict[str, Any] = {
        "N": 1,
        "d_model": 8,
        "d_ff": 8,
        "h": 2,
        "d_k": 4,
        "d_v": 4,
        "max_len": 6,
    }
    sizes |= {"source_vocabulary": 9, "target_vocabulary": 9, "positions": positions}
    model = Transformer(ModelConfig().replace(**sizes))
    config = TrainConfig().replace(optimizer=optimizer, position_lr=4.0)
    chosen = make_optimizer(model, config)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    chosen.set_rate(0.01)
    chosen.step()
    learned = [name for name in before if name.endswith("positions")]
    assert len(learned) == (2 if positions == "learned" else 0)
    for name, weight in model.named_parameters():
        if optimizer == "adam" or name in learned or weight.dim() == 1:
            expected = torch.full_like(weight, 0.04 if name in learned else 0.01)
            torch.testing.assert_close(before[name] - weight, expected)


def test_residual_lr_is_refused_where_nothing_has_it() -> None:
    recurrent = find_preset("recurrent")
    with pytest.raises(BadSetting, match="expected 1 with architecture"):
        apply_settings({"residual_lr": 0.5}, recurrent.model, recurrent.train)


def test_a_run_with_a_higher_rate_records_residual_lr_and_resumes_to_the_bit(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_small(upper_case_pairs, tmp_path / "whole", lr_scale="2")
    assert RunConfig.load(whole).train.residual_lr == 0.25
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(15))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run", lr_scale="2")
    run = train_small(upper_case_pairs, tmp_path / "run", lr_scale="2")
    assert weights(run) == weights(whole)
    plain = train_small(upper_case_pairs, tmp_path / "plain", lr_scale="2", residual_lr="1")
    assert weights(plain) != weights(whole)
    for lr_scale, residual_lr in (("2", 1.0), ("0.5", 1.0), ("4", 0.0625)):
        train_small(upper_case_pairs, plain, lr_scale=lr_scale)
        resumed = RunConfig.load(plain).train
        assert (resumed.lr_scale, resumed.residual_lr) == (float(lr_scale), residual_lr)


def test_the_students_keep_their_rates() -> None:
    """Their lr_scale above 1 was measured with one rate for all weights."""
    assert PRESETS["small-4-1"].train.lr_scale > 1
    assert all(preset.train.residual_lr == 1 for preset in PRESETS.values())


@pytest.mark.parametrize(
    ("lr_scale", "model", "expected"),
    [
        (1e-160, ModelConfig(), 1.0),
        (0.5, ModelConfig(), 1.0),
        (2.0, ModelConfig(), 0.25),
        (2.0, ModelConfig(pre_norm=True), 1.0),
        (2.0, ModelConfig(architecture="convs2s"), 1.0),
    ],
)
def test_at_high_rates_the_last_matrices_of_post_norm_learn_more_slowly(
    lr_scale: float, model: ModelConfig, expected: float
) -> None:
    assert fit_residual_lr(TrainConfig(lr_scale=lr_scale), model).residual_lr == expected
    muon = TrainConfig(lr_scale=lr_scale, optimizer="muon")
    assert fit_residual_lr(muon, model).residual_lr == 1.0
