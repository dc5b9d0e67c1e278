"""What a run records of its steps: fetched from the device late, so that nobody waits for it."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from transduce.errors import Diverged
from transduce.runs.folder import checkpoints
from transduce.runs.metrics import Metrics, Samples, Translated
from transduce.runs.state import State, Window
from transduce.system.files import remove_folder
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import ShowPart
from transduce.training.distributed.processes import Processes

IN_A_ROW = 10  # updates that are refused, one after the other, before a run is given up


class Counts(NamedTuple):
    """What the gradient step counts on the device: losses, and the updates that it has skipped."""

    smoothed: float
    nll: float
    skipped: float
    skipped_tokens: float
    in_a_row: float  # up to now; this one alone goes on from window to window


@dataclass(frozen=True, slots=True)
class Entry:
    """A logged step whose losses may still be on their way from the device."""

    step: int
    epoch: int
    window: Window
    seconds: float
    rate: float
    part: float  # of the run that is behind it
    counts: Tensor  # on the CPU
    arrived: torch.cuda.Event | None


class Log:
    """Writes the means of the losses since the last logged step, once they have arrived."""

    def __init__(
        self,
        run: Path,
        state: State,
        counts: Tensor,
        processes: Processes,
        say: Callable[[str], None],
        *,
        tensorboard: bool,
        validated: int | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        """Count on in `counts`, which the gradient step adds to, where the run was stopped.

        `validated` is the step of the last validation that will not be made once more, by default
        where the run stands; `settle` waits until what is being saved is.
        """
        validated = state.step if validated is None else validated
        self.run, self.counts, self.processes, self.say = run, counts, processes, say
        self.settle = settle
        self.samples = Samples(run, validated) if processes.first else None
        self.metrics = (  # last, because it opens a file
            Metrics(run, state.step, tensorboard=tensorboard, validated=validated)
            if processes.first
            else None
        )
        self.waiting: Entry | None = None
        if processes.first:
            values = [getattr(state.window, name) for name in Counts._fields]
            counts.copy_(torch.tensor(values, dtype=counts.dtype))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as stack:  # where one cannot be closed, the other is
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
        on_gpu = self.counts.device.type == "cuda" and self.processes.world == 1
        if on_gpu:  # pragma: no cover  (tests/gpu/test_gpu.py)
            counts = torch.empty(len(Counts._fields), dtype=torch.float64, pin_memory=True)
            counts.copy_(self.counts, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
            return counts, arrived
        return self.processes.total(self.counts.clone()), None

    def poll(self, show: ShowPart) -> None:
        """Write what has arrived."""
        if self.waiting is not None and (
            self.waiting.arrived is None or self.waiting.arrived.query()
        ):
            entry, self.waiting = self.waiting, None
            self._write(entry, show)

    def wait(self, show: ShowPart) -> None:
        """Write what is on its way, as soon as it has arrived."""
        if self.waiting is not None and self.waiting.arrived is not None:
            self.waiting.arrived.synchronize()
        self.poll(show)

    def keep(self, state: State) -> None:
        """Put the open window into the state, and what was written on the disk.

        What is still on its way must be a number too before anything is kept.
        """
        self.wait(lambda part, note: None)
        counts = Counts(*self.processes.total(self.counts.clone()).tolist())
        self.require_finite(counts.smoothed, "the loss", state.step)
        self.require_accepted(counts, state.step)
        window = state.window
        window.smoothed, window.nll = counts.smoothed, counts.nll
        window.skipped, window.skipped_tokens, window.in_a_row = map(int, counts[2:])
        for file in (self.metrics, self.samples):
            if file is not None:
                file.flush()

    def validated(self, step: int, translated: Translated | None, **values: float) -> None:
        """Record a validation, and some of what was translated for it, if anything was."""
        if self.metrics is not None:
            self.metrics.add(step, **values)
        if self.samples is not None and translated is not None:
            self.samples.add(step, translated)

    def _write(self, entry: Entry, show: ShowPart) -> None:
        counts = Counts(*entry.counts.tolist())
        self.require_finite(counts.smoothed, "the loss", entry.step)
        skipped = int(counts.skipped)
        if skipped:
            self.say(
                f"step {entry.step:,}: {pluralize(skipped, 'update')} since the last "
                "record skipped: non-finite gradient"
            )
        # Where all were skipped there is no loss to tell.
        tokens = entry.window.tokens - counts.skipped_tokens or math.inf
        smoothed, nll = counts.smoothed / tokens, counts.nll / tokens
        speed = entry.window.tokens / max(entry.window.seconds, 1e-9)
        perplexity = math.exp(min(nll, 100))
        if self.metrics is not None:
            losses = {"loss": smoothed, "nll": nll, "perplexity": perplexity}
            self.metrics.add(
                entry.step,
                epoch=entry.epoch,
                **(losses if math.isfinite(tokens) else {}),
                learning_rate=entry.rate,
                target_tokens_per_second=round(speed, 1),
                seconds=round(entry.seconds, 3),
                **({"skipped": skipped} if skipped else {}),
            )
        self.require_accepted(counts, entry.step)
        told = f"loss {smoothed:.2f}, ppl {perplexity:.4g}"
        left = format_duration(entry.seconds * (1 - entry.part) / entry.part) if entry.part else "?"
        show(
            entry.part,
            f"step {entry.step:,}, {told if math.isfinite(tokens) else 'no loss'}, "
            f"lr {entry.rate:.1e}, {speed:,.0f} tok/s, {left} left",
        )

    def require_accepted(self, counts: Counts, step: int) -> None:
        """End a run whose last updates were all refused."""
        row = int(counts.in_a_row)
        if row >= IN_A_ROW:
            self.require_finite(math.nan, f"the gradient of the last {row:,} updates", step, row)

    def require_finite(self, value: float, what: str, step: int, in_a_row: int = 0) -> None:
        """End the run before weights that are no numbers are kept; say from where it goes on.

        If its last updates were refused, so many in a row, then the one before them may be what has
        broken the weights: what was saved since is deleted. Nothing was learned since, either.
        """
        if math.isfinite(value):
            return
        with contextlib.suppress(Exception):  # there is something else to say
            self.settle()
        sound = None
        for one in checkpoints(self.run):
            if not in_a_row or one.step < step - in_a_row:
                sound = one
            elif self.processes.first:
                with contextlib.suppress(OSError):
                    remove_folder(one.path)
        where = f"goes on from {sound.path}, which is whole" if sound else "begins anew"
        raise Diverged(
            f"{what} after step {step:,} is no longer a number, and nothing of it was saved: the "
            f"same command {where}; add --set lr_scale=0.5 (or less), or --set clip=1, lest it "
            "happen again"
        )
