"""An update has one gradient, whichever way and in however many pieces it is computed."""

import json
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, threads_kept, tiny_pairs, write_pairs
from torch import Tensor

from models import pairs_of, part_of, small_model
from reference import distance
from transduce.batching.layouts import GroupedLayout
from transduce.batching.packed import Batch, make_batch
from transduce.batching.prefetch import Update
from transduce.batching.static import PackedLayout
from transduce.checkpoints.checkpoint import load_tensors
from transduce.config import ModelConfig, TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.errors import BadSetting, summarize_error
from transduce.model import loss as losses
from transduce.model.ops import kernels
from transduce.model.ops.kernels import Kernels
from transduce.model.transformer import Transformer
from transduce.system.progress import Silent
from transduce.training import gradient as engines
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep, Objective, choose_path
from transduce.training.train import train
from transduce.training.trainer import Trainer

LENGTHS = [(2 + i % 17, 3 + (5 * i) % 15) for i in range(40)]
PAIRS = pairs_of(LENGTHS)
SENTENCES = np.random.default_rng(1).permutation(len(PAIRS))

CPU_IS_FULL = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 1000 bytes. Error code 12 (Cannot allocate memory)"
)
GPU_IS_FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def on_path(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Let the CPU take the path of a GPU, or its own."""
    if path == "packed":
        monkeypatch.setattr(engines, "choose", lambda *_: (True, "float32"))


def made(
    *, P_drop: float = 0.0, d_v: int = 8, say: Callable[[str], None] = print, **recipe: Any
) -> GradientStep:
    """An gradient_step whose updates of 400 tokens hold all the pairs."""
    model = small_model(P_drop=P_drop, d_v=d_v, max_len=20, N=1).train()
    told = TrainConfig(batch_tokens=400, **recipe)
    return GradientStep(model, told, part_of(PAIRS), Processes(), say)


def gradient_of(gradient_step: GradientStep) -> list[Tensor]:
    """The losses' sums and the gradients of the update."""
    gradient_step.sums.zero_()
    torch.manual_seed(0)
    gradient_step.compute(gradient_step.prepare(SENTENCES, DataPosition(0, 1), 0.5))
    gradients = [parameter.grad for parameter in gradient_step.model.parameters()]
    return [gradient_step.sums.clone(), *(one.clone() for one in gradients if one is not None)]


def expected() -> list[Tensor]:
    """The same from one batch: sums, and the gradient of the mean over tokens."""
    model, batch = small_model(P_drop=0.0, max_len=20, N=1).train(), make_batch(PAIRS)
    smoothed, nll = losses.loss(model(batch), model.output, batch.labels, 0.1)
    gradients = torch.autograd.grad(smoothed / batch.target_tokens, list(model.parameters()))
    return [torch.stack([smoothed.detach(), nll]), *gradients]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-5) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert distance(one, other) < tolerance


# --- One gradient ------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [1, 2, 3, None])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_the_gradient_does_not_depend_on_the_number_of_pieces(
    path: str, accumulate: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    gradient_step = made(accumulate=accumulate)
    assert isinstance(gradient_step.layout, PackedLayout if path == "packed" else GroupedLayout)
    assert len(gradient_step.layout.micro_batches(SENTENCES)) == (accumulate or 1)
    for _ in range(2):  # the second update begins anew
        assert_same(gradient_of(gradient_step), expected())


