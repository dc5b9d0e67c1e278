"""Long short-term memory (Hochreiter and Schmidhuber 1997), a whole run of sentences at a time.

T tokens of a run, S sentences of at most L tokens, R hypotheses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from transduce.batching.packed import LengthGroups
from transduce.model.ops.linear import Linear, packed, product


@dataclass(frozen=True, slots=True)
class Steps:
    """A run read side by side: the first tokens of all its sentences, then the second, and so on.

    The longest sentence stands first, so that those that end leave no holes: nothing is padded.
    """

    sizes: Tensor  # (L,) sentences that have such a token; on the CPU, where kernels want it
    order: Tensor  # (T,) which token of the run comes when
    back: Tensor  # (T,) when each token of the run comes
    rows: Tensor  # (T,) where each goes that comes, in the flattened rows (S, L) of the run
    shape: tuple[int, int]  # of those rows

    @classmethod
    def of(cls, view: LengthGroups, device: torch.device) -> Self:
        """Make the steps of a run."""
        counts, values = np.array(view.groups).T
        lengths = values.repeat(counts)
        S, L = len(lengths), int(lengths[-1])
        begins = lengths.cumsum() - lengths
        token = np.arange(L)[:, None]
        real = token < lengths[::-1]  # (L, S), the longest first
        order = (begins[::-1] + token)[real]
        rows = (np.arange(S)[::-1] * L + token)[real]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        moved = torch.from_numpy(np.stack([order, back, rows]))
        if device.type == "cuda":  # pragma: no cover  (tests/gpu/test_gpu.py)
            moved = moved.pin_memory().to(device, non_blocking=True)
        moved = moved.to(device)
        return cls(torch.from_numpy(real.sum(1)), moved[0], moved[1], moved[2], (S, L))


class LSTM(Linear):
    """A layer of LSTM cells: the gates i, f, g, o are one matrix that reads the input and h.

    c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
    """

    def __init__(self, inputs: int, cells: int) -> None:
        self.inputs, self.cells = inputs, cells
        super().__init__(inputs + cells, 4 * cells, bias=True)
        self.packed: Tensor | None = None

    def reset_parameters(self) -> None:
        """Draw the two matrices of each gate by themselves; biases begin at 0.

        On short sentences that learned no worse than orthogonal matrices, and than the bias of 1
        that keeps cells from forgetting (Jozefowicz et al. 2015).
        """
        with torch.no_grad():
            for gate in self.weight.split(self.cells):
                for matrix in gate.split([self.inputs, self.cells], dim=1):
                    nn.init.xavier_uniform_(matrix)
            nn.init.zeros_(self.bias)

    def pack(self) -> None:
        """Keep the matrix as a step multiplies it fastest, beside the one for whole sequences."""
        self.packed = packed(self.weight)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next h and c. (R, inputs), (R, cells) -> (R, cells)."""
        matrix = self.weight if self.packed is None else self.packed
        gates = product(torch.cat([x, h], dim=-1), matrix, self.bias)
        i, f, g, o = gates.chunk(4, dim=-1)
        c = torch.addcmul(f.sigmoid() * c, i.sigmoid(), g.tanh())
        return o.sigmoid() * c.tanh(), c


def sequence(layer: Sequence[LSTM], x: Tensor, sizes: Tensor) -> Tensor:
    """Let an LSTM read a run step by step, or two of them from both ends. (T, inputs) -> (T, …)."""
    h = x.new_zeros(len(layer), int(sizes[0]), layer[0].cells)
    weights = _weights(layer, x.dtype)
    biased, layers, dropout = True, 1, 0.0
    # On a GPU this is cuDNN's kernel, which wants to know whether a gradient will be asked for.
    learns, both_ways = torch.is_grad_enabled(), len(layer) == 2
    y, _, _ = torch.lstm(x, sizes, (h, h), weights, biased, layers, dropout, learns, both_ways)
    return y


def _weights(layer: Sequence[LSTM], dtype: torch.dtype) -> list[Tensor]:
    """Return the matrices and biases of a layer in this precision, as views of one tensor.

    So cuDNN wants them: matrices first, then the biases, of which it has two for each gate.
    """
    matrices, biases = [], []
    for lstm in layer:
        matrices += lstm.weight.split([lstm.inputs, lstm.cells], dim=1)
        biases += [lstm.bias, torch.zeros_like(lstm.bias)]
    parts = matrices + biases
    flat = torch.cat([part.flatten() for part in parts]).to(dtype)
    views = flat.split([part.numel() for part in parts])
    shaped = [view.view(part.shape) for view, part in zip(views, parts, strict=True)]
    matrices, biases = shaped[: len(matrices)], shaped[len(matrices) :]
    pairs = zip(matrices[::2], matrices[1::2], biases[::2], biases[1::2], strict=True)
    return [one for four in pairs for one in four]


def taken(x: Tensor, index: Tensor) -> Tensor:
    """Return some rows, none of them twice. (n, C), (T,) -> (T, C)."""
    return _Taken.apply(x, index)  # type: ignore[no-untyped-call, no-any-return]


def spread(x: Tensor, index: Tensor, shape: tuple[int, int]) -> Tensor:
    """Lay tokens out in rows, with 0 where there is none. (T, C), (T,) -> (S, L, C)."""
    rows = x.new_zeros(shape[0] * shape[1], x.size(-1))
    return rows.index_copy(0, index, x).view(*shape, -1)


class _Taken(torch.autograd.Function):
    """Rows that are taken once: their gradient needs no sums, which are slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(x)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        rows = gradient.new_zeros(ctx.rows, gradient.size(-1))
        return rows.index_copy_(0, index, gradient), None
