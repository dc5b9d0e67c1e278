"""Checkpoints that are written while training goes on, where it is a GPU that trains.

What is to be written is copied first, so that it stays as it is; a thread hashes it, writes it and
puts it on the disk. The GPU makes the copies, into memory that does not move, between one step and
the next, and nobody waits for it. A CPU would only lose to the thread what it gains: there it is
done at once.
"""

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import torch
from torch import Tensor

WAITING = 2  # the best weights and a checkpoint: more copies than those are not held


class Saver:
    """Does one piece of writing after the other, in the order in which they are asked for."""

    def __init__(self, *, aside: bool) -> None:
        self.pool = ThreadPoolExecutor(1, "saving") if aside else None
        self.failed = (
            False  # then nothing that follows is written: it may speak of what is not there
        )
        self.waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish what was begun; if that fails, say so unless there is something else to say."""
        if self.pool is not None:
            self.pool.shutdown()
        if kind is None:
            self.wait()

    @property
    def busy(self) -> bool:
        """Whether something is still being written."""
        return any(not one.done() for one in self.waiting)

    def kept(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors as they are now, however training changes them."""
        if self.pool is None:
            return dict(tensors)
        while len(self.waiting) >= WAITING:
            self.waiting.popleft().result()
        return {name: _copied(one.detach()) for name, one in tensors.items()}

    def do(self, write: Callable[[], None]) -> None:
        """Write now, or as soon as what was asked for before is written."""
        if self.pool is None:
            write()
            return
        # Elsewhere than on a GPU a copy is made when it is asked for.
        copied = torch.cuda.current_stream().record_event() if torch.cuda.is_initialized() else None
        self.waiting.append(self.pool.submit(self._write, write, copied))

    def _write(self, write: Callable[[], None], copied: torch.cuda.Event | None) -> None:
        if self.failed:
            return
        try:
            if copied is not None:
                copied.synchronize()
            write()
        except BaseException:
            self.failed = True
            raise

    def poll(self) -> None:
        """Raise what went wrong since, if anything did."""
        while self.waiting and self.waiting[0].done():
            self.waiting.popleft().result()

    def wait(self) -> None:
        """Wait until all is on the disk; raise what went wrong."""
        while self.waiting:
            self.waiting.popleft().result()


def _copied(tensor: Tensor) -> Tensor:
    """Return a copy that the GPU makes when it has done what it was asked for before."""
    if not tensor.is_cuda:
        return tensor.clone()
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor, non_blocking=True)
