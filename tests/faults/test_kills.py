"""The short form of `make faults KIND=kills`."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.fork_server import ForkServer, environment
from faults.interruptions import PHASES, Instant, Striker, Task, difference
from faults.kills import kill_again_and_again, kill_averaging
from faults.tally import Tally


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(
    warm: ForkServer, undisturbed: tuple[Task, int]
) -> None:
    count = Tally("killed", seed=1)
    kill_again_and_again(warm, *undisturbed, kills=4, seed=1, count=count)
    assert count.broken == []
    assert count.tried == 4
    assert set(count.held) <= set(PHASES)


@pytest.mark.long
def test_a_kill_between_two_writes_is_where_it_is_wanted(
    warm: ForkServer, undisturbed: tuple[Task, int]
) -> None:
    task, touches = undisturbed
    run = task.folder / "between"
    striker = Striker(warm, task)
    for place in (touches // 2, touches // 3):
        struck = striker.run(run, Instant(touch=place), signal.SIGKILL)
        assert (struck.ended.status, struck.touches) == (-signal.SIGKILL, place)
    assert difference(run, task.whole)
    assert striker.run(run, None, signal.SIGKILL).ended.status == 0
    assert difference(run, task.whole) == ""
    (run / "best.safetensors").write_bytes(b"other")
    assert difference(run, task.whole) == "best.safetensors"


def test_what_average_and_export_leave_when_killed_is_whole(
    warm: ForkServer, undisturbed: tuple[Task, int]
) -> None:
    count = Tally("averaged", seed=3)
    kill_averaging(warm, undisturbed[0], kills=3, seed=3, count=count)
    assert count.broken == []
    assert count.tried == 3


@pytest.mark.long
def test_a_forked_command_ends_with_the_bits_of_a_real_one(
    undisturbed: tuple[Task, int], tmp_path: Path
) -> None:
    task, _ = undisturbed
    command = [sys.executable, "-m", "transduce", *map(str, task.command(tmp_path / "run"))]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    assert difference(tmp_path / "run", task.whole) == ""
