"""Label smoothing (paper 5.4), without the whole logits in memory. T tokens, D = d_model, V words.

Convention: of the target distribution, 1 - eps_ls goes to the right word and eps_ls is spread
evenly over every word of the vocabulary but <pad>, the right word included. No token of a packed
run is padding, so none has a loss that it should not have.
"""

from typing import Any

import torch
from torch import Tensor

from transduce.linear import product
from transduce.subwords import PAD

CHUNK = 2**22  # logits at a time: enough for fast products, few enough to stay near the cores


def loss(x: Tensor, matrix: Tensor, labels: Tensor, eps_ls: float) -> tuple[Tensor, Tensor]:
    """Return the sums over tokens of the smoothed loss and of the negative log-likelihood.

    `x` (T, D) is the decoder's output, `matrix` (V, D) the one before the softmax. Only the first
    has a gradient: the second is for people, its exponential per token being the perplexity.
    """
    wants_gradient = torch.is_grad_enabled() and (x.requires_grad or matrix.requires_grad)
    smoothed, nll = _SmoothedLoss.apply(x, matrix, labels, eps_ls, wants_gradient)  # type: ignore[no-untyped-call]
    return smoothed, nll


class _SmoothedLoss(torch.autograd.Function):
    """Softmax, loss and gradient of a few tokens at a time.

    With p the softmax, q the smoothed target and u = eps_ls / (V - 1) its even part, the loss of a
    token is logsumexp(z) - sum(q z) and its gradient p - q. What is even over the words is taken
    through the matrix's column sums, which saves passes over the logits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        matrix: Tensor,
        labels: Tensor,
        eps_ls: float,
        wants_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        even = eps_ls / (len(matrix) - 1)
        columns = matrix.sum(0) - matrix[PAD]  # (D,) what the even part is multiplied with
        smoothed = x.new_zeros((), dtype=torch.float64)
        nll = x.new_zeros((), dtype=torch.float64)
        if wants_gradient:
            d_x, d_matrix = torch.empty_like(x), torch.zeros_like(matrix)
        rows = max(1, CHUNK // len(matrix))
        for part in range(0, len(x), rows):
            some, right = x[part : part + rows], labels[part : part + rows, None]
            z = product(some, matrix)  # (t, V)
            z_right = z.gather(1, right)
            p = z.softmax(-1)
            # log p of the right word, through the likeliest one, whose p cannot underflow; on the
            # CPU far faster than logsumexp.
            log_p = z_right - z.amax(-1, keepdim=True) + p.amax(-1, keepdim=True).log()
            nll -= log_p.sum()
            z_even = (some @ columns).sum()
            smoothed += (z_right - log_p).sum() - (1 - eps_ls) * z_right.sum() - even * z_even
            if wants_gradient:
                p.scatter_add_(1, right, p.new_full(right.shape, eps_ls - 1))
                d_x[part : part + rows] = product(p, matrix.T)
                d_matrix.addmm_(p.T, some)
        if wants_gradient:
            d_x -= even * columns
            total = even * x.sum(0)
            d_matrix -= total
            d_matrix[PAD] += total
            ctx.save_for_backward(d_x, d_matrix)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        d_x, d_matrix = ctx.saved_tensors
        factor = gradient.to(d_x.dtype)
        return d_x * factor, d_matrix * factor, None, None, None
