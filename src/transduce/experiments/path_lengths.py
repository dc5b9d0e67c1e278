"""How far apart positions of a sentence are in a network (paper 4): measured by the gradient.

Layers are stacked until the gradient of the last position's output by the first position's input
is not 0, and that of the first by the last where layers look ahead. In float64, so that what is
small is not lost.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.autograd import grad

from transduce.experiments.table1_layers import Kind, Sizes, attention_of
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.lstm import LSTM
from transduce.model.ops.linear import Linear

D = 8  # channels: how many plays no part

Layer = Callable[[Tensor], Tensor]


def path(kind: Kind, n: int, *, k: int, r: int, dilated: bool = False) -> int:
    """Return the longest path between two of n positions: layers, or steps of a recurrence.

    Convolutions are those of a decoder, which read nothing ahead.
    """
    torch.manual_seed(1)
    if kind == "recurrent":
        return _steps(n)
    if kind == "convolutional":
        return _least(_convolutions(n, k, dilated=dilated), n, back=False)
    sizes = Sizes(n=n, d=D, k=k, r=r)
    attention = attention_of(sizes, restricted=kind == "restricted").double()
    context = attention.context(sizes, torch.device("cpu"))
    return _least(lambda _: lambda x: attention(x, context), n, back=True)


def _convolutions(n: int, k: int, *, dilated: bool) -> Callable[[int], Layer]:
    """Make convolutions, each reading k times as far apart as the one below if dilated."""
    near = Neighbours(torch.arange(n), torch.float64)
    weights = Linear(k * D, D, bias=True).double()

    def layer(number: int) -> Layer:
        reads = taps(k, k**number if dilated else 1, causal=True)
        convolution = Convolution(weights, reads)
        return lambda x: convolution(x, near)

    return layer


def _least(layer: Callable[[int], Layer], n: int, *, back: bool) -> int:
    """Return the fewest layers that join both ends, by doubling and then halving."""
    x = torch.randn(n, D, dtype=torch.float64)

    def enough(layers: int) -> bool:
        return joins([layer(number) for number in range(layers)], x, back=back)

    high = 1
    while not enough(high):
        high *= 2
        assert high < 2 * n
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def joins(layers: Iterable[Layer], x: Tensor, *, back: bool) -> bool:
    """Tell whether the first position has any influence on the last and, `back`, it on the first.

    x: (n, D).
    """
    x = x.clone().requires_grad_()
    y = x
    for layer in layers:
        y = layer(y)
        y = y / y.square().mean(-1, keepdim=True).sqrt()  # at each position: so it does not vanish
    (of_last,) = grad(y[-1, 0], x, retain_graph=True)
    (of_first,) = grad(y[0, 0], x)
    return bool(of_last[0].any()) and (not back or bool(of_first[-1].any()))


def _steps(n: int) -> int:
    """Count the cells that the gradient crosses from the last output to the first input."""
    lstm = LSTM(D, D).double()
    x = torch.randn(n, 1, D, dtype=torch.float64, requires_grad=True)
    h = c = torch.zeros(1, D, dtype=torch.float64)
    states = []
    for token in x:
        h, c = lstm.step(token, h, c)
        states.append(h)
    of_x, *of_states = grad(states[-1][0, 0], [x, *states])
    assert bool(of_x[0].any())
    return sum(bool(one.any()) for one in of_states)
