"""The loss of R-Drop and of SimCut is the published one, on full logits in float64."""

import pytest
import torch
from torch import Tensor

from models import batch_of, small_model
from reference import smoothed_target
from transduce.config import TrainConfig
from transduce.model import loss as losses
from transduce.model.loss import consistency_loss, loss
from transduce.subwords import PAD
from transduce.training.gradient import Objective

Three = tuple[Tensor, Tensor, Tensor]


def reference(
    log_p: Tensor, log_q: Tensor, labels: Tensor, eps_ls: float, alpha: float, *, symmetric: bool
) -> Three:
    """Return the loss, the divergence and the likelihood of two distributions (T, V)."""

    def kl(log_a: Tensor, log_b: Tensor) -> Tensor:
        return (log_a.exp() * (log_a - log_b)).sum()

    def entropy(log_a: Tensor, eps: float) -> Tensor:
        return -(smoothed_target(labels, log_a.size(1), eps) * log_a).sum()

    if not symmetric:
        divergence = kl(log_p, log_q)
        return entropy(log_p, eps_ls) + alpha * divergence, divergence, entropy(log_p, 0.0)
    divergence = (kl(log_p, log_q) + kl(log_q, log_p)) / 2
    theirs = entropy(log_p, eps_ls) + entropy(log_q, eps_ls) + alpha * divergence
    return theirs / 2, divergence, (entropy(log_p, 0.0) + entropy(log_q, 0.0)) / 2


@pytest.mark.parametrize("symmetric", [True, False], ids=["R-Drop", "SimCut"])
@pytest.mark.parametrize("words", [20, 64])
@pytest.mark.parametrize("biased", [True, False])
def test_the_loss_and_its_gradients_are_the_published_ones(
    symmetric: bool, words: int, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(losses, "CHUNK", 4 * words * 5)  # three chunks
    monkeypatch.setattr(losses, "_padded_vocabulary", lambda *_: words)  # as on a GPU
    tensors = [torch.randn(size, requires_grad=True) for size in ((13, 8), (13, 8), (20, 8))]
    if biased:
        tensors.append(torch.randn(20, requires_grad=True))
    x, y, matrix, *biases = tensors
    labels = torch.randint(1, 20, (13,))
    labels[4] = PAD
    real = labels != PAD
    bias = biases[0] if biased else None
    ours = consistency_loss(x, y, matrix, labels, 0.1, 3.0, symmetric=symmetric, bias=bias)
    offset = 0.0 if bias is None else bias.double()
    log_p, log_q = (
        (side.double() @ matrix.double().T + offset).log_softmax(-1)[real] for side in (x, y)
    )
    exact = reference(log_p, log_q, labels[real], 0.1, 3.0, symmetric=symmetric)
    for value, expected in zip(ours, exact, strict=True):
        assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    gradients = torch.autograd.grad(ours[0], tensors)
    assert not gradients[0][4].any()
    assert not gradients[1][4].any()
    for a, b in zip(gradients, torch.autograd.grad(exact[0], tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5)


def test_in_bf16_the_loss_and_its_gradients_are_close() -> None:
    torch.manual_seed(0)
    x, y = (torch.randn(50, 16).bfloat16().requires_grad_() for _ in range(2))
    matrix, labels = torch.randn(40, 16, requires_grad=True), torch.randint(1, 40, (50,))
    narrow = consistency_loss(x, y, matrix, labels, 0.1, 3.0, symmetric=True)
    wide_x, wide_y = x.detach().float().requires_grad_(), y.detach().float().requires_grad_()
    wide = consistency_loss(wide_x, wide_y, matrix, labels, 0.1, 3.0, symmetric=True)
    for a, b in zip(narrow, wide, strict=True):
        assert a.item() == pytest.approx(b.item(), rel=0.01)
    ours = torch.autograd.grad(narrow[0], (x, y, matrix))
    theirs = torch.autograd.grad(wide[0], (wide_x, wide_y, matrix))
    assert [gradient.dtype for gradient in ours] == [torch.bfloat16] * 2 + [torch.float32]
    for a, b in zip(ours, theirs, strict=True):
        assert (a.float() - b).norm() < 0.02 * b.norm()


def test_extreme_logits_stay_finite() -> None:
    x, matrix = torch.full((2, 4), 1e3, requires_grad=True), torch.randn(10, 4) * 10
    for symmetric in (True, False):
        sums = consistency_loss(x, -x, matrix, torch.tensor([1, 2]), 0.1, 5.0, symmetric=symmetric)
        (gradient,) = torch.autograd.grad(sums[0], x)
        assert all(torch.isfinite(value).all() for value in (*sums, gradient))


@pytest.mark.parametrize(
    "config", [TrainConfig(rdrop=5.0), TrainConfig(simcut=5.0, cutoff=0.0)], ids=["rdrop", "simcut"]
)
def test_without_random_draws_the_divergence_is_0_and_the_gradient_the_plain_one(
    config: TrainConfig,
) -> None:
    model, batch = small_model(P_drop=0.0).train(), batch_of((5, 6), (3, 4), (9, 2))
    weights = list(model.parameters())
    plain, nll = Objective(model, TrainConfig())(batch)
    expected = torch.autograd.grad(plain, weights)
    total, same_nll, divergence = Objective(model, config)(batch)
    assert divergence.item() == 0
    assert total.item() == pytest.approx(plain.item(), rel=1e-6)
    assert same_nll.item() == pytest.approx(nll.item(), rel=1e-6)
    for a, b in zip(torch.autograd.grad(total, weights), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_second_pass_counts_only_in_training() -> None:
    model, batch = small_model(P_drop=0.3), batch_of((5, 6), (3, 4))
    expected = loss(model(batch), model.output, batch.labels, 0.1)
    for config in (TrainConfig(rdrop=5.0, word_dropout=0.5), TrainConfig(simcut=3.0, cutoff=0.5)):
        found = Objective(model, config)(batch)
        assert [value.item() for value in found] == [value.item() for value in expected]
