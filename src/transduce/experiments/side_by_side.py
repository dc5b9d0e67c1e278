"""Several training runs side by side, each in its own process.

Small models leave a GPU or the cores of a processor idle between steps, while they validate and
while they translate. Side by side, one uses what the other leaves.
"""

import contextlib
import io
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from transduce.bench.workers import picklable
from transduce.errors import TransduceError
from transduce.experiments.rows import Row
from transduce.system.processes import cores
from transduce.system.progress import Plain, Progress
from transduce.system.signals import signals_as_interrupt

THREADS = "OMP_NUM_THREADS"

Work = Callable[[Row, Progress], None]


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that works on one row."""

    row: str
    process: SpawnProcess
    connection: Connection

    def receive(self, progress: Progress) -> bool:
        """Print a line or raise an error of the process; return whether it is still working."""
        try:
            message = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            if self.process.exitcode:
                raise TransduceError(
                    f"the process that trained {self.row} ended with status "
                    f"{self.process.exitcode}, perhaps out of memory: the same command continues, "
                    "with fewer --jobs if memory is short"
                ) from None
            return False
        if isinstance(message, Exception):
            raise message
        progress.say(f"{self.row}: {message}")
        return True

    def join(self) -> None:
        """Wait until the process has saved and ended."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:  # a full pipe would keep it from ending
                self.connection.recv()
        self.process.join()


def run_side_by_side(
    work: Work,
    rows: Sequence[Row],
    jobs: int,
    progress: Progress,
    may_start: Callable[[], bool] = lambda: True,
) -> list[Row]:
    """Call `work` for each row, at most `jobs` at a time; return the rows that were not started.

    `may_start` is called before each start. An error of one row stops the others, which save.
    """
    waiting, running = deque(rows), dict[Connection, _Running]()
    try:
        while running or (waiting and may_start()):
            while waiting and len(running) < jobs and may_start():
                row = waiting.popleft()
                progress.say(f"{row.name}: row {len(rows) - len(waiting)} of {len(rows)} to do")
                started = _start(work, row, min(jobs, len(rows)))
                running[started.connection] = started
            for connection in wait(list(running)):
                assert isinstance(connection, Connection)
                if not running[connection].receive(progress):
                    running.pop(connection).connection.close()
    finally:
        for unfinished in running.values():
            unfinished.process.terminate()
        for unfinished in running.values():
            unfinished.join()
    return list(waiting)


def _start(work: Work, row: Row, jobs: int) -> _Running:
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, work, row), name=row.name)
    with _threads(max(1, cores() // jobs)):
        process.start()
    theirs.close()  # so that we notice when the process ends
    return _Running(row.name, process, ours)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Limit the threads of processes that are started, unless the user has limited them."""
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = str(count)
    try:
        yield
    finally:
        del os.environ[THREADS]


def _work(connection: Connection, work: Work, row: Row) -> None:
    """Work on a row in a process of its own."""
    if hasattr(os, "setpgrp"):  # Ctrl-C reaches the parent alone, which then stops each process
        os.setpgrp()
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
    try:
        with signals_as_interrupt():
            work(row, Plain(_Lines(connection)))
    except Exception as error:
        with contextlib.suppress(ConnectionError):
            connection.send(picklable(error))


def _end_with_parent(connection: Connection) -> None:
    """Save and stop when the parent has ended, which closes the connection."""
    with contextlib.suppress(EOFError, ConnectionError):
        connection.recv()
    signal.raise_signal(signal.SIGTERM)


class _Lines(io.StringIO):
    """A stream that sends each line to the parent."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def write(self, text: str) -> int:
        """Send a line; its end is sent by itself and left out."""
        if line := text.rstrip("\n"):
            with contextlib.suppress(ConnectionError):
                self.connection.send(line)
        return len(text)
