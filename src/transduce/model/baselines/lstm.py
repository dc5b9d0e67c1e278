"""Long short-term memory (Hochreiter and Schmidhuber 1997) over many sentences at a time.

T tokens in a batch, S sentences of at most L tokens, R hypotheses.
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
    """Time-major order: the first tokens of all sentences, then the second, and so on.

    The longest sentence comes first, so that no padding is needed (as in torch's PackedSequence).
    """

    sizes: Tensor  # (L,) number of sentences with a token at each step; on the CPU, for the kernels
    order: Tensor  # (T,) index in the batch of each token in time-major order
    back: Tensor  # (T,) the inverse of `order`
    rows: Tensor  # (T,) index of each token in time-major order in the padded rows (S, L)
    shape: tuple[int, int]  # (S, L)

    @classmethod
    def of(cls, view: LengthGroups, device: torch.device) -> Self:
        """Return the time-major order of packed sentences."""
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
        if device.type == "cuda":  # pragma: no cover  (tests/gpu)
            moved = moved.pin_memory().to(device, non_blocking=True)
        moved = moved.to(device)
        return cls(torch.from_numpy(real.sum(1)), moved[0], moved[1], moved[2], (S, L))


class LSTM(Linear):
    """A layer of LSTM cells: one matrix maps input and h to the gates i, f, g, o.

    c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
    """

    def __init__(self, inputs: int, cells: int) -> None:
        self.inputs, self.cells = inputs, cells
        super().__init__(inputs + cells, 4 * cells, bias=True)
        self.packed: Tensor | None = None

    def reset_parameters(self) -> None:
        """Draw the two matrices of each gate separately; biases are 0.

        On short sentences this learned as well as orthogonal matrices, and as a forget bias of 1
        (Jozefowicz et al. 2015).
        """
        with torch.no_grad():
            for gate in self.weight.split(self.cells):
                for matrix in gate.split([self.inputs, self.cells], dim=1):
                    nn.init.xavier_uniform_(matrix)
            nn.init.zeros_(self.bias)

    def pack(self) -> None:
        """Also store the matrix in the fastest layout for single steps."""
        self.packed = packed(self.weight)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next h and c. (R, inputs), (R, cells) -> (R, cells)."""
        matrix = self.weight if self.packed is None else self.packed
        gates = product(torch.cat([x, h], dim=-1), matrix, self.bias)
        i, f, g, o = gates.chunk(4, dim=-1)
        c = torch.addcmul(f.sigmoid() * c, i.sigmoid(), g.tanh())
        return o.sigmoid() * c.tanh(), c


def run_lstm(layer: Sequence[LSTM], x: Tensor, sizes: Tensor) -> Tensor:
    """Apply an LSTM in time-major order, or two for both directions. (T, inputs) -> (T, …)."""
    h = x.new_zeros(len(layer), int(sizes[0]), layer[0].cells)
    weights = _weights(layer, x.dtype)
    biased, layers, dropout = True, 1, 0.0
    # On a GPU this is cuDNN's kernel, which needs to know whether a gradient will be computed.
    learns, bidirectional = torch.is_grad_enabled(), len(layer) == 2
    y, _, _ = torch.lstm(x, sizes, (h, h), weights, biased, layers, dropout, learns, bidirectional)
    return y


def _weights(layer: Sequence[LSTM], dtype: torch.dtype) -> list[Tensor]:
    """Return the matrices and biases of a layer in this precision, as views of one tensor.

    This is cuDNN's layout: matrices first, then the biases, two for each gate.
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
    return [tensor for pair in pairs for tensor in pair]


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Return the rows at `index`, which has no duplicates. (n, C), (T,) -> (T, C)."""
    return _TakeRows.apply(x, index)  # type: ignore[no-untyped-call, no-any-return]


def pad_rows(x: Tensor, index: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return tokens in rows padded with 0, one row for each sentence. (T, C), (T,) -> (S, L, C)."""
    rows = x.new_zeros(shape[0] * shape[1], x.size(-1))
    return rows.index_copy(0, index, x).view(*shape, -1)


class _TakeRows(torch.autograd.Function):
    """No row is taken twice, so the gradient needs no sums, which are slow."""

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
