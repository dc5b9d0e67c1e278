"""Processes: what they agree on, their devices, signals and environment."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import (
    TINY,
    CommandLine,
    options,
)

from transduce import cli
from transduce.errors import BadSetting
from transduce.system.processes import cores
from transduce.system.signals import ignore_signals, signals_as_interrupt, stop_signals
from transduce.training.distributed.processes import Processes, _own_gpu, join_processes


def test_one_process_agrees_with_itself() -> None:
    single = Processes()
    assert single.first
    assert single.agree(1.5, True) == (1.5, True)
    assert single.agree(2.5, False) == (2.5, False)
    assert single.total(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert single.from_first(lambda: "value") == "value"
    with join_processes(torch.device("cpu")) as (processes, device):
        assert (processes, device) == (single, torch.device("cpu"))


def test_processes_share_the_threads_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [Processes(0, 2, here).share(8) for here in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    for threads, expected in (("1", 8), ("3", 6), ("", 8)):  # torchrun sets 1 by default
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert cores() == expected


@pytest.fixture
def handlers() -> Iterator[None]:
    """Restore the signal handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_several_signals_stop_a_process_once_and_later_ones_are_ignored() -> None:
    """torchrun may repeat a scheduler's signal, and send another when a process has ended."""
    with signals_as_interrupt(), stop_signals(several=True) as interrupted:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert interrupted()
        ignore_signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)


def test_a_process_that_fails_alone_reports_why(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """If the first process fails for the same reason, torchrun ends this one before it reports."""
    waited: list[float] = []
    with monkeypatch.context() as patch:
        patch.setenv("LOCAL_RANK", "1")
        patch.setenv("WORLD_SIZE", "2")
        patch.setattr(sys, "argv", ["transduce", "distill", "nowhere", "text", "--out", "run"])
        patch.setattr(time, "sleep", waited.append)
        before = sys.stdout
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, getattr(sys, name))  # restored afterwards
        with pytest.raises(SystemExit):
            cli.main()
        assert sys.stdout is not before
        sys.stdout.close()
    assert waited == [cli.SECONDS_FOR_FIRST_PROCESS]
    assert "error: there is no run folder nowhere" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ({"LOCAL_RANK": "1"}, ("translate", "RUN")),
        ({"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"}, ("translate", "RUN")),
        ({"LOCAL_RANK": "1"}, ("--debug", "info", "RUN")),
        ({"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"}, ("--version",)),
    ],
    ids=str,
)
def test_commands_that_do_not_train_print_in_every_process(
    variables: dict[str, str], arguments: tuple[str, ...], tiny_run: Path, cli: CommandLine
) -> None:
    words = [str(tiny_run) if word == "RUN" else word for word in arguments]
    expected = cli(*words, input="a dog\n")
    assert expected.stdout
    assert cli(*words, input="a dog\n", env=variables).stdout == expected.stdout


def test_a_single_process_prints_whatever_its_rank_variable(
    tiny_files: tuple[Path, Path], tmp_path: Path, run_cli: CommandLine
) -> None:
    command: list[str | Path] = [
        "train",
        *tiny_files,
        "--out",
        tmp_path / "run",
        "--preset",
        "tiny",
    ]
    found = run_cli(*command, *options(TINY | {"steps": "1"}), env={"LOCAL_RANK": "1", "RANK": "1"})
    assert found.status == 0
    assert " translate " in found.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE = 'two' in the environment: expected a whole number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE = '0' in the environment: expected a whole number of at"),
        ({"WORLD_SIZE": "-2", "LOCAL_RANK": "1"}, "WORLD_SIZE = '-2' in the environment"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "one"}, "WORLD_SIZE = 2 but no RANK"),
        ({"LOCAL_WORLD_SIZE": "many"}, "LOCAL_WORLD_SIZE = 'many' in the environment"),
        (
            {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
            "RANK = 2 and WORLD_SIZE = 2: expected a rank below the number of processes",
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "http"},
            "MASTER_PORT = 'http' in the environment",
        ),
    ],
    ids=str,
)
def test_an_environment_that_torchrun_would_not_set_is_refused(
    variables: dict[str, str],
    message: str,
    tiny_files: tuple[Path, Path],
    tmp_path: Path,
    cli: CommandLine,
) -> None:
    command: list[str | Path] = ["train", *tiny_files, "--out", tmp_path / "run", "--device", "cpu"]
    assert message in cli(*command, env=variables).error
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize("command", ["distill", "translate"])
def test_every_command_refuses_variables_of_torchrun_that_are_not_numbers(
    command: str, tiny_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    variable = {"distill": "WORLD_SIZE", "translate": "LOCAL_WORLD_SIZE"}[command]
    out: list[str | Path] = ["--out", tmp_path / "run"] if command == "distill" else []
    engine = ["--engine", "ctranslate2"] if command == "translate" else []
    result = cli(command, tiny_run, tiny_files[0], *out, *engine, env={variable: "two"})
    assert f"{variable} = 'two' in the environment" in result.error


@pytest.mark.parametrize(
    ("rank", "processes", "gpus"),
    [(0, 2, 2), (1, 2, 2), (1, 2, 8), pytest.param(0, 8, 1, id="each is shown its own")],
)
def test_each_process_takes_its_own_gpu(
    rank: int, processes: int, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = machine_with(gpus, rank, processes, monkeypatch)
    assert _own_gpu() == torch.device("cuda", rank)
    assert taken == [rank]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_more_processes_than_gpus_are_refused(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = machine_with(2, rank, 3, monkeypatch)
    with pytest.raises(BadSetting) as caught:
        _own_gpu()
    assert str(caught.value) == (
        "3 processes were started on a machine with 2 GPUs: "
        "expected at most 2 (torchrun --nproc-per-node), or --device cpu"
    )
    assert not taken


def machine_with(
    gpus: int, rank: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """Fake a machine and one of its processes; return the GPUs that it takes."""
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    return taken


def test_an_environment_without_a_rank_and_an_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with (
        pytest.raises(BadSetting, match="WORLD_SIZE = 2 but no RANK"),
        join_processes(torch.device("cpu")),
    ):
        pass
