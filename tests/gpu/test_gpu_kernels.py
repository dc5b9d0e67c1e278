"""The compiled Triton kernels compute what float64 computes; `make test-gpu` runs these tests."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from models import pairs_of, part_of
from reference import attention_of, cross_entropy_of, distance, view_of
from transduce.batching.packed import Batch
from transduce.batching.static import pack
from transduce.model.ops.fused import norm_relu
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.triton import attention, rows
from transduce.presets import TABLE_3
from transduce.subwords import PAD
from transduce.system.devices import choose_device

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


# Of the norm. bf16 has 8 bits; products and sums of rounded numbers are a little less exact.
EXACT = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
SHAPES = sorted({(row.model.h, row.model.d_k, row.model.d_v) for row in TABLE_3.values()})
LENGTHS = [(9, 7), (3, 12), (2, 2), (70, 15), (5, 9), (11, 80), (200, 130)]


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return NaN everywhere, so that elements that are never written show."""
    return torch.full(shape, torch.nan, dtype=dtype, device="cuda")


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


@pytest.fixture(scope="module")
def batch() -> Batch:
    places = 384, 384
    return pack(part_of(pairs_of(LENGTHS)), np.arange(len(LENGTHS)), places).to(
        torch.device("cuda")
    )


@pytest.mark.parametrize(
    ("h", "d_k", "d_v", "dtype"),
    [
        *((*shape, torch.bfloat16) for shape in SHAPES),
        (8, 64, 64, torch.float32),
        (2, 48, 40, torch.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["self", "causal", "cross", "self, 5 near", "causal, 40 near"])
def test_attention_is_equation_1_forward_and_backward(
    batch: Batch, kind: str, h: int, d_k: int, d_v: int, dtype: torch.dtype
) -> None:

    view = view_of(batch, kind)
    queries, keys = len(view.first), len(view.seen_first)
    torch.manual_seed(0)
    q, k = random(queries, h, d_k, dtype=dtype), random(keys, h, d_k, dtype=dtype)
    v, d_out = random(keys, h, d_v, dtype=dtype), random(queries, h, d_v, dtype=dtype)
    exact = attention_of(q, k, v, view, d_out)
    found = []
    for _ in range(2):
        out, lse = poisoned(queries, h, d_v, dtype=dtype), poisoned(h, queries)
        attention.forward(q, k, v, out, lse, view.first, view.last)
        gradients = [poisoned(*tensor.shape, dtype=dtype) for tensor in (q, k, v)]
        attention.backward(d_out, q, k, v, out, lse, view, *gradients)
        found.append([out, *gradients])
    for ours, again, theirs in zip(*found, exact, strict=True):
        assert distance(ours, theirs) < EXACT[dtype]
        assert torch.equal(ours, again)  # the same input gives the same bits


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("D", [608, 304, 40])
def test_norm_and_relu_are_those_of_torch(D: int, dtype: torch.dtype) -> None:

    torch.manual_seed(0)
    x, d_out = (random(5001, D, dtype=dtype) for _ in range(2))
    weight, bias = 1 + 0.1 * random(D), 0.1 * random(D)
    ours = [tensor.detach().clone().requires_grad_() for tensor in (x, weight, bias)]
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, weight, bias)]
    out = norm_relu(ours[0], ours[1], ours[2], 1e-5, Kernels())
    expected = F.layer_norm(exact[0], (D,), exact[1], exact[2], 1e-5).relu()
    assert distance(out, expected) < EXACT[dtype]
    theirs = torch.autograd.grad(expected, exact, d_out.double())
    for a, b in zip(torch.autograd.grad(out, ours, d_out), theirs, strict=True):
        assert distance(a, b) < EXACT[dtype]


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("P_drop", [0.0, 0.1])
@pytest.mark.parametrize("D", [512, 1024, 40])
def test_residual_and_norm_are_those_of_torch(D: int, P_drop: float, dtype: torch.dtype) -> None:

    torch.manual_seed(0)
    tokens, eps, seed = 5001, 1e-5, torch.tensor([7], device="cuda")
    x, y, d_out = (random(tokens, D, dtype=dtype) for _ in range(3))
    weight, bias = 1 + 0.1 * random(D), 0.1 * random(D)
    zero, one = torch.zeros(tokens, D, device="cuda"), torch.ones(tokens, D, device="cuda")
    _, kept, _ = rows.residual_forward(zero, one, weight, bias, seed, P_drop, eps)
    assert (kept == 0).float().mean().item() == pytest.approx(P_drop, abs=0.005)
    assert kept.mean().item() == pytest.approx(1, abs=0.005)

    out, total, statistics = rows.residual_forward(x, y, weight, bias, seed, P_drop, eps)
    ours = rows.residual_backward(d_out, total, statistics, weight, seed, P_drop)
    exact = [tensor.double().requires_grad_() for tensor in (x, y, weight, bias)]
    expected = F.layer_norm(exact[0] + exact[1] * kept, (D,), exact[2], exact[3], eps)
    assert distance(out, expected) < EXACT[dtype]
    for a, b in zip(ours, torch.autograd.grad(expected, exact, d_out.double()), strict=True):
        assert a is not None
        assert distance(a, b) < EXACT[dtype]


def test_the_gradients_of_relu_and_bias_are_those_of_torch() -> None:

    torch.manual_seed(0)
    inner, d_out = (random(5001, 2048, dtype=torch.bfloat16) for _ in range(2))
    d_x, d_bias = rows.relu_backward(d_out, inner.relu())
    expected = d_out * (inner > 0)
    assert torch.equal(d_x, expected)
    assert distance(d_bias, expected.double().sum(0)) < 1e-5


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(("V", "words"), [(37_000, 37_056), (8_007, 8_064), (37, 64)])
def test_softmax_leaves_the_gradient_of_the_smoothed_loss(
    V: int, words: int, dtype: torch.dtype
) -> None:

    torch.manual_seed(0)
    z = 2 * random(300, words, dtype=dtype)
    labels = torch.randint(1, V, (300,), dtype=torch.int32, device="cuda")
    labels[[2, 299]] = PAD
    exact, gradient = cross_entropy_of(z[:, :V], labels, 0.1)
    found = rows.softmax(z, V, labels, 0.1, PAD)
    assert distance(found, exact) < 1e-5
    assert distance(z[:, :V], gradient) < EXACT[dtype]
    for rest in (z[:, V:], z[[2, 299]], found[[2, 299]]):
        assert not rest.any()
