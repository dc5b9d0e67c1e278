"""Convolutions over packed runs. T tokens of a run, C channels, R rows of hypotheses.

Sentences lie end to end without padding. Each token's neighbours are laid side by side, 0 where
its sentence has none, and meet all weights in one product.
"""

from typing import Any

import torch
from torch import Tensor, nn

from transduce.model.ops.linear import Linear


class Neighbours:
    """Which tokens of a run that stand some places apart are of one sentence: found once a run."""

    def __init__(self, positions: Tensor, dtype: torch.dtype) -> None:
        self.positions, self.dtype = positions, dtype
        self.found: dict[int, Tensor] = {}

    def apart(self, places: int) -> Tensor:
        """Return 1 where tokens t and t + `places` are of one sentence, else 0. (T - places, 1).

        Positions count from 0 in each sentence, and filler stands at 0: so they differ by as much
        as the places do within a sentence and nowhere else.
        """
        if places not in self.found:
            same = self.positions[places:] == self.positions[:-places] + places
            self.found[places] = same[:, None].to(self.dtype)
        return self.found[places]


def taps(kernel: int, dilation: int, *, causal: bool) -> tuple[int, ...]:
    """Return where a convolution reads, from its own place: behind it first, each once.

    A causal one reads nothing ahead; a centred one of even width reads one more behind.
    """
    behind = kernel - 1 if causal else kernel // 2
    return tuple(dilation * (tap - behind) for tap in range(kernel))


def side_by_side(x: Tensor, reads: tuple[int, ...], near: Neighbours) -> Tensor:
    """Lay what each token reads side by side. (T, C) -> (T, k * C)."""
    masks = [near.apart(abs(tap)) if tap else None for tap in reads]
    return _SideBySide.apply(x, reads, *masks)  # type: ignore[no-untyped-call, no-any-return]


class _SideBySide(torch.autograd.Function):
    """Shifts of the run, and back: several times as fast as gathering rows and scattering them."""

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
    """A convolution within each sentence, dilated if asked for, with 0 beyond its ends."""

    def __init__(self, weights: Linear, reads: tuple[int, ...]) -> None:
        """Take the weights, (outputs, k * C), the place furthest behind first."""
        super().__init__()
        self.weights = weights
        self.reads = reads
        self.behind = -reads[0]  # as far as it looks back

    def forward(self, x: Tensor, where: Neighbours | Tensor) -> Tensor:
        """Convolve a run, or the next token of each hypothesis after its past.

        A past (S, k, behind, C) holds the last inputs, and is moved on by one.
        (T, C) -> (T, outputs) or (R, C) -> (R, outputs).
        """
        if isinstance(where, Neighbours):
            return self.weights(side_by_side(x, self.reads, where))  # type: ignore[no-any-return]
        window = torch.cat([where.flatten(0, 1), x[:, None]], dim=1)  # (R, behind + 1, C)
        where.copy_(window[:, 1:].view_as(where))
        dilation = self.reads[-1] - self.reads[-2] if self.behind else 1
        return self.weights(window[:, ::dilation].flatten(1))  # type: ignore[no-any-return]
