"""Progress: lines in a pipe, a bar on a terminal, nothing by default."""

import io
import itertools
import re
import sys
from collections.abc import Iterator

import pytest
from rich.console import Console

from transduce.system import progress
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import Plain, Progress, Silent, Terminal, console_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test sets: clock[0] is the time."""
    now = [1000.0]
    monkeypatch.setattr("transduce.system.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "PLAIN_EVERY", 10.0)
    return now


@pytest.fixture
def terminal() -> Iterator[tuple[Terminal, io.StringIO]]:
    screen = io.StringIO()
    it = Terminal()
    it.console = Console(file=screen, force_terminal=True, width=120, highlight=False)
    yield it, screen
    assert it.console._live_stack == []  # the drawing thread has ended


def lines(screen: io.StringIO) -> list[str]:
    """Return the drawn text, without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).rstrip().splitlines()


class Screen(io.StringIO):
    """Claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_plain_prints_lines() -> None:
    stream = io.StringIO()
    Plain(stream).say("one thing")
    assert stream.getvalue() == "one thing\n"


def test_plain_prints_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Plain().say("one thing")
    assert capsys.readouterr() == ("", "one thing\n")


def test_plain_reports_at_intervals_and_at_the_end(clock: list[float]) -> None:
    stream = io.StringIO()
    with Plain(stream).track("reading", 1000, "lines") as advance:
        for _ in range(10):
            clock[0] += 4
            advance(100)
    assert stream.getvalue().splitlines() == [
        "reading: 300 of 1,000 (30%) lines, 25 lines/s, 28s left",
        "reading: 600 of 1,000 (60%) lines, 25 lines/s, 16s left",
        "reading: 900 of 1,000 (90%) lines, 25 lines/s, 4s left",
        "reading: 1,000 lines in 40s",
    ]


def test_plain_reports_without_a_total(clock: list[float]) -> None:
    stream = io.StringIO()
    with Plain(stream).track("reading", None, "lines") as advance:
        clock[0] += 20
        advance(5000)
    assert stream.getvalue().splitlines() == [
        "reading: 5,000 lines, 250 lines/s",
        "reading: 5,000 lines in 20s",
    ]


def test_plain_prints_nothing_for_short_work(clock: list[float]) -> None:
    stream = io.StringIO()
    with Plain(stream).track("reading", 10, "lines") as advance:
        clock[0] += 9.9
        advance(10)
    with Plain(stream).track("reading", 0, "lines"):
        pass
    assert stream.getvalue() == ""


def test_plain_prints_the_first_note_then_one_per_interval_and_the_last(clock: list[float]) -> None:
    stream = io.StringIO()
    with Plain(stream).watch("training") as show:
        for step in range(1, 5):
            show(step / 4, f"step {step}")
            clock[0] += 6
    assert stream.getvalue().splitlines() == [
        "training: 25%, step 1",
        "training: 75%, step 3",
        "training: 100%, step 4",
    ]


def test_plain_does_not_repeat_the_last_note(clock: list[float]) -> None:
    stream = io.StringIO()
    with Plain(stream).watch("training") as show:
        show(1.0, "step 1")
    with Plain(stream).watch("training"):
        pass
    assert stream.getvalue() == "training: 100%, step 1\n"


def test_silent_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    silent: Progress = Silent()
    silent.say("something")
    with silent.track("reading", 10, "lines") as advance:
        advance(10)
    with silent.watch("training") as show:
        show(1.0, "done")
    assert capfd.readouterr() == ("", "")


def test_the_terminal_draws_a_bar_with_a_rate_and_removes_it(
    terminal: tuple[Terminal, io.StringIO],
) -> None:
    it, screen = terminal
    with it.track("reading", 1000, "lines") as advance:
        advance(400)
        it.say("by the way")
    drawn = screen.getvalue()
    assert "reading" in drawn
    assert "400/1000" in drawn
    assert "lines/s" in drawn
    assert "by the way\n" in drawn
    assert drawn.endswith("\x1b[2K")  # erased


def test_the_terminal_draws_work_without_a_total(terminal: tuple[Terminal, io.StringIO]) -> None:
    it, screen = terminal
    with it.track("reading", None, "lines") as advance:
        advance(7)
    assert "7/?" in screen.getvalue()


def test_the_terminal_leaves_the_last_note_on_the_screen(
    terminal: tuple[Terminal, io.StringIO],
) -> None:
    it, screen = terminal
    with it.watch("training") as show:
        show(0.25, "step 1")
        show(0.5, "step 2, loss 3.0")
    last = lines(screen)[-1]
    assert "50%" in last
    assert "step 2, loss 3.0" in last


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "runs/[/x]/a", "of :dog: and {task}", "[x]"])
def test_the_terminal_does_not_interpret_markup(
    text: str, terminal: tuple[Terminal, io.StringIO]
) -> None:
    it, screen = terminal
    it.say(text)
    assert screen.getvalue() == f"{text}\n"
    with it.track(text, 10, "lines") as advance:
        advance(1)
    assert screen.getvalue().count(text) > 1
    with it.watch("training") as show:
        show(0.5, text)
    assert text in lines(screen)[-1]


def test_an_error_ends_the_bar_and_is_raised(
    terminal: tuple[Terminal, io.StringIO],
) -> None:
    it, _ = terminal
    with pytest.raises(ValueError, match="bad"), it.track("reading", 10, "lines"):
        raise ValueError("bad")
    with pytest.raises(ValueError, match="bad"), it.watch("training"):
        raise ValueError("bad")


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(console_progress(), Plain)
    monkeypatch.setattr("sys.stderr", Screen())
    assert isinstance(console_progress(), Terminal)


def test_the_terminal_prints_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    Terminal().say("one thing")
    assert screen.getvalue() == "one thing\n"
    assert capsys.readouterr().out == ""


def test_results_written_during_a_bar_stay_on_stdout(
    terminal: tuple[Terminal, io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    it, screen = terminal
    with it.track("translating", 2, "lines") as advance:
        sys.stdout.write("one\n")
        advance(1)
    with it.watch("training"):
        sys.stdout.write("two\n")
    assert capsys.readouterr().out == "one\ntwo\n"
    assert "one" not in screen.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (0, "0s"),
        (0.4, "0s"),
        (8, "8s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (200, "3m20s"),
        (3599.4, "59m59s"),
        (3599.6, "1h00m"),
        (7500, "2h05m"),
        (360_000, "100h00m"),
    ],
)
def test_durations_are_formatted(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


def test_durations_never_shrink_as_time_grows() -> None:
    def minutes(words: str) -> tuple[int, ...]:
        hours = words.count("h")
        return (hours, *map(int, words.replace("h", " ").replace("m", " ").strip("s").split()))

    found = [format_duration(second) for second in range(0, 10_000, 7)]
    for before, after in itertools.pairwise(found):
        if before[-1] == after[-1] and before.count("m") == after.count("m"):
            assert minutes(before) <= minutes(after)


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (1_000, "1,000 steps")]
)
def test_only_one_is_singular(number: int, words: str) -> None:
    assert pluralize(number, "step") == words
    assert pluralize(number, "process", "processes") == words.replace("step", "process").replace(
        "processs", "processes"
    )
