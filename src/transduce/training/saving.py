"""Saving and loading checkpoints. On a GPU a thread writes them while training continues.

Tensors are copied first, so that training may change them; the thread hashes and writes the copies.
The GPU copies into pinned memory between two steps, and nothing waits for it. On a CPU, a thread
would only take time from training, so everything is written at once.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from transduce.checkpoints.checkpoint import (
    load_optimizer_state,
    load_tensors,
    load_weights,
    optimizer_state,
    prune,
    random_states,
    save_checkpoint,
    save_tensors,
    set_random_states,
    weights_of,
)
from transduce.errors import BadRun
from transduce.model.base import Transducer
from transduce.runs.folder import (
    BEST,
    CONFIG,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    RunConfig,
    last_checkpoint,
)
from transduce.runs.state import State
from transduce.training.averaging import MovingAverage
from transduce.training.log import require_finite

MOST_WAITING = 2  # copies kept in memory: the best weights and a checkpoint


class Saver:
    """Runs write operations in the order in which they are submitted."""

    def __init__(self, *, background: bool) -> None:
        self.pool = ThreadPoolExecutor(1, "saving") if background else None
        self.failed = False  # if True, nothing more is written: it might refer to missing files
        self.waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish all writes; raise their first error unless an exception is already active."""
        if self.pool is not None:
            self.pool.shutdown()
        if kind is None:
            self.wait()

    @property
    def busy(self) -> bool:
        """Whether something is still being written."""
        return any(not future.done() for future in self.waiting)

    def snapshot(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors, copied if training could change them before they are written."""
        if self.pool is None:
            return dict(tensors)
        while len(self.waiting) >= MOST_WAITING:
            self.waiting.popleft().result()
        return {name: _copy(tensor.detach()) for name, tensor in tensors.items()}

    def submit(self, write: Callable[[], None]) -> None:
        """Write now, or in the thread after all earlier writes."""
        if self.pool is None:
            write()
            return
        # Copies of CPU tensors are already complete.
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
        """Raise the error of a finished write, if there is one."""
        while self.waiting and self.waiting[0].done():
            self.waiting.popleft().result()

    def wait(self) -> None:
        """Wait until everything is written; raise the first error."""
        while self.waiting:
            self.waiting.popleft().result()


def _copy(tensor: Tensor) -> Tensor:
    """Return a copy; a GPU makes it asynchronously, after the work submitted earlier."""
    if not tensor.is_cuda:
        return tensor.clone()
    return torch.empty_like(tensor, device="cpu", pin_memory=True).copy_(tensor, non_blocking=True)


class Checkpointer:
    """Saves and loads a run's model, optimizer and moving average."""

    def __init__(
        self,
        run: Path,
        model: Transducer,
        optimizer: torch.optim.Optimizer,
        average: MovingAverage,
        saver: Saver,
    ) -> None:
        self.run, self.model, self.optimizer, self.saver = run, model, optimizer, saver
        self.average = average
        self.device = model.output.device

    def load(self, config: RunConfig) -> State | None:
        """Load the newest checkpoint, if there is one, and return its state."""
        newest = last_checkpoint(self.run)
        if newest is None:
            return None
        try:
            state = newest.state()
            if (state.get("run") or config.identity) != config.identity:
                raise BadRun(
                    f"{newest.path / STATE} and {self.run / CONFIG} belong to different runs"
                )
            path = newest.verified(WEIGHTS)
            load_weights(self.model, load_tensors(path), path)
            path = newest.verified(OPTIMIZER)
            moments = set_random_states(load_tensors(path), self.device, path)
            moments = self.average.load(moments, path)
            load_optimizer_state(self.optimizer, weights_of(self.model), moments, path)
            return State.from_json(state)
        except BadRun as error:
            raise BadRun(
                f"{error}; delete {newest.path} to resume from the previous checkpoint, if any"
            ) from None

    def save(self, state: State, config: RunConfig, *, scheduled: bool) -> None:
        """Write a checkpoint from which the run resumes exactly; delete the oldest ones."""
        self.require_folder()
        weights = weights_of(self.model)
        moments = optimizer_state(self.optimizer, weights) | self.average.state()
        _require_finite_tensors(weights | moments, state.step)
        weights, moments = self.saver.snapshot(weights), self.saver.snapshot(moments)
        optimizer = random_states(self.device) | moments
        step, content = state.step, {"run": config.identity, **state.to_json()}

        def write() -> None:
            self.require_folder()
            # The best weights may have been written since `content` was made.
            known = {**content, "best_hash": state.best_hash}
            save_checkpoint(
                *(self.run, step),
                scheduled=scheduled,
                weights=weights,
                optimizer=optimizer,
                state=known,
            )
            prune(self.run, config.train.keep)

        self.saver.submit(write)

    def save_best(self, state: State) -> None:
        """Write the weights with the best validation loss so far."""
        weights = weights_of(self.model)
        _require_finite_tensors(weights, state.step)
        weights = self.saver.snapshot(weights)

        def write() -> None:
            self.require_folder()
            state.best_hash = save_tensors(self.run / BEST, weights)

        self.saver.submit(write)

    def require_folder(self) -> None:
        """Refuse to write into a run folder that was removed: the result would be incomplete."""
        if not (self.run / CONFIG).exists():
            raise BadRun(
                f"{self.run} was removed while it was being trained: the same command starts over"
            )


def _require_finite_tensors(tensors: Mapping[str, Tensor], step: int) -> None:
    """Refuse to save weights or moments that are not finite."""
    largest = get_total_norm(list(tensors.values()), math.inf).item()
    require_finite(largest, "a weight or a moment", step)
