"""Muon on a GPU: the updates of the CPU, without waiting for the device."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models import small_model
from reference import distance
from transduce.checkpoints.checkpoint import optimizer_state, weights_of
from transduce.config import TrainConfig
from transduce.system.devices import choose_device
from transduce.training.optimizer import Muon, make_optimizer

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


def model_and_muon(device: str, **settings: Any) -> tuple[nn.Module, Muon]:
    model = small_model(d_v=12).to(device)
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", **settings))
    assert isinstance(optimizer, Muon)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    return model, optimizer


def set_gradients(model: nn.Module, seed: int) -> None:
    """Draw the same gradients on every device."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape).to(parameter.device)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 2e-3), ("auto", 0.05)])
def test_updates_are_those_of_the_cpu(precision: str, tolerance: float) -> None:
    changes = []
    for device in ("cpu", "cuda"):
        model, optimizer = model_and_muon(device, precision=precision, weight_decay=0.1)
        before = copy.deepcopy(model)
        for seed in range(3):
            set_gradients(model, seed)
            optimizer.step()
        weights = zip(model.parameters(), before.parameters(), strict=True)
        changes.append([(new - old).detach().cpu() for new, old in weights])
    dtypes = {stack.X.dtype for stack in optimizer.stacks}
    assert dtypes == {torch.float32 if precision == "float32" else torch.bfloat16}
    for ours, theirs in zip(*reversed(changes), strict=True):
        assert distance(ours, theirs) < tolerance


def state_of(model: nn.Module, optimizer: Muon) -> list[Tensor]:
    tensors = [*model.parameters(), *optimizer_state(optimizer, weights_of(model)).values()]
    return [tensor.detach().clone() for tensor in tensors]


def test_a_step_skips_a_non_finite_gradient_without_waiting() -> None:
    model, optimizer = model_and_muon("cuda", weight_decay=0.1)
    set_gradients(model, 0)
    optimizer.step()
    before = state_of(model, optimizer)
    optimizer.found_inf = torch.ones((), device="cuda")
    set_gradients(model, 1)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad[0] = torch.nan
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for old, new in zip(before, state_of(model, optimizer), strict=True):
        assert torch.equal(old, new)
