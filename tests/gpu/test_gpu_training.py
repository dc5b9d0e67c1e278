"""Training on a GPU: gradients, CUDA graphs, memory, whole runs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, threads_kept
from gpu_steps import KINDS, PAIRS, SENTENCES, assert_same, gradient_of, gradient_step_on

from models import pairs_of, part_of, realistic, small_model
from reference import distance
from transduce.batching.prefetch import Update
from transduce.batching.static import pack
from transduce.config import TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.system.devices import choose_device
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.training.train import train
from transduce.training.trainer import Trainer

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


# --- The gradient step ----------------------------------------------------------------------------


def test_the_fastest_path_is_chosen_without_warnings() -> None:
    messages: list[str] = []
    assert choose_device("auto", messages.append).type == "cuda"
    assert gradient_step_on(messages=messages).path == "packed, bf16, CUDA graph"
    assert messages == []


@pytest.mark.parametrize(
    ("recipe", "tolerance", "gradient_tolerance"),
    [
        ({"precision": "float32"}, 1e-5, 1e-4),
        ({"precision": "bf16"}, 5e-3, 5e-2),
        ({"precision": "bf16", "accumulate": 3}, 5e-3, 5e-2),
        ({"precision": "bf16", "kernels": False}, 5e-3, 5e-2),
        ({"precision": "float32", "kernels": False}, 1e-5, 1e-3),
    ],
    ids=str,
)
def test_every_path_has_the_loss_and_the_gradients_of_the_cpu(
    recipe: dict[str, Any], tolerance: float, gradient_tolerance: float
) -> None:
    messages: list[str] = []
    cpu_sums, *cpu_gradients = gradient_of(gradient_step_on("cpu", messages=messages))
    sums, *gradients = gradient_of(gradient_step_on(messages=messages, **recipe))
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    assert distance(sums, cpu_sums) < tolerance
    assert_same(gradients, cpu_gradients, gradient_tolerance)
    assert messages == []


@pytest.mark.parametrize("model", KINDS, ids=str)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_other_attention_has_the_loss_and_the_gradients_of_the_cpu(
    model: dict[str, Any], precision: str
) -> None:
    messages: list[str] = []
    ours = gradient_step_on(messages=messages, model=model, precision=precision)
    additive = "attention" in model
    assert ours.path == (
        f"grouped, {precision}" if additive else f"packed, {precision}, CUDA graph"
    )
    assert len(messages) == additive
    tolerance, gradient_tolerance = {"float32": (1e-5, 1e-3), "bf16": (5e-3, 6e-2)}[precision]
    cpu_sums, *cpu_gradients = gradient_of(gradient_step_on("cpu", messages=messages, model=model))
    sums, *gradients = gradient_of(ours)
    assert distance(sums, cpu_sums) < tolerance
    assert_same(gradients, cpu_gradients, gradient_tolerance)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_captured_pass_computes_what_a_plain_pass_computes(
    precision: str, accumulate: int
) -> None:
    """For several updates; the first one is captured."""
    messages: list[str] = []
    recipe: dict[str, Any] = {"precision": precision, "accumulate": accumulate}
    graphed, plain = (
        gradient_step_on(messages=messages, **recipe),
        gradient_step_on(messages=messages, **recipe),
    )
    plain.graphed = False
    tolerance = {"float32": 1e-5, "bf16": 2e-2}[precision]
    for sentences in (SENTENCES, SENTENCES[:30], SENTENCES[20:]):
        assert_same(gradient_of(graphed, sentences), gradient_of(plain, sentences), tolerance)
    assert graphed.graphs is not None
    assert plain.graphs is None
    assert messages == []


def test_each_replay_of_a_graph_draws_new_dropout_from_the_seed() -> None:
    gradient_step = gradient_step_on(P_drop=0.1, messages=[])
    first = gradient_of(gradient_step)  # captures the graph
    again = gradient_of(gradient_step)  # gradient_of sets the seed
    gradient_step.sums.zero_()
    gradient_step.compute(gradient_step.prepare(SENTENCES, DataPosition(0, 1), 0.5))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], gradient_step.sums)


def test_recomputing_layers_gives_the_same_gradient() -> None:
    messages: list[str] = []
    plain = gradient_step_on(P_drop=0.1, precision="float32", messages=messages)
    plain.graphed = False
    recomputing = gradient_step_on(
        P_drop=0.1, precision="float32", recompute=True, messages=messages
    )
    assert recomputing.path == "packed, float32"
    assert_same(gradient_of(recomputing), gradient_of(plain), 1e-5)


def test_a_pinned_batch_equals_the_batch() -> None:
    plain = pack(part_of(PAIRS[:5]), np.arange(5), (384, 384))
    pinned = plain.pinned()
    assert pinned.flat is not None
    assert plain.flat is not None
    assert pinned.flat.is_pinned()
    assert torch.equal(pinned.flat, plain.flat)
    assert (pinned.used, pinned.places) == (plain.used, plain.places)


# --- Memory ---------------------------------------------------------------------------------------


@contextmanager
def memory_limit(extra: int) -> Iterator[None]:
    """Limit torch to this many more bytes than it holds now."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + extra) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


