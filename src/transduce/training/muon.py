"""Muon's updates of weight matrices (Jordan et al. 2024; Liu et al. 2025).

The momentum of a matrix is replaced by the nearest semi-orthogonal matrix: the same singular
vectors, but all singular values near 1. B matrices with R rows and C columns, S = min(R, C),
L = max(R, C).

torch.optim.Muon is not used: it updates one matrix at a time, ignores `found_inf`, and treats
projections that share a matrix as one.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transduce.model.ops.linear import Linear

MOMENTUM = 0.95
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # Jordan et al.: the steepest rise of small singular values
ITERATIONS = 5
EPSILON = 1e-7  # smallest norm to divide by
RMS = 0.2  # root mean square of an entry of Adam's usual update (Liu et al. 2025, 2.2)


class Block(NamedTuple):
    """Rows of a weight that are a matrix of their own, such as W_K in W_QKV."""

    weight: Tensor
    number: int
    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.rows.stop - self.rows.start, self.weight.size(1)

    def gradient(self) -> Tensor:
        """Return the gradient of these rows."""
        assert self.weight.grad is not None
        return self.weight.grad[self.rows]


def blocks_in_layers(model: nn.Module) -> list[Block]:
    """Return the matrices in the layers: not embeddings, softmax matrix, norms and biases."""
    blocks = []
    for module in model.modules():
        if isinstance(module, Linear):
            ends = [0, *itertools.accumulate(module.blocks)]
            places = itertools.starmap(slice, itertools.pairwise(ends))
            blocks += [Block(module.weight, *numbered) for numbered in enumerate(places)]
    return blocks


class Workspace:
    """Memory that all stacks use in turn, allocated in advance."""

    def __init__(
        self, groups: Mapping[tuple[int, int], Sequence[Block]], like: Tensor, dtype: torch.dtype
    ) -> None:
        entries = max(len(blocks) * R * C for (R, C), blocks in groups.items())
        squares = max(len(blocks) * min(shape) ** 2 for shape, blocks in groups.items())
        self.wide = like.new_empty(entries)
        self.X, self.Y = (like.new_empty(entries, dtype=dtype) for _ in range(2))
        self.A, self.P = (like.new_empty(squares, dtype=dtype) for _ in range(2))


class Stack:
    """Matrices of one shape, which are updated together by batched products."""

    def __init__(self, blocks: Sequence[Block], workspace: Workspace) -> None:
        B, (R, C) = len(blocks), blocks[0].shape
        S, L = sorted((R, C))
        self.blocks = blocks
        self.weights = [block.weight.detach()[block.rows] for block in blocks]
        self.momentum = torch.zeros(B, R, C, device=workspace.wide.device)
        self.update = workspace.wide[: B * R * C].view(B, R, C)
        self.X, self.Y = (x[: B * R * C].view(B, S, L) for x in (workspace.X, workspace.Y))
        self.A, self.P = (x[: B * S * S].view(B, S, S) for x in (workspace.A, workspace.P))
        self.tall = R > C
        self.scale = RMS * math.sqrt(L)

    def step(self, rate: float, applied: Tensor) -> None:
        """Update the matrices; if `applied` is 0 instead of 1, change nothing.

        The root mean square of an update's entries is about `RMS`, so that Adam's learning rate and
        decoupled weight decay also suit Muon.
        """
        update = torch.stack([block.gradient() for block in self.blocks], out=self.update)
        update.masked_fill_(applied == 0, 0.0)  # it may not be finite
        self.momentum.lerp_(update, (1 - MOMENTUM) * applied)
        update.lerp_(self.momentum, MOMENTUM)  # Nesterov
        norms = torch.linalg.vector_norm(update, dim=(1, 2), keepdim=True)
        update.div_(norms.clamp_(min=EPSILON))
        self.X.copy_(update.mT if self.tall else update)
        X = orthogonalise(self.X, self.Y, self.A, self.P)
        update.copy_(X.mT if self.tall else X).mul_(applied * (-rate * self.scale))
        torch._foreach_add_(self.weights, update.unbind())


def orthogonalise(X: Tensor, Y: Tensor, A: Tensor, P: Tensor) -> Tensor:
    """Bring all singular values near 1 by Newton-Schulz iterations; they are at most 1 before.

    Each iteration maps X to (a I + b A + c A^2) X with A = X X^T. It changes X, (B, S, L), and uses
    the memory of Y, (B, S, L), A and P, (B, S, S). Returns X or Y.
    """
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        torch.bmm(X, X.mT, out=A)
        torch.baddbmm(A, A, A, beta=b, alpha=c, out=P)
        torch.baddbmm(X, P, X, beta=a, out=Y)
        X, Y = Y, X
    return X


def make_stacks(blocks: Iterable[Block], dtype: torch.dtype) -> list[Stack]:
    """Stack blocks of equal shape; iterations are computed in `dtype`."""
    groups: dict[tuple[int, int], list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.shape, []).append(block)
    like = next(iter(groups.values()))[0].weight.detach()
    workspace = Workspace(groups, like, dtype)
    return [Stack(group, workspace) for group in groups.values()]
