"""A service in a process of its own, for as long as it is measured, and what it costs."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.bench.client import HOST
from transduce.errors import BadInput

SECONDS_TO_START = 300  # for a large model from a slow disk
SECONDS_TO_END = 10
ADDRESS = re.compile(rf"http://{re.escape(HOST)}:(\d+)".encode())


@dataclass(frozen=True, slots=True)
class Service:
    """A running service."""

    process: subprocess.Popen[bytes]
    said: Path  # all that it has written
    port: int

    @property
    def address(self) -> str:
        """Where it can be seen meanwhile."""
        return f"http://{HOST}:{self.port}"

    def require(self) -> None:
        """Refuse to go on if the service has ended."""
        if self.process.poll() is not None:
            raise BadInput(
                f"the service has ended with status {self.process.returncode}; "
                f"its last words: {_last_words(self.said)}"
            )

    def resident(self) -> int | None:
        """Return the bytes of memory that it holds now, where the system tells."""
        return resident(self.process.pid)

    def processor_seconds(self) -> float | None:
        """Return the processor time of all its threads until now, where the system tells."""
        return processor_seconds(self.process.pid)


@contextlib.contextmanager
def serving(argv: Sequence[str]) -> Iterator[Service]:
    """Run a command that serves on a port of its own choice, and end it whatever happens.

    It is a process of our group: what ends us from the terminal reaches it too.
    """
    with (
        tempfile.NamedTemporaryFile(prefix="transduce-serve-", suffix=".log") as said,
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as process,  # noqa: S603
    ):
        try:
            yield Service(process, Path(said.name), _port(process, Path(said.name)))
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_END)
            process.kill()


def command(run: Path, options: Sequence[str]) -> list[str]:
    """Return the command that serves a run on a free port of this machine."""
    own = [sys.executable, "-m", "transduce", "serve", str(run)]
    # Every round asks for the same sentences: none may be known from the one before.
    return [*own, "--port", "0", "--no-open", "--remember", "0", *options]


def _port(process: "subprocess.Popen[bytes]", said: Path) -> int:
    """Wait until a service says where it is, and return the port."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        ended = process.poll() is not None
        if found := ADDRESS.search(said.read_bytes()):
            return int(found[1])
        if ended:
            raise BadInput(f"the service did not start: {_last_words(said)}")
        time.sleep(0.05)
    raise BadInput(f"the service did not start within {SECONDS_TO_START} seconds")


def _last_words(said: Path) -> str:
    lines = said.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.removeprefix("error: ") for line in reversed(lines) if line.strip()), "")


def resident(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return the bytes of memory that a process holds; None where there is no /proc."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in (proc / f"{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return 1024 * int(line.split()[1])
    return None


def processor_seconds(pid: int, proc: Path = Path("/proc")) -> float | None:
    """Return the processor time of a process until now; None where there is no /proc."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        # The second field is a name in parentheses, which may hold anything.
        stat = (proc / f"{pid}/stat").read_text(encoding="utf-8", errors="replace")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return None