def large_step(messages: list[str], **recipe: Any) -> GradientStep:
    """Return a gradient step whose update of 25,000 tokens needs GiBs of memory."""
    lengths = realistic(900, longest=64)
    model = small_model(P_drop=0.0, N=3, d_model=512, d_ff=2048, h=8, d_k=64, d_v=64, max_len=64)
    config = TrainConfig(batch_tokens=25_000, **recipe)
    part = part_of(pairs_of(lengths))
    return GradientStep(model.train().to("cuda"), config, part, Processes(), messages.append)


def test_out_of_memory_an_update_is_cut_into_micro_batches_with_the_same_gradient() -> None:
    messages: list[str] = []
    gradient_step = large_step(messages)
    sentences = gradient_step.layout.updates(np.random.default_rng(0))[0]
    whole = gradient_of(gradient_step, sentences)
    assert messages == []
    del gradient_step
    gradient_step = large_step(messages)
    with memory_limit(3 * 2**29):
        found = gradient_of(gradient_step, sentences)
    assert gradient_step.micro_batches > 1
    assert messages
    assert all(line.startswith("out of memory with ") for line in messages)
    assert_same(found, whole, 2e-2)


def test_probing_finds_micro_batches_that_fit_and_changes_nothing_else() -> None:
    messages: list[str] = []
    gradient_step = large_step(messages, accumulate=None)
    torch.manual_seed(3)
    before = torch.cuda.get_rng_state()
    gradient_step.sums.fill_(3.0)  # as in a resumed run
    with memory_limit(3 * 2**29):
        gradient_step.probe_memory()
    assert gradient_step.micro_batches > 1
    assert messages[-1] == (
        f"25,000 tokens per side in {gradient_step.micro_batches} micro-batches: "
        "the largest that fit in memory"
    )
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert gradient_step.sums.tolist() == [3.0, 3.0]


# --- Whole runs -----------------------------------------------------------------------------------


class Killed(Exception):
    """Simulates kill -9."""


def trained(files: tuple[Path, Path], out: Path, **changes: str) -> Path:
    settings = TINY | {"steps": "30", "validate_every": "15", "validate_bleu": "5"} | changes
    with threads_kept():
        return train(*files, out=out, settings=settings, preset="tiny", device="cuda")


def test_training_lowers_the_loss(tiny_files: tuple[Path, Path], tmp_path: Path) -> None:
    out = trained(tiny_files, tmp_path / "run", warmup="20", lr_scale="2")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    valid = [line["valid_loss"] for line in lines if "valid_loss" in line]
    assert [line["step"] for line in lines if "loss" in line] == [5, 10, 15, 20, 25, 30]
    assert losses[-1] < losses[0] - 0.5
    assert valid[-1] < valid[0]


@pytest.mark.parametrize("kernels", ["true", "false"])
def test_a_killed_and_resumed_run_ends_with_the_same_bits(
    kernels: str, tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, whose random state is restored, with and without CUDA graphs."""
    changes = {"P_drop": "0.1", "kernels": kernels}
    whole = trained(tiny_files, tmp_path / "whole", **changes)
    original = Trainer.update

    def dying(self: Trainer) -> Update:
        if self.state.step == 17:
            raise Killed
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(Killed):
            trained(tiny_files, tmp_path / "run", **changes)
    again = trained(tiny_files, tmp_path / "run", **changes)
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
