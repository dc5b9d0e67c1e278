"""Convolutions over packed tokens. T tokens, C channels, R rows of hypotheses.

Sentences follow each other without padding. The neighbours of each token are concatenated, with 0
beyond the ends of its sentence, and multiplied by all weights at once.
"""

from typing import Any

import torch
from torch import Tensor, nn

from transduce.model.ops.linear import Linear


class Neighbours:
    """Which tokens at a given distance are in the same sentence; computed once per batch."""

    def __init__(self, positions: Tensor, dtype: torch.dtype) -> None:
        self.positions, self.dtype = positions, dtype
        self.masks: dict[int, Tensor] = {}

    def mask(self, distance: int) -> Tensor:
        """Return 1 if tokens t and t + `distance` share a sentence, else 0. (T - distance, 1).

        Positions count from 0 in each sentence, and are 0 in padding. They differ by `distance`
        only within a sentence.
        """
        if distance not in self.masks:
            same = self.positions[distance:] == self.positions[:-distance] + distance
            self.masks[distance] = same[:, None].to(self.dtype)
        return self.masks[distance]


def taps(kernel: int, dilation: int, *, causal: bool) -> tuple[int, ...]:
    """Return the positions that a convolution reads, relative to its own, in ascending order.

    A causal convolution reads no later positions. A centred one of even width reads one more
    position before than after.
    """
    behind = kernel - 1 if causal else kernel // 2
    return tuple(dilation * (tap - behind) for tap in range(kernel))


def concatenate_taps(x: Tensor, reads: tuple[int, ...], neighbours: Neighbours) -> Tensor:
    """Concatenate the tokens that each token reads. (T, C) -> (T, k * C)."""
    masks = [neighbours.mask(abs(tap)) if tap else None for tap in reads]
    return _ConcatenateTaps.apply(x, reads, *masks)  # type: ignore[no-untyped-call, no-any-return]


class _ConcatenateTaps(torch.autograd.Function):
    """Shifts of the whole batch: several times as fast as gathering and scattering rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, reads: tuple[int, ...], *masks: Tensor | None) -> Tensor:
        ctx.reads = reads
        ctx.save_for_backward(*masks)
        out = x.new_empty(len(x), len(reads), x.size(1))
        for tap, mask, read in zip(reads, masks, out.unbind(1), strict=True):
            if mask is None:
                read.copy_(x)
            elif tap > 0:
                torch.mul(x[tap:], mask, out=read[: len(mask)])
                read[len(mask) :].zero_()
            else:
                torch.mul(x[:tap], mask, out=read[-tap:])
                read[:-tap].zero_()
        return out.flatten(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        masks = ctx.saved_tensors
        parts = gradient.unflatten(1, (len(masks), -1)).unbind(1)
        d_x = parts[ctx.reads.index(0)].clone()
        for tap, mask, part in zip(ctx.reads, masks, parts, strict=True):
            if tap > 0:
                d_x[tap:].addcmul_(part[: len(mask)], mask)
            elif tap < 0:
                d_x[:tap].addcmul_(part[-tap:], mask)
        return d_x, None, *(None for _ in masks)


class Convolution(nn.Module):
    """A convolution within each sentence, with 0 beyond its ends; `reads` may be dilated."""

    def __init__(self, weights: Linear, reads: tuple[int, ...]) -> None:
        """Use these weights, (outputs, k * C), in the order of `reads`."""
        super().__init__()
        self.weights = weights
        self.reads = reads
        self.behind = -reads[0]  # earlier positions that it reads

    def forward(self, x: Tensor, where: Neighbours | Tensor) -> Tensor:
        """Convolve packed tokens, or the next token of each hypothesis after its past.

        A past (S, k, behind, C) holds the last inputs; it is shifted by one in place.
        (T, C) -> (T, outputs) or (R, C) -> (R, outputs).
        """
        if isinstance(where, Neighbours):
            return self.weights(concatenate_taps(x, self.reads, where))  # type: ignore[no-any-return]
        window = torch.cat([where.flatten(0, 1), x[:, None]], dim=1)  # (R, behind + 1, C)
        where.copy_(window[:, 1:].view_as(where))
        dilation = self.reads[-1] - self.reads[-2] if self.behind else 1
        return self.weights(window[:, ::dilation].flatten(1))  # type: ignore[no-any-return]
