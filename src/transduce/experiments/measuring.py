"""Time and memory of a layer's pass, forward and backward, on a CPU or a GPU."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import grad
from torch.autograd.graph import saved_tensors_hooks

from transduce.experiments.table1_layers import Made

FEWEST, MOST = 3, 20  # passes that are timed
SECONDS = 0.1  # that these take if they are many
CLEARED = 2**28  # bytes that a GPU writes before each timed pass, so often:
TIMES = 20  # meanwhile the processor tells it all that is to be timed


class Passed(NamedTuple):
    """The medians of several passes, and what memory one takes."""

    forward: float  # seconds
    backward: float
    memory: int  # bytes

    @property
    def seconds(self) -> float:
        """Of both directions."""
        return self.forward + self.backward


def passed(layer: Made) -> Passed:
    """Measure a layer's pass: one to warm up, one to learn how long it takes, and some timed.

    On a GPU memory is the most that was held beyond what was there before; on a CPU what the
    forward pass keeps for the backward pass, beside the weights.
    """
    on_gpu = layer.x.device.type == "cuda"
    d_y = torch.randn_like(layer.run(layer.x)).detach()
    memory = (_peak if on_gpu else _kept)(layer, d_y)
    begin = time.perf_counter()
    _backward(layer, layer.run(layer.x), d_y)
    if on_gpu:
        torch.cuda.synchronize()
    once = time.perf_counter() - begin
    count = min(MOST, max(FEWEST, int(SECONDS / max(once, 1e-9))))
    times = (_by_events if on_gpu else _by_clock)(layer, d_y, count)
    forward, backward = (statistics.median(one) for one in zip(*times, strict=True))
    return Passed(forward, backward, memory)


def _backward(layer: Made, y: Tensor, d_y: Tensor) -> None:
    grad(y, [layer.x, *layer.weights], d_y)


def _by_clock(layer: Made, d_y: Tensor, count: int) -> list[tuple[float, float]]:
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        y = layer.run(layer.x)
        middle = time.perf_counter()
        _backward(layer, y, d_y)
        times.append((middle - begin, time.perf_counter() - middle))
    return times


def _by_events(
    layer: Made, d_y: Tensor, count: int
) -> list[tuple[float, float]]:  # pragma: no cover  (tests/gpu/test_gpu.py)
    """Time on the GPU itself: it is kept busy until it knows the whole pass, so never waits."""
    cleared = torch.empty(CLEARED, dtype=torch.int8, device=d_y.device)
    rounds = []
    for _ in range(count):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        for _ in range(TIMES):
            cleared.zero_()
        events[0].record()
        y = layer.run(layer.x)
        events[1].record()
        _backward(layer, y, d_y)
        events[2].record()
        rounds.append(events)
    torch.cuda.synchronize()
    return [
        (begin.elapsed_time(middle) / 1000, middle.elapsed_time(end) / 1000)
        for begin, middle, end in rounds
    ]


def _peak(layer: Made, d_y: Tensor) -> int:  # pragma: no cover  (tests/gpu/test_gpu.py)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _backward(layer, layer.run(layer.x), d_y)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _kept(layer: Made, d_y: Tensor) -> int:
    kept: dict[int, int] = {}  # where it lies: bytes

    def note(tensor: Tensor) -> Tensor:
        if not tensor.is_mkldnn:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    same: Callable[[Any], Any] = lambda tensor: tensor  # noqa: E731
    with saved_tensors_hooks(note, same):
        y = layer.run(layer.x)
    _backward(layer, y, d_y)
    for weight in layer.weights:
        kept.pop(weight.untyped_storage().data_ptr(), None)
    return sum(kept.values())
