"""Label smoothing (paper 5.4), computed in chunks to save memory. T tokens, D = d_model, V words.

The target distribution gives 1 - eps_ls to the correct word and spreads eps_ls uniformly over all
words of the vocabulary except <pad>, the correct word included. A label <pad> marks padding, which
has no loss. `consistency_loss` adds the divergence of two passes over the same tokens.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model.ops.linear import add_product, product
from transduce.model.ops.softmax import smoothed_softmax
from transduce.subwords import PAD
from transduce.system.devices import widest_float

# Logits in memory at a time. On a CPU: enough for fast products, few enough to stay in cache. On a
# GPU: a small part of its memory, but enough to make adding to the matrix's gradient cheap.
CHUNK, CHUNK_CUDA, CHUNK_MPS = 2**22, 2**28, 2**25
GRAIN = 64  # on a GPU the vocabulary is padded to a multiple of this, to align rows


def loss(
    x: Tensor,
    matrix: Tensor,
    labels: Tensor,
    eps_ls: float,
    *,
    bias: Tensor | None = None,
    fused: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the sums over tokens of the smoothed loss and of the negative log-likelihood.

    `x` (T, D) is the decoder's output, `matrix` (V, D) the softmax matrix, `bias` (V,) is added to
    the logits. `fused` uses our Triton softmax. Only the first sum has a gradient; the second is
    for reporting: exp(sum / tokens) is the perplexity.
    """
    inputs = (x, matrix) if bias is None else (x, matrix, bias)
    wants_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    smoothed, nll = _Loss.apply(x, matrix, bias, labels, eps_ls, wants_gradient, fused)  # type: ignore[no-untyped-call]
    return smoothed, nll


def consistency_loss(
    x: Tensor,
    y: Tensor,
    matrix: Tensor,
    labels: Tensor,
    eps_ls: float,
    alpha: float,
    *,
    symmetric: bool,
    bias: Tensor | None = None,
    fused: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums over tokens of the loss of two passes, its divergence, and the likelihood.

    `x` and `y` (T, D) are the decoder's outputs in two passes over the same tokens, p and q their
    distributions, CE the smoothed loss. Gradients flow through both passes.

    Symmetric: R-Drop (Liang et al. 2021). The divergence is (KL(p|q) + KL(q|p)) / 2; the loss is
    half of theirs, (CE(p) + CE(q) + alpha * divergence) / 2, so that CE has the usual scale and
    their alpha the same effect. The likelihood is the mean of both passes.

    Otherwise: SimCut (Gao et al. 2022). The divergence is KL(p|q); the loss is
    CE(p) + alpha * divergence.

    Only the loss has a gradient. The last sum is the negative log-likelihood.
    """
    wants_gradient = torch.is_grad_enabled() and (x.requires_grad or matrix.requires_grad)
    total, divergence, nll = _Consistency.apply(  # type: ignore[no-untyped-call]
        *(x, y, matrix, bias, labels, eps_ls, alpha, symmetric, wants_gradient, fused)
    )
    return (total / 2, divergence, nll / 2) if symmetric else (total, divergence, nll)


class _Loss(torch.autograd.Function):
    """Computes logits, softmax, loss and gradients for one chunk of tokens at a time.

    With p the softmax, q the smoothed target and u = eps_ls / (V - 1) its uniform part, the loss of
    a token is logsumexp(z) - sum(q z), and the gradient of its logits is p - q. Products are
    computed in the precision of x; losses and the matrix's gradient are summed in float32 or wider.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        eps_ls: float,
        wants_gradient: bool,
        fused: bool,
    ) -> tuple[Tensor, Tensor]:
        V, D = matrix.shape
        words = _padded_vocabulary(V, x.device)
        weight, offset = _pad_words(matrix.to(x.dtype), bias, words, mask=not fused)
        softmax = smoothed_softmax(x, matrix, bias, labels, eps_ls, fused=fused)
        sums = x.new_zeros(2, dtype=widest_float(x.device))
        if wants_gradient:
            d_x, d_matrix = torch.empty_like(x), matrix.new_zeros(words, D)
            d_bias = None if bias is None else bias.new_zeros(words)
        rows = _chunk_rows(x, words)
        for begin in range(0, len(x), rows):
            chunk = slice(begin, begin + rows)
            z = product(x[chunk], weight, offset)  # (t, words)
            losses, d_z = softmax(z, x[chunk], labels[chunk])
            sums += losses
            if wants_gradient:
                d_x[chunk] = product(d_z, weight.T)
                add_product(d_matrix, d_z.T, x[chunk], d_matrix.dtype)
                if d_bias is not None:
                    d_bias += d_z.sum(0, dtype=d_bias.dtype)
        if wants_gradient:
            d_matrix, d_bias = d_matrix[:V], None if d_bias is None else d_bias[:V]
            softmax.finish(x, d_x, d_matrix, d_bias)
            ctx.save_for_backward(d_x, d_matrix, d_bias)
        smoothed, nll = sums.unbind()
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if d is None else _scale(d, gradient) for d in ctx.saved_tensors)
        return *scaled, None, None, None, None


