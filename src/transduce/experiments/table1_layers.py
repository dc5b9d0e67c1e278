"""The layers of Table 1, as the house has them, each by itself. T = batch * n tokens of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from transduce.batching.packed import KeyRanges, LengthGroups, PackedTokens
from transduce.config import ModelConfig
from transduce.model.attention import SelfAttention, SelfContext
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.lstm import LSTM, sequence
from transduce.model.contexts.selection import self_context
from transduce.model.ops.linear import Linear

D_K = 64  # of a head, as in the paper's models

Kind = Literal["self-attention", "recurrent", "convolutional", "restricted"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """A row of the paper's Table 1: O() of each column; `n` and `d` are the powers of the first."""

    complexity: str
    sequential: str
    path: str
    n: int
    d: int


TABLE_1: dict[Kind, Said] = {
    "self-attention": Said(complexity="n^2 d", sequential="1", path="1", n=2, d=1),
    "recurrent": Said(complexity="n d^2", sequential="n", path="n", n=1, d=2),
    "convolutional": Said(complexity="k n d^2", sequential="1", path="log_k n", n=1, d=2),
    "restricted": Said(complexity="r n d", sequential="1", path="n/r", n=1, d=1),
}
ATTENTION: tuple[Kind, Kind] = ("self-attention", "restricted")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """How large a layer is, and what it reads."""

    n: int
    d: int
    k: int  # width of the convolution
    r: int  # tokens that restricted self-attention sees
    batch: int = 1
    packed: bool = False  # attend with our packed kernels, as training on a GPU does


class Made(NamedTuple):
    """A layer's pass over an input of a size."""

    run: Callable[[Tensor], Tensor]
    x: Tensor
    weights: list[nn.Parameter]


def layer_of(kind: Kind, sizes: Sizes, device: torch.device) -> nn.Module:
    """Make a layer, with its first weights drawn."""
    with device:
        if kind == "recurrent":
            return LSTM(sizes.d, sizes.d)
        if kind == "convolutional":
            weights = Linear(sizes.k * sizes.d, sizes.d, bias=True)
            return Convolution(weights, taps(sizes.k, 1, causal=False))
        return attention_of(sizes, restricted=kind == "restricted")


def made(layer: nn.Module, sizes: Sizes, dtype: torch.dtype, *, projected: bool = True) -> Made:
    """Make ready for a layer to read random sentences; attention also without its projections."""
    weights = list(layer.parameters())
    device = weights[0].device
    x = torch.randn(sizes.batch * sizes.n, sizes.d, device=device).to(dtype).requires_grad_()
    if isinstance(layer, LSTM):
        steps = torch.full((sizes.n,), sizes.batch)  # sentences that have such a token
        return Made(lambda x: sequence([layer], x, steps), x, weights)
    if isinstance(layer, Convolution):
        positions = torch.arange(sizes.n, device=device).repeat(sizes.batch)
        near = Neighbours(positions, dtype)
        return Made(lambda x: layer(x, near), x, weights)
    assert isinstance(layer, Attention)
    context = layer.context(sizes, device)
    if projected:
        return Made(lambda x: layer(x, context), x, weights)
    qkv = torch.randn(len(x), sum(layer.sizes), device=device).to(dtype).requires_grad_()
    return Made(lambda qkv: context.attend(qkv, layer.heads), qkv, [])


class Attention(SelfAttention):
    """Self-attention, restricted to the neighbourhood of its configuration."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.neighbourhood = config.neighbourhood

    def context(self, sizes: Sizes, device: torch.device) -> SelfContext:
        """Return the attention context of training on this device, for sentences of n tokens."""
        positions = torch.arange(sizes.n, device=device).repeat(sizes.batch)
        segments: LengthGroups | KeyRanges = LengthGroups(((sizes.batch, sizes.n),))
        if sizes.packed:
            begins = torch.arange(sizes.batch, dtype=torch.int32, device=device) * sizes.n
            first = begins.repeat_interleave(sizes.n)
            segments = KeyRanges(first, first + sizes.n, first, first + sizes.n)
        tokens = PackedTokens(positions, positions, segments)
        return self_context(tokens, causal=False, neighbourhood=self.neighbourhood)


def attention_of(sizes: Sizes, *, restricted: bool) -> Attention:
    """Make self-attention with heads of the paper's width."""
    h = max(1, sizes.d // D_K)
    config = ModelConfig(
        d_model=sizes.d,
        h=h,
        d_k=sizes.d // h,
        d_v=sizes.d // h,
        neighbourhood=sizes.r if restricted else None,
    )
    return Attention(config)


def operations(kind: Kind, sizes: Sizes, *, projected: bool = False) -> int:
    """Return the operations of a layer's forward pass: two for each product that is added."""
    n, d = sizes.n, sizes.d
    each = {
        "self-attention": 4 * n * d,  # Q K^T, and the weighted sum of V
        "recurrent": 16 * d * d,  # four gates, of the input and of the state
        "convolutional": 2 * sizes.k * d * d,
        "restricted": 4 * min(sizes.r, n) * d,
    }[kind]
    if projected and kind in ATTENTION:
        each += 8 * d * d  # Q, K, V and the output
    return sizes.batch * n * each


def counted(kind: Kind, sizes: Sizes) -> int:
    """Return the operations that torch counts in it, of matrix products alone; none is made."""
    from torch.utils.flop_counter import FlopCounterMode

    layer = layer_of(kind, sizes, torch.device("meta"))
    passed = made(layer, sizes, torch.float32, projected=False)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        passed.run(passed.x)
    return int(counter.get_total_flops())
