"""Source use on a GPU is that of the CPU, and measuring it does not disturb a captured pass."""

import pytest
import torch
from gpu_steps import PAIRS, assert_same, gradient_of, gradient_step_on

from models import part_of
from transduce.training.gradient import GradientStep
from transduce.training.validation import measure_loss, measure_source_use

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@torch.inference_mode()
def use(gradient_step: GradientStep) -> float:
    part = part_of(PAIRS)
    found = measure_source_use(gradient_step, part, measure_loss(gradient_step, part)[1], 40)
    gradient_step.model.train()
    assert found is not None
    return found


def test_source_use_is_that_of_the_cpu_between_captured_passes() -> None:
    messages: list[str] = []
    on_gpu = gradient_step_on(messages=messages)
    before = gradient_of(on_gpu)
    found = use(on_gpu)
    assert found == pytest.approx(use(gradient_step_on("cpu", messages=messages)), abs=0.02)
    assert_same(gradient_of(on_gpu), before, 1e-3)