@pytest.mark.parametrize("P_drop", [0.0, 0.3])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_recomputing_layers_gives_the_same_gradient(
    path: str, P_drop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    remembered = gradient_of(made(P_drop=P_drop))
    passes: list[str] = []
    gradient_step = made(P_drop=P_drop, recompute=True)
    assert isinstance(gradient_step.model, Transformer)
    for layer in (*gradient_step.model.encoder, *gradient_step.model.decoder):
        layer.register_forward_pre_hook(lambda *_: passes.append("layer"))
    assert_same(gradient_of(gradient_step), remembered, 1e-6)
    assert len(passes) == 2 * 2  # both layers are computed twice


def test_on_a_gpu_updates_are_the_same_whichever_way_they_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("test_engine.PAIRS", PAIRS * 5)
    grouped = made(accumulate=2)
    grouped.device = torch.device("cuda")
    on_path(monkeypatch, "packed")
    packed = made()
    ours, theirs = (
        [update.tolist() for update in layout.updates(np.random.default_rng(0))]
        for layout in (grouped.make_layout(), packed.make_layout())
    )
    assert isinstance(grouped.make_layout(), GroupedLayout)
    assert ours == theirs
    assert len(ours) > 4


def test_losses_are_counted_on_until_somebody_takes_them() -> None:
    gradient_step = made()
    once = gradient_of(gradient_step)[0]
    gradient_step.compute(gradient_step.prepare(SENTENCES, DataPosition(0, 1), 0.5))
    assert gradient_step.sums.tolist() == pytest.approx((2 * once).tolist())


def test_an_update_says_what_it_is_made_of() -> None:
    gradient_step = made(accumulate=2)
    update = gradient_step.prepare(SENTENCES, DataPosition(3, 4), 3.5)
    assert update.tokens == sum(target for _, target in LENGTHS)
    assert (update.next_position, update.epochs, update.idle) == (DataPosition(3, 4), 3.5, False)
    assert update.layout is gradient_step.layout
    assert update.used == tuple(map(sum, zip(*LENGTHS, strict=True)))


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_processes_share_an_update_without_overlap(
    path: str, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their gradients, which torch averages, are together that of one process."""
    on_path(monkeypatch, path)
    gradient_step = made()
    gradient_step.micro_batches = world
    gradient_step.layout = gradient_step.make_layout()
    found, sums, shares = [], torch.zeros(2), []
    for rank in range(world):
        gradient_step.processes = Processes(rank, world)
        update = gradient_step.prepare(SENTENCES, DataPosition(0, 1), 0.5)
        assert not update.idle
        shares.append(sum(len(batch.order) for batch in update.batches))
        one, *gradients = gradient_of(gradient_step)
        sums = sums + one
        found.append(gradients)
    assert sum(shares) == len(PAIRS)
    means = [torch.stack(of_one).mean(0) for of_one in zip(*found, strict=True)]
    assert_same([sums, *means], expected())


def test_a_process_without_a_share_keeps_step_and_counts_for_nothing() -> None:
    gradient_step = made()
    gradient_step.processes = Processes(1, 2)
    update = gradient_step.prepare(SENTENCES[:1], DataPosition(0, 1), 0.5)
    assert update.idle
    assert len(update.batches) == 1
    gradient_step.compute(update)
    assert gradient_step.sums.tolist() == [0.0, 0.0]
    for parameter in gradient_step.model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


# --- Out of memory -----------------------------------------------------------------------------


def limited(
    monkeypatch: pytest.MonkeyPatch, tokens: int, error: Exception = GPU_IS_FULL
) -> list[int]:
    """Pretend that passes of more than so many places do not fit; return the sizes tried."""
    original, sizes = Objective.forward, []

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            sizes.append(max(batch.places))
            if sizes[-1] > tokens:
                raise error
        return original(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    return sizes


@pytest.mark.parametrize("error", [CPU_IS_FULL, GPU_IS_FULL], ids=["CPU", "GPU"])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_out_of_memory_an_update_is_cut_into_twice_as_many_pieces_and_stays_the_same(
    path: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    said: list[str] = []
    gradient_step = made(say=said.append)
    sizes = limited(monkeypatch, 150, error)
    assert_same(gradient_of(gradient_step), expected())
    assert said == [
        f"out of memory with {tokens} tokens at a time: from now on {tokens // 2}, "
        f"{pieces} times for each update, which learns the same"
        for tokens, pieces in ((400, 2), (200, 4))
    ]
    sizes.clear()
    assert_same(gradient_of(gradient_step), expected())
    assert len(sizes) > 1  # and nothing is tried that has not fitted
    assert max(sizes) <= 150
    assert len(said) == 2


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_what_was_computed_before_memory_ran_out_counts_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    said: list[str] = []
    gradient_step = made(accumulate=2, say=said.append)
    original, calls = Objective.forward, []

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, Tensor]:
        calls.append(batch)
        if len(calls) == 2:
            raise GPU_IS_FULL
        return original(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    assert_same(gradient_of(gradient_step), expected())
    assert len(said) == 1
    assert len(calls) > 2 + 2


def test_an_update_laid_out_before_the_cut_is_laid_out_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gradient_step = made(say=lambda _: None)
    before = gradient_step.prepare(SENTENCES, DataPosition(0, 1), 0.5)
    limited(monkeypatch, 250)
    gradient_of(gradient_step)
    gradient_step.sums.zero_()
    gradient_step.compute(before)
    gradients = [one.grad for one in gradient_step.model.parameters() if one.grad is not None]
    assert_same([gradient_step.sums, *gradients], expected())


@pytest.mark.parametrize("path", ["packed", pytest.param("grouped", marks=pytest.mark.long)])
def test_when_nothing_is_left_to_cut_the_error_comes_through(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    said: list[str] = []
    gradient_step = made(say=said.append)
    limited(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        gradient_of(gradient_step)
    assert 400 // gradient_step.micro_batches <= 20  # the longest sentence that may come
    assert len(said) == 5


def test_other_errors_come_through_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    gradient_step = made(say=said.append)
    sizes = limited(monkeypatch, 0, RuntimeError("mat1 and mat2 cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        gradient_of(gradient_step)
    assert (len(sizes), said) == (1, [])


def test_processes_do_not_cut_each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    gradient_step = made(say=said.append)
    gradient_step.processes = Processes(0, 2)
    limited(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        gradient_of(gradient_step)
    assert said == []


def test_what_filled_the_memory_is_gone_before_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Objective.forward
    filling: list[weakref.ref[Tensor]] = []
    left: list[Tensor | None] = []

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, Tensor]:
        if not filling:
            large = torch.empty(1000)
            filling.append(weakref.ref(large))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, batch)

    monkeypatch.setattr(Objective, "forward", forward)
    monkeypatch.setattr("gc.collect", lambda: left.append(filling[0]()))
    gradient_of(made(say=lambda _: None))
    assert left == [None]


class Played:
    """Stands for a CUDA graph, whose first pass of an update writes, and the others add."""

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
def test_through_a_graph_the_gradient_is_the_same_also_when_memory_runs_out(
    accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, "packed")
    monkeypatch.setattr(engines, "Graphs", Played)
    said: list[str] = []
    gradient_step = made(accumulate=accumulate, say=said.append)
    gradient_step.graphed = True
    assert gradient_step.path == "packed, float32, CUDA graph"
    for _ in range(2):
        assert_same(gradient_of(gradient_step), expected())
    first: Any = gradient_step.graphs
    assert isinstance(first, Played)
    assert said == []
    limited(monkeypatch, first.shape[0] - 1)
    for _ in range(2):
        assert_same(gradient_of(gradient_step), expected())
    second: Any = gradient_step.graphs
    assert isinstance(second, Played)
    assert second is not first  # it is recorded anew, for smaller batches
    assert len(said) == 1


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
def test_a_graph_that_cannot_be_recorded_is_done_without_or_made_smaller(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, "packed")

    def recorded(batch: Batch, *others: Any) -> Played:
        if max(batch.places) >= 400:
            raise error
        return Played(batch, *others)

    monkeypatch.setattr(engines, "Graphs", recorded)
    said: list[str] = []
    gradient_step = made(say=said.append)
    gradient_step.graphed = True
    for _ in range(2):
        assert_same(gradient_of(gradient_step), expected())
    assert len(said) == 1
    assert said[0].startswith(line)
    assert gradient_step.graphed == (error is GPU_IS_FULL)


@pytest.mark.parametrize(("fits", "pieces"), [(400, 1), (150, 4)])
def test_probing_finds_the_pieces_that_fit_and_leaves_no_trace(
    fits: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU that is one in name alone: what is moved there stays here."""
    monkeypatch.setattr(Batch, "to", lambda batch, _: batch)
    monkeypatch.setattr(Batch, "pinned", lambda batch: batch)
    monkeypatch.setattr(torch.cuda, "get_rng_state", torch.get_rng_state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", torch.set_rng_state)
    on_path(monkeypatch, "packed")
    said: list[str] = []
    gradient_step = made(P_drop=0.1, accumulate=None, say=said.append)
    gradient_step.device = torch.device("cuda")
    gradient_step.sums += torch.tensor([3.0, 2.0])  # of a window that a resumed run goes on with
    sizes, before = limited(monkeypatch, fits), torch.get_rng_state()
    gradient_step.probe_memory()
    assert gradient_step.micro_batches == pieces
    assert sizes[-1] <= fits
    assert said[-1] == (
        f"400 tokens a side in {pieces} piece{'s' * (pieces > 1)}: the largest that fit into memory"
    )
    assert gradient_step.sums.tolist() == [3.0, 2.0]
    assert torch.equal(torch.get_rng_state(), before)


def test_memory_is_probed_on_a_gpu_alone() -> None:
    said: list[str] = []
    gradient_step = made(accumulate=None, say=said.append)
    gradient_step.probe_memory()
    assert gradient_step.micro_batches == 1
    assert said == ["accumulate = none: memory is probed by one process on a GPU alone; one piece"]


# --- Which way is chosen -----------------------------------------------------------------------


def on_cuda(monkeypatch: pytest.MonkeyPatch, *, bf16: bool = True, **model: Any) -> Any:
    """A model that stands on a GPU, as far as one can tell without one."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    monkeypatch.setattr(kernels, "INSTALLED", True)
    monkeypatch.setattr(kernels, "try_out", lambda *_, **__: None)
    output = SimpleNamespace(device=torch.device("cuda"))
    config = ModelConfig(**model)
    packed = config.attention == "dot-product"
    return SimpleNamespace(output=output, config=config, supports_packed=packed, kernels=Kernels())


def fails(*_: object, **__: object) -> None:
    raise ValueError("ptxas fatal\nno sm_99\n")


def test_on_the_cpu_batches_are_grouped_and_float32() -> None:
    said: list[str] = []
    for precision in ("auto", "float32"):
        assert choose_path(small_model(), TrainConfig(precision=precision), said.append) == (
            False,
            "float32",
        )
    assert said == []
    assert made().path == "grouped, float32"


def test_bf16_on_the_cpu_is_refused() -> None:
    with pytest.raises(BadSetting) as caught:
        choose_path(small_model(), TrainConfig(precision="bf16"), print)
    assert str(caught.value) == "precision = 'bf16': expected a GPU of CUDA; on cpu it is float32"


def test_on_a_gpu_that_has_everything_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    model = on_cuda(monkeypatch)
    assert choose_path(model, TrainConfig(), said.append) == (True, "bf16")
    assert choose_path(model, TrainConfig(precision="bf16"), said.append) == (True, "bf16")
    assert choose_path(model, TrainConfig(precision="float32"), said.append) == (True, "float32")
    assert said == []
    assert model.kernels.usable(model.output)


def test_whoever_switches_the_kernels_off_is_not_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    model = on_cuda(monkeypatch)
    found = choose_path(model, TrainConfig(kernels=False), said.append)
    assert (found, said) == ((False, "bf16"), [])
    assert not model.kernels.usable(model.output)
    assert choose_path(model, TrainConfig(), said.append) == (True, "bf16")
    assert model.kernels.usable(model.output), "they are back for the next run"


@pytest.mark.parametrize("settings", [{"attention_dropout": 0.1}, {"attention": "additive"}, {}])
def test_a_model_that_does_not_pack_has_its_kernels_tried_and_switched_like_any_other(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss has kernels too, which no packed batch is needed for."""
    said: list[str] = []
    model = on_cuda(monkeypatch, **settings)
    model.supports_packed = False
    assert choose_path(model, TrainConfig(kernels=False), said.append) == (False, "bf16")
    assert said == []
    assert not model.kernels.usable(model.output)
    monkeypatch.setattr(kernels, "try_out", fails)
    assert choose_path(model, TrainConfig(), said.append) == (False, "bf16")
    assert len(said) == 1
    assert not model.kernels.usable(model.output)


@pytest.mark.parametrize(
    ("missing", "chosen", "line"),
    [
        (
            "bf16",
            (True, "float32"),
            "Tesla T4 has no bf16: training in float32, slower",
        ),
        (
            "attention without dropout",
            (False, "bf16"),
            "attention_dropout: attention goes by torch's kernels, which is slower",
        ),
        (
            "dot products",
            (False, "bf16"),
            "attention = 'additive': attention goes by torch's kernels, which is slower",
        ),
        (
            "triton",
            (False, "bf16"),
            "Triton is not installed: torch's kernels are used, which is slower",
        ),
        (
            "compiler",
            (False, "bf16"),
            "our kernels do not work here, torch's are used, which is slower: ValueError: no sm_99",
        ),
    ],
)
def test_what_is_missing_leads_to_a_slower_way_and_one_line(
    missing: str, chosen: tuple[bool, str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout = 0.1 if missing == "attention without dropout" else 0.0
    kind = "additive" if missing == "dot products" else "dot-product"
    model = on_cuda(monkeypatch, bf16=missing != "bf16", attention_dropout=dropout, attention=kind)
    if missing == "triton":
        monkeypatch.setattr(kernels, "INSTALLED", False)
    if missing == "compiler":
        monkeypatch.setattr(kernels, "try_out", fails)
    said: list[str] = []
    assert choose_path(model, TrainConfig(), said.append) == chosen
    assert said == [line]
    assert model.kernels.usable(model.output) == (missing not in ("triton", "compiler"))


def test_an_error_without_words_is_named() -> None:
    assert summarize_error(KeyError()) == "KeyError"
    assert summarize_error(ValueError("one\ntwo\n")) == "ValueError: two"


def test_kernels_are_tried_with_the_sizes_and_the_precision_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []
    model = on_cuda(monkeypatch, h=1, d_k=512)
    monkeypatch.setattr(kernels, "try_out", lambda *told, training: tried.append((told, training)))
    choose_path(model, TrainConfig(), print)
    choose_path(model, TrainConfig(precision="float32"), print)
    cuda = torch.device("cuda")
    assert tried == [
        ((model.config, torch.bfloat16, cuda), True),
        ((model.config, torch.float32, cuda), True),
    ]


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_in_bf16_the_loss_is_close_and_gradients_are_float32(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    gradient_step = made()
    gradient_step.model.compute_in(torch.bfloat16)
    assert gradient_step.model(make_batch(PAIRS)).dtype == torch.bfloat16
    found = gradient_of(gradient_step)
    assert {one.dtype for one in found[1:]} == {torch.float32}
    assert {one.dtype for one in gradient_step.model.parameters()} == {torch.float32}
    sums, *gradients = expected()
    assert found[0].tolist() == pytest.approx(sums.tolist(), rel=0.01)
    for ours, theirs in zip(found[1:], gradients, strict=True):
        assert distance(ours, theirs) < 0.05


# --- Whole runs --------------------------------------------------------------------------------


class Told(Silent):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Killed(Exception):
    """Stands for kill -9."""


def trained(
    files: tuple[Path, Path],
    out: Path,
    changes: Mapping[str, str] | None = None,
    told: Told | None = None,
) -> Path:
    settings = (
        TINY | {"steps": "12", "validate_every": "4", "validate_bleu": "3"} | dict(changes or {})
    )
    with threads_kept():
        return train(*files, out=out, settings=settings, preset="tiny", device="cpu", progress=told)


def records(run: Path) -> list[Mapping[str, float]]:
    timed = ("seconds", "target_tokens_per_second")
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in timed} for line in lines]


def test_packed_and_grouped_runs_end_with_the_same_validation_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With updates that hold the whole text, for sentences are dealt otherwise."""
    found = []
    files = write_pairs(tmp_path, "short", tiny_pairs(60))
    for path in ("grouped", "packed"):
        with monkeypatch.context() as patch:
            on_path(patch, path)
            told = Told()
            changes = {"P_drop": "0", "batch_tokens": "2000", "accumulate": "2", "steps": "6"}
            found.append(records(trained(files, tmp_path / path, changes, told)))
            assert f"computing on cpu: {path}, float32" in told.lines
    assert len(found[0]) == 4
    for ours, theirs in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)


def test_a_packed_run_that_was_killed_ends_with_the_same_bits(
    tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, "packed")
    whole = trained(tiny_files, tmp_path / "whole")
    original = Trainer.update

    def dying(self: Trainer) -> Update:
        if self.state.step == 8:
            raise Killed
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(Killed):
            trained(tiny_files, tmp_path / "run")
    again = trained(tiny_files, tmp_path / "run")
    for name in ("model.safetensors", "best.safetensors"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()
    assert records(again) == records(whole)


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_a_run_that_is_out_of_memory_goes_on_and_learns_the_same(
    path: str, tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    changes = {"P_drop": "0", "max_len": "60", "batch_tokens": "600"}
    whole = trained(tiny_files, tmp_path / "whole", changes)
    limited(monkeypatch, 400)
    told = Told()
    out = trained(tiny_files, tmp_path / "run", changes, told)
    assert len([line for line in told.lines if line.startswith("out of memory")]) == 1
    for ours, theirs in zip(records(out), records(whole), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)
    tensors, exact = (load_tensors(run / "model.safetensors") for run in (out, whole))
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, exact[name], rtol=1e-3, atol=1e-4)
