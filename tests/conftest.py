"""Shared fixtures: tiny texts, a tiny run trained on them, and the command line."""

import hashlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
import torch

import browsing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

with warnings.catch_warnings():  # about unsuitable drivers
    warnings.simplefilter("ignore")
    GPU = torch.cuda.is_available()
if not GPU:  # our kernels then run in Triton's interpreter; set before they are imported
    os.environ["TRITON_INTERPRET"] = "1"

try:
    from hypothesis import settings as hypothesis_settings
except ImportError:  # the GPU tests do not need it
    pass
else:
    hypothesis_settings.register_profile("transduce", deadline=None, max_examples=50)
    hypothesis_settings.load_profile("transduce")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores Ctrl-C for background processes, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
torch.set_num_threads(1)  # faster for tiny models; results depend on the number of threads

pytest_plugins = ["shared_fixtures"]


@pytest.fixture(autouse=True)
def signals_kept() -> Iterator[None]:
    """Restore the signal handlers after each test."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Cache exports in a temporary folder, also in child processes."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSDUCE_CACHE", str(folder))
        yield folder


# A minimal Transformer, trained for a fraction of a second.
TINY = {
    "N": "1",
    "d_model": "32",
    "d_ff": "64",
    "h": "2",
    "d_k": "16",
    "d_v": "16",
    "vocabulary": "300",
    "batch_tokens": "400",
    "steps": "20",
    "save_every": "5",
    "validate_every": "10",
    "log_every": "5",
    "select": "average",
    "threads": "1",
}

LEARNT = TINY | {"N": "2", "steps": "150", "save_every": "150", "warmup": "40", "P_drop": "0"}

COMMAND = [sys.executable, "-m", "transduce"]

ARTICLES = [("a", "ein"), ("the", "der"), ("one", "jener"), ("every", "jeder")]
NOUNS = [("dog", "Hund"), ("man", "Mann"), ("tree", "Baum"), ("bird", "Vogel"), ("fish", "Fisch")]
VERBS = [("sees", "sieht"), ("likes", "mag"), ("finds", "findet"), ("paints", "malt")]
ENDS = [(".", "."), ("!", "!"), (" today.", " heute.")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip GPU tests on machines without a GPU."""
    if item.get_closest_marker("gpu") and not GPU:
        pytest.skip("needs a CUDA device")


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    status: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The error message: one line with the prefix, the last of stderr, and no traceback."""
        assert "Traceback" not in self.stderr, self.stderr
        errors = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self.stderr
        assert self.stderr.splitlines()[-1] == errors[0], self.stderr
        assert self.status == 1, self
        return errors[0].removeprefix("error: ")


class CommandLine(Protocol):
    """The command line, called with its arguments."""

    def __call__(
        self,
        *args: str | Path,
        input: str | bytes | None = None,  # noqa: A002
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run one command to its end."""


def options(settings: Mapping[str, str]) -> list[str]:
    """Return settings as --set options."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child process."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(env or {})}


def tiny_pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Generate short pairs of simple English and German sentences."""
    draw = random.Random(seed)

    def clause() -> tuple[str, str]:
        words = [draw.choice(kind) for kind in (ARTICLES, NOUNS, VERBS, ARTICLES, NOUNS)]
        return " ".join(left for left, _ in words), " ".join(right for _, right in words)

    pairs = []
    for _ in range(count):
        clauses = [clause() for _ in range(draw.randint(1, 3))]
        end = draw.choice(ENDS)
        left = " and ".join(left for left, _ in clauses) + end[0]
        right = " und ".join(right for _, right in clauses) + end[1]
        pairs.append((left, right))
    return pairs


def write_pairs(folder: Path, stem: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write pairs as two files of lines."""
    paths = folder / f"{stem}.en", folder / f"{stem}.de"
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return paths


def snapshot(folder: Path) -> dict[str, str]:
    """Return the hash of every file of a folder, except the lock."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@contextmanager
def threads_kept() -> Iterator[None]:
    """Restore torch's number of threads, which commands change."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source and a target text of 300 lines, tiny.en and tiny.de."""
    return write_pairs(tmp_path_factory.mktemp("texts"), "tiny", tiny_pairs(300))


@pytest.fixture(scope="session")
def tiny_run(
    tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A finished run, not to be changed; `own_run` is a copy."""
    from transduce.training.train import train

    run = tmp_path_factory.mktemp("runs") / "tiny"
    with threads_kept():
        train(*tiny_files, out=run, settings=TINY, preset="tiny", device="cpu")
    before = snapshot(run)
    yield run
    assert snapshot(run) == before, "a test has changed the shared run"


@pytest.fixture(scope="session")
def learnt_run(tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run trained until its output consists of words and ends, for copying."""
    from transduce.training.train import train

    run = tmp_path_factory.mktemp("learnt") / "en-de"
    with threads_kept():
        train(*tiny_files, out=run, settings=LEARNT, preset="tiny", device="cpu")
    return run


@pytest.fixture
def own_run(tiny_run: Path, tmp_path: Path) -> Path:
    """A finished run to change."""
    return Path(shutil.copytree(tiny_run, tmp_path / "own_run"))


@pytest.fixture(scope="module")  # not longer: while it is open, no event loop can run here
def browser() -> Iterator["Browser"]:
    """A real browser; `browsing.opened` opens a page of it."""
    with browsing.chromium() as started:
        yield started


@pytest.fixture
def run_cli() -> CommandLine:
    """The command line in a child process."""

    def run(
        *args: str | Path,
        input: str | bytes | None = None,  # noqa: A002
        env: Mapping[str, str] | None = None,
    ) -> Result:
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [*COMMAND, *map(str, args)],
            input=data or b"",
            capture_output=True,
            env=environment(env),
            check=False,
            timeout=120,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """The command line in this process: faster to start, without signals."""

    def run(
        *args: str | Path,
        input: str | bytes | None = None,  # noqa: A002
        env: Mapping[str, str] | None = None,
    ) -> Result:
        from transduce.cli import main

        data = input.encode() if isinstance(input, str) else input
        out, err = _stream("strict"), _stream("backslashreplace")  # as Python makes them
        status: str | int | None = None
        with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["transduce", *map(str, args)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data or b""), "utf-8"))
            for name, value in {"COLUMNS": "200", **(env or {})}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as end:
                main()
            status = end.value.code
        assert status is None or isinstance(status, int)
        return Result(status or 0, _written(out), _written(err))

    monkeypatch.setattr(
        "transduce.translation.engines.pytorch.cores", lambda: 1
    )  # faster for tiny models
    with threads_kept():
        yield run


def _stream(errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors, newline="", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8", "surrogateescape")
