"""Gradient steps on a small model, for tests of training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models import pairs_of, part_of, small_model
from reference import distance
from transduce.batching.packed import Batch, make_batch
from transduce.config import TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.model import loss as losses
from transduce.training import gradient
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep, Objective

LENGTHS = [(2 + i % 17, 3 + (5 * i) % 15) for i in range(40)]
PAIRS = pairs_of(LENGTHS)
SENTENCES = np.random.default_rng(1).permutation(len(PAIRS))

CPU_IS_FULL = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 1000 bytes. Error code 12 (Cannot allocate memory)"
)
GPU_IS_FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def on_path(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Let the CPU take the path of a GPU ("packed"), or its own."""
    if path == "packed":
        monkeypatch.setattr(gradient, "choose_path", lambda *_: (True, "float32"))


def make_step(
    *, P_drop: float = 0.0, d_v: int = 8, say: Callable[[str], None] = print, **settings: Any
) -> GradientStep:
    """Return a gradient step whose updates of 400 tokens contain all the pairs."""
    model = small_model(P_drop=P_drop, d_v=d_v, max_len=20, N=1).train()
    config = TrainConfig(batch_tokens=400, **settings)
    return GradientStep(model, config, part_of(PAIRS), Processes(), say)


def gradient_of(step: GradientStep) -> list[Tensor]:
    """Return the sums of the losses and the gradients of the update."""
    step.sums.zero_()
    torch.manual_seed(0)
    step.compute(step.prepare(SENTENCES, DataPosition(0, 1), 0.5))
    gradients = [parameter.grad for parameter in step.model.parameters()]
    return [
        step.sums.clone(),
        *(gradient.clone() for gradient in gradients if gradient is not None),
    ]


def expected_gradient() -> list[Tensor]:
    """Return the same from one batch: sums, and the gradient of the mean over tokens."""
    model, batch = small_model(P_drop=0.0, max_len=20, N=1).train(), make_batch(PAIRS)
    smoothed, nll = losses.loss(model(batch), model.output, batch.labels, 0.1)
    gradients = torch.autograd.grad(smoothed / batch.target_tokens, list(model.parameters()))
    return [torch.stack([smoothed.detach(), nll]), *gradients]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-5) -> None:
    assert len(ours) == len(theirs)
    for tensor, expected in zip(ours, theirs, strict=True):
        assert distance(tensor, expected) < tolerance


def limit_memory(
    monkeypatch: pytest.MonkeyPatch, tokens: int, error: Exception = GPU_IS_FULL
) -> list[int]:
    """Pretend that passes of more than so many tokens do not fit; return the sizes tried."""
    original, sizes = Objective.forward, []

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled():
            sizes.append(max(batch.places))
            if sizes[-1] > tokens:
                raise error
        return original(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    return sizes
