"""The Triton kernels of residuals, norms, ReLU and the softmax compute what torch computes."""

import pytest

pytest.importorskip("triton")

import torch
from interpreted import EXACT, INTERPRETED
from torch import Tensor
from torch.nn import functional as F

from reference import cross_entropy_of, distance
from transduce.model import loss as losses
from transduce.model.ops import fused
from transduce.model.ops.triton import rows
from transduce.subwords import PAD

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter is for machines without a GPU"
)


# --- Residuals and their norms --------------------------------------------------------------------


ROWS, D, EPS = 11, 40, 1e-5  # neither a multiple of 4 rows nor a power of 2


def seed(number: int) -> Tensor:
    return torch.tensor([number])


def dropout_factors(P_drop: float, number: int, tokens: int = ROWS, width: int = D) -> Tensor:
    """Return the dropout factors of a seed: 0 or 1 / (1 - P_drop)."""
    zeros, ones = torch.zeros(tokens, width), torch.ones(tokens, width)
    _, total, _ = rows.residual_forward(zeros, ones, ones[0], zeros[0], seed(number), P_drop, EPS)
    return total


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("P_drop", [0.0, 0.3])
@pytest.mark.parametrize("programs", [1024, 2])  # with 2, each sums over several quads
def test_residual_and_norm_are_those_of_torch_forward_and_backward(
    P_drop: float, dtype: torch.dtype, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", programs)
    torch.manual_seed(0)
    x, y, d_out = torch.randn(3, ROWS, D).to(dtype)
    weight, bias = 1 + 0.1 * torch.randn(D), 0.1 * torch.randn(D)
    out, total, statistics = rows.residual_forward(x, y, weight, bias, seed(5), P_drop, EPS)
    ours = rows.residual_backward(d_out, total, statistics, weight, seed(5), P_drop)

    exact = [tensor.double().requires_grad_() for tensor in (x, y, weight, bias)]
    x_, y_, weight_, bias_ = exact
    y_ = y_ * dropout_factors(P_drop, 5).double()
    expected = F.layer_norm(x_ + y_, (D,), weight_, bias_, EPS)
    assert distance(out, expected) < EXACT[dtype]
    assert distance(total, x_ + y_) < EXACT[dtype]
    assert distance(statistics[0], (x_ + y_).mean(-1)) < EXACT[dtype]
    theirs = torch.autograd.grad(expected, exact, d_out.double())
    for a, b in zip(ours, theirs, strict=True):
        assert a is not None
        assert distance(a, b) < 2 * EXACT[dtype]


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("programs", [1024, 2])
def test_norm_and_relu_are_those_of_torch_forward_and_backward(
    dtype: torch.dtype, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", programs)
    torch.manual_seed(0)
    x, d_out = torch.randn(2, ROWS, D).to(dtype)
    weight, bias = 1 + 0.1 * torch.randn(D), 0.1 * torch.randn(D)
    ours = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    out = fused.norm_relu(ours[0], ours[1], ours[2], EPS, INTERPRETED)
    exact = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    expected = F.layer_norm(exact[0], (D,), exact[1], exact[2], EPS).relu()
    assert distance(out, expected) < EXACT[dtype]
    theirs = torch.autograd.grad(expected, exact, d_out.double())
    for a, b in zip(torch.autograd.grad(out, ours, d_out), theirs, strict=True):
        assert distance(a, b) < 2 * EXACT[dtype]


def test_dropped_elements_have_no_gradient() -> None:
    torch.manual_seed(0)
    x, y, d_out = torch.randn(3, ROWS, D)
    weight, bias = torch.ones(D), torch.zeros(D)
    _, total, statistics = rows.residual_forward(x, y, weight, bias, seed(5), 0.3, EPS)
    d_x, d_y, _, _ = rows.residual_backward(d_out, total, statistics, weight, seed(5), 0.3)
    factors = dropout_factors(0.3, 5)
    torch.testing.assert_close(total, x + y * factors)
    torch.testing.assert_close(d_y, d_x * factors)
    assert 0 < (factors == 0).sum() < factors.numel()


@pytest.mark.parametrize("P_drop", [0.1, 0.3])
def test_dropout_drops_its_share_and_keeps_the_mean(P_drop: float) -> None:
    factors = dropout_factors(P_drop, 1, 100, 1000)
    assert factors.unique().tolist() == pytest.approx([0.0, 1 / (1 - P_drop)])
    assert (factors == 0).float().mean().item() == pytest.approx(P_drop, abs=0.004)
    assert factors.mean().item() == pytest.approx(1, abs=0.004)


def test_the_seed_decides_what_is_dropped_and_rows_and_columns_differ() -> None:
    def agreement(left: Tensor, right: Tensor) -> float:
        return (left == right).float().mean().item()

    first = dropout_factors(0.5, 1, 64, 512)
    assert torch.equal(first, dropout_factors(0.5, 1, 64, 512))
    assert agreement(first, dropout_factors(0.5, 2, 64, 512)) == pytest.approx(0.5, abs=0.01)
    for step in (1, 2, 3, 4, 8):  # four rows share a draw
        assert agreement(first[step:], first[:-step]) == pytest.approx(0.5, abs=0.01)
        assert agreement(first[:, step:], first[:, :-step]) == pytest.approx(0.5, abs=0.01)


def test_dropout_draws_again_for_each_call() -> None:
    torch.manual_seed(0)
    x, y, d_out = torch.randn(3, ROWS, D)
    y.requires_grad_()
    weight, bias = torch.ones(D), torch.zeros(D)

    def drawn() -> tuple[Tensor, Tensor]:
        out = fused.residual_norm(x, y, weight, bias, 0.5, EPS, INTERPRETED)
        return out.detach(), torch.autograd.grad(out, y, d_out)[0]

    torch.manual_seed(1)
    first, second = drawn(), drawn()
    torch.manual_seed(1)
    again = drawn()
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[1] == 0, second[1] == 0)


# --- ReLU, and the product before it --------------------------------------------------------------


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(("tokens", "width"), [(1, 8), (7, 40), (13, 1030)])
def test_the_gradients_of_relu_and_bias_are_those_of_torch(
    tokens: int, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", 20)  # 5 programs for more rows
    torch.manual_seed(0)
    inner, d_out = torch.randn(2, tokens, width).to(dtype)
    d_x, d_bias = rows.relu_backward(d_out, inner.relu())
    expected = d_out * (inner > 0)
    assert torch.equal(d_x, expected)
    assert d_bias.dtype == torch.float32
    assert distance(d_bias, expected.double().sum(0)) < 1e-6


def test_the_fused_product_and_relu_are_those_of_torch() -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 16, requires_grad=True)
    weight, bias = torch.randn(24, 16, requires_grad=True), torch.randn(24, requires_grad=True)
    d_out = torch.randn(9, 24)
    ours = fused.linear_relu(x, weight, bias, INTERPRETED)
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, weight, bias)]
    theirs = F.linear(*exact).relu()
    assert distance(ours, theirs) < 1e-6
    found = torch.autograd.grad(ours, (x, weight, bias), d_out)
    for a, b in zip(found, torch.autograd.grad(theirs, exact, d_out.double()), strict=True):
        assert distance(a, b) < 1e-6


