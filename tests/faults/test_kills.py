"""The short form of `make faults KIND=kills`."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.fork_server import ForkServer, environment
from faults.interruptions import PHASES, Instant, Interrupter, Task, difference
from faults.kills import kill_averaging, kill_repeatedly
from faults.tally import Tally


def test_a_run_that_is_killed_repeatedly_ends_with_the_same_bits(
    fork_server: ForkServer, uninterrupted: tuple[Task, int]
) -> None:
    count = Tally("killed", seed=1)
    kill_repeatedly(fork_server, *uninterrupted, kills=4, seed=1, count=count)
    assert count.broken == []
    assert count.tried == 4
    assert set(count.held) <= set(PHASES)


@pytest.mark.long
def test_a_run_killed_between_two_writes_resumes_to_the_same_bits(
    fork_server: ForkServer, uninterrupted: tuple[Task, int]
) -> None:
    task, operations = uninterrupted
    run = task.folder / "between"
    interrupter = Interrupter(fork_server, task)
    for number in (operations // 2, operations // 3):
        interrupted = interrupter.run(run, Instant(operation=number), signal.SIGKILL)
        assert (interrupted.ended.status, interrupted.operations) == (-signal.SIGKILL, number)
    assert difference(run, task.whole)
    assert interrupter.run(run, None, signal.SIGKILL).ended.status == 0
    assert difference(run, task.whole) == ""
    (run / "best.safetensors").write_bytes(b"other")
    assert difference(run, task.whole) == "best.safetensors"


def test_average_and_export_leave_complete_files_when_killed(
    fork_server: ForkServer, uninterrupted: tuple[Task, int]
) -> None:
    count = Tally("averaged", seed=3)
    kill_averaging(fork_server, uninterrupted[0], kills=3, seed=3, count=count)
    assert count.broken == []
    assert count.tried == 3


@pytest.mark.long
def test_a_forked_command_ends_with_the_bits_of_a_real_one(
    uninterrupted: tuple[Task, int], tmp_path: Path
) -> None:
    task, _ = uninterrupted
    command = [sys.executable, "-m", "transduce", *map(str, task.command(tmp_path / "run"))]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    assert difference(tmp_path / "run", task.whole) == ""