class _Consistency(torch.autograd.Function):
    """The sums that `consistency_loss` returns, computed like those of _Loss.

    Symmetric: twice the loss, and twice the likelihood.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        eps_ls: float,
        alpha: float,
        symmetric: bool,
        wants_gradient: bool,
        fused: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        V, D = matrix.shape
        words = _padded_vocabulary(V, x.device)
        weight, offset = _pad_words(matrix.to(x.dtype), bias, words, mask=not fused)
        passes = x, y
        softmaxes = [
            smoothed_softmax(side, matrix, bias, labels, eps_ls, fused=fused)
            for side in (passes if symmetric else passes[:1])
        ]
        sums = x.new_zeros(3, dtype=widest_float(x.device))  # CE, likelihood, divergence
        d_passes = [torch.empty_like(x), torch.empty_like(y)] if wants_gradient else []
        d_matrix = matrix.new_zeros(words, D)
        d_bias = None if bias is None else bias.new_zeros(words)
        # Several tensors of the logits' size exist at a time.
        rows = _chunk_rows(x, 4 * words)
        for begin in range(0, len(x), rows):
            chunk = slice(begin, begin + rows)
            logits = [product(side[chunk], weight, offset) for side in passes]  # (t, words)
            logits_p, logits_q = (z[:, :V] for z in logits)
            divergence, gradients = _divergence(
                logits_p, logits_q, labels[chunk], symmetric=symmetric
            )
            sums[2] += divergence
            for number, side in enumerate(passes):
                z = logits[number]
                if number < len(softmaxes):
                    losses, d_z = softmaxes[number](z, side[chunk], labels[chunk])
                    sums[:2] += losses
                else:
                    d_z = z.zero_()
                if wants_gradient:
                    d_z[:, :V].add_(gradients[number], alpha=alpha)
                    d_passes[number][chunk] = product(d_z, weight.T)
                    add_product(d_matrix, d_z.T, side[chunk], d_matrix.dtype)
                    if d_bias is not None:
                        d_bias += d_z.sum(0, dtype=d_bias.dtype)
        if wants_gradient:
            d_matrix, d_bias = d_matrix[:V], None if d_bias is None else d_bias[:V]
            for softmax, side, d_side in zip(softmaxes, passes, d_passes, strict=False):
                softmax.finish(side, d_side, d_matrix, d_bias)
            ctx.save_for_backward(*d_passes, d_matrix, d_bias)
        smoothed, nll, divergence = sums.unbind()
        ctx.mark_non_differentiable(divergence, nll)
        return smoothed + alpha * divergence, divergence, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if d is None else _scale(d, gradient) for d in ctx.saved_tensors)
        return *scaled, None, None, None, None, None, None


def _divergence(
    z_p: Tensor, z_q: Tensor, labels: Tensor, *, symmetric: bool
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the sum over tokens of the divergence, and its gradients by both logits.

    With r = log p - log q, KL(p|q) = sum(p r) has the gradients p (r - KL(p|q)) and q - p.
    """
    dtype = torch.promote_types(z_p.dtype, torch.float32)
    log_p, log_q = (z.log_softmax(-1, dtype=dtype) for z in (z_p, z_q))
    real = (labels != PAD)[:, None]
    r = log_p - log_q
    p, q = log_p.exp_(), log_q.exp_()
    kl = (p * r).sum(-1, keepdim=True)  # KL(p|q)
    if symmetric:
        back = -(q * r).sum(-1, keepdim=True)  # KL(q|p)
        d_p = torch.addcmul(p - q, p, r - kl)
        d_q = torch.addcmul(q - p, q, r.neg_().sub_(back))
        kl, weight = (kl + back) / 2, real / 2
    else:
        d_p, d_q, weight = p * r.sub_(kl), q - p, real
    divergence = (kl * real).sum(dtype=widest_float(kl.device))
    return divergence, (d_p.mul_(weight), d_q.mul_(weight))


def _padded_vocabulary(V: int, device: torch.device) -> int:
    return V if device.type == "cpu" else -(-V // GRAIN) * GRAIN


def _pad_words(
    weight: Tensor, bias: Tensor | None, words: int, *, mask: bool
) -> tuple[Tensor, Tensor | None]:
    """Pad the vocabulary; with `mask`, a bias of -inf gives the added words probability 0."""
    if bias is not None:
        bias = bias.to(weight.dtype)
    missing = words - len(weight)
    if not missing:
        return weight, bias
    if bias is None and mask:
        bias = weight.new_zeros(len(weight))
    if bias is not None:
        bias = F.pad(bias, (0, missing), value=-torch.inf)
    return F.pad(weight, (0, 0, 0, missing)), bias


def _scale(d: Tensor, factor: Tensor) -> Tensor:
    """Multiply by a factor in float32 or wider: in bf16, 1 / 24,577 is 0.2% too large."""
    factor = factor.to(torch.promote_types(d.dtype, torch.float32))
    # A one-dimensional factor promotes the product to its dtype; a scalar does not.
    return d * factor if factor.dtype == d.dtype else (d * factor.reshape(1)).to(d.dtype)


def _chunk_rows(x: Tensor, words: int) -> int:
    """Return how many tokens to compute at a time; on a GPU, in equal chunks if possible."""
    if x.device.type == "cpu":
        return max(1, CHUNK // words)
    return _equal_chunks(len(x), words, CHUNK_MPS if x.device.type == "mps" else CHUNK_CUDA)


def _equal_chunks(tokens: int, words: int, max_logits: int) -> int:
    chunks = -(-tokens * words // max_logits)
    divisors = (n for n in range(chunks, 2 * chunks) if tokens % n == 0)
    return -(-tokens // next(divisors, chunks))
