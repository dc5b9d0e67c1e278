"""The longest path between two positions in a sentence (paper 4), measured with gradients.

Layers are stacked until the gradient of the last position's output with respect to the first
position's input is not 0 and, for layers that look ahead, vice versa. Computed in float64, so
that small gradients do not underflow.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.autograd import grad

from transduce.experiments.table1_layers import Kind, Sizes, attention_context, make_attention
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.lstm import LSTM
from transduce.model.ops.linear import Linear

D = 8  # channels; their number does not matter

Layer = Callable[[Tensor], Tensor]


def path_length(kind: Kind, n: int, *, k: int, r: int, dilated: bool = False) -> int:
    """Return the longest path between two of n positions: layers, or steps of a recurrence.

    Convolutions are causal, as in a decoder.
    """
    torch.manual_seed(1)
    if kind == "recurrent":
        return _recurrent_steps(n)
    if kind == "convolutional":
        return _fewest_layers(_convolutions(n, k, dilated=dilated), n, both_ways=False)
    sizes = Sizes(n=n, d=D, k=k, r=r)
    attention = make_attention(sizes).double()
    context = attention_context(sizes, torch.device("cpu"), restricted=kind == "restricted")
    return _fewest_layers(lambda _: lambda x: attention(x, context), n)


def _convolutions(n: int, k: int, *, dilated: bool) -> Callable[[int], Layer]:
    """Return a layer factory; if dilated, the dilation grows by a factor of k per layer."""
    neighbours = Neighbours(torch.arange(n), torch.float64)
    weights = Linear(k * D, D, bias=True).double()

    def layer(number: int) -> Layer:
        offsets = taps(k, k**number if dilated else 1, causal=True)
        convolution = Convolution(weights, offsets)
        return lambda x: convolution(x, neighbours)

    return layer


def _fewest_layers(layer: Callable[[int], Layer], n: int, *, both_ways: bool = True) -> int:
    """Return the minimum number of layers that connect both ends: double, then bisect."""
    x = torch.randn(n, D, dtype=torch.float64)

    def enough(count: int) -> bool:
        return connected([layer(number) for number in range(count)], x, both_ways=both_ways)

    high = 1
    while not enough(high):
        high *= 2
        assert high < 2 * n
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def connected(layers: Iterable[Layer], x: Tensor, *, both_ways: bool) -> bool:
    """Return whether the first position influences the last, and vice versa if `both_ways`.

    x: (n, D).
    """
    x = x.clone().requires_grad_()
    y = x
    for layer in layers:
        y = layer(y)
        y = y / y.square().mean(-1, keepdim=True).sqrt()  # keep gradients from vanishing
    (of_last,) = grad(y[-1, 0], x, retain_graph=True)
    (of_first,) = grad(y[0, 0], x)
    return bool(of_last[0].any()) and (not both_ways or bool(of_first[-1].any()))


def _recurrent_steps(n: int) -> int:
    """Count the states on the gradient's path from the last output to the first input."""
    lstm = LSTM(D, D).double()
    x = torch.randn(n, 1, D, dtype=torch.float64, requires_grad=True)
    h = c = torch.zeros(1, D, dtype=torch.float64)
    states = []
    for token in x:
        h, c = lstm.step(token, h, c)
        states.append(h)
    of_x, *of_states = grad(states[-1][0, 0], [x, *states])
    assert bool(of_x[0].any())
    return sum(bool(gradient.any()) for gradient in of_states)
