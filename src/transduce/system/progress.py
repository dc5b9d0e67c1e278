"""Progress of long tasks, on stderr: a live bar on a terminal, plain lines in a pipe or log.

The library's default is `Silent`.
"""

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from transduce.errors import printable
from transduce.system.formatting import format_duration, pluralize

PLAIN_EVERY = 10.0  # seconds between plain lines
SLOW_AFTER = 2  # seconds before `track_if_slow` shows anything

Advance = Callable[[int], None]
ShowPart = Callable[[float, str], None]


class Progress(Protocol):
    """The interface through which long tasks report progress."""

    def say(self, text: str) -> None:
        """Print one line."""

    def track(
        self, what: str, total: int | None, unit: str
    ) -> contextlib.AbstractContextManager[Advance]:
        """Show progress towards `total` units; call the result with the number just completed."""

    def watch(self, what: str) -> contextlib.AbstractContextManager[ShowPart]:
        """Show progress with a note; call the result with the fraction completed and the note."""


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Print nothing."""

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Show nothing."""
        yield lambda done: None

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[ShowPart]:
        """Show nothing."""
        yield lambda part, note: None


class Plain:
    """Prints lines of text, for pipes and logs."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr

    def say(self, text: str) -> None:
        """Print one line."""
        print(printable(text), file=self.stream, flush=True)

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Print a line every few seconds, and a summary at the end if any line was printed."""
        begin = last = time.monotonic()
        done = 0

        def line(now: float) -> str:
            rate = done / max(now - begin, 1e-9)
            share = f" of {total:,} ({done / total:.0%})" if total else ""
            left = f", {format_duration((total - done) / rate)} left" if total and rate else ""
            amount = f"{done:,}{share} {unit}" if total else pluralize(done, unit.removesuffix("s"))
            return f"{what}: {amount}, {rate:,.0f} {unit}/s{left}"

        def advance(units: int) -> None:
            nonlocal done, last
            done += units
            now = time.monotonic()
            if now - last >= PLAIN_EVERY:
                last = now
                self.say(line(now))

        yield advance
        if last > begin:
            amount = pluralize(done, unit.removesuffix("s"))
            self.say(f"{what}: {amount} in {format_duration(time.monotonic() - begin)}")

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[ShowPart]:
        """Print a note every few seconds, and the last one."""
        last = time.monotonic() - PLAIN_EVERY
        pending = ""

        def show(part: float, note: str) -> None:
            nonlocal last, pending
            pending = f"{what}: {part:.0%}, {note}"
            if time.monotonic() - last >= PLAIN_EVERY:
                last = time.monotonic()
                self.say(pending)
                pending = ""

        yield show
        if pending:
            self.say(pending)


class Terminal:
    """Draws a bar with rate and remaining time, with rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self.console.print(printable(text), markup=False, emoji=False)

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Draw a bar that disappears at the end."""
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
        # By default rich redirects stdout to stderr while a bar is shown.
        with bars.Progress(
            *columns, console=self.console, transient=True, redirect_stdout=False
        ) as bar:
            task = bar.add_task(printable(what), total=total)
            yield lambda units: bar.advance(task, units)

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[ShowPart]:
        """Draw a bar followed by the note; the last note stays on the screen."""
        from rich import progress as bars

        columns = [
            bars.BarColumn(bar_width=6),  # a note takes most of an 80-column line
            bars.TaskProgressColumn(),
            bars.TextColumn("{task.fields[note]}", markup=False),
        ]
        with bars.Progress(*columns, console=self.console, redirect_stdout=False) as bar:
            task = bar.add_task(printable(what), total=1.0, note="")
            yield lambda part, note: bar.update(task, completed=part, note=printable(note))


class WithheldStderr(io.StringIO):
    """Replaces stderr in a process whose messages are printed by a different process."""


def console_progress() -> Progress:
    """Return a bar if stderr is a terminal, else plain lines."""
    return Terminal() if sys.stderr.isatty() else Plain()


@contextlib.contextmanager
def track_if_slow(progress: Progress, what: str, total: int, unit: str) -> Iterator[Advance]:
    """Like `progress.track`, but show nothing in the first two seconds."""
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
