"""Signals, devices and cores of the machine."""

import os
import signal
import threading
import warnings

import pytest
import torch

from transduce.errors import BadSetting, Interrupted
from transduce.system.devices import choose_device
from transduce.system.processes import cores
from transduce.system.signals import signals_as_interrupt, stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_the_second_ends(number: signal.Signals) -> None:
    with stop_signals() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), number)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_the_handlers_of_before_come_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with stop_signals():
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before
    with pytest.raises(ValueError, match="bad"), stop_signals():
        raise ValueError("bad")
    with signals_as_interrupt():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_between_steps_ends_at_once_and_says_how_to_go_on(number: signal.Signals) -> None:
    with pytest.raises(Interrupted, match="the same command continues"), signals_as_interrupt():
        os.kill(os.getpid(), number)
    with pytest.raises(ValueError, match="bad"), signals_as_interrupt():
        raise ValueError("bad")


def test_what_may_be_given_up_ends_at_the_first_signal() -> None:
    def hang_up() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        return 2

    with stop_signals() as interrupted:
        assert interrupted.run_unless_stopped(lambda: 1) == 1
        assert interrupted.run_unless_stopped(hang_up) is None
        assert interrupted()
        assert interrupted.run_unless_stopped(lambda: 1) is None


def test_a_hang_up_that_nohup_has_had_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_as_interrupt(), stop_signals() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    found: list[bool] = []

    def work() -> None:
        with signals_as_interrupt(), stop_signals() as interrupted:
            found.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for there, name in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert choose_device("auto", said.append) == torch.device(name)
        assert said == []
        assert choose_device("cpu") == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadSetting, match=r"^device = 'cuda': .* no CUDA device"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("cuda") == torch.device("cuda")


def too_old() -> bool:
    warnings.warn(
        "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). "
        "Please update your GPU driver (Triggered internally at CUDAFunctions.cpp:119.)",
        stacklevel=2,
    )
    return False


def test_a_driver_that_is_too_old_leaves_the_cpu_and_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", too_old)
    said: list[str] = []
    assert choose_device("auto", said.append) == torch.device("cpu")
    (line,) = said
    assert line == (
        "the GPU cannot be used, using the CPU: "
        "CUDA initialization: The NVIDIA driver on your system is too old"
    )
    assert choose_device("cpu", said.append) == torch.device("cpu")
    assert len(said) == 1


def test_a_driver_that_is_too_old_is_the_reason_why_cuda_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", too_old)
    with pytest.raises(BadSetting) as caught:
        choose_device("cuda")
    assert str(caught.value) == (
        "device = 'cuda': CUDA initialization: The NVIDIA driver on your system is too old; "
        "--device cpu works everywhere"
    )


@pytest.mark.parametrize("name", ["tpu", "gpu", "", "CPU", "meta"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(BadSetting) as caught:
        choose_device(name)
    assert str(caught.value).startswith(
        f"device = {name!r}: expected auto, cpu, cuda, mps, or cuda:1"
    )


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    allowed = os.sched_getaffinity(0)
    assert cores() == len(allowed)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert cores() == 3
    for odd in ("", "none", "-1", "0.5", "1e3"):
        monkeypatch.setenv("OMP_NUM_THREADS", odd)
        assert cores() == len(allowed)


@pytest.mark.parametrize("threads", ["1025", "99999999", "9" * 30, "9" * 5_000], ids=len)
def test_more_threads_than_openmp_can_start_are_refused(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    with pytest.raises(
        BadSetting, match=r"^OMP_NUM_THREADS is \d+ in the environment: expected at"
    ):
        cores()
