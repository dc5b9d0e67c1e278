"""The Neural GPU on a GPU: the gradients of the CPU, and segments that are computed again.

test_gpu_decoding.py compares its translations, test_gpu_determinism.py its bits.
"""

from typing import Any

import pytest
import torch
from convolutional import small
from gpu_steps import PAIRS, SENTENCES, assert_same, gradient_of

from models import part_of
from reference import distance
from transduce.config import TrainConfig
from transduce.system.devices import choose_device
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


def gradient_step_on(device: str, columns: int, *, precision: str, recompute: bool) -> GradientStep:
    sizes: dict[str, Any] = {"P_drop": 0.0, "d_model": 64, "d_ff": 64 * columns, "max_len": 64}
    model = small("neural-gpu", **sizes).train().to(device)
    config = TrainConfig(batch_tokens=3000, precision=precision, recompute=recompute)  # type: ignore[arg-type]
    messages: list[str] = []
    gradient_step = GradientStep(model, config, part_of(PAIRS), Processes(), messages.append)
    assert messages == []
    return gradient_step


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bf16", 5e-2)])
def test_a_pass_has_the_loss_and_the_gradients_of_the_cpu(
    precision: str, tolerance: float, recompute: bool, columns: int
) -> None:
    plain = gradient_step_on("cpu", columns, precision="float32", recompute=False)
    step = gradient_step_on("cuda", columns, precision=precision, recompute=recompute)
    assert step.path == f"grouped, {precision}"
    for sentences in (SENTENCES, SENTENCES[:30]):
        sums, *gradients = gradient_of(plain, sentences)
        found, *others = gradient_of(step, sentences)
        assert {gradient.dtype for gradient in others} == {torch.float32}
        assert distance(found, sums) < 5e-3
        assert_same(others, gradients, tolerance)
