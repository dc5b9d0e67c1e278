"""Run commands in this process, with small texts and settings.

Starting Python and torch takes seconds; a command on these texts takes a quarter of a second.
"""

import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO
from unittest import mock

from conftest import TINY, Result, options, tiny_pairs, write_pairs

# Three checkpoints, two validations and an average, in a tenth of a second.
SMALLEST = TINY | {
    "d_model": "16",
    "d_ff": "16",
    "h": "1",
    "vocabulary": "270",
    "batch_tokens": "200",
    "steps": "6",
    "save_every": "2",
    "validate_every": "3",
    "validate_bleu": "1",
    "cooldown": "0",
    "log_every": "2",
}
CRASHED = 99  # the status of a command that ended in a traceback


def texts(folder: Path, pairs: int = 60, seed: int = 1) -> tuple[Path, Path]:
    """Write a source and a target text."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_pairs(folder, "tiny", tiny_pairs(pairs, seed))


def train_command(files: tuple[Path, Path], run: Path, **settings: str) -> list[str]:
    """Return the arguments that train the smallest model."""
    return [
        *("train", *map(str, files), "--out", str(run), "--preset", "tiny", "--device", "cpu"),
        *options(SMALLEST | settings),
    ]


def command(*arguments: str | Path, out: IO[str] | None = None) -> Result:
    """Run one command; its standard output goes to `out` if given."""
    from transduce.cli import main

    stderr, stdout = _stream("backslashreplace"), _stream("strict")
    status: int | str | None = 0
    with (
        redirect_stdout(out or stdout),
        redirect_stderr(stderr),
        mock.patch.object(sys, "argv", ["transduce", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(), "utf-8")),
        mock.patch.dict("os.environ", {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code
        except BaseException:  # a user would see a traceback
            traceback.print_exc()
            status = CRASHED
    return Result(int(status or 0), _written(stdout), _written(stderr))


def complaint(result: Result) -> str:
    """Return what is wrong with the output of a failed command, or an empty string."""
    lines = result.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if "Traceback" in result.stderr or result.status == CRASHED:
        return f"a traceback: {lines[-1] if lines else ''}"
    if result.status != 1:
        return f"status {result.status}: {lines[-1:]}"
    if len(errors) != 1 or lines[-1] != errors[0]:
        return f"expected one sentence: {lines[-3:]}"
    return ""


def _stream(errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors, newline="", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


@contextmanager
def caching_in(folder: Path) -> Iterator[None]:
    """Cache exports in this folder, and hashes of weights even of new files."""
    with (
        mock.patch.dict(os.environ, {"TRANSDUCE_CACHE": str(folder)}),
        mock.patch("transduce.interop.export.ctranslate2_cache.SETTLED", -1),
    ):
        yield