# --- Softmax and loss -----------------------------------------------------------------------------


MASKED = pytest.mark.filterwarnings("ignore:overflow encountered")  # of masked elements


@MASKED
@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("eps_ls", [0.0, 0.1])
@pytest.mark.parametrize(
    ("V", "words"), [(5, 5), (37, 64), (8192, 8192), (8195, 8256), (9001, 9001)]
)
def test_softmax_leaves_the_gradient_of_the_smoothed_loss(
    V: int, words: int, eps_ls: float, dtype: torch.dtype
) -> None:
    """The gradient of the padded vocabulary is 0, whatever its logits are."""
    torch.manual_seed(0)
    tokens = 7
    z = (2 * torch.randn(tokens, words)).to(dtype)
    z[:, V:] += 1000
    labels = torch.randint(1, V, (tokens,), dtype=torch.int32)
    labels[0], labels[[2, 6]] = V - 1, PAD
    exact, gradient = cross_entropy_of(z[:, :V], labels, eps_ls)
    found = rows.softmax(z, V, labels, eps_ls, PAD)
    assert distance(found, exact) < 1e-6
    assert distance(z[:, :V], gradient) < EXACT[dtype]
    assert (z[:, V:] == 0).all()
    assert (found[[2, 6]] == 0).all()
    assert (z[[2, 6]] == 0).all()


