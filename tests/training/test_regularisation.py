"""R-Drop, SimCut and word dropout in training: what they draw, log, and resume."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_steps import gradient_of, make_step
from small_training import Files, Killed, killing, records, train_small

from models import SMALL, batch_of, small_model
from transduce.config import ModelConfig, TrainConfig, apply_settings
from transduce.errors import BadSetting
from transduce.model.architecture import build
from transduce.subwords import BOS, EOS
from transduce.training.gradient import Objective
from transduce.training.trainer import Trainer

ALL_WORDS = 0.99999999  # a probability that float32 rounds to 1


def test_words_are_dropped_but_not_the_ends_of_sentences() -> None:
    batch = batch_of((5, 6), (3, 4)).drop_words(ALL_WORDS)
    for side, end in ((batch.source, EOS), (batch.target, BOS)):
        assert side.kept is not None
        assert side.kept.equal(side.tokens == end)


def test_words_are_dropped_with_the_given_probability() -> None:
    torch.manual_seed(0)
    batch = batch_of((4000, 4000)).drop_words(0.1)
    for side in (batch.source, batch.target):
        assert side.kept is not None
        assert (~side.kept).float().mean().item() == pytest.approx(0.1, abs=0.02)


def test_a_dropped_word_has_only_its_position() -> None:
    model = small_model()
    tokens, positions = torch.tensor([9, 9, 5]), torch.arange(3)
    kept = torch.tensor([True, False, True])
    x, whole = (model.source_embedding(tokens, positions, k) for k in (kept, None))
    assert x[kept].equal(whole[kept])
    assert model.source_embedding.positions is not None
    assert x[1].equal(model.source_embedding.positions[1])


@pytest.mark.parametrize(
    "architecture", ["transformer", "recurrent", "convs2s", "bytenet", "neural-gpu"]
)
@pytest.mark.parametrize(
    "settings", [{"rdrop": 5.0, "word_dropout": 0.2}, {"simcut": 3.0, "cutoff": 0.3}], ids=str
)
def test_every_model_learns_with_them(architecture: str, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    positions = "none" if architecture == "recurrent" else "sinusoidal"
    shape = SMALL | {"architecture": architecture, "positions": positions, "P_drop": 0.1}
    if architecture in ("convs2s", "bytenet", "neural-gpu"):
        shape |= {name: getattr(ModelConfig(), name) for name in ("h", "d_k", "d_v")}
    model = build(ModelConfig(**shape)).train()  # type: ignore[arg-type]
    batch = batch_of((5, 6), (3, 4))
    total, _, divergence = Objective(model, TrainConfig(**settings))(batch)
    assert divergence.item() > 0
    total.backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


def test_the_logged_loss_is_the_smoothed_loss_without_the_divergence() -> None:
    plain = gradient_of(make_step())[0]
    sums = gradient_of(make_step(simcut=3.0, cutoff=0.3))[0]
    assert sums[:2].tolist() == pytest.approx(plain.tolist(), rel=1e-6)
    assert sums[2].item() > 0
    rdrop = gradient_of(make_step(rdrop=5.0, word_dropout=ALL_WORDS))[0]
    dropped = gradient_of(make_step(word_dropout=ALL_WORDS))[0]
    assert rdrop.tolist() == pytest.approx([*dropped.tolist(), 0.0], rel=1e-6)
    assert dropped[0] != plain[0]


@pytest.mark.parametrize(
    "settings",
    [{"rdrop": "5", "word_dropout": "0.1"}, {"simcut": "3", "cutoff": "0.2"}],
    ids=str,
)
def test_a_killed_and_resumed_run_ends_with_the_same_bits(
    settings: dict[str, str],
    upper_case_pairs: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_small(upper_case_pairs, whole, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(16))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, resumed, **settings)
    train_small(upper_case_pairs, resumed, **settings)
    name = "model.safetensors"
    assert (whole / name).read_bytes() == (resumed / name).read_bytes()
    assert records(whole) == records(resumed)
    assert all(record["divergence"] > 0 for record in records(whole) if "loss" in record)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rdrop": 5.0, "simcut": 3.0}, "rdrop = 5.0: expected 0 with simcut"),
        ({"word_dropout": 0.1, "simcut": 3.0}, "word_dropout = 0.1: expected 0 with simcut"),
        ({"rdrop": -1.0}, "rdrop = -1.0: expected at least 0"),
        ({"simcut": 3.0, "cutoff": 1.0}, "cutoff = 1.0: expected a number from 0"),
        ({"cutoff": 0.1}, "cutoff = 0.1: expected 0.05: it has no effect without simcut"),
        ({"select": "ema"}, "ema = 0.0: expected a decay above 0"),
        ({"residual_lr": 0.0}, "residual_lr = 0.0: expected"),
        ({"residual_lr": 0.5, "optimizer": "muon"}, "residual_lr = 0.5: expected 1: Muon"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        TrainConfig(**settings)


def test_rdrop_without_dropout_is_refused() -> None:
    """Its two passes would be equal, and the divergence 0."""
    base, settings = ModelConfig(P_drop=0.0), {"rdrop": 5.0}
    with pytest.raises(BadSetting, match="rdrop = 5: expected 0 without dropout"):
        apply_settings(settings, base, TrainConfig())
    for more in ({"attention_dropout": 0.1}, {"word_dropout": 0.1}):
        apply_settings(settings | more, base, TrainConfig())
