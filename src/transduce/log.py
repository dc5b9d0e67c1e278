"""What a run records of its steps: fetched from the device late, so that nobody waits for it."""

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from transduce.errors import Diverged
from transduce.metrics import Metrics, Samples, Translated
from transduce.processes import Processes
from transduce.progress import Show, duration
from transduce.state import State, Window


@dataclass(frozen=True, slots=True)
class Entry:
    """A logged step whose losses may still be on their way from the device."""

    step: int
    epoch: int
    window: Window
    seconds: float
    rate: float
    part: float  # of the run that is behind it
    sums: Tensor  # on the CPU
    arrived: torch.cuda.Event | None


class Log:
    """Writes the means of the losses since the last logged step, once they have arrived."""

    def __init__(
        self,
        run: Path,
        state: State,
        sums: Tensor,
        processes: Processes,
        *,
        tensorboard: bool,
        validated: int | None = None,
    ) -> None:
        """Count on in `sums`, which the engine adds to, where the run was stopped.

        `validated` is the step of the last validation that will not be made once more, by default
        where the run stands.
        """
        validated = state.step if validated is None else validated
        self.sums, self.processes = sums, processes
        self.metrics = (
            Metrics(run, state.step, tensorboard=tensorboard, validated=validated)
            if processes.first
            else None
        )
        self.samples = Samples(run, validated) if processes.first else None
        self.waiting: Entry | None = None
        if processes.first:
            counted = torch.tensor([state.window.smoothed, state.window.nll], dtype=torch.float64)
            sums.copy_(counted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as stack:  # where one cannot be closed, the other is
            for file in (self.metrics, self.samples):
                if file is not None:
                    stack.push(file)

    def add(self, state: State, rate: float, part: float, show: Show) -> None:
        """Close the window at this step."""
        self.wait(show)
        sums, arrived = self._fetch()
        self.waiting = Entry(
            *(state.step, state.place.epoch, state.window, state.seconds, rate, part),
            *(sums, arrived),
        )
        self.sums.zero_()
        state.window = Window()
        self.poll(show)

    def _fetch(self) -> tuple[Tensor, torch.cuda.Event | None]:
        on_gpu = self.sums.device.type == "cuda" and self.processes.world == 1
        if on_gpu:  # pragma: no cover  (tests/test_gpu.py)
            sums = torch.empty(2, dtype=torch.float64, pin_memory=True)
            sums.copy_(self.sums, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
            return sums, arrived
        return self.processes.total(self.sums.clone()), None

    def poll(self, show: Show) -> None:
        """Write what has arrived."""
        if self.waiting is not None and (
            self.waiting.arrived is None or self.waiting.arrived.query()
        ):
            entry, self.waiting = self.waiting, None
            self._write(entry, show)

    def wait(self, show: Show) -> None:
        """Write what is on its way, as soon as it has arrived."""
        if self.waiting is not None and self.waiting.arrived is not None:
            self.waiting.arrived.synchronize()
        self.poll(show)

    def keep(self, state: State) -> None:
        """Put the open window into the state, and what was written on the disk.

        What is still on its way must be a number too before anything is kept.
        """
        self.wait(lambda part, note: None)
        state.window.smoothed, state.window.nll = self.processes.total(self.sums.clone()).tolist()
        require_finite(state.window.smoothed, state.step)
        for file in (self.metrics, self.samples):
            if file is not None:
                file.flush()

    def validated(self, step: int, translated: Translated | None, **values: float) -> None:
        """Record a validation, and some of what was translated for it, if anything was."""
        if self.metrics is not None:
            self.metrics.add(step, **values)
        if self.samples is not None and translated is not None:
            self.samples.add(step, translated)

    def _write(self, entry: Entry, show: Show) -> None:
        smoothed, nll = (entry.sums / entry.window.tokens).tolist()
        require_finite(smoothed, entry.step)
        speed = entry.window.tokens / max(entry.window.seconds, 1e-9)
        perplexity = math.exp(min(nll, 100))
        if self.metrics is not None:
            self.metrics.add(
                entry.step,
                epoch=entry.epoch,
                loss=smoothed,
                nll=nll,
                perplexity=perplexity,
                learning_rate=entry.rate,
                target_tokens_per_second=round(speed, 1),
                seconds=round(entry.seconds, 3),
            )
        left = duration(entry.seconds * (1 - entry.part) / entry.part) if entry.part else "?"
        show(
            entry.part,
            f"step {entry.step:,}, loss {smoothed:.2f}, ppl {perplexity:.4g}, lr {entry.rate:.1e}, "
            f"{speed:,.0f} tok/s, {left} left",
        )


def require_finite(loss: float, step: int) -> None:
    """End the run before weights that are no numbers are kept."""
    if not math.isfinite(loss):
        raise Diverged(
            f"the loss after step {step:,} is no longer a number: "
            "lower lr_scale or lengthen warmup, and begin anew in another folder"
        )
