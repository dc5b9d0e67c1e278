"""Fixtures of the short forms: an uninterrupted training, and a process to fork from."""

import signal
from collections.abc import Iterator

import pytest

from faults.fork_server import ForkServer
from faults.interruptions import Interrupter, Task


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with ForkServer(tmp_path_factory.mktemp("fork_server")) as started:
        yield started


@pytest.fixture(scope="session")
def uninterrupted(
    fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Task, int]:
    """An uninterrupted training, and its number of file operations."""
    task = Task.make(tmp_path_factory.mktemp("uninterrupted"))
    done = Interrupter(fork_server, task).run(task.whole, None, signal.SIGKILL)
    assert done.ended.status == 0, done.ended.stderr
    return task, done.operations
