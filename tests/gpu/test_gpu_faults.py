"""Non-finite gradients on a GPU are skipped on the device, without synchronising."""

import contextlib
import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from conftest import TINY, threads_kept

from transduce.checkpoints.checkpoint import load_tensors
from transduce.corpus.token_files import open_corpus
from transduce.errors import Diverged
from transduce.runs.folder import RunConfig, checkpoints
from transduce.system.progress import Silent
from transduce.training.gradient import GradientStep
from transduce.training.saving import Saver
from transduce.training.train import train
from transduce.training.trainer import Trainer

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

Files = tuple[Path, Path]
SETTINGS = TINY | {"steps": "12", "save_every": "4", "validate_every": "12", "log_every": "1"}


def trained(files: Files, out: Path, **changes: str) -> Path:
    with threads_kept():
        return train(*files, out=out, preset="tiny", settings=SETTINGS | changes, device="cuda")


@pytest.fixture(scope="module")
def run(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tiny_files, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def trainer(run: Path, tmp_path: Path) -> Iterator[Trainer]:
    """A trainer before its first step, in its own folder."""
    config, corpus = RunConfig.load(run), open_corpus(run / "corpus")
    trainer = Trainer(tmp_path, config, corpus, torch.device("cuda"), Silent())
    with contextlib.closing(trainer.prefetcher), trainer.log, trainer.saver:
        yield trainer


def training_state(trainer: Trainer) -> list[torch.Tensor]:
    """Return a copy of everything that a step changes: weights, moments, Adam's step count."""
    moments = [value for state in trainer.optimizer.state.values() for value in state.values()]
    return [tensor.detach().clone() for tensor in (*trainer.model.parameters(), *moments)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_an_update_with_a_non_finite_gradient_is_skipped_and_counted(
    trainer: Trainer, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass is one CUDA graph, which is replayed for the next updates."""
    trainer.update()
    before, sums = training_state(trainer), trainer.gradient_step.sums.clone()
    with monkeypatch.context() as patch:
        compute = GradientStep.compute

        def broken(self: GradientStep, update: object) -> None:
            compute(self, update)  # type: ignore[arg-type]
            grad = next(self.model.parameters()).grad
            assert grad is not None
            grad.view(-1)[0] = bad

        patch.setattr(GradientStep, "compute", broken)
        update = trainer.update()
    assert trainer.gradient_step.graphed
    assert trainer.gradient_step.skipped.item() == 1
    assert all(torch.equal(a, b) for a, b in zip(before, training_state(trainer), strict=True))
    assert torch.equal(trainer.gradient_step.sums, sums)
    assert trainer.gradient_step.counts[3:].tolist() == [1, update.tokens, 1]
    trainer.update()
    assert trainer.gradient_step.skipped.item() == 0
    assert trainer.gradient_step.counts[3:].tolist() == [1, update.tokens, 0]
    assert not any(torch.equal(a, b) for a, b in zip(before, training_state(trainer), strict=True))
    assert trainer.optimizer.state[next(trainer.model.parameters())]["step"].item() == 2


def test_a_step_does_not_synchronise_with_the_device(trainer: Trainer) -> None:
    for _ in range(2):
        trainer.update()
    torch.cuda.synchronize()
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.update()  # a synchronisation would raise
    finally:
        torch.cuda.set_sync_debug_mode(before)
    assert trainer.state.step == 3
    assert trainer.gradient_step.skipped.item() == 0


def test_non_finite_weights_end_the_run_and_are_not_saved(
    tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Trainer.update

    def poisoned(self: Trainer) -> object:
        done = update(self)
        if self.state.step == 6:
            with torch.no_grad():
                self.model.output.view(-1)[0] = math.nan
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", poisoned)
        with pytest.raises(Diverged, match=r"resumes from .*step-0000004"):
            trained(tiny_files, tmp_path / "run")
    assert [checkpoint.step for checkpoint in checkpoints(tmp_path / "run")] == [4]
    trained(tiny_files, tmp_path / "run")
    for checkpoint in checkpoints(tmp_path / "run"):
        for kind in ("weights", "optimizer"):
            tensors = load_tensors(checkpoint.path / f"{kind}.safetensors")
            assert all(t.isfinite().all() for t in tensors.values() if t.is_floating_point())
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert not any("skipped" in json.loads(line) for line in lines)


def test_a_snapshot_has_the_values_at_its_request_even_if_the_gpu_is_late() -> None:
    weight = torch.ones(1_000_000, device="cuda")
    written: list[float] = []
    with Saver(background=True) as saver:
        for number in range(4):
            torch.cuda._sleep(50_000_000)  # the copy runs long after its request
            snapshot = saver.snapshot({"weight": weight})["weight"]
            weight.fill_(number + 2.0)
            saver.submit(lambda snapshot=snapshot: written.append(float(snapshot.mean())))  # type: ignore[misc]
    assert written == [1, 2, 3, 4]


def test_a_pass_is_captured_while_another_thread_waits_for_an_event(trainer: Trainer) -> None:
    """As the one does that writes checkpoints, if a pass is cut into pieces meanwhile."""
    copied, ended = torch.cuda.Event(), threading.Event()
    copied.record()

    def wait() -> None:
        while not ended.is_set():
            copied.synchronize()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        try:
            trainer.update()
        finally:
            ended.set()
        waiting.result()
    assert trainer.gradient_step.graphs is not None
