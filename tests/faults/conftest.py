"""What the short forms share: a training that nothing disturbed, and a process to fork from."""

import signal
from collections.abc import Iterator

import pytest

from faults.fork_server import ForkServer
from faults.interruptions import Striker, Task


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with ForkServer(tmp_path_factory.mktemp("warm")) as started:
        yield started


@pytest.fixture(scope="session")
def undisturbed(warm: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, int]:
    """A task that was done without any disturbance, and how often it touched its folder."""
    task = Task.make(tmp_path_factory.mktemp("undisturbed"))
    done = Striker(warm, task).run(task.whole, None, signal.SIGKILL)
    assert done.ended.status == 0, done.ended.stderr
    return task, done.touches
