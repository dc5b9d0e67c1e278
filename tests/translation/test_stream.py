"""Streaming: lines are translated as they arrive, together if several are ready."""

import gzip
import os
import pty
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import COMMAND, environment

from transduce.errors import BadInput
from transduce.text.reading import LineReader

Write = Callable[[bytes], None]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Make standard input a pipe; the fixture writes to it, and closes it if given no data."""
    reading, writing = os.pipe()
    ends = {writing}

    def write(data: bytes) -> None:
        if data:
            os.write(writing, data)
        else:
            ends.discard(writing)
            os.close(writing)

    with os.fdopen(reading, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write
        for end in ends:
            os.close(end)


def test_a_line_is_read_before_the_next_is_written(pipe: Write) -> None:
    lines = LineReader("-")
    for line in ("one", "", "three"):
        pipe(f"{line}\n".encode())
        assert next(lines) == line
        assert not lines.ready()
    pipe(b"")
    assert not lines.ready()
    assert list(lines) == []


def test_complete_lines_are_ready_and_half_a_line_is_not(pipe: Write) -> None:
    lines = LineReader("-")
    pipe(b"one\ntwo\nthr")
    assert next(lines) == "one"
    assert lines.ready()
    assert next(lines) == "two"
    assert not lines.ready()
    pipe(b"e")
    assert not lines.ready()
    pipe(b"e\nfour")
    assert lines.ready()
    assert next(lines) == "three"
    pipe(b"")
    assert lines.ready()
    assert list(lines) == ["four"]


def test_all_lines_of_a_file_are_ready(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"line\n" * 50_000))
    lines = LineReader(path)
    for _ in range(49_999):
        next(lines)
        assert lines.ready()
    assert next(lines) == "line"
    assert not lines.ready()
    assert next(lines, None) is None


def test_unreadable_text_is_an_error_at_its_line(pipe: Write) -> None:
    lines = LineReader("-")
    pipe(b"one\n")
    assert next(lines) == "one"
    pipe(b"tw\xff\n")
    with pytest.raises(BadInput, match="standard input, line 2 is not UTF-8"):
        lines.ready()


def test_memory_does_not_grow_with_the_input(pipe: Write) -> None:
    """100 MB in lines of 50 kB."""
    block = (b"x" * 49_999 + b"\n") * 20

    def feed() -> None:
        for _ in range(100):
            for begin in range(0, len(block), 65_536):
                pipe(block[begin : begin + 65_536])
        pipe(b"")

    writer = threading.Thread(target=feed)
    lines = LineReader("-")
    tracemalloc.start()
    try:
        writer.start()
        count = sum(lines.ready() or 1 for _ in lines)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        writer.join()
    assert count == 2_000
    assert peak < 5_000_000


def test_a_program_can_wait_for_each_translation(tiny_run: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "translate", str(tiny_run), "--beam", "1", "--nbest", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment({"PYTHONUNBUFFERED": ""}),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, line in enumerate(["a dog", "", "the man sees a bird."], start=1):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"%d\t" % number)
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_a_terminal_is_answered_line_by_line_and_ctrl_c_ends_it(tiny_run: Path) -> None:
    person, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "translate", str(tiny_run), "--beam", "1", "--json"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in (b"a dog", b"the man"):
            os.write(person, line + b"\n")
            assert b'"source": "%s"' % line in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert b"Traceback" not in process.stderr.read()
    os.close(person)
    os.close(terminal)
    assert process.returncode == 130


def test_results_go_to_a_file_while_the_bar_is_on_the_terminal(
    tiny_run: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "text.en", tmp_path / "out.de"
    source.write_text("a dog\nthe man sees a bird.\n" * 20, encoding="utf-8")
    person, terminal = pty.openpty()
    with target.open("wb") as out:
        subprocess.run(
            [*COMMAND, "translate", str(tiny_run), str(source), "--beam", "1"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=terminal,
            env=environment({"TERM": "xterm"}),
            check=True,
        )
    os.close(terminal)
    drawn = os.read(person, 1 << 16).decode()
    os.close(person)
    assert target.read_bytes().count(b"\n") == 40
    assert "translating" in drawn
    assert "lines/s" in drawn
