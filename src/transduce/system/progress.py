"""What long work says: a live bar on a terminal, plain lines when piped, nothing by default.

Everything goes to stderr: stdout is for results.
"""

import contextlib
import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from transduce.errors import BadInput, printable

PLAIN_EVERY = 10.0  # seconds between two plain lines
LATER = 2  # seconds before short work is shown

UNITS = {
    r"d(?:ays?)?": 86_400,
    r"h(?:(?:ou)?rs?)?": 3_600,
    r"m(?:in(?:ute)?s?)?": 60,
    r"s(?:ec(?:ond)?s?)?": 1,
}
TIME = re.compile(
    r"\s*" + "".join(rf"(?:(\d{{1,9}}(?:\.\d{{1,9}})?)\s*{unit}\s*)?" for unit in UNITS),
    re.IGNORECASE | re.ASCII,
)

Advance = Callable[[int], None]
Show = Callable[[float, str], None]


class Progress(Protocol):
    """Where long work reports to."""

    def say(self, text: str) -> None:
        """Print one line."""

    def track(
        self, what: str, total: int | None, unit: str
    ) -> contextlib.AbstractContextManager[Advance]:
        """Follow work of `total` units; call what is yielded with the units just done."""

    def watch(self, what: str) -> contextlib.AbstractContextManager["Show"]:
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
    def watch(self, what: str) -> Iterator[Show]:
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
            left = f", {duration((total - done) / rate)} left" if total and rate else ""
            many = f"{done:,}{share} {unit}" if total else counted(done, unit.removesuffix("s"))
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
            many = counted(done, unit.removesuffix("s"))
            self.say(f"{what}: {many} in {duration(time.monotonic() - begin)}")

    @contextlib.contextmanager
    def watch(self, what: str) -> Iterator[Show]:
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
    def watch(self, what: str) -> Iterator[Show]:
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


class Unsaid(io.StringIO):
    """Stands for stderr in a process that leaves it to another to speak."""


def for_people() -> Progress:
    """Return the terminal's progress where stderr is one, else plain lines."""
    return Terminal() if sys.stderr.isatty() else Plain()


@contextlib.contextmanager
def later(progress: Progress, what: str, total: int, unit: str) -> Iterator[Advance]:
    """Follow work as `progress.track` does, but show nothing in the first two seconds."""
    begin, done = time.monotonic(), 0
    show: Advance | None = None
    with contextlib.ExitStack() as stack:

        def advance(units: int) -> None:
            nonlocal show, done
            done += units
            if show is not None:
                show(units)
            elif time.monotonic() - begin >= LATER:
                show = stack.enter_context(progress.track(what, total, unit))
                show(done)

        yield advance


def duration(seconds: float) -> str:
    """Write a length of time as people do: 8s, 3m20s, 2h05m."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600}h{seconds // 60 % 60:02}m"


def seconds_of(text: str, name: str) -> float:
    """Read a length of time such as 90s, 3 min, 1h30m or 1.5 hours as seconds.

    A number without a unit is refused: some would mean seconds by it, others minutes.
    """
    if re.fullmatch(r"\s*\d{1,9}\s*", text):
        n = text.strip()
        raise BadInput(f"{name} {n}: {n} what? Write {n}s, {n}m or {n}h: seconds, minutes or hours")
    match = TIME.fullmatch(text)
    seconds = (
        sum(
            float(part) * unit for part, unit in zip(match.groups("0"), UNITS.values(), strict=True)
        )
        if match
        else 0.0
    )
    if not seconds:
        raise BadInput(
            f"{name} {text:.60}: expected a length of time such as 90s, 30m, 1h30m or 1.5 hours"
        )
    return seconds


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number and its noun: 1 step, 2,000 steps, 0 processes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
