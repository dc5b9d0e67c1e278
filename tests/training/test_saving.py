"""Background saving writes snapshots in order, and reports errors."""

import threading
from pathlib import Path

import pytest
import torch
from conftest import TINY, snapshot, threads_kept

from transduce.training.saving import MOST_WAITING, Saver
from transduce.training.train import train


def test_in_the_background_writes_are_done_in_order() -> None:
    gate, written = threading.Event(), list[float]()
    weight = torch.ones(1)

    def write(tensor: torch.Tensor) -> None:
        gate.wait()
        written.append(tensor.item())

    with Saver(background=True) as saver:
        for _ in range(MOST_WAITING):
            tensors = saver.snapshot({"weight": weight})
            saver.submit(lambda tensors=tensors: write(tensors["weight"]))  # type: ignore[misc]
            weight += 1
        saver.poll()
        assert saver.busy
        assert written == []
        gate.set()
        saver.submit(lambda: written.append(0.0))
        saver.wait()
    assert written == [1.0, 2.0, 0.0]


def test_on_a_cpu_writes_are_synchronous_and_without_copies() -> None:
    weight, written = torch.ones(1), list[float]()
    with Saver(background=False) as saver:
        assert saver.snapshot({"weight": weight})["weight"] is weight
        saver.submit(lambda: written.append(1.0))
        assert written == [1.0]
        assert not saver.busy


def fail() -> None:
    raise OSError(28, "No space left on device")


def test_an_error_of_a_write_is_raised_at_the_next_poll_or_wait() -> None:
    with pytest.raises(OSError, match="No space left"), Saver(background=True) as saver:
        saver.submit(fail)
    saver = Saver(background=True)
    saver.submit(fail)
    while saver.busy:
        pass
    with pytest.raises(OSError, match="No space left"):
        saver.poll()


def test_nothing_is_written_after_a_write_has_failed() -> None:
    """A checkpoint must not refer to best weights that are missing."""
    gate, written = threading.Event(), list[float]()

    def fail_late() -> None:
        gate.wait()
        fail()

    saver = Saver(background=True)
    saver.submit(fail_late)
    saver.submit(lambda: written.append(1.0))
    gate.set()
    with pytest.raises(OSError, match="No space left"):
        saver.wait()
    saver.wait()
    assert written == []


def test_another_error_takes_precedence_over_that_of_a_write() -> None:
    with pytest.raises(ValueError, match="another"), Saver(background=True) as saver:  # noqa: PT012
        saver.submit(fail)
        raise ValueError("another")


def test_a_run_saved_in_the_background_has_the_same_files(
    tiny_files: tuple[Path, Path], tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "transduce.training.trainer.Saver", lambda background: Saver(background=not background)
    )
    with threads_kept():
        out = train(*tiny_files, out=tmp_path / "run", settings=TINY, preset="tiny", device="cpu")
    expected = {k: v for k, v in snapshot(tiny_run).items() if "export" not in k}
    found = snapshot(out)
    weights = [name for name in found if name.endswith(".safetensors")]
    assert len(weights) > 6
    assert all(found[name] == expected[name] for name in weights)
