"""The processes that train one model together: torchrun starts them, one for each GPU.

Each finds in its environment which of them it is. Tensors on a GPU travel by NCCL, those on a CPU
and all that is agreed upon by gloo. Only the first process writes and speaks; what ends them all is
said once on each machine, by the one that knew it first. One that gives no sign of life for
TRANSDUCE_PATIENCE seconds, 600 unless set in the environment, is taken for dead.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from transduce.errors import BadSetting, Interrupted, LostProcess, TransduceError
from transduce.system.formatting import pluralize
from transduce.system.processes import torchrun_number, world_size
from transduce.system.progress import WithheldStderr
from transduce.system.signals import ignore_signals
from transduce.training.distributed.heartbeat import GOES_ON, Heartbeat, patience

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Value = TypeVar("Value")

# The first may prepare a corpus for hours while the others wait; one that dies is noticed at once,
# and one that hangs by its heartbeat.
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
    here: int = 1  # of them on this machine

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def share(self, threads: int) -> int:
        """Return how many of a machine's threads this process may use."""
        return max(1, threads // self.here)

    def agree(self, seconds: float, asked: bool) -> tuple[float, bool]:
        """Return the first one's clock, and whether any was asked to stop."""
        if self.world == 1:
            return seconds, asked
        both = torch.tensor([seconds if self.first else 0.0, float(asked)], dtype=torch.float64)
        dist.all_reduce(both, dist.ReduceOp.MAX)
        return both[0].item(), bool(both[1])

    def all(self, flags: Sequence[bool]) -> tuple[bool, ...]:
        """Return which of the flags are set in every process."""
        if self.world == 1:
            return tuple(flags)
        common = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(common, dist.ReduceOp.MIN)
        return tuple(bool(one) for one in common.tolist())

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
        made: list[tuple[Value] | None] = [None]  # None: it failed, and will say why
        if self.first:
            try:
                made = [(make(),)]
            except BaseException:
                ignore_signals()  # torchrun ends those that are left as soon as one has ended
                with contextlib.suppress(RuntimeError):  # why we failed matters more
                    dist.broadcast_object_list(made)
                raise
        dist.broadcast_object_list(made)
        if made[0] is None:
            raise SystemExit(1)
        return made[0][0]


@contextlib.contextmanager
def together(device: torch.device) -> Iterator[tuple[Processes, torch.device]]:
    """Meet the other processes, if torchrun has started any, and take a device for each."""
    world = world_size()
    if world == 1:
        yield Processes(), device
        return
    if device.type == "mps":
        raise BadSetting(
            f"{world} processes cannot share an MPS device: start one, or --device cpu"
        )
    if device.type == "cuda":
        device = _own_gpu()
    store, heartbeat = _meet("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    if isinstance(sys.stderr, WithheldStderr):
        sys.stderr = sys.__stderr__
    gone = False
    try:
        yield (
            Processes(dist.get_rank(), world, torchrun_number("LOCAL_WORLD_SIZE", 1, least=1)),
            device,
        )
    except Exception as error:
        ignore_signals()
        gone = isinstance(error, RuntimeError) and lost(error)
        words = heartbeat.lost() if gone else ""
        if not _first_to_speak(store) and (gone or isinstance(error, TransduceError)):
            raise SystemExit(130 if isinstance(error, Interrupted) else 1) from error
        if gone:
            raise LostProcess(f"{words}: {GOES_ON}") from error
        raise
    finally:
        heartbeat.stop()
        if not gone:  # else a GPU would wait for it
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()


def lost(error: RuntimeError) -> bool:
    """Tell whether an error means that another process is gone."""
    return dist.is_initialized() and bool(GONE.search(str(error)))


def _meet(backend: str) -> tuple["Store", Heartbeat]:
    """Wait for all processes; return the store of names and values that they share, and its beat.

    torchrun itself keeps the store, so that it outlives each of them.
    """
    seconds = patience()
    _require_meeting_place()
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # the store outlives these too
    try:
        store, rank, world = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
        shared: Store = dist.PrefixStore(f"transduce {attempt}", store)  # type: ignore[attr-defined]
        # What waits for the store holds it: the heartbeat has a connection of its own.
        own: Store = shared.clone()  # type: ignore[attr-defined]
        heartbeat = Heartbeat(own, rank, world, seconds, lambda: _first_to_speak(own))
        _await(shared, world, seconds)
        heartbeat.start()
        dist.init_process_group(
            backend, store=shared, rank=rank, world_size=world, timeout=PATIENCE
        )
    except RuntimeError as error:
        raise LostProcess(
            "the processes of this run cannot reach one another: on several machines, name the "
            "network that they share in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME "
            f"({str(error).splitlines()[0]})"
        ) from error
    return shared, heartbeat


def _require_meeting_place() -> None:
    """Refuse an environment that does not say who this process is and where they meet."""
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise BadSetting(
                f"the environment has WORLD_SIZE = {os.environ['WORLD_SIZE']} but no {name}: "
                "start several processes with torchrun, or unset WORLD_SIZE to train with one"
            )
    if (own := torchrun_number("RANK", 0)) >= (world := world_size()):
        raise BadSetting(
            f"the environment has RANK = {own} and WORLD_SIZE = {world}: expected a rank below the "
            "number of processes; start several processes with torchrun"
        )
    torchrun_number("MASTER_PORT", 0)


def _await(store: "Store", world: int, seconds: float) -> None:
    """Wait until all processes have told who they are."""
    try:
        store.wait([f"who {rank}" for rank in range(world)], timedelta(seconds=seconds))
    except RuntimeError:
        late = [str(rank) for rank in range(world) if not store.check([f"who {rank}"])]
        raise LostProcess(
            f"the process of rank {' and '.join(late)} did not begin within {seconds:g} s: "
            "start all of them again"
        ) from None


def _first_to_speak(store: "Store") -> bool:
    """Tell whether no other process of this machine has said yet why they end."""
    try:
        return store.add(f"said on machine {torchrun_number('GROUP_RANK', 0)}", 1) == 1
    except RuntimeError:  # the machine that keeps the store is gone
        return True


def _own_gpu() -> torch.device:
    own, count = torchrun_number("LOCAL_RANK", 0), torch.cuda.device_count()
    here = torchrun_number("LOCAL_WORLD_SIZE", own + 1, least=1)
    if own >= count or 1 < count < here:  # one may be all that this process is shown
        raise BadSetting(
            f"{here} processes were started on a machine with {pluralize(count, 'GPU')}: "
            f"expected at most {count} (torchrun --nproc-per-node), or --device cpu"
        )
    torch.cuda.set_device(own)
    return torch.device("cuda", own)
