"""The Triton kernels of the model's variants compute what torch computes."""

import pytest

pytest.importorskip("triton")

from typing import Any

import torch
from attention_settings import MODERN
from interpreted import EXACT, INTERPRETED, interpret
from torch.nn import functional as F
from variant_kernels import NAMES, assert_exact

from transduce.config import ModelConfig
from transduce.model.ops import fused, kernels
from transduce.model.ops.triton import queries_keys, rows

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter is for machines without a GPU"
)


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_torch_operations_forward_and_backward(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither powers of 2 nor multiples of what a program computes at a time."""
    interpret(monkeypatch)
    monkeypatch.setattr(rows, "PROGRAMS", 2)
    monkeypatch.setattr(queries_keys, "PROGRAMS", 4)
    assert_exact(name, (11, 40, 3, 6, 5), dtype, "cpu", 2 * EXACT[dtype])


def test_the_gradient_of_the_sum_reaches_the_elements_that_were_kept() -> None:
    torch.manual_seed(0)
    x, y, d_total, d_out = torch.randn(4, 11, 40)
    weight = torch.randn(40)
    x.requires_grad_()
    y.requires_grad_()
    total, out = fused.residual_sum_and_norm(x, y, weight, None, 0.5, 1e-5, INTERPRETED)
    factors = ((total - x) / y).detach().round()  # 0 or 2
    assert 0 < (factors == 0).sum() < factors.numel()
    d_x, d_y = torch.autograd.grad([total, out], [x, y], [d_total, d_out])
    torch.testing.assert_close(d_y, d_x * factors)
    inside = total.detach().requires_grad_()
    normed = F.rms_norm(inside, (40,), weight, 1e-5)
    (through_norm,) = torch.autograd.grad(normed, inside, d_out)
    torch.testing.assert_close(d_x, through_norm + d_total)


@pytest.mark.parametrize("training", [True, False])
def test_a_trial_runs_the_kernels_of_the_variants(
    training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "TOKENS", 4)
    called: list[str] = []
    for module in (rows, queries_keys):
        for name in [n for n in vars(module) if n.endswith("ward") and n[0] != "_"]:
            original = getattr(module, name)

            def counted(
                *args: object, original: Any = original, name: str = name, **flags: Any
            ) -> object:
                called.append(name)
                return original(*args, **flags)

            monkeypatch.setattr(module, name, counted)
    config = ModelConfig(N=1, d_model=24, d_ff=40, h=2, d_k=8, d_v=8, **MODERN)
    kernels.try_out(config, torch.float32, torch.device("cpu"), training=training)
    expected = ["residual_forward", "norm_forward", "gate_forward", *["forward"] * 3]
    if training:  # of the sum that continues, and of the last, which does not
        expected += ["residual_backward"] * 2
        expected += ["norm_backward", "gate_backward", *["backward"] * 3]
    assert sorted(called) == sorted(expected)
