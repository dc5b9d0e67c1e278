"""The layers of Table 1, measured separately: operations, time and memory.

T = batch * n tokens of a packed sequence.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.autograd.graph import saved_tensors_hooks

from transduce.batching.packed import KeyRanges, LengthGroups, PackedTokens
from transduce.config import ModelConfig
from transduce.model.attention import SelfAttention, SelfContext
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.lstm import LSTM, run_lstm
from transduce.model.contexts.selection import self_context
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.linear import Linear

D_K = 64  # per head, as in the paper's models
LEAST_PASSES, MOST_PASSES = 3, 20  # timed passes
TIMING_SECONDS = 0.1  # for all timed passes of a fast layer
# Before each timed pass, the GPU fills this many bytes this many times while the CPU queues the
# pass.
FILL_BYTES, FILL_TIMES = 2**28, 20

Kind = Literal["self-attention", "recurrent", "convolutional", "restricted"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Complexity:
    """A row of the paper's Table 1: the O() of each column; `n` and `d` are powers in the first."""

    complexity: str
    sequential: str
    path: str
    n: int
    d: int


TABLE_1: dict[Kind, Complexity] = {
    "self-attention": Complexity(complexity="n^2 d", sequential="1", path="1", n=2, d=1),
    "recurrent": Complexity(complexity="n d^2", sequential="n", path="n", n=1, d=2),
    "convolutional": Complexity(complexity="k n d^2", sequential="1", path="log_k n", n=1, d=2),
    "restricted": Complexity(complexity="r n d", sequential="1", path="n/r", n=1, d=1),
}
ATTENTION: tuple[Kind, Kind] = ("self-attention", "restricted")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The size of a layer and of its input."""

    n: int
    d: int
    k: int  # width of the convolution
    r: int  # neighbourhood of restricted self-attention, in tokens
    batch: int = 1
    packed: bool = False  # attend with our packed kernels, as training on a GPU does


class LayerPass(NamedTuple):
    """The pass of a layer over an input."""

    run: Callable[[Tensor], Tensor]
    x: Tensor
    weights: list[nn.Parameter]


class Cost(NamedTuple):
    """The median time of several passes, and the memory of one."""

    forward: float  # seconds
    backward: float
    memory: int  # bytes

    @property
    def seconds(self) -> float:
        """The time of the forward and backward pass."""
        return self.forward + self.backward


def make_pass(
    kind: Kind,
    sizes: Sizes,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    *,
    projected: bool = True,
) -> LayerPass:
    """Prepare a random layer and random input; attention may be without its projections."""
    unprojected = kind in ATTENTION and not projected
    layer, run = _make_layer(kind, sizes, device, dtype, projected=projected)
    width = 3 * sizes.d if unprojected else sizes.d  # Q, K and V, or x
    x = torch.randn(sizes.batch * sizes.n, width, device=device)
    weights = [] if unprojected else list(layer.parameters())
    return LayerPass(run, x.to(dtype).requires_grad_(), weights)


def _make_layer(
    kind: Kind, sizes: Sizes, device: torch.device, dtype: torch.dtype, *, projected: bool
) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    if kind == "recurrent":
        lstm = LSTM(sizes.d, sizes.d).to(device)
        sentences = torch.full((sizes.n,), sizes.batch)  # sentences per time step
        return lstm, lambda x: run_lstm([lstm], x, sentences)
    if kind == "convolutional":
        linear = Linear(sizes.k * sizes.d, sizes.d, bias=True)
        convolution = Convolution(linear, taps(sizes.k, 1, causal=False)).to(device)
        positions = torch.arange(sizes.n, device=device).repeat(sizes.batch)
        neighbours = Neighbours(positions, dtype)
        return convolution, lambda x: convolution(x, neighbours)
    attention = make_attention(sizes).to(device)
    context = attention_context(sizes, device, restricted=kind == "restricted")
    if projected:
        return attention, lambda x: attention(x, context)
    return attention, lambda qkv: context.attend(qkv, attention.heads)


def make_attention(sizes: Sizes) -> SelfAttention:
    """Make self-attention with heads of the paper's width."""
    h = max(1, sizes.d // D_K)
    width = sizes.d // h
    return SelfAttention(ModelConfig(d_model=sizes.d, h=h, d_k=width, d_v=width), Kernels())


def attention_context(sizes: Sizes, device: torch.device, *, restricted: bool) -> SelfContext:
    """Return the attention context that training uses on this device, for sentences of n tokens."""
    positions = torch.arange(sizes.n, device=device).repeat(sizes.batch)
    segments: LengthGroups | KeyRanges = LengthGroups(((sizes.batch, sizes.n),))
    if sizes.packed:
        starts = torch.arange(sizes.batch, dtype=torch.int32, device=device) * sizes.n
        first = starts.repeat_interleave(sizes.n)
        segments = KeyRanges(first, first + sizes.n, first, first + sizes.n)
    tokens = PackedTokens(positions, positions, segments)
    neighbourhood = sizes.r if restricted else None
    return self_context(tokens, causal=False, neighbourhood=neighbourhood)


def operations(kind: Kind, sizes: Sizes, *, projected: bool = False) -> int:
    """Return the operations of a forward pass: two per multiply-add."""
    n, d = sizes.n, sizes.d
    per_token = {
        "self-attention": 4 * n * d,  # Q K^T, and the weighted sum of V
        "recurrent": 16 * d * d,  # four gates, each for the input and the state
        "convolutional": 2 * sizes.k * d * d,
        "restricted": 4 * min(sizes.r, n) * d,
    }[kind]
    if projected and kind in ATTENTION:
        per_token += 8 * d * d  # Q, K, V and the output
    return sizes.batch * n * per_token


def count_operations(kind: Kind, sizes: Sizes) -> int:
    """Return the operations that torch counts in matrix products, without computing them."""
    from torch.utils.flop_counter import FlopCounterMode

    layer_pass = make_pass(kind, sizes, torch.device("meta"), projected=False)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer_pass.run(layer_pass.x)
    return int(counter.get_total_flops())


def measure_cost(layer: LayerPass) -> Cost:
    """Measure a pass: once to warm up, once to estimate its time, then several timed ones.

    On a GPU, memory is the peak beyond what was allocated before; on a CPU, what the forward pass
    saves for the backward pass, without the weights.
    """
    on_gpu = layer.x.device.type == "cuda"
    d_y = torch.randn_like(layer.run(layer.x)).detach()
    memory = (_peak_memory if on_gpu else _saved_memory)(layer, d_y)
    start = time.perf_counter()
    _backward(layer, layer.run(layer.x), d_y)
    if on_gpu:
        torch.cuda.synchronize()
    once = time.perf_counter() - start
    count = min(MOST_PASSES, max(LEAST_PASSES, int(TIMING_SECONDS / max(once, 1e-9))))
    times = (_time_on_gpu if on_gpu else _time_on_cpu)(layer, d_y, count)
    forward, backward = map(statistics.median, zip(*times, strict=True))
    return Cost(forward, backward, memory)


def _backward(layer: LayerPass, y: Tensor, d_y: Tensor) -> None:
    grad(y, [layer.x, *layer.weights], d_y)


def _time_on_cpu(layer: LayerPass, d_y: Tensor, count: int) -> list[tuple[float, float]]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        y = layer.run(layer.x)
        middle = time.perf_counter()
        _backward(layer, y, d_y)
        times.append((middle - start, time.perf_counter() - middle))
    return times


def _time_on_gpu(
    layer: LayerPass, d_y: Tensor, count: int
) -> list[tuple[float, float]]:  # pragma: no cover  (tests/gpu)
    """Time by CUDA events, with the GPU kept busy until the whole pass is queued."""
    scratch = torch.empty(FILL_BYTES, dtype=torch.int8, device=d_y.device)
    rounds = []
    for _ in range(count):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        for _ in range(FILL_TIMES):
            scratch.zero_()
        events[0].record()
        y = layer.run(layer.x)
        events[1].record()
        _backward(layer, y, d_y)
        events[2].record()
        rounds.append(events)
    torch.cuda.synchronize()
    return [
        (start.elapsed_time(middle) / 1000, middle.elapsed_time(end) / 1000)
        for start, middle, end in rounds
    ]


def _peak_memory(layer: LayerPass, d_y: Tensor) -> int:  # pragma: no cover  (tests/gpu)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _backward(layer, layer.run(layer.x), d_y)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _saved_memory(layer: LayerPass, d_y: Tensor) -> int:
    sizes: dict[int, int] = {}  # bytes by address

    def note(tensor: Tensor) -> Tensor:
        if not tensor.is_mkldnn:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    unchanged: Callable[[Any], Any] = lambda tensor: tensor  # noqa: E731
    with saved_tensors_hooks(note, unchanged):
        y = layer.run(layer.x)
    _backward(layer, y, d_y)
    for weight in layer.weights:
        sizes.pop(weight.untyped_storage().data_ptr(), None)
    return sum(sizes.values())
