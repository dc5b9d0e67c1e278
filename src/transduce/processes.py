"""The processes that train one model together: torchrun starts them, one for each GPU.

Each finds in its environment which of them it is. Tensors on a GPU travel by NCCL, those on a CPU
and all that is agreed upon by gloo. Only the first process writes and speaks.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from transduce.errors import BadSetting, LostProcess

Value = TypeVar("Value")

# The first may prepare a corpus for hours while the others wait; one that dies is noticed at once.
PATIENCE = timedelta(days=2)
# What gloo and NCCL say when another process is gone.
GONE = re.compile(
    r"connection (closed|reset|refused)|broken pipe|socket|peer|gloo|nccl|remote process exited",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Processes:
    """Which process this is, of how many."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def agree(self, seconds: float, asked: bool) -> tuple[float, bool]:
        """Return the first one's clock, and whether any was asked to stop."""
        if self.world == 1:
            return seconds, asked
        both = torch.tensor([seconds if self.first else 0.0, float(asked)], dtype=torch.float64)
        dist.all_reduce(both, dist.ReduceOp.MAX)
        return both[0].item(), bool(both[1])

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, on the CPU."""
        values = values.cpu()
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def from_first(self, make: Callable[[], Value]) -> Value:
        """Let the first process make a value, and return it in all; if it cannot, all end."""
        if self.world == 1:
            return make()
        made: list[tuple[Value] | None] = [None]  # None: it failed, and has said why
        try:
            if self.first:
                made = [(make(),)]
        finally:
            dist.broadcast_object_list(made)
        if made[0] is None:
            raise SystemExit(1)
        return made[0][0]


@contextlib.contextmanager
def together(device: torch.device) -> Iterator[tuple[Processes, torch.device]]:
    """Meet the other processes, if torchrun has started any, and take a device for each."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes(), device
        return
    if device.type == "cuda":
        device = _own_gpu()
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE
    )
    try:
        yield Processes(dist.get_rank(), world), device
    except RuntimeError as error:
        if not lost(error):
            raise
        raise LostProcess(
            "another process of this run has ended or cannot be reached: what was saved is whole, "
            "and the same command goes on from there, with as many processes as you like"
        ) from error
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def lost(error: RuntimeError) -> bool:
    """Tell whether an error means that another process is gone."""
    return dist.is_initialized() and bool(GONE.search(str(error)))


def _own_gpu() -> torch.device:
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise BadSetting(
            f"process {number + 1} of this machine has no GPU, for there are {count}: "
            f"start {count} processes here, or --device cpu"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
