"""Devices are chosen and cores counted; what is missing is refused."""

import os
import warnings

import pytest
import torch

from transduce.errors import BadSetting
from transduce.system.devices import choose_device
from transduce.system.processes import cores


def test_auto_is_the_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    for there, name in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert choose_device("auto", messages.append) == torch.device(name)
        assert messages == []
        assert choose_device("cpu") == torch.device("cpu")


def test_a_missing_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_auto_uses_the_cpu_and_says_why_if_the_driver_is_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", too_old)
    messages: list[str] = []
    assert choose_device("auto", messages.append) == torch.device("cpu")
    (line,) = messages
    assert line == (
        "the GPU cannot be used, using the CPU: "
        "CUDA initialization: The NVIDIA driver on your system is too old"
    )
    assert choose_device("cpu", messages.append) == torch.device("cpu")
    assert len(messages) == 1


def test_an_old_driver_is_named_when_cuda_is_refused(
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


def test_only_cores_that_the_process_may_use_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
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
