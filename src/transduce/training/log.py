"""The training log. Losses are read from the device asynchronously."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from transduce.errors import Diverged
from transduce.runs.metrics import Metrics, Samples, Translated
from transduce.runs.state import State, Window
from transduce.runs.tracking import Tracking
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import ShowPart
from transduce.training.distributed.processes import Processes

MOST_IN_A_ROW = 10  # consecutive skipped updates that end a run


class NonFinite(Diverged):
    """A loss, gradient or weight is not finite.

    `in_a_row` is the number of consecutive updates skipped before, which left the weights
    unchanged.
    """

    def __init__(self, what: str, step: int, in_a_row: int = 0) -> None:
        super().__init__(f"{what} is not finite (NaN or infinity) after step {step:,}")
        self.step, self.in_a_row = step, in_a_row


def require_finite(value: float, what: str, step: int, in_a_row: int = 0) -> None:
    """Raise NonFinite if a value is NaN or infinite."""
    if not math.isfinite(value):
        raise NonFinite(what, step, in_a_row)


class Counts(NamedTuple):
    """Counters that GradientStep keeps on the device: losses and skipped updates."""

    smoothed: float
    nll: float
    divergence: float  # of two passes; 0 without R-Drop and SimCut
    skipped: float
    skipped_tokens: float
    in_a_row: float  # consecutive updates skipped up to now; the only count not reset when logged


@dataclass(frozen=True, slots=True)
class Entry:
    """A logged step whose losses may not have arrived from the device yet."""

    step: int
    epoch: int
    window: Window
    seconds: float
    rate: float
    part: float  # fraction of the run that is done
    counts: Tensor  # on the CPU
    arrived: torch.cuda.Event | None


class Log:
    """Writes the mean losses since the last logged step, once they have arrived."""

    def __init__(
        self,
        run: Path,
        state: State,
        counts: Tensor,
        processes: Processes,
        say: Callable[[str], None],
        *,
        tracking: Tracking = Tracking(),  # noqa: B008  (frozen)
        validated: int | None = None,
    ) -> None:
        """Restore the counts of a resumed run in `counts`, to which the gradient step adds.

        `validated` is the step of the last validation that will not be repeated, by default the
        current step.
        """
        validated = state.step if validated is None else validated
        self.counts, self.processes, self.say = counts, processes, say
        self.samples = Samples(run, validated) if processes.first else None
        self.metrics: Metrics | None = None
        if processes.first:
            receivers = tracking.receivers(run, state.step, say)
            # Last, because it opens a file.
            self.metrics = Metrics(run, state.step, receivers=receivers, validated=validated)
        self.waiting: Entry | None = None
        if processes.first:
            values = [getattr(state.window, name) for name in Counts._fields]
            counts.copy_(torch.tensor(values, dtype=counts.dtype))

    @property
    def failure(self) -> Exception | None:
        """The exception in the user's callback, if there was one."""
        return self.metrics.failure if self.metrics else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as stack:  # closes both files, even if one fails
            for file in (self.metrics, self.samples):
                if file is not None:
                    stack.push(file)

    def add(self, state: State, rate: float, part: float, show: ShowPart) -> None:
        """Close the window at this step."""
        self.wait(show)
        counts, arrived = self._fetch()
        self.waiting = Entry(
            *(state.step, state.position.epoch, state.window, state.seconds, rate, part),
            *(counts, arrived),
        )
        self.counts[:-1].zero_()
        state.window = Window()
        self.poll(show)

    def _fetch(self) -> tuple[Tensor, torch.cuda.Event | None]:
        """Copy the counts from the device; the event tells when they have arrived."""
        on_gpu = self.counts.device.type == "cuda" and self.processes.world == 1
        if on_gpu:  # pragma: no cover  (tests/gpu)
            counts = torch.empty(len(Counts._fields), dtype=torch.float64, pin_memory=True)
            counts.copy_(self.counts, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
            return counts, arrived
        return self.processes.total(self.counts.clone()), None

    def poll(self, show: ShowPart) -> None:
        """Write the pending entry if its counts have arrived."""
        if self.waiting is not None and (
            self.waiting.arrived is None or self.waiting.arrived.query()
        ):
            entry, self.waiting = self.waiting, None
            self._write(entry, show)

    def wait(self, show: ShowPart) -> None:
        """Wait for the pending entry, and write it."""
        if self.waiting is not None and self.waiting.arrived is not None:
            self.waiting.arrived.synchronize()
        self.poll(show)

    def save_window(self, state: State) -> None:
        """Store the current window in the state, and flush the files to disk.

        Raises NonFinite if a loss is not finite, so that it is not saved.
        """
        self.wait(lambda part, note: None)
        counts = Counts(*self.processes.total(self.counts.clone()).tolist())
        require_finite(counts.smoothed, "the loss", state.step)
        _require_few_skipped(counts, state.step)
        window = state.window
        window.smoothed, window.nll, window.divergence = counts[:3]
        window.skipped, window.skipped_tokens, window.in_a_row = map(int, counts[3:])
        for file in (self.metrics, self.samples):
            if file is not None:
                file.flush()

    def add_validation(self, step: int, translated: Translated | None, **values: float) -> None:
        """Record a validation and a sample of its translations, if there are any."""
        if self.metrics is not None:
            self.metrics.add(step, **values)
        if self.samples is not None and translated is not None:
            self.samples.add(step, translated)

    def _write(self, entry: Entry, show: ShowPart) -> None:
        counts = Counts(*entry.counts.tolist())
        require_finite(counts.smoothed, "the loss", entry.step)
        skipped = int(counts.skipped)
        if skipped:
            self.say(
                f"step {entry.step:,}: {pluralize(skipped, 'update')} since the last "
                "record skipped: non-finite gradient"
            )
        tokens = entry.window.tokens - counts.skipped_tokens
        losses: dict[str, float] = {}
        shown = "no loss"  # if all updates were skipped
        if tokens:
            nll = counts.nll / tokens
            perplexity = math.exp(min(nll, 100))
            losses = {"loss": counts.smoothed / tokens, "nll": nll, "perplexity": perplexity}
            if counts.divergence:
                losses["divergence"] = counts.divergence / tokens
            shown = f"loss {losses['loss']:.2f}, ppl {perplexity:.4g}"
        speed = entry.window.tokens / max(entry.window.seconds, 1e-9)
        if self.metrics is not None:
            self.metrics.add(
                entry.step,
                epoch=entry.epoch,
                **losses,
                learning_rate=entry.rate,
                target_tokens_per_second=round(speed, 1),
                seconds=round(entry.seconds, 3),
                **({"skipped": skipped} if skipped else {}),
            )
        _require_few_skipped(counts, entry.step)
        remaining = "?"
        if entry.part:
            remaining = format_duration(entry.seconds * (1 - entry.part) / entry.part)
        show(
            entry.part,
            f"step {entry.step:,}, {shown}, lr {entry.rate:.1e}, {speed:,.0f} tok/s, "
            f"{remaining} left",
        )


def _require_few_skipped(counts: Counts, step: int) -> None:
    """Raise NonFinite if the last updates were all skipped."""
    in_a_row = int(counts.in_a_row)
    if in_a_row >= MOST_IN_A_ROW:
        raise NonFinite(f"the gradient of the last {in_a_row:,} updates", step, in_a_row)
