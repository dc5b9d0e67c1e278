"""A process without a heartbeat is taken for dead; a slow one is not."""

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from transduce.errors import BadSetting
from transduce.training.distributed.heartbeat import (
    PATIENCE,
    VARIABLE,
    Heartbeat,
    identity,
    patience,
)
from transduce.training.distributed.processes import PeerLost, Processes


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def beating(
    other: int, seconds: float, every: float = 0.01, known: str | None = None
) -> tuple[Heartbeat, HashStore]:
    """Start to check a process that has registered."""
    store = HashStore()
    store.set("who 1", f"{other} {socket.gethostname()}")
    store.set("identity 1", identity(other) if known is None else known)
    store.set("beat 1", "0")
    heartbeat = Heartbeat(store, 0, 2, seconds, lambda: True)
    heartbeat.every = every
    heartbeat.start()
    return heartbeat, store


def test_a_silent_process_is_killed_and_named(other: subprocess.Popen[bytes]) -> None:
    heartbeat, _ = beating(other.pid, 0.1)
    assert other.wait(60) == -9
    heartbeat.stop()
    assert heartbeat.describe_lost() == (
        f"the process of rank 1 (pid {other.pid} on {socket.gethostname()}) "
        "gave no sign of life for 0.1 s and was ended"
    )


@pytest.mark.parametrize("known", ["", "another boot, or another start"])
def test_a_process_that_has_only_the_pid_of_the_silent_one_is_not_killed(
    known: str, other: subprocess.Popen[bytes]
) -> None:
    heartbeat, _ = beating(other.pid, 60, known=known)
    heartbeat.stop()
    heartbeat._give_up(1)
    assert heartbeat.hung == {1}
    time.sleep(0.2)
    assert other.poll() is None


def test_every_process_has_its_own_identity(other: subprocess.Popen[bytes]) -> None:
    own = identity(os.getpid())
    assert own
    assert own == identity(os.getpid())
    assert own != identity(other.pid) != ""
    other.kill()
    other.wait()
    assert identity(other.pid) == ""


def test_a_process_that_has_ended_is_not_taken_for_hung(
    other: subprocess.Popen[bytes],
) -> None:
    heartbeat, store = beating(other.pid, 0.1)
    Heartbeat(store, 1, 2, 0.1, lambda: True).stop()
    store.set("identity 1", identity(other.pid))
    store.set("who 1", f"{other.pid} {socket.gethostname()}")
    time.sleep(0.5)
    assert not heartbeat.hung
    assert other.poll() is None
    heartbeat.stop()


def test_a_beating_process_is_left_alone_and_an_ended_one_is_named(
    other: subprocess.Popen[bytes],
) -> None:
    heartbeat, store = beating(other.pid, 60)
    for beat in range(20):
        store.set("beat 1", str(beat))
        time.sleep(0.005)
    assert not heartbeat.hung
    assert other.poll() is None
    words = heartbeat.describe_lost()
    heartbeat.stop()
    assert words.startswith(f"the process of rank 1 (pid {other.pid} on ")
    assert words.endswith(") has ended or cannot be reached")
    assert other.poll() is None


def test_an_error_is_blamed_on_a_process_only_if_it_is_silent(
    other: subprocess.Popen[bytes],
) -> None:
    """Whatever the error says: it may come from this process."""
    heartbeat, store = beating(other.pid, 60)
    processes = Processes(0, 2, 2, heartbeat)
    beats = itertools.count(1)
    alive = threading.Event()

    def beat() -> None:
        while not alive.wait(0.005):
            store.set("beat 1", str(next(beats)))

    thread = threading.Thread(target=beat)
    thread.start()
    heartbeat.every = 0.05
    assert not processes.lost_peer(RuntimeError("socket: connection closed by peer"))
    assert processes.lost_peer(PeerLost("all_reduce failed"))
    alive.set()
    thread.join()
    assert processes.lost_peer(RuntimeError("mat1 and mat2 cannot be multiplied"))
    heartbeat.stop()
    assert not Processes().lost_peer(RuntimeError("socket"))


def test_a_process_on_a_lost_machine_ends_this_process_too() -> None:
    code = """
from torch import distributed as dist
from transduce.training.distributed.heartbeat import Heartbeat
store = dist.HashStore()
store.set("who 1", "1 elsewhere"); store.set("identity 1", "?"); store.set("beat 1", "0")
heartbeat = Heartbeat(store, 0, 2, 0.1, lambda: True)
heartbeat.start()
import time; time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: the process of rank 1 (pid 1 on elsewhere) gave no sign of life for 0.1 s"
    )
    assert "run the same command to resume" in done.stderr


def test_patience_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert patience() == PATIENCE
    monkeypatch.setenv(VARIABLE, "2.5")
    assert patience() == 2.5
    for text in ("soon", "0", "-1", "inf", "nan"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(BadSetting, match=f"{VARIABLE} = '{text}' in the environment"):
            patience()
    assert os.environ[VARIABLE] == "nan"
