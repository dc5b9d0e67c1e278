"""Commands that start at once: forked from a process that has imported torch and done nothing else.

`python -m faults.fork_server` is that process. It reads one request per line, forks, lets the child
run the real command line, and replies twice: with the child's process id, then with how it ended.
"""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, Self


def environment(**changes: str) -> dict[str, str]:
    """Return an environment in which these modules can be imported."""
    path = os.pathsep.join(
        [
            str(Path(__file__).parents[1]),
            str(Path(__file__).parents[1] / "support"),
            os.environ.get("PYTHONPATH", ""),
        ]
    )
    fixed = {"PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return {**os.environ, **fixed, **changes}


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    status: int  # negative: the signal that killed it
    stdout: str
    stderr: str
    seconds: float

    @property
    def last_line(self) -> str:
        return (self.stderr.splitlines() or [""])[-1]


class ForkServer:
    """The process to fork from; one command at a time."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faults.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def run(
        self,
        *arguments: str | Path,
        first: str = "",
        given: Mapping[str, Any] | None = None,
        meanwhile: Callable[[int], None] = lambda pid: None,
    ) -> Ended:
        """Run a command; the child first calls `first` (module:function) with the keywords `given`.

        `meanwhile` is called with the process id while the command runs.
        """
        outputs = [self.scratch / name for name in ("stdout", "stderr")]
        request = {
            "arguments": list(map(str, arguments)),
            "outputs": list(map(str, outputs)),
            "first": first,
            "given": dict(given or {}),
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        began = time.monotonic()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        meanwhile(int(self.process.stdout.readline()))
        status = int(self.process.stdout.readline())
        out, err = (path.read_text(encoding="utf-8", errors="replace") for path in outputs)
        return Ended(status, out, err, time.monotonic() - began)


@contextlib.contextmanager
def several(folder: Path, count: int) -> Iterator[list[ForkServer]]:
    """Start `count` processes to fork from."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(ForkServer(folder / f"fork-server-{i}")) for i in range(count)]


def serve() -> None:
    """Fork for every request until there are no more."""
    replies = os.fdopen(os.dup(1), "w")
    requests = os.fdopen(os.dup(0))
    with Path(os.devnull).open("r+b") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
    for module in (
        "transduce.cli",
        "transduce.training.train",
        "torch._dynamo",
        "sacrebleu",
        "rich",
    ):
        importlib.import_module(module)  # only imports: a fork loses torch's threads
    for line in requests:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            _run_command(request, replies, requests)
        _reply(replies, pid)
        _reply(replies, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _reply(replies: IO[str], number: int) -> None:
    replies.write(f"{number}\n")
    replies.flush()


def _run_command(request: dict[str, Any], *pipes: IO[str]) -> NoReturn:
    """Run the command of a request in this process, and exit."""
    status = 1
    try:
        for number, path in enumerate(request["outputs"], start=1):
            with Path(path).open("wb") as file:
                os.dup2(file.fileno(), number)
        for pipe in pipes:
            os.close(pipe.fileno())
        if request["first"]:
            module, _, function = request["first"].partition(":")
            getattr(importlib.import_module(module), function)(**request["given"])
        from transduce.cli import main

        sys.argv = ["transduce", *request["arguments"]]
        main()
    except SystemExit as end:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a real command would have ended here
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
