"""Out of memory: updates are cut into micro-batches with the same gradient."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_steps import (
    CPU_IS_FULL,
    GPU_IS_FULL,
    SENTENCES,
    assert_same,
    expected_gradient,
    gradient_of,
    limit_memory,
    make_step,
    on_path,
)
from small_training import Recorder, records, train_tiny
from torch import Tensor

from transduce.batching.packed import Batch
from transduce.checkpoints.checkpoint import load_tensors
from transduce.corpus.updates import DataPosition
from transduce.model.transformer import Transformer
from transduce.training import gradient
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import Objective


@pytest.mark.parametrize("error", [CPU_IS_FULL, GPU_IS_FULL], ids=["CPU", "GPU"])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_out_of_memory_doubles_the_micro_batches_and_keeps_the_gradient(
    path: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    messages: list[str] = []
    step = make_step(say=messages.append)
    sizes = limit_memory(monkeypatch, 150, error)
    assert_same(gradient_of(step), expected_gradient())
    assert messages == [
        f"out of memory with {tokens} tokens at a time: from now on {tokens // 2}, "
        f"{pieces} times for each update, which learns the same"
        for tokens, pieces in ((400, 2), (200, 4))
    ]
    sizes.clear()
    assert_same(gradient_of(step), expected_gradient())
    assert len(sizes) > 1  # sizes that did not fit are not tried again
    assert max(sizes) <= 150
    assert len(messages) == 2


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_losses_before_memory_ran_out_count_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    messages: list[str] = []
    step = make_step(accumulate=2, say=messages.append)
    original, calls = Objective.forward, []

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, ...]:
        calls.append(batch)
        if len(calls) == 2:
            raise GPU_IS_FULL
        return original(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    assert_same(gradient_of(step), expected_gradient())
    assert len(messages) == 1
    assert len(calls) > 2 + 2


def test_an_update_prepared_before_the_cut_is_prepared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = make_step(say=lambda _: None)
    before = step.prepare(SENTENCES, DataPosition(0, 1), 0.5)
    limit_memory(monkeypatch, 250)
    gradient_of(step)
    step.sums.zero_()
    step.compute(before)
    gradients = [weight.grad for weight in step.model.parameters() if weight.grad is not None]
    assert_same([step.sums, *gradients], expected_gradient())


@pytest.mark.parametrize("path", ["packed", pytest.param("grouped", marks=pytest.mark.long)])
def test_the_error_is_raised_if_micro_batches_cannot_be_smaller(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    messages: list[str] = []
    step = make_step(say=messages.append)
    limit_memory(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        gradient_of(step)
    assert 400 // step.micro_batches <= 20  # the longest possible sentence
    assert len(messages) == 5


def test_other_errors_are_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    step = make_step(say=messages.append)
    sizes = limit_memory(monkeypatch, 0, RuntimeError("mat1 and mat2 cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        gradient_of(step)
    assert (len(sizes), messages) == (1, [])


def test_several_processes_do_not_cut_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    step = make_step(say=messages.append)
    step.processes = Processes(0, 2)
    limit_memory(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        gradient_of(step)
    assert messages == []


def test_memory_is_freed_before_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Objective.forward
    filling: list[weakref.ref[Tensor]] = []
    left: list[Tensor | None] = []

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, ...]:
        if not filling:
            large = torch.empty(1000)
            filling.append(weakref.ref(large))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    monkeypatch.setattr("gc.collect", lambda: left.append(filling[0]()))
    gradient_of(make_step(say=lambda _: None))
    assert left == [None]


class FakeGraphs:
    """A fake CUDA graph: the first pass of an update writes the gradient, others add to it."""

    def __init__(
        self, batch: Batch, run: Callable[[Batch], None], model: Transformer, sums: Tensor
    ) -> None:
        self.run, self.model, self.shape = run, model, batch.places

    def replay(self, batch: Batch, *, first: bool) -> None:
        assert batch.places == self.shape
        if first:
            self.model.zero_grad()
        self.run(batch)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_graph_gives_the_same_gradient_also_when_memory_runs_out(
    accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, "packed")
    monkeypatch.setattr(gradient, "Graphs", FakeGraphs)
    messages: list[str] = []
    step = make_step(accumulate=accumulate, say=messages.append)
    step.graphed = True
    assert step.path == "packed, float32, CUDA graph"
    for _ in range(2):
        assert_same(gradient_of(step), expected_gradient())
    first: Any = step.graphs
    assert isinstance(first, FakeGraphs)
    assert messages == []
    limit_memory(monkeypatch, first.shape[0] - 1)
    for _ in range(2):
        assert_same(gradient_of(step), expected_gradient())
    second: Any = step.graphs
    assert isinstance(second, FakeGraphs)
    assert second is not first  # captured again, for smaller batches
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError("operation not permitted\nwhen stream is capturing"),
            "CUDA graphs do not work here, which is slower: RuntimeError: when stream is capturing",
        ),
        (GPU_IS_FULL, "out of memory with 400 tokens at a time"),
    ],
    ids=["capture", "memory"],
)
def test_without_a_graph_or_with_a_smaller_one_if_capturing_fails(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, "packed")

    def recorded(batch: Batch, *others: Any) -> FakeGraphs:
        if max(batch.places) >= 400:
            raise error
        return FakeGraphs(batch, *others)

    monkeypatch.setattr(gradient, "Graphs", recorded)
    messages: list[str] = []
    step = make_step(say=messages.append)
    step.graphed = True
    for _ in range(2):
        assert_same(gradient_of(step), expected_gradient())
    assert len(messages) == 1
    assert messages[0].startswith(line)
    assert step.graphed == (error is GPU_IS_FULL)


@pytest.mark.parametrize(("fits", "pieces"), [(400, 1), (150, 4)])
def test_probing_finds_micro_batches_that_fit_and_changes_nothing_else_on_a_fake_gpu(
    fits: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a fake GPU: tensors moved there stay on the CPU."""
    monkeypatch.setattr(Batch, "to", lambda batch, _: batch)
    monkeypatch.setattr(Batch, "pinned", lambda batch: batch)
    monkeypatch.setattr(torch.cuda, "get_rng_state", torch.get_rng_state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", torch.set_rng_state)
    on_path(monkeypatch, "packed")
    messages: list[str] = []
    step = make_step(P_drop=0.1, accumulate=None, say=messages.append)
    step.device = torch.device("cuda")
    step.sums += torch.tensor([3.0, 2.0])  # as in the window of a resumed run
    sizes, before = limit_memory(monkeypatch, fits), torch.get_rng_state()
    step.probe_memory()
    assert step.micro_batches == pieces
    assert sizes[-1] <= fits
    assert messages[-1] == (
        f"400 tokens per side in {pieces} micro-batch{'es' * (pieces > 1)}: "
        "the largest that fit in memory"
    )
    assert step.sums.tolist() == [3.0, 2.0]
    assert torch.equal(torch.get_rng_state(), before)


def test_memory_is_probed_only_on_a_gpu() -> None:
    messages: list[str] = []
    step = make_step(accumulate=None, say=messages.append)
    step.probe_memory()
    assert step.micro_batches == 1
    (message,) = messages
    assert message.startswith("accumulate = none: memory is probed only by one process on a GPU")


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_a_run_out_of_memory_continues_and_learns_the_same(
    path: str, tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    changes = {"P_drop": "0", "max_len": "60", "batch_tokens": "600"}
    whole = train_tiny(tiny_files, tmp_path / "whole", changes)
    limit_memory(monkeypatch, 400)
    progress = Recorder()
    out = train_tiny(tiny_files, tmp_path / "run", changes, progress)
    assert len([line for line in progress.lines if line.startswith("out of memory")]) == 1
    for ours, theirs in zip(records(out), records(whole), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    tensors, exact = (load_tensors(run / "model.safetensors") for run in (out, whole))
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, exact[name], rtol=1e-3, atol=1e-4)
