"""Label smoothing is the documented distribution, and sums are sums."""

import pytest
import torch
from torch.nn import functional as F

from models import batch_of, pairs_of, small_model
from reference import smoothed_target
from transduce.batching.packed import make_batch
from transduce.model import loss as losses
from transduce.model.loss import loss
from transduce.subwords import PAD


@pytest.mark.parametrize("eps_ls", [0.0, 0.1, 0.2])
def test_loss_and_gradients_are_the_cross_entropy_with_the_smoothed_target(eps_ls: float) -> None:
    torch.manual_seed(0)
    x, matrix = torch.randn(13, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    labels = torch.randint(1, 20, (13,))
    ours, nll = loss(x, matrix, labels, eps_ls)
    log_p = torch.log_softmax(x.double() @ matrix.double().T, -1)
    exact = -(smoothed_target(labels, 20, eps_ls) * log_p).sum()
    assert ours.item() == pytest.approx(exact.item(), rel=1e-6)
    plain = F.cross_entropy(x @ matrix.T, labels, reduction="sum")
    assert nll.item() == pytest.approx(plain.item(), rel=1e-5)
    own = torch.autograd.grad(ours, (x, matrix))
    reference = torch.autograd.grad(exact, (x, matrix))
    for a, b in zip(own, reference, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_smoothed_target_gives_nothing_to_padding_and_sums_to_one() -> None:
    q = smoothed_target(torch.tensor([3, 7]), 20, 0.1)
    torch.testing.assert_close(q.sum(-1), torch.ones(2, dtype=torch.float64))
    x, matrix = torch.zeros(2, 4, requires_grad=True), torch.zeros(20, 4, requires_grad=True)
    x.data += torch.randn(2, 4)
    ours, _ = loss(x, matrix, torch.tensor([3, 7]), 0.1)
    (gradient,) = torch.autograd.grad(ours, matrix)
    # With equal logits the gradient on <pad> is its softmax alone: no target pulls it up.
    torch.testing.assert_close(gradient[PAD], x.detach().sum(0) / 20)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, matrix = torch.randn(37, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    labels = torch.randint(1, 20, (37,))
    whole, whole_nll = loss(x, matrix, labels, 0.1)
    of_whole = torch.autograd.grad(whole, (x, matrix))
    monkeypatch.setattr(losses, "CHUNK", 20 * 5)
    parts, parts_nll = loss(x, matrix, labels, 0.1)
    assert parts.item() == pytest.approx(whole.item(), rel=1e-6)
    assert parts_nll.item() == pytest.approx(whole_nll.item(), rel=1e-6)
    for a, b in zip(of_whole, torch.autograd.grad(parts, (x, matrix)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_one_batch_equals_accumulated_batches_of_unequal_token_counts() -> None:
    """Gradients are sums over tokens divided by the count of all of them."""
    model = small_model(P_drop=0.0).train()
    pairs = pairs_of([(5, 3), (7, 12), (2, 4), (9, 9), (4, 1)])
    tokens = sum(len(target) for _, target in pairs)
    smoothed, _ = loss(model(make_batch(pairs)), model.output, make_batch(pairs).labels, 0.1)
    whole = torch.autograd.grad(smoothed / tokens, list(model.parameters()))
    total = [torch.zeros_like(p) for p in model.parameters()]
    for some in (pairs[:1], pairs[1:3], pairs[3:]):
        batch = make_batch(some)
        part, _ = loss(model(batch), model.output, batch.labels, 0.1)
        gradients = torch.autograd.grad(part / tokens, list(model.parameters()))
        total = [a + b for a, b in zip(total, gradients, strict=True)]
    for a, b in zip(whole, total, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_evaluation_needs_no_gradient() -> None:
    model, batch = small_model(), batch_of((5, 6), (3, 4))
    with torch.inference_mode():
        smoothed, nll = loss(model(batch), model.output, batch.labels, 0.1)
    again, nll_again = loss(model(batch), model.output, batch.labels, 0.1)
    assert smoothed.item() == pytest.approx(again.item())
    assert nll.item() == pytest.approx(nll_again.item())


def test_extreme_logits_stay_finite() -> None:
    x, matrix = torch.full((2, 4), 1e3), torch.randn(10, 4) * 10
    smoothed, nll = loss(x, matrix, torch.tensor([1, 2]), 0.1)
    assert torch.isfinite(smoothed)
    assert torch.isfinite(nll)


@pytest.mark.parametrize("eps_ls", [0.0, 0.1])
@pytest.mark.parametrize("words", [20, 64])
def test_a_bias_of_the_words_counts_and_has_its_gradient(
    words: int, eps_ls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(losses, "CHUNK", words * 5)
    monkeypatch.setattr(losses, "_padded_vocabulary", lambda *_: words)  # as on a GPU
    x, matrix = torch.randn(13, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    bias = torch.randn(20, requires_grad=True)
    labels = torch.randint(1, 20, (13,))
    labels[4] = PAD
    real = labels != PAD
    ours, nll = loss(x, matrix, labels, eps_ls, bias=bias)
    logits = x.double() @ matrix.double().T + bias.double()
    q = smoothed_target(labels[real], 20, eps_ls)
    exact = -(q * torch.log_softmax(logits, -1)[real]).sum()
    assert ours.item() == pytest.approx(exact.item(), rel=1e-5)
    plain = F.cross_entropy(logits[real], labels[real], reduction="sum")
    assert nll.item() == pytest.approx(plain.item(), rel=1e-5)
    own = torch.autograd.grad(ours, (x, matrix, bias))
    reference = torch.autograd.grad(exact, (x, matrix, bias))
    for a, b in zip(own, reference, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_bias_of_0_changes_nothing() -> None:
    torch.manual_seed(0)
    x, matrix, labels = torch.randn(13, 8), torch.randn(20, 8), torch.randint(1, 20, (13,))
    for hidden in (x, x.bfloat16()):
        without, with_zeros = (
            loss(hidden, matrix, labels, 0.1, bias=bias) for bias in (None, torch.zeros(20))
        )
        torch.testing.assert_close(without, with_zeros)


def test_the_scale_of_a_bf16_gradient_is_not_rounded() -> None:
    """1 / 24,577 in bf16 is 0.2% too large, and so would be every gradient below the softmax."""
    torch.manual_seed(0)
    x = torch.randn(200, 64).bfloat16().requires_grad_()
    matrix = torch.randn(50, 64, requires_grad=True)
    labels = torch.randint(1, 50, (200,))
    scale = torch.tensor(1 / 24_577, dtype=torch.float64)
    whole = torch.autograd.grad(loss(x, matrix, labels, 0.1)[0], (x, matrix))
    scaled = torch.autograd.grad(loss(x, matrix, labels, 0.1)[0] * scale, (x, matrix))
    for a, b in zip(scaled, whole, strict=True):
        assert a.dtype == b.dtype
        ratio = a.double().norm() / b.double().norm() * 24_577
        assert ratio.item() == pytest.approx(1, abs=2e-4)
