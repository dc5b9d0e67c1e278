"""Convolutional gated recurrent units (Kaiser and Bengio 2016), and their images in memory.

S sentences, A rows in all their images with the empty rows between them, w columns, m channels,
k x k_w the kernel, b = k // 2. An image has one row per position. The images of a batch follow each
other, with b empty rows before, between and after them: these are the zeros beyond the edges.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.batching.packed import Ints
from transduce.model.ops.linear import Linear, add_product, product

GATE_BIAS = 3.0  # of new models: gates begin almost open, so that a step changes little of an image


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row of the images each row of each sentence is; on the CPU."""

    begins: Ints  # (S,) the first row of each image
    heights: Ints  # (S,) the rows of each image
    total: int  # A
    border: int  # b

    @classmethod
    def of(cls, heights: Ints, border: int) -> Self:
        """Lay out images with these numbers of rows."""
        ends = (heights + border).cumsum() + border
        return cls(ends - border - heights, heights, int(ends[-1]), border)

    def positions(self) -> Ints:
        """Return the position of each row in its image; -1 for the empty rows. (A,)."""
        found: Ints = np.full(self.total, -1, dtype=np.int64)
        found[self.places(self.heights)] = np.concatenate([np.arange(n) for n in self.heights])
        return found

    def places(self, lengths: Ints) -> Ints:
        """Return the rows of the first `lengths` positions of each image, one after the other."""
        before = (lengths.cumsum() - lengths).astype(np.int64)
        shift: Ints = self.begins - before
        return shift.repeat(lengths) + np.arange(int(lengths.sum()))


class CGRU(nn.Module):
    """s' = u s + (1 - u) tanh(U (r s) + W p + B), with gates u and r.

    u = sigmoid(U' s + W' p + B'), r = sigmoid(U'' s + W'' p + B''): U s are convolutions of the
    image; `p` (A, q, 3 m) holds those of the tape, W' p, W'' p and W p, in the first q columns.

    Differs: the authors' code uses 1.2 sigmoid(x) - 0.1, cut to [0, 1], and biases of 1 for the
    gates at first. This learned better with plain sigmoids, as in their paper, and biases of 3.
    """

    def __init__(self, m: int, kernel: int, columns: int) -> None:
        super().__init__()
        self.kernel = kernel, kernel_columns(kernel, columns)
        taps = self.kernel[0] * self.kernel[1]
        self.W_gates = Linear(taps * m, 2 * m, bias=True, blocks=[m, m])
        self.W_candidate = Linear(taps * m, m, bias=True)
        nn.init.constant_(self.W_gates.bias, GATE_BIAS)

    def forward(self, s: Tensor, p: Tensor | None, real: Tensor) -> Tensor:
        """Return the next images; `real` (A - 2b, 1, 1) is 0 for empty rows. -> (A, w, m)."""
        gates, candidate = self.W_gates, self.W_candidate
        weights = gates.weight, gates.bias, candidate.weight, candidate.bias
        return _Step.apply(s, p, real, self.kernel, *weights)  # type: ignore[no-untyped-call, no-any-return]


def kernel_columns(kernel: int, columns: int) -> int:
    """Return the kernel's width across columns: no column is farther away than `columns` - 1."""
    return min(kernel, 2 * columns - 1)


class _Step(torch.autograd.Function):
    """Only the image, the gates and the candidate are stored: not the windows of a convolution."""

    @staticmethod
    def forward(
        ctx: Any,
        s: Tensor,
        p: Tensor | None,
        real: Tensor,
        kernel: tuple[int, int],
        *weights: Tensor,
    ) -> Tensor:
        W_gates, b_gates, W_candidate, b_candidate = weights
        m, b = s.size(-1), kernel[0] // 2
        inside = s[b : len(s) - b]
        gates = _convolve(s, kernel, W_gates, b_gates)
        if p is not None:
            gates[:, : p.size(1)] += p[b : len(p) - b, :, : 2 * m]
        u, r = gates.sigmoid_().chunk(2, dim=-1)
        candidate = _convolve(_framed(r * inside, b), kernel, W_candidate, b_candidate)
        if p is not None:
            candidate[:, : p.size(1)] += p[b : len(p) - b, :, 2 * m :]
        candidate = candidate.tanh_()
        ctx.save_for_backward(s, gates, candidate, real, W_gates, W_candidate)
        ctx.kernel, ctx.tape_columns = kernel, None if p is None else p.size(1)
        return _framed(torch.lerp(candidate, inside, u).mul_(real), b)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        s, gates, candidate, real, W_gates, W_candidate = ctx.saved_tensors
        kernel, b = ctx.kernel, ctx.kernel[0] // 2
        inside, (u, r) = s[b : len(s) - b], gates.chunk(2, dim=-1)
        gradient = gradient[b : len(gradient) - b] * real
        d_candidate = gradient * (1 - u) * (1 - candidate * candidate)
        d_reset, d_W, d_b = _convolve_backward(
            d_candidate, _framed(r * inside, b), kernel, W_candidate
        )
        d_u, d_r = gradient * (inside - candidate), d_reset * inside
        d_gates = torch.cat([d_u, d_r], dim=-1).mul_(gates).mul_(1 - gates)
        d_s, d_W_gates, d_b_gates = _convolve_backward(d_gates, s, kernel, W_gates)
        d_s = d_s.addcmul_(gradient, u).addcmul_(d_reset, r)
        d_p = None
        if ctx.tape_columns is not None:
            columns = slice(0, ctx.tape_columns)
            d_p = _framed(torch.cat([d_gates[:, columns], d_candidate[:, columns]], dim=-1), b)
        return _framed(d_s, b), d_p, None, None, d_W_gates, d_b_gates, d_W, d_b


def _framed(x: Tensor, border: int) -> Tensor:
    """Return `x` with empty rows before and after. (A - 2b, w, m) -> (A, w, m)."""
    return F.pad(x, (0, 0, 0, 0, border, border))


def _windows(x: Tensor, kernel: tuple[int, int]) -> Tensor:
    """Return what the kernel reads at each place. (A, w, m) -> ((A - 2b) w, k k_w m)."""
    rows, (A, w, m), across = kernel[0], x.shape, kernel[1] // 2
    if across:
        x = F.pad(x, (0, 0, across, across))
    x = x.contiguous()
    row, column, channel = x.stride()
    windows = x.as_strided(
        (A - rows + 1, w, *kernel, m), (row, column, row, column, channel), x.storage_offset()
    )
    return windows.reshape((A - rows + 1) * w, -1)


def _convolve(x: Tensor, kernel: tuple[int, int], weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve images. (A, w, m), (outputs, k k_w m) -> (A - 2b, w, outputs)."""
    return product(_windows(x, kernel), weight, bias).view(-1, x.size(1), len(bias))


def _convolve_backward(
    gradient: Tensor, x: Tensor, kernel: tuple[int, int], weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the images without their frame, of the weights and of the bias."""
    (A, w, m), (rows, columns) = x.shape, kernel
    flat = gradient.flatten(0, 1)
    d_weight = add_product(None, flat.T, _windows(x, kernel), weight.dtype)
    d_windows = product(flat, weight.T).view(A - rows + 1, w, rows, columns, m)
    d_x = x.new_zeros(A, w + columns - 1, m)
    for row in range(rows):
        for column in range(columns):
            d_x[row : row + A - rows + 1, column : column + w] += d_windows[:, :, row, column]
    b, across = rows // 2, columns // 2
    d_bias = flat.sum(0, dtype=weight.dtype)
    return d_x[b : A - b, across : across + w].contiguous(), d_weight, d_bias