@MASKED
def test_softmax_of_very_large_and_very_different_logits_is_finite() -> None:
    z = torch.tensor([[1e4, -1e4, 0.0, 9e3, 1e4], [-1e4, -1e4, -1e4, -1e4, -2e4]])
    labels = torch.tensor([1, 4], dtype=torch.int32)
    exact, gradient = cross_entropy_of(z, labels, 0.1)
    found = rows.softmax(z, 5, labels, 0.1, PAD)
    assert distance(found, exact) < 1e-6
    assert distance(z, gradient) < 1e-3  # the precision of the sum in float32


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("chunk", [2**28, 5 * 37, 1])
@pytest.mark.parametrize("words", [37, 64])
def test_the_loss_by_the_kernel_is_the_loss_by_torch(
    padding: bool, chunk: int, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    x, matrix = torch.randn(12, 8, requires_grad=True), torch.randn(37, 8, requires_grad=True)
    bias = torch.randn(37, requires_grad=True)
    labels = torch.randint(1, 37, (12,), dtype=torch.int32)
    if padding:
        labels[[1, 5, 6, 11]] = PAD
    results = []
    for fused_ in (False, True):
        if fused_:
            monkeypatch.setattr(losses, "CHUNK", chunk)
            monkeypatch.setattr(losses, "_padded_vocabulary", lambda *_: words)
        smoothed, nll = losses.loss(x, matrix, labels, 0.1, bias=bias, fused=fused_)
        gradients = torch.autograd.grad(3 * smoothed, (x, matrix, bias))
        assert bool((gradients[0][labels == PAD] == 0).all())
        results.append((smoothed, nll, *gradients))
    for ours, theirs in zip(*results, strict=True):
        assert distance(ours, theirs) < 1e-6
    with torch.inference_mode():
        plain = losses.loss(x, matrix, labels, 0.1, bias=bias, fused=True)
    assert [loss.item() for loss in plain] == pytest.approx(
        [loss.item() for loss in results[1][:2]]
    )


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_consistency_loss_by_the_kernel_is_that_by_torch(
    symmetric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(losses, "CHUNK", 4 * 64 * 5)
    monkeypatch.setattr(losses, "_padded_vocabulary", lambda *_: 64)
    x, y, matrix = (torch.randn(size, requires_grad=True) for size in ((13, 8), (13, 8), (50, 8)))
    labels = torch.randint(1, 50, (13,))
    labels[4] = PAD
    results = []
    for fused_ in (True, False):
        sums = losses.consistency_loss(
            *(x, y, matrix, labels, 0.1, 3.0), symmetric=symmetric, fused=fused_
        )
        results.append([*sums, *torch.autograd.grad(sums[0], (x, y, matrix))])
    for ours, theirs in zip(*results, strict=True):
        assert distance(ours, theirs) < 1e-6


@pytest.mark.parametrize(("tokens", "words"), [(1, 5), (24_960, 37_000), (25_000, 37_001), (7, 3)])
def test_chunks_of_logits_are_of_equal_size_if_possible(tokens: int, words: int) -> None:
    for chunk in (2**28, 2**20, words):
        at_a_time = losses._equal_chunks(tokens, words, chunk)
        assert 1 <= at_a_time <= tokens
        assert at_a_time * words <= max(chunk + words, words)
    assert 24_960 % losses._equal_chunks(24_960, 37_000, 2**28) == 0
