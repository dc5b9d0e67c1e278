"""`transduce serve` in a separate process, for load tests and page timing."""

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT = 300.0  # seconds
STOP_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Service:
    """A running service."""

    pid: int
    port: int

    @property
    def address(self) -> str:
        """The URL of the page."""
        return f"http://127.0.0.1:{self.port}"

    def memory(self) -> int:
        """Return the resident memory in bytes (Linux)."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        return 1024 * int(match[1]) if match else 0


@contextlib.contextmanager
def running_service(run: Path, options: Sequence[str] = ()) -> Iterator[Service]:
    """Serve a run on a free port, without the cache of translations, until the block ends."""
    command = [sys.executable, "-m", "transduce", "serve", str(run)]
    command += ["--port", "0", "--no-open", "--remember", "0", *options]
    with (
        tempfile.NamedTemporaryFile(prefix="transduce-serve-", suffix=".log") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,  # noqa: S603
    ):
        try:
            yield Service(process.pid, _wait_for_port(process, Path(log.name)))
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT)
            process.kill()


def _wait_for_port(process: "subprocess.Popen[bytes]", log: Path) -> int:
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        stopped = process.poll() is not None
        text = log.read_text(encoding="utf-8", errors="replace")
        if match := re.search(r"http://127\.0\.0\.1:(\d+)", text):
            return int(match[1])
        if stopped:
            raise SystemExit(f"the service did not start:\n{text}")
        time.sleep(0.05)
    raise SystemExit(f"the service did not start within {START_TIMEOUT:g} seconds")
