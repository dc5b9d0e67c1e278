"""The processes that train one model together, started by torchrun: one per GPU.

Each process reads its rank from the environment. Tensors on a GPU are exchanged through NCCL,
everything else through gloo. Only the first process writes files and shows progress. An error that
ends all of them is reported once per machine, by the process that notices it first. A process
without a heartbeat for TRANSDUCE_PATIENCE seconds (600 by default) counts as dead.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from transduce.errors import BadSetting, Interrupted, LostProcess, TransduceError
from transduce.system.formatting import pluralize
from transduce.system.processes import torchrun_number, world_size
from transduce.system.progress import WithheldStderr
from transduce.system.signals import ignore_signals
from transduce.training.distributed.heartbeat import RESUME, Heartbeat, patience

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

Value = TypeVar("Value")

# The first process may prepare a corpus for hours while the others wait. A process that dies is
# noticed at once; one that hangs is detected by its missing heartbeat.
TIMEOUT = timedelta(days=2)


class PeerLost(RuntimeError):
    """An operation with the other processes failed: one of them is gone."""


@contextlib.contextmanager
def _collective() -> Iterator[None]:
    """Turn the failure of an operation with the other processes into PeerLost."""
    try:
        yield
    except RuntimeError as error:
        raise PeerLost(str(error)) from error


@dataclass(frozen=True, slots=True)
class Processes:
    """The rank of this process, and the number of processes."""

    rank: int = 0
    world: int = 1
    here: int = 1  # processes on this machine
    heartbeat: Heartbeat | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def share(self, threads: int) -> int:
        """Return this process's share of a machine's threads."""
        return max(1, threads // self.here)

    def agree(self, seconds: float, stop: bool) -> tuple[float, bool]:
        """Return the clock of the first process, and whether any process was asked to stop."""
        if self.world == 1:
            return seconds, stop
        maxima = torch.tensor([seconds if self.first else 0.0, float(stop)], dtype=torch.float64)
        with _collective():
            dist.all_reduce(maxima, dist.ReduceOp.MAX)
        return maxima[0].item(), bool(maxima[1])

    def all(self, flags: Sequence[bool]) -> tuple[bool, ...]:
        """Return which of the flags are set in every process."""
        if self.world == 1:
            return tuple(flags)
        common = torch.tensor(flags, dtype=torch.int32)
        with _collective():
            dist.all_reduce(common, dist.ReduceOp.MIN)
        return tuple(bool(flag) for flag in common.tolist())

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, on the CPU."""
        values = values.cpu()
        if self.world > 1:
            with _collective():
                dist.all_reduce(values)
        return values

    def from_first(self, make: Callable[[], Value]) -> Value:
        """Call `make` in the first process and return its value in all; if it fails, all end."""
        if self.world == 1:
            return make()
        # None: `make` failed, and the first process reports why.
        result: list[tuple[Value] | None] = [None]
        if self.first:
            try:
                result = [(make(),)]
            except BaseException:
                ignore_signals()  # torchrun ends the others as soon as one has ended
                with contextlib.suppress(RuntimeError):  # the first error matters more
                    dist.broadcast_object_list(result)
                raise
        with _collective():
            dist.broadcast_object_list(result)
        if result[0] is None:
            raise SystemExit(1)
        return result[0][0]

    def share_gradients(self, module: nn.Module) -> nn.Module:
        """Return a module whose backward pass averages gradients over all processes."""
        if self.world == 1:
            return module
        with _collective():
            shared = DistributedDataParallel(module)
        shared.broadcast_buffers = False  # buffers are constant, and the same everywhere
        return shared

    def lost_peer(self, error: RuntimeError) -> bool:
        """Return whether an error was caused by a process that has died or hangs.

        Gradients are exchanged inside the backward pass, where torch raises a RuntimeError for any
        failure. So the heartbeats decide.
        """
        if isinstance(error, PeerLost):
            return True
        return self.heartbeat is not None and bool(self.heartbeat.lost_ranks())


