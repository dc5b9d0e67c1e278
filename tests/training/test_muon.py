"""Muon: its update is the polynomial of the singular values, matrix by matrix."""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import Files, Killed, killing, train_small, weights
from torch import Tensor, nn

from models import SMALL, small_model
from transduce.checkpoints.checkpoint import (
    load_optimizer_state,
    load_tensors,
    optimizer_state,
    weights_of,
)
from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadRun, BadSetting
from transduce.model.architecture import build
from transduce.runs.folder import checkpoints
from transduce.training.muon import COEFFICIENTS, MOMENTUM, Block, orthogonalise
from transduce.training.optimizer import Muon, make_optimizer
from transduce.training.trainer import Trainer

RATE = 0.01


def plain_orthogonalise(matrix: Tensor) -> Tensor:
    """Apply the polynomial five times to each singular value, in float64."""
    U, s, Vh = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / s.norm().clamp(min=1e-7)
    for _ in range(5):
        a, b, c = COEFFICIENTS
        s = a * s + b * s**3 + c * s**5
    return torch.matmul(U * s, Vh)


def plain_muon(blocks: list[Tensor], gradients: list[list[Tensor]]) -> list[Tensor]:
    """Update blocks one at a time in float64, by a sequence of gradients for each."""
    updated = []
    for block, sequence in zip(blocks, gradients, strict=True):
        weight, momentum = block.double(), torch.zeros_like(block, dtype=torch.float64)
        for gradient in sequence:
            momentum = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
            nesterov = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
            scale = 0.2 * max(block.shape) ** 0.5
            weight = weight - RATE * scale * plain_orthogonalise(nesterov)
        updated.append(weight)
    return updated


