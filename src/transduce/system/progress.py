"""What long work says: a live bar on a terminal, plain lines when piped, nothing by default.

Everything goes to stderr: stdout is for results.
"""

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from transduce.errors import printable
from transduce.system.formatting import format_duration, pluralize

PLAIN_EVERY = 10.0  # seconds between two plain lines
SLOW_AFTER = 2  # seconds before short work is shown

Advance = Callable[[int], None]
ShowPart = Callable[[float, str], None]


class Progress(Protocol):
    """Where long work reports to."""

    def say(self, text: str) -> None:
        """Print one line."""

    def track(
        self, what: str, total: int | None, unit: str
    ) -> contextlib.AbstractContextManager[Advance]:
        """Follow work of `total` units; call what is yielded with the units just done."""

    def watch(self, what: str) -> contextlib.AbstractContextManager[ShowPart]:
        """Follow work with words of its own; call what is yielded with the part done and a note."""


class Silent:
    """Says nothing: for use as a library."""

    def say(self, text: str) -> None:
        """Say nothing."""

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Follow nothing."""
        yield lambda done: None

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[ShowPart]:
        """Follow nothing."""
        yield lambda part, note: None


class Plain:
    """Lines of text, for pipes and logs."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr

    def say(self, text: str) -> None:
        """Print one line."""
        print(printable(text), file=self.stream, flush=True)

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Print a line every few seconds, and one at the end if any was printed."""
        begin = last = time.monotonic()
        done = 0

        def line(now: float) -> str:
            rate = done / max(now - begin, 1e-9)
            share = f" of {total:,} ({done / total:.0%})" if total else ""
            left = f", {format_duration((total - done) / rate)} left" if total and rate else ""
            many = f"{done:,}{share} {unit}" if total else pluralize(done, unit.removesuffix("s"))
            return f"{what}: {many}, {rate:,.0f} {unit}/s{left}"

        def advance(units: int) -> None:
            nonlocal done, last
            done += units
            now = time.monotonic()
            if now - last >= PLAIN_EVERY:
                last = now
                self.say(line(now))

        yield advance
        if last > begin:
            many = pluralize(done, unit.removesuffix("s"))
            self.say(f"{what}: {many} in {format_duration(time.monotonic() - begin)}")

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[ShowPart]:
        """Print a note every few seconds, and the last one."""
        last = time.monotonic() - PLAIN_EVERY
        unsaid = ""

        def show(part: float, note: str) -> None:
            nonlocal last, unsaid
            unsaid = f"{what}: {part:.0%}, {note}"
            if time.monotonic() - last >= PLAIN_EVERY:
                last = time.monotonic()
                self.say(unsaid)
                unsaid = ""

        yield show
        if unsaid:
            self.say(unsaid)


class Terminal:
    """A bar with rate and time left, drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """Print one line above whatever is being drawn."""
        self.console.print(printable(text), markup=False, emoji=False)

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Draw a bar that vanishes when the work is done."""
        from rich import progress as bars

        class Rate(bars.ProgressColumn):
            def render(self, task: bars.Task) -> str:
                return f"{task.finished_speed or task.speed or 0:,.0f} {unit}/s"

        columns = [
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            Rate(),
            bars.TimeRemainingColumn(),
        ]
        # Left to itself rich would write to stderr what others write to stdout meanwhile.
        with bars.Progress(
            *columns, console=self.console, transient=True, redirect_stdout=False
        ) as bar:
            task = bar.add_task(printable(what), total=total)
            yield lambda units: bar.advance(task, units)

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[ShowPart]:
        """Draw a bar and the note beside it; leave the last note on the screen."""
        from rich import progress as bars

        columns = [
            bars.BarColumn(bar_width=6),  # a note takes most of a line of 80
            bars.TaskProgressColumn(),
            bars.TextColumn("{task.fields[note]}", markup=False),
        ]
        with bars.Progress(*columns, console=self.console, redirect_stdout=False) as bar:
            task = bar.add_task(printable(what), total=1.0, note="")
            yield lambda part, note: bar.update(task, completed=part, note=printable(note))


class WithheldStderr(io.StringIO):
    """Stands for stderr in a process that leaves it to another to speak."""


def console_progress() -> Progress:
    """Return the terminal's progress where stderr is one, else plain lines."""
    return Terminal() if sys.stderr.isatty() else Plain()


@contextlib.contextmanager
def track_if_slow(progress: Progress, what: str, total: int, unit: str) -> Iterator[Advance]:
    """Follow work as `progress.track` does, but show nothing in the first two seconds."""
    begin, done = time.monotonic(), 0
    show: Advance | None = None
    with contextlib.ExitStack() as stack:

        def advance(units: int) -> None:
            nonlocal show, done
            done += units
            if show is not None:
                show(units)
            elif time.monotonic() - begin >= SLOW_AFTER:
                show = stack.enter_context(progress.track(what, total, unit))
                show(done)

        yield advance
