"""The lock of a folder is held by one process."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from transduce.errors import BadRun
from transduce.system import locks
from transduce.system.locks import in_use, locked

HOLD = """
import sys
from pathlib import Path
from transduce.system.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that locks a run folder until it is ended."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with holder(run) as process:
        with pytest.raises(BadRun) as caught, locked(run):
            pass
        assert str(caught.value) == f"{run} is in use by process {process.pid}"
        with pytest.raises(BadRun, match=f"process {process.pid}$"), locked(run):
            pass  # the refused attempt did not overwrite the process number


@pytest.mark.parametrize("kill", [True, False])
def test_a_run_is_free_again_however_its_process_ended(tmp_path: Path, kill: bool) -> None:
    run = tmp_path / "run"
    with holder(run) as process:
        if kill:
            process.send_signal(signal.SIGKILL)
        else:
            assert process.stdin is not None
            process.stdin.close()
        process.wait()
        with locked(run):
            assert (run / ".lock").read_text() == f"{os.getpid()}\n"


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"), locked(tmp_path):
        raise ValueError("bad")
    with locked(tmp_path), pytest.raises(BadRun), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_in_use_reports_a_lock_and_takes_none(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert not in_use(run)
    with locked(run):
        assert in_use(run)
        assert in_use(run)
    assert not in_use(run)
    with locked(run):
        pass


def test_a_short_shared_lock_of_in_use_does_not_refuse_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = (tmp_path / ".lock").open("w")
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("transduce.system.locks.time.sleep", lambda seconds: looking.close())
    with locked(tmp_path):
        assert in_use(tmp_path)


def test_a_lock_with_invalid_content_names_no_process(tmp_path: Path) -> None:
    with locked(tmp_path):
        (tmp_path / ".lock").write_bytes(b"\xff rubbish")
        with pytest.raises(BadRun, match=r"is in use by another process$"), locked(tmp_path):
            pass


def test_a_deleted_lock_file_does_not_count_as_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two processes could lock a folder: one by the old file, one by the new."""
    original = locks._lock

    def lock(file: Any, **named: Any) -> bool:
        monkeypatch.setattr(locks, "_lock", original)
        (tmp_path / "run" / ".lock").unlink()
        return original(file, **named)

    monkeypatch.setattr(locks, "_lock", lock)
    with (
        locked(tmp_path / "run"),
        pytest.raises(BadRun, match="in use by process"),
        locked(tmp_path / "run"),
    ):
        pass


def test_a_file_system_without_locks_is_not_reported_as_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: Any, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="No locks available") as caught, locked(tmp_path):
        pass
    assert caught.value.filename == str(tmp_path / ".lock")
    assert not in_use(tmp_path)