def random_gradients(model: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def muon_of(model: nn.Module, **settings: Any) -> Muon:
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", **settings))
    assert isinstance(optimizer, Muon)
    for group in optimizer.param_groups:
        group["lr"] = RATE
    return optimizer


def all_blocks(optimizer: Muon) -> list[Block]:
    return [block for stack in optimizer.stacks for block in stack.blocks]


def values(tensors: Iterable[Tensor]) -> list[list[float]]:
    return [tensor.flatten().tolist() for tensor in tensors]


def test_newton_schulz_is_the_polynomial_of_the_singular_values_which_come_near_1() -> None:
    torch.manual_seed(0)
    given = torch.randn(3, 24, 40)
    X = given / given.norm(dim=(1, 2), keepdim=True)
    found = orthogonalise(X, torch.empty_like(X), *torch.empty(2, 3, 24, 24))
    expected = torch.stack([plain_orthogonalise(matrix) for matrix in given])
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    singular = torch.linalg.svdvals(found)
    assert 0.65 < singular.min() < singular.max() < 1.25


def test_each_projection_is_updated_as_a_matrix_of_its_own() -> None:
    """Square, wide and tall matrices, also with d_v other than d_k; with Nesterov's momentum."""
    model = small_model(d_v=12)
    optimizer, gradients = muon_of(model), []
    blocks = all_blocks(optimizer)
    before = [block.weight.detach()[block.rows].clone() for block in blocks]
    shapes = {(32, 32), (48, 32), (32, 48), (64, 32), (32, 64)}
    assert {tuple(matrix.shape) for matrix in before} == shapes
    for seed in range(3):
        random_gradients(model, seed)
        gradients.append([block.gradient() for block in blocks])
        optimizer.step()
    sequences = [list(sequence) for sequence in zip(*gradients, strict=True)]
    for block, expected in zip(blocks, plain_muon(before, sequences), strict=True):
        found = block.weight.detach()[block.rows].double()
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


def test_an_update_has_the_size_of_adams() -> None:
    """The root mean square is about 0.2 of the learning rate, whatever the shape."""
    model = small_model()
    before, optimizer = copy.deepcopy(model), muon_of(model)
    random_gradients(model, 0)
    optimizer.step()
    for name, weight in weights_of(model).items():
        if "momentum_0" in optimizer.state[weight]:
            change = (weight - weights_of(before)[name]).square().mean().sqrt().item() / RATE
            assert change == pytest.approx(0.2, rel=0.25)


def test_weight_decay_is_decoupled() -> None:
    """Weights shrink by the rate times the decay, whatever the gradient; not in skipped updates."""
    plain, decayed = small_model(), small_model()
    before = [block.weight.detach()[block.rows].clone() for block in all_blocks(muon_of(plain))]
    optimizers = muon_of(plain), muon_of(decayed, weight_decay=0.1)
    for model, optimizer in zip((plain, decayed), optimizers, strict=True):
        random_gradients(model, 0)
        optimizer.step()
    blocks = zip(*map(all_blocks, optimizers), before, strict=True)
    for block, other, weight in blocks:
        difference = block.weight.detach()[block.rows] - other.weight.detach()[other.rows]
        torch.testing.assert_close(difference, RATE * 0.1 * weight, rtol=0, atol=1e-7)
    kept = values(block.weight for block in all_blocks(optimizers[1]))
    assert optimizers[1].found_inf is not None
    optimizers[1].found_inf.fill_(1)
    optimizers[1].step()
    assert values(block.weight for block in all_blocks(optimizers[1])) == kept


def test_embeddings_norms_biases_and_vectors_are_adams() -> None:
    model = small_model(positions="learned", attention_bias=True, attention="additive")
    kinds = {name: [*muon_of(model).state[weight]] for name, weight in weights_of(model).items()}
    assert kinds["encoder.0.self_attention.W_QKV.weight"] == [
        "momentum_0",
        "momentum_1",
        "momentum_2",
    ]
    for name, kind in kinds.items():
        is_matrix = ".W_" in name and name.endswith("weight")
        assert (kind == ["step", "exp_avg", "exp_avg_sq"]) != is_matrix, name


def test_an_update_with_a_non_finite_gradient_changes_nothing() -> None:
    model = small_model()
    optimizer = muon_of(model)
    random_gradients(model, 0)
    optimizer.step()
    clean = copy.deepcopy(model), optimizer_state(optimizer, weights_of(model))
    before = values([*model.parameters(), *clean[1].values()])
    assert optimizer.found_inf is not None
    optimizer.found_inf.fill_(1)
    for value in (torch.nan, torch.inf, 1e30):
        random_gradients(model, 1)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad[0] = value
        optimizer.step()
        after = optimizer_state(optimizer, weights_of(model)).values()
        assert values([*model.parameters(), *after]) == before
    optimizer.found_inf.fill_(0)
    random_gradients(model, 1)
    optimizer.step()
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert values(model.parameters()) != values(clean[0].parameters())


def test_a_gradient_of_zero_leaves_the_weights() -> None:
    model = small_model()
    before, optimizer = values(model.parameters()), muon_of(model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert values(model.parameters()) == before


@pytest.mark.parametrize("architecture", ["recurrent", "convs2s", "bytenet", "neural-gpu"])
def test_muon_finds_the_matrices_of_every_architecture(architecture: str) -> None:
    positions = "none" if architecture == "recurrent" else "sinusoidal"
    sizes: dict[str, Any] = SMALL | {"architecture": architecture, "positions": positions}
    model = build(ModelConfig(**sizes))
    before, optimizer = values(model.parameters()), muon_of(model)
    random_gradients(model, 0)
    optimizer.step()
    assert optimizer.stacks
    assert all(old != new for old, new in zip(before, values(model.parameters()), strict=True))


def test_a_run_with_muon_killed_and_resumed_ends_with_the_same_bits(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"optimizer": "muon", "schedule": "constant", "cooldown": "0.2"}
    expected = train_small(upper_case_pairs, tmp_path / "expected", **changes)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(15))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run", **changes)
    run = train_small(upper_case_pairs, tmp_path / "run", **changes)
    assert weights(run) == weights(expected)
    last, last_expected = (
        load_tensors(checkpoints(folder)[-1].path / "optimizer.safetensors")
        for folder in (run, expected)
    )
    assert last.keys() == last_expected.keys()
    assert all(torch.equal(last[name], last_expected[name]) for name in last)
    assert any(name.startswith("momentum_2.decoder.0.self_attention.W_QKV") for name in last)


def test_a_run_does_not_change_its_optimizer_or_its_schedule(
    upper_case_pairs: Files, uninterrupted_run: Path
) -> None:
    with pytest.raises(BadSetting, match="started with optimizer = adam, not muon: continue with"):
        train_small(upper_case_pairs, uninterrupted_run, optimizer="muon")
    with pytest.raises(BadSetting, match="started with schedule = inverse-sqrt, not constant"):
        train_small(upper_case_pairs, uninterrupted_run, schedule="constant")


def test_the_state_of_another_optimizer_is_refused() -> None:
    model = small_model()
    moments = optimizer_state(make_optimizer(model, TrainConfig()), weights_of(model))
    with pytest.raises(BadRun, match=r"does not fit the optimizer: it has an unknown tensor step"):
        load_optimizer_state(muon_of(model), weights_of(model), moments, Path("optimizer"))
