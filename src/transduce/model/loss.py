"""Label smoothing (paper 5.4), without the whole logits in memory. T tokens, D = d_model, V words.

Convention: of the target distribution, 1 - eps_ls goes to the right word and eps_ls is spread
evenly over every word of the vocabulary but <pad>, the right word included. Where the label is
<pad> there is filler, which has no loss.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model.ops import kernels
from transduce.model.ops.linear import add_product, product
from transduce.subwords import PAD
from transduce.system.devices import widest_float

# Logits at a time: on a CPU enough for fast products, few enough to stay near the cores; on a GPU
# few enough to be a small part of the memory, enough to make adding to the matrix's gradient cheap.
CHUNK, CHUNK_CUDA, CHUNK_MPS = 2**22, 2**28, 2**25
GRAIN = 64  # on a GPU words come in so many, or products and the softmax would load them singly


def loss(
    x: Tensor, matrix: Tensor, labels: Tensor, eps_ls: float, *, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sums over tokens of the smoothed loss and of the negative log-likelihood.

    `x` (T, D) is the decoder's output, `matrix` (V, D) the one before the softmax, `bias` (V,) what
    some models add. Only the first sum has a gradient: the second is for people, its exponential
    per token being the perplexity.
    """
    weights = (x, matrix) if bias is None else (x, matrix, bias)
    wants_gradient = torch.is_grad_enabled() and any(one.requires_grad for one in weights)
    kind = _OnCPU if x.device.type == "cpu" and x.dtype == matrix.dtype else _OnGPU
    smoothed, nll = kind.apply(x, matrix, bias, labels, eps_ls, wants_gradient)  # type: ignore[no-untyped-call]
    return smoothed, nll


class _OnCPU(torch.autograd.Function):
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
        bias: Tensor | None,
        labels: Tensor,
        eps_ls: float,
        wants_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        all_x, real = x, labels != PAD
        filler = not bool(real.all())
        if filler:
            x, labels = x[real], labels[real]
        even = eps_ls / (len(matrix) - 1)
        columns = matrix.sum(0) - matrix[PAD]  # (D,) what the even part is multiplied with
        smoothed = x.new_zeros((), dtype=torch.float64)
        nll = x.new_zeros((), dtype=torch.float64)
        if wants_gradient:
            d_x, d_matrix = torch.empty_like(x), torch.zeros_like(matrix)
            d_bias = None if bias is None else torch.zeros_like(bias)
        rows = max(1, CHUNK // len(matrix))
        for part in range(0, len(x), rows):
            some, right = x[part : part + rows], labels[part : part + rows, None].long()
            z = product(some, matrix, bias)  # (t, V)
            z_right = z.gather(1, right)
            p = z.softmax(-1)
            # log p of the right word, through the likeliest one, whose p cannot underflow; on the
            # CPU far faster than logsumexp.
            log_p = z_right - z.amax(-1, keepdim=True) + p.amax(-1, keepdim=True).log()
            nll -= log_p.sum()
            z_even = (some @ columns).sum()
            if bias is not None:
                z_even += len(some) * (bias.sum() - bias[PAD])
            smoothed += (z_right - log_p).sum() - (1 - eps_ls) * z_right.sum() - even * z_even
            if wants_gradient:
                p.scatter_add_(1, right, p.new_full(right.shape, eps_ls - 1))
                d_x[part : part + rows] = product(p, matrix.T)
                d_matrix.addmm_(p.T, some)
                if d_bias is not None:
                    d_bias += p.sum(0)
        if wants_gradient:
            d_x -= even * columns
            total = even * x.sum(0)
            d_matrix -= total
            d_matrix[PAD] += total
            if d_bias is not None:
                d_bias -= even * len(x)
                d_bias[PAD] += even * len(x)
            if filler:
                d_x = torch.zeros_like(all_x).masked_scatter_(real[:, None], d_x)
            ctx.save_for_backward(d_x, d_matrix, d_bias)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(ctx, gradient)


class _OnGPU(torch.autograd.Function):
    """The same with the fewest passes over the logits.

    Products are made in the precision of x; losses, and the sum of the matrix's gradient over the
    chunks, are float32 or more.
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
    ) -> tuple[Tensor, Tensor]:
        V, D = matrix.shape
        words = -(-V // GRAIN) * GRAIN
        narrow = F.pad(matrix.to(x.dtype), (0, 0, 0, words - V))
        added = None if bias is None else F.pad(bias.to(x.dtype), (0, words - V))
        sums = x.new_zeros(2, dtype=widest_float(x.device))
        if wants_gradient:
            d_x, d_matrix = torch.empty_like(x), matrix.new_zeros(words, D)
            d_bias = None if bias is None else bias.new_zeros(words)
        rows = _rows(len(x), words, CHUNK_MPS if x.device.type == "mps" else CHUNK_CUDA)
        for part in range(0, len(x), rows):
            some = x[part : part + rows]
            z = F.linear(some, narrow, added)  # (t, words)
            losses = _softmax(z, V, labels[part : part + rows], eps_ls)
            sums += losses.sum(0, dtype=sums.dtype)
            if wants_gradient:
                torch.mm(z, narrow, out=d_x[part : part + rows])
                add_product(d_matrix, z.T, some, d_matrix.dtype)
                if d_bias is not None:
                    d_bias += z.sum(0, dtype=d_bias.dtype)
        smoothed, nll = sums.unbind()
        if wants_gradient:
            ctx.save_for_backward(d_x, d_matrix[:V], None if d_bias is None else d_bias[:V])
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(ctx, gradient)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    scaled = (None if d is None else _scaled(d, gradient) for d in ctx.saved_tensors)
    return *scaled, None, None, None


def _scaled(d: Tensor, factor: Tensor) -> Tensor:
    """Multiply by a factor that keeps at least float32: in bf16, 1 / 24,577 is 0.2% too large."""
    factor = factor.to(torch.promote_types(d.dtype, torch.float32))
    # A factor of one dimension raises the precision of the product, a scalar does not.
    return d * factor if factor.dtype == d.dtype else (d * factor.reshape(1)).to(d.dtype)


def _rows(tokens: int, words: int, most: int) -> int:
    """Return how many tokens to take at a time: all chunks alike where that can be."""
    chunks = -(-tokens * words // most)
    even = (n for n in range(chunks, 2 * chunks) if tokens % n == 0)
    return -(-tokens // next(even, chunks))


def _softmax(z: Tensor, V: int, labels: Tensor, eps_ls: float) -> Tensor:
    """Turn logits into their gradient, in place; return both losses. (t, words) -> (t, 2).

    Only the first V words are any; the gradient of the others is 0.
    """
    if kernels.usable(z):
        from transduce.model.ops.triton import rows

        return rows.softmax(z, V, labels, eps_ls, PAD)
    even = eps_ls / (V - 1)
    real, right = (labels != PAD)[:, None], labels.long()[:, None]
    scores = z[:, :V].float()
    lse, z_right = scores.logsumexp(-1, keepdim=True), scores.gather(1, right)
    z_even = scores.sum(-1, keepdim=True) - scores[:, PAD, None]
    smoothed = lse - (1 - eps_ls) * z_right - even * z_even
    p = (scores - lse).exp_().sub_(even)
    p[:, PAD] += even
    p.scatter_add_(1, right, p.new_full(right.shape, eps_ls - 1))
    z[:, :V] = p.mul_(real)
    return torch.cat([smoothed, lse - z_right], dim=1) * real
