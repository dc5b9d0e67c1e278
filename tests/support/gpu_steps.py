"""Small models on a GPU: their gradient steps and searches."""

from typing import Any

import numpy as np
import torch
from attention_settings import MODERN
from torch import Tensor

from models import pairs_of, part_of, realistic, small_model
from reference import distance
from transduce.batching.packed import Ints
from transduce.config import SearchConfig, TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.decoding.scheduler import Decoder
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.translation.types import Job

PAIRS = pairs_of([(n, m) for n, m in realistic(60, longest=60)])
SENTENCES = np.arange(len(PAIRS))
# Variants of the paper's model.
KINDS: list[dict[str, Any]] = [
    {"scaled": False},
    {"neighbourhood": 6},
    {"positions": "rotary"},
    {"attention": "additive"},
    {"qk_norm": True},
    {"pre_norm": True},
    {"norm": "rms"},
    {"gated": True, "activation": "gelu"},
    MODERN,
]


def gradient_step_on(
    device: str = "cuda",
    *,
    P_drop: float = 0.0,
    messages: list[str],
    model: dict[str, Any] | None = None,
    **settings: Any,
) -> GradientStep:
    """Return a small model's gradient step; its messages are appended to `messages`."""
    shape = {"d_model": 64, "d_k": 16, "d_v": 16, "max_len": 64} | (model or {})
    model_ = small_model(P_drop=P_drop, **shape).train()
    config = TrainConfig(batch_tokens=3000, **settings)
    return GradientStep(model_.to(device), config, part_of(PAIRS), Processes(), messages.append)


def gradient_of(gradient_step: GradientStep, sentences: Ints = SENTENCES) -> list[Tensor]:
    """Return the sums of the losses and the gradients of an update."""
    gradient_step.sums.zero_()
    torch.manual_seed(0)
    gradient_step.compute(gradient_step.prepare(sentences, DataPosition(0, 1), 0.5))
    gradients = [parameter.grad for parameter in gradient_step.model.parameters()]
    return [
        gradient_step.sums.clone(),
        *(gradient.clone() for gradient in gradients if gradient is not None),
    ]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    assert len(ours) == len(theirs) > 1
    for tensor, expected in zip(ours, theirs, strict=True):
        assert distance(tensor, expected) < tolerance


def search_all(decoder: Decoder, jobs: list[Job], config: SearchConfig, batch: int) -> list[Any]:
    """Return the hypotheses of each job."""
    by_job = dict(decoder.search(jobs, config, batch))
    return [by_job[i] for i in range(len(jobs))]