@contextlib.contextmanager
def join_processes(device: torch.device) -> Iterator[tuple[Processes, torch.device]]:
    """Connect to the other processes, if torchrun started any; choose a device for each."""
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
    store, heartbeat = _connect("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    if isinstance(sys.stderr, WithheldStderr):
        sys.stderr = sys.__stderr__
    here = torchrun_number("LOCAL_WORLD_SIZE", 1, least=1)
    lost = False
    try:
        yield Processes(dist.get_rank(), world, here, heartbeat), device
    except Exception as error:
        ignore_signals()
        lost = isinstance(error, PeerLost)
        description = heartbeat.describe_lost() if lost else ""
        if not _reports_first(store) and (lost or isinstance(error, TransduceError)):
            raise SystemExit(130 if isinstance(error, Interrupted) else 1) from error
        if lost:
            raise LostProcess(f"{description}: {RESUME}") from error
        raise
    finally:
        heartbeat.stop()
        if not lost:  # else NCCL would wait for the lost process
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()


def _connect(backend: str) -> tuple["Store", Heartbeat]:
    """Wait for all processes; return the key-value store that they share, and the heartbeat.

    torchrun itself runs the store, so it outlives each of the processes.
    """
    seconds = patience()
    _require_rendezvous()
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # the store outlives restarts
    try:
        store, rank, world = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
        shared: Store = dist.PrefixStore(f"transduce {attempt}", store)  # type: ignore[attr-defined]
        # A wait on the store blocks its connection, so the heartbeat has its own.
        beats: Store = shared.clone()  # type: ignore[attr-defined]
        heartbeat = Heartbeat(beats, rank, world, seconds, lambda: _reports_first(beats))
        _wait_for_all(shared, world, seconds)
        heartbeat.start()
        dist.init_process_group(backend, store=shared, rank=rank, world_size=world, timeout=TIMEOUT)
    except RuntimeError as error:
        raise LostProcess(
            "the processes of this run cannot reach one another: on several machines, name the "
            "network that they share in GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME "
            f"({str(error).splitlines()[0]})"
        ) from error
    return shared, heartbeat


def _require_rendezvous() -> None:
    """Refuse an environment without this process's rank or the rendezvous address."""
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise BadSetting(
                f"the environment has WORLD_SIZE = {os.environ['WORLD_SIZE']} but no {name}: "
                "start several processes with torchrun, or unset WORLD_SIZE to train with one"
            )
    if (rank := torchrun_number("RANK", 0)) >= (world := world_size()):
        raise BadSetting(
            f"the environment has RANK = {rank} and WORLD_SIZE = {world}: expected a rank below "
            "the number of processes; start several processes with torchrun"
        )
    torchrun_number("MASTER_PORT", 0)


def _wait_for_all(store: "Store", world: int, seconds: float) -> None:
    """Wait until all processes have registered."""
    try:
        store.wait([f"who {rank}" for rank in range(world)], timedelta(seconds=seconds))
    except RuntimeError:
        late = [str(rank) for rank in range(world) if not store.check([f"who {rank}"])]
        raise LostProcess(
            f"the process of rank {' and '.join(late)} did not start within {seconds:g} s: "
            "start all of them again"
        ) from None


def _reports_first(store: "Store") -> bool:
    """Return whether no other process on this machine has reported an error yet."""
    try:
        return store.add(f"said on machine {torchrun_number('GROUP_RANK', 0)}", 1) == 1
    except RuntimeError:  # the machine that runs the store is gone
        return True


def _own_gpu() -> torch.device:
    rank, count = torchrun_number("LOCAL_RANK", 0), torch.cuda.device_count()
    here = torchrun_number("LOCAL_WORLD_SIZE", rank + 1, least=1)
    if rank >= count or 1 < count < here:  # a process may see only its own GPU
        raise BadSetting(
            f"{here} processes were started on a machine with {pluralize(count, 'GPU')}: "
            f"expected at most {count} (torchrun --nproc-per-node), or --device cpu"
        )
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)
