"""Usage errors, help, the version, --debug, and Ctrl-C during start-up."""

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from command_helpers import Files
from conftest import (
    CommandLine,
    environment,
)

from transduce.cli import interrupt
from transduce.cli.options import command as quoted_command
from transduce.cli.options import parse_time
from transduce.errors import BadInput


def test_debug_shows_the_traceback_wherever_the_option_is_given(
    cli: CommandLine, tmp_path: Path
) -> None:
    run = str(tmp_path)
    for arguments in (["--debug", "info", run], ["info", run, "--debug"]):
        result = cli(*arguments)
        assert result.status == 1
        assert "Traceback (most recent call last)" in result.stderr
        assert result.stderr.splitlines()[-1].startswith(f"error: {tmp_path} is not a run folder")


INTERRUPTS = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"


SWALLOWS = """
import signal
from transduce.cli import interrupt
signal.signal(signal.SIGINT, interrupt)
try:
    import interrupting
except BaseException:
    print("gone on")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "transduce", "--help"],
        ["-c", SWALLOWS],
    ],
    ids=["before the command", "in a library that takes it for a missing module"],
)
def test_ctrl_c_during_startup_exits_cleanly(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(INTERRUPTS, encoding="utf-8")
    if "-m" in arguments:  # what the command line imports first
        (tmp_path / "typer.py").write_text(INTERRUPTS, encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        env=environment() | {"PYTHONPATH": paths},
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_ctrl_c_during_work_raises_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["trian"],
        ["train"],
        ["train", "a", "b"],
        ["train", "a", "b", "--out"],
        ["train", "a", "b", "--out", "run", "--steps", "many"],
        ["train", "a", "b", "--out", "run", "--sets", "N=1"],
        ["translate"],
        ["translate", "run", "--beam", "wide"],
        ["score", "a"],
        ["average", "run", "--last", "0"],
        ["info", "run", "more"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_2(arguments: list[str], cli: CommandLine) -> None:
    result = cli(*arguments)
    assert result.status == 2
    assert result.stdout == ""
    assert re.search("Usage: .*transduce|requires an argument", result.stderr)
    assert "Traceback" not in result.stderr


def test_a_command_without_arguments_shows_its_examples(cli: CommandLine) -> None:
    assert "transduce train train.en train.de --out runs/en-de" in cli("train").stderr


def test_the_version_is_that_of_the_package(cli: CommandLine) -> None:
    result = cli("--version")
    assert (result.status, result.stdout) == (0, f"transduce {version('transduce')}\n")


COMMANDS = (
    *("demo", "train", "translate", "score", "average", "info", "plot", "watch", "serve", "bench"),
    *("export", "import", "look", "settings"),
)


def test_help_lists_every_command(cli: CommandLine) -> None:
    for arguments in (["--help"], ["-h"], []):
        result = cli(*arguments)
        for command in COMMANDS:
            assert re.search(rf"\b{command}\b", result.stdout + result.stderr)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1h1m1s", 3661)],
        *[("3min", 180), ("3 mins", 180), ("1.5h", 5400), ("2 hours", 7200), ("5 m", 300)],
        *[("1 hour 30 minutes", 5400), ("45 sec", 45), ("1d", 86_400), ("2 Days 1H", 176_400)],
    ],
)
def test_a_length_of_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "soon", "-3m", "3m1h", "10ms", "1h30", "1e3s"])
def test_an_invalid_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"^--time {text}: expected a length of time"):
        parse_time(text)


def test_a_time_without_a_unit_is_refused_and_the_units_are_named() -> None:
    with pytest.raises(BadInput, match=r"^--time 5: 5 what\? Write 5s, 5m or 5h: seconds, minutes"):
        parse_time(" 5 ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--valid", "one.file", "--out", "x"],
            "'--valid': it takes 2 values, but one.file is followed by",
        ),
        (["--out", "--preset", "tiny"], "'-o': it takes 1 value, but it is followed by"),
        (
            ["--out", "x", "--seed", "9" * 30],
            "'--seed': expected at most 9,223,372,036,854,775,807",
        ),
    ],
)
def test_an_impossible_option_value_is_a_usage_error(
    arguments: list[str], expected: str, cli: CommandLine, tiny_files: Files
) -> None:
    result = cli("train", *tiny_files, *arguments)
    assert result.status == 2
    assert expected in result.stderr
    assert "Missing option" not in result.stderr


@pytest.mark.parametrize(
    ("started", "on_path", "expected"),
    [
        (".venv/bin/transduce", "", ".venv/bin/transduce"),
        ("my tools/transduce", "", "'my tools/transduce'"),
        ("BIN/transduce", "BIN", "transduce"),
        ("lib/transduce/__main__.py", "", "PYTHON -m transduce"),
        ("OTHER/transduce", "BIN", "OTHER/transduce"),
    ],
)
def test_a_printed_command_works_when_it_is_pasted(
    started: str,
    on_path: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "transduce").write_text("#!/bin/sh\n")
    (tmp_path / "transduce").chmod(0o755)
    monkeypatch.setattr(sys, "argv", [started.replace("BIN", str(tmp_path))])
    monkeypatch.setenv("PATH", on_path.replace("BIN", str(tmp_path)))
    program = expected.replace("PYTHON", sys.executable)
    assert (
        quoted_command("look", Path("my run"), "Two dogs") == f"{program} look 'my run' 'Two dogs'"
    )
