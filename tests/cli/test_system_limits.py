"""Full disks, missing permissions and too little memory end a command with one sentence."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_helpers import (
    SHORT,
    Files,
    train_command,
)
from conftest import (
    COMMAND,
    CommandLine,
    environment,
)

LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    "from transduce.cli import main; main()"
)


WITHOUT_PRIVILEGES = """
import ctypes, os, sys
if os.geteuid() == 0:  # root may do everything unless it gives up these two rights for good
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if ctypes.CDLL(None).prctl(24, right, 0, 0, 0):  # PR_CAPBSET_DROP
            sys.exit(77)
os.execv(sys.executable, [sys.executable, "-m", "transduce", *sys.argv[1:]])
"""


def in_own_process(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        # Not measured: the limits set here would stop coverage from writing its own file.
        env={name: value for name, value in environment().items() if "COVERAGE" not in name},
        check=False,
        timeout=120,
    )


def test_a_file_size_limit_ends_training_clearly_and_it_resumes_later(
    cli: CommandLine, tiny_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    arguments = train_command(tiny_files, tmp_path / "run")
    done = in_own_process(LIMITED, *arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "safetensors" in done.stderr.splitlines()[-1]
    leftovers = [path.name for path in (tmp_path / "run").rglob("*writing*")]
    assert leftovers == []
    result = cli(*arguments)
    assert result.status == 0, result.stderr
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("first_failure", [1, 4, 20, 40])
def test_a_full_disk_ends_training_clearly_and_it_resumes_later(
    first_failure: int,
    cli: CommandLine,
    tiny_files: Files,
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fsync, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= first_failure:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    arguments = train_command(tiny_files, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        error = cli(*arguments).error
    assert error.startswith("no space is left to write")
    assert "run the same command again" in error
    result = cli(*arguments)
    assert result.status == 0, result.stderr
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_results_that_cannot_be_written_are_an_error(tiny_files: Files) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "score", *map(str, (tiny_files[1], tiny_files[1]))],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: no space is left to write")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_missing_permissions_are_reported_with_the_path(tiny_files: Files, tmp_path: Path) -> None:
    secret, closed = tmp_path / "secret.de", tmp_path / "closed"
    shutil.copy(tiny_files[1], secret)
    secret.chmod(0o000)
    closed.mkdir(mode=0o555)
    read = in_own_process(WITHOUT_PRIVILEGES, "score", secret, tiny_files[1])
    if read.returncode == 77:
        pytest.skip("this root cannot give up its rights")
    assert read.returncode == 1
    assert read.stderr == f"error: {secret} may not be read: permission denied\n"
    write = in_own_process(WITHOUT_PRIVILEGES, *train_command(tiny_files, closed / "run"))
    closed.chmod(0o755)
    assert write.returncode == 1
    assert write.stderr.startswith(f"error: no permission to use {closed / 'run'}: ")
    assert len(write.stderr.splitlines()) == 1
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 12800000000000 bytes. Error code 12 (Cannot allocate "
            "memory)"
        ),
    ],
    ids=["python", "cuda", "cpu"],
)
def test_out_of_memory_is_reported_in_one_sentence(
    error: Exception,
    cli: CommandLine,
    tiny_files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("transduce.training.trainer.build", fail)
    assert cli(*train_command(tiny_files, tmp_path / "run")).error.startswith("out of memory")


def test_a_file_whose_name_is_not_unicode_can_be_trained_on(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    source = tmp_path / os.fsdecode(b"\xff.en")
    shutil.copy(tiny_files[0], source)
    result = cli(*train_command((source, tiny_files[1]), tmp_path / "run", SHORT))
    assert result.status == 0, result.stderr
