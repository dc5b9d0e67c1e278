"""The fast product is the product."""

import math

import pytest
import torch
from torch.nn import functional as F

from transduce.model.ops import linear
from transduce.model.ops.linear import PACKED_FOR, ROWS, Linear, product, product_float32


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, 200])
@pytest.mark.parametrize("onednn", [True, False])
def test_output_and_gradients_are_those_of_float64(
    rows: int, bias: bool, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "ONEDNN", onednn and linear.ONEDNN)
    torch.manual_seed(0)
    layer = Linear(24, 40, bias=bias)
    x = torch.randn(rows, 24, requires_grad=True)
    y = layer(x)
    inputs = [x, *layer.parameters()]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    reference = F.linear(*exact)
    torch.testing.assert_close(y.double(), reference, rtol=1e-5, atol=1e-5)
    upstream = torch.randn(rows, 40)
    ours = torch.autograd.grad(y, inputs, upstream)
    theirs = torch.autograd.grad(reference, exact, upstream.double())
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


def test_a_gradient_that_is_not_wanted_is_not_computed() -> None:
    layer = Linear(8, 8, bias=True).requires_grad_(False)
    x = torch.randn(ROWS, 8, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is None


def test_products_need_not_be_contiguous() -> None:
    torch.manual_seed(0)
    p, matrix = torch.randn(64, 50), torch.randn(50, 8)
    torch.testing.assert_close(product(p, matrix.T), p @ matrix, rtol=1e-5, atol=1e-5)
    layer = Linear(8, 4, bias=False)
    wide = torch.randn(64, 16, requires_grad=True)
    torch.testing.assert_close(layer(wide[:, ::2]), wide[:, ::2] @ layer.weight.T)


def test_other_types_take_torchs_own_path() -> None:
    layer = Linear(8, 4, bias=True).double()
    x = torch.randn(ROWS, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


def test_blocks_of_a_shared_matrix_are_initialised_separately() -> None:
    torch.manual_seed(0)
    layer = Linear(300, 900, bias=True, blocks=[300, 600])
    first, second = layer.weight.split([300, 600])
    assert first.std().item() == pytest.approx(math.sqrt(2 / 600), rel=0.02)
    assert second.std().item() == pytest.approx(math.sqrt(2 / 900), rel=0.02)
    assert layer.bias.abs().max() == 0


def test_a_build_without_the_kernel_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> torch.Tensor:
        raise AttributeError

    monkeypatch.setattr(linear, "_onednn", missing)
    assert linear._has_onednn() is False


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_matrix_gives_the_same(
    bias: bool, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "ONEDNN", onednn and linear.ONEDNN)
    torch.manual_seed(0)
    layer = Linear(24, 40, bias=bias)
    if bias:
        torch.nn.init.normal_(layer.bias)
    rows = [torch.randn(rows, 24) for rows in (1, ROWS - 1, ROWS, PACKED_FOR, 300)]
    rows.append(torch.randn(50, 48)[:, ::2])  # with gaps between its numbers
    with torch.inference_mode():
        before = [layer(x) for x in rows]
        layer.pack()
        for x, expected in zip(rows, before, strict=True):
            torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)
    assert "weight" not in dict(layer.named_parameters())  # it has no gradient


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_float32_product_is_float32_for_any_input_type(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(9, 24).to(dtype), torch.randn(40, 24).to(dtype)
    added = torch.randn(40) if bias else None
    y = product_float32(x, weight, added)
    assert y.dtype == torch.float32
    exact = F.linear(x.double(), weight.double(), None if added is None else added.double())
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(y.double(), exact, rtol=tolerance, atol=tolerance)
