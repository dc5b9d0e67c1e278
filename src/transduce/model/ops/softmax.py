"""The smoothed softmax of the loss (paper 5.4), by our Triton kernel or by torch operations."""

from typing import Protocol

import torch
from torch import Tensor

from transduce.subwords import PAD
from transduce.system.devices import widest_float


class SmoothedSoftmax(Protocol):
    """The losses of chunks of tokens, and their gradients. t tokens in a chunk, D = d_model."""

    def __call__(self, z: Tensor, x: Tensor, labels: Tensor, /) -> tuple[Tensor, Tensor]:
        """Return the sums of both losses, (2,), and the gradient of the logits `z`."""

    def finish(self, x: Tensor, d_x: Tensor, d_matrix: Tensor, d_bias: Tensor | None) -> None:
        """Complete the gradients after the last chunk, in place."""


def smoothed_softmax(
    x: Tensor, matrix: Tensor, bias: Tensor | None, labels: Tensor, eps_ls: float, *, fused: bool
) -> SmoothedSoftmax:
    """Return the softmax for all tokens `x` (T, D); with `fused`, by our kernel."""
    if fused:
        return _TritonSoftmax(len(matrix), eps_ls)
    return _Softmax(x, matrix, bias, labels, eps_ls)


class _TritonSoftmax:
    """The smoothed softmax and its gradient in one kernel, which reads the logits twice."""

    def __init__(self, V: int, eps_ls: float) -> None:
        self.V, self.eps_ls = V, eps_ls

    def __call__(self, z: Tensor, _: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of both losses, and the gradient, which overwrites the logits."""
        from transduce.model.ops.triton import rows

        losses = rows.softmax(z, self.V, labels, self.eps_ls, PAD)
        return losses.sum(0, dtype=widest_float(z.device)), z

    def finish(self, x: Tensor, d_x: Tensor, d_matrix: Tensor, d_bias: Tensor | None) -> None:
        """Do nothing: the gradients are complete."""


class _Softmax:
    """The same in torch operations.

    The uniform part of the target is multiplied by the sum of the matrix's rows instead of the
    logits, once for all tokens, which saves passes over the logits.
    """

    def __init__(
        self, x: Tensor, matrix: Tensor, bias: Tensor | None, labels: Tensor, eps_ls: float
    ) -> None:
        self.eps_ls, self.uniform = eps_ls, eps_ls / (len(matrix) - 1)
        dtype = torch.promote_types(matrix.dtype, torch.float32)
        pad = torch.full((1,), PAD, device=matrix.device)
        self.word_sum = matrix.sum(0, dtype=dtype) - matrix.index_select(0, pad)[0]  # (D,)
        self.bias_sum = None if bias is None else bias.sum() - bias[PAD]
        real = (labels != PAD)[:, None]
        # On a CPU padding is rare, and checking for it is cheap. On a GPU the check would wait.
        self.real = None if x.device.type == "cpu" and bool(real.all()) else real

    def __call__(self, z: Tensor, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of both losses, and p minus the target without its uniform part."""
        dtype = torch.promote_types(z.dtype, torch.float32)
        z, correct = z.to(dtype), labels[:, None].long()
        z_correct = z.gather(1, correct)
        p = z.softmax(-1)
        # log p of the correct word, computed from the most likely one, whose p cannot underflow: on
        # the CPU far faster than logsumexp.
        log_p = z_correct - z.amax(-1, keepdim=True) + p.amax(-1, keepdim=True).log()
        z_uniform = x.to(dtype) @ self.word_sum
        p.scatter_add_(1, correct, p.new_full(correct.shape, self.eps_ls - 1))
        tokens: Tensor | int = len(x)
        if self.real is not None:
            real = correct != PAD
            z_correct, log_p, p = z_correct * real, log_p * real, p.mul_(real)
            z_uniform, tokens = z_uniform * real[:, 0], real.sum()
        z_uniform = z_uniform.sum()
        if self.bias_sum is not None:
            z_uniform += tokens * self.bias_sum
        smoothed = (z_correct - log_p).sum() - (1 - self.eps_ls) * z_correct.sum()
        smoothed = smoothed - self.uniform * z_uniform
        return torch.stack([smoothed, -log_p.sum()]), p.to(x.dtype)

    def finish(self, x: Tensor, d_x: Tensor, d_matrix: Tensor, d_bias: Tensor | None) -> None:
        """Subtract the uniform part of the target from the gradients."""
        tokens: Tensor | int = len(x)
        if self.real is not None:
            x, tokens = x * self.real, self.real.sum()
        d_x -= (self.uniform * self.word_sum).to(d_x.dtype)
        if self.real is not None:
            d_x *= self.real
        uniform_part = self.uniform * x.sum(0, dtype=d_matrix.dtype)
        d_matrix -= uniform_part
        d_matrix[PAD] += uniform_part
        if d_bias is not None:
            d_bias -= self.uniform * tokens
            d_bias[PAD] += self.uniform * tokens
