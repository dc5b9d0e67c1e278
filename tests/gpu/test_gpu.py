"""What only a GPU can show: the kernels compiled, bf16, CUDA graphs, its memory, its random bits.

`make test-gpu` runs it; it needs pytest and what transduce itself needs, and nothing else.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, threads_kept
from convolutional import ARCHITECTURES, small
from torch import Tensor
from torch.nn import functional as F

from models import pairs_of, part_of, realistic, sentence, small_model
from reference import attention_of, cross_entropy_of, distance, view_of
from transduce.batching.packed import Batch, Ints
from transduce.batching.prefetch import Update
from transduce.batching.static import pack
from transduce.config import SearchConfig, TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.decoding.scheduler import Decoder
from transduce.experiments.table1 import table1
from transduce.experiments.table1_measurement import Plan
from transduce.model.ops.kernels import Kernels
from transduce.presets import TABLE_3
from transduce.subwords import EOS, PAD
from transduce.system.devices import choose_device
from transduce.system.progress import Silent
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.training.train import train
from transduce.training.trainer import Trainer
from transduce.translation.types import Job

# Warnings of a torch that we have not chosen are not ours to fail by.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def chosen() -> None:
    """Have torch compute as it does wherever a device was chosen."""
    choose_device("cuda")


# Of the norm. bf16 has 8 bits; products and sums of rounded numbers are a little farther off.
EXACT = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
SHAPES = sorted({(row.model.h, row.model.d_k, row.model.d_v) for row in TABLE_3.values()})
LENGTHS = [(9, 7), (3, 12), (2, 2), (70, 15), (5, 9), (11, 80), (200, 130)]
PAIRS = pairs_of([(n, m) for n, m in realistic(60, longest=60)])


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Memory in which anything that is not written shows."""
    return torch.full(shape, torch.nan, dtype=dtype, device="cuda")


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


# --- Kernels -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batch() -> Batch:
    places = 384, 384
    return pack(part_of(pairs_of(LENGTHS)), np.arange(len(LENGTHS)), places).to(
        torch.device("cuda")
    )


@pytest.mark.parametrize(
    ("h", "d_k", "d_v", "dtype"),
    [
        *((*shape, torch.bfloat16) for shape in SHAPES),
        (8, 64, 64, torch.float32),
        (2, 48, 40, torch.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["self", "causal", "cross", "self, 5 near", "causal, 40 near"])
def test_attention_is_equation_1_forward_and_backward(
    batch: Batch, kind: str, h: int, d_k: int, d_v: int, dtype: torch.dtype
) -> None:
    from transduce.model.ops.triton import attention

    view = view_of(batch, kind)
    queries, keys = len(view.first), len(view.seen_first)
    torch.manual_seed(0)
    q, k = random(queries, h, d_k, dtype=dtype), random(keys, h, d_k, dtype=dtype)
    v, d_out = random(keys, h, d_v, dtype=dtype), random(queries, h, d_v, dtype=dtype)
    exact = attention_of(q, k, v, view, d_out)
    found = []
    for _ in range(2):
        out, lse = poisoned(queries, h, d_v, dtype=dtype), poisoned(h, queries)
        attention.forward(q, k, v, out, lse, view.first, view.last)
        gradients = [poisoned(*one.shape, dtype=dtype) for one in (q, k, v)]
        attention.backward(d_out, q, k, v, out, lse, view, *gradients)
        found.append([out, *gradients])
    for ours, again, theirs in zip(*found, exact, strict=True):
        assert distance(ours, theirs) < EXACT[dtype]
        assert torch.equal(ours, again)  # the same input gives the same bits


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("D", [608, 304, 40])
def test_norm_and_relu_are_those_of_torch(D: int, dtype: torch.dtype) -> None:
    from transduce.model.ops.fused import norm_relu

    torch.manual_seed(0)
    x, d_out = (random(5001, D, dtype=dtype) for _ in range(2))
    weight, bias = 1 + 0.1 * random(D), 0.1 * random(D)
    ours = [one.detach().clone().requires_grad_() for one in (x, weight, bias)]
    exact = [one.detach().double().requires_grad_() for one in (x, weight, bias)]
    out = norm_relu(ours[0], ours[1], ours[2], 1e-5, Kernels())
    expected = F.layer_norm(exact[0], (D,), exact[1], exact[2], 1e-5).relu()
    assert distance(out, expected) < EXACT[dtype]
    theirs = torch.autograd.grad(expected, exact, d_out.double())
    for a, b in zip(torch.autograd.grad(out, ours, d_out), theirs, strict=True):
        assert distance(a, b) < EXACT[dtype]


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("P_drop", [0.0, 0.1])
@pytest.mark.parametrize("D", [512, 1024, 40])
def test_residual_and_norm_are_those_of_torch(D: int, P_drop: float, dtype: torch.dtype) -> None:
    from transduce.model.ops.triton import rows

    torch.manual_seed(0)
    tokens, eps, seed = 5001, 1e-5, torch.tensor([7], device="cuda")
    x, y, d_out = (random(tokens, D, dtype=dtype) for _ in range(3))
    weight, bias = 1 + 0.1 * random(D), 0.1 * random(D)
    zero, one = torch.zeros(tokens, D, device="cuda"), torch.ones(tokens, D, device="cuda")
    _, kept, _ = rows.residual_forward(zero, one, weight, bias, seed, P_drop, eps)
    assert (kept == 0).float().mean().item() == pytest.approx(P_drop, abs=0.005)
    assert kept.mean().item() == pytest.approx(1, abs=0.005)

    out, total, statistics = rows.residual_forward(x, y, weight, bias, seed, P_drop, eps)
    ours = rows.residual_backward(d_out, total, statistics, weight, seed, P_drop)
    exact = [one.double().requires_grad_() for one in (x, y, weight, bias)]
    expected = F.layer_norm(exact[0] + exact[1] * kept, (D,), exact[2], exact[3], eps)
    assert distance(out, expected) < EXACT[dtype]
    for a, b in zip(ours, torch.autograd.grad(expected, exact, d_out.double()), strict=True):
        assert distance(a, b) < EXACT[dtype]


def test_relus_gradient_and_that_of_the_bias_are_those_of_torch() -> None:
    from transduce.model.ops.triton import rows

    torch.manual_seed(0)
    inner, d_out = (random(5001, 2048, dtype=torch.bfloat16) for _ in range(2))
    d_x, d_bias = rows.relu_backward(d_out, inner.relu())
    expected = d_out * (inner > 0)
    assert torch.equal(d_x, expected)
    assert distance(d_bias, expected.double().sum(0)) < 1e-5


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(("V", "words"), [(37_000, 37_056), (8_007, 8_064), (37, 64)])
def test_softmax_leaves_the_gradient_of_the_smoothed_loss(
    V: int, words: int, dtype: torch.dtype
) -> None:
    from transduce.model.ops.triton import rows

    torch.manual_seed(0)
    z = 2 * random(300, words, dtype=dtype)
    labels = torch.randint(1, V, (300,), dtype=torch.int32, device="cuda")
    labels[[2, 299]] = PAD
    exact, gradient = cross_entropy_of(z[:, :V], labels, 0.1)
    found = rows.softmax(z, V, labels, 0.1, PAD)
    assert distance(found, exact) < 1e-5
    assert distance(z[:, :V], gradient) < EXACT[dtype]
    for one in (z[:, V:], z[[2, 299]], found[[2, 299]]):
        assert not one.any()


# --- The gradient step ----------------------------------------------------------------------

SENTENCES = np.arange(len(PAIRS))


def made(
    device: str = "cuda",
    *,
    P_drop: float = 0.0,
    said: list[str],
    model: dict[str, Any] | None = None,
    **recipe: Any,
) -> GradientStep:
    shape = {"d_model": 64, "d_k": 16, "d_v": 16, "max_len": 64} | (model or {})
    model_ = small_model(P_drop=P_drop, **shape).train()
    told = TrainConfig(batch_tokens=3000, **recipe)
    return GradientStep(model_.to(device), told, part_of(PAIRS), Processes(), said.append)


def gradient_of(gradient_step: GradientStep, sentences: Ints = SENTENCES) -> list[Tensor]:
    """The losses' sums and the gradients of an update."""
    gradient_step.sums.zero_()
    torch.manual_seed(0)
    gradient_step.compute(gradient_step.prepare(sentences, DataPosition(0, 1), 0.5))
    gradients = [parameter.grad for parameter in gradient_step.model.parameters()]
    return [gradient_step.sums.clone(), *(one.clone() for one in gradients if one is not None)]


def assert_same(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    assert len(ours) == len(theirs) > 1
    for one, other in zip(ours, theirs, strict=True):
        assert distance(one, other) < tolerance


def test_the_fastest_way_is_chosen_without_a_word() -> None:
    said: list[str] = []
    assert choose_device("auto", said.append).type == "cuda"
    assert made(said=said).path == "packed, bf16, CUDA graph"
    assert said == []


@pytest.mark.parametrize(
    ("recipe", "tolerance", "of_gradients"),
    [
        ({"precision": "float32"}, 1e-5, 1e-4),
        ({"precision": "bf16"}, 5e-3, 5e-2),
        ({"precision": "bf16", "accumulate": 3}, 5e-3, 5e-2),
        ({"precision": "bf16", "kernels": False}, 5e-3, 5e-2),
        ({"precision": "float32", "kernels": False}, 1e-5, 1e-3),
    ],
    ids=str,
)
def test_every_way_has_the_loss_and_the_gradients_of_the_cpu(
    recipe: dict[str, Any], tolerance: float, of_gradients: float
) -> None:
    said: list[str] = []
    sums, *gradients = gradient_of(made("cpu", said=said))
    found, *others = gradient_of(made(said=said, **recipe))
    assert {one.dtype for one in others} == {torch.float32}
    assert distance(found, sums) < tolerance
    assert_same(others, gradients, of_gradients)
    assert said == []


KINDS: list[dict[str, Any]] = [
    {"scaled": False},
    {"neighbourhood": 6},
    {"positions": "rotary"},
    {"attention": "additive"},
]


@pytest.mark.parametrize("model", KINDS, ids=str)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_other_attention_has_the_loss_and_the_gradients_of_the_cpu(
    model: dict[str, Any], precision: str
) -> None:
    said: list[str] = []
    ours = made(said=said, model=model, precision=precision)
    additive = "attention" in model
    assert ours.path == (
        f"grouped, {precision}" if additive else f"packed, {precision}, CUDA graph"
    )
    assert len(said) == additive
    tolerance, of_gradients = {"float32": (1e-5, 1e-3), "bf16": (5e-3, 6e-2)}[precision]
    sums, *gradients = gradient_of(made("cpu", said=said, model=model))
    found, *others = gradient_of(ours)
    assert distance(found, sums) < tolerance
    assert_same(others, gradients, of_gradients)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_graphs_pass_is_the_plain_pass(precision: str, accumulate: int) -> None:
    """For one update after the other, the first of which is recorded."""
    said: list[str] = []
    recipe: dict[str, Any] = {"precision": precision, "accumulate": accumulate}
    graphed, plain = made(said=said, **recipe), made(said=said, **recipe)
    plain.graphed = False
    tolerance = {"float32": 1e-5, "bf16": 2e-2}[precision]
    for sentences in (SENTENCES, SENTENCES[:30], SENTENCES[20:]):
        assert_same(gradient_of(graphed, sentences), gradient_of(plain, sentences), tolerance)
    assert graphed.graphs is not None
    assert plain.graphs is None
    assert said == []


def test_a_graph_drops_anew_at_each_pass_and_the_same_from_the_same_seed() -> None:
    gradient_step = made(P_drop=0.1, said=[])
    first = gradient_of(gradient_step)  # this one is recorded
    again = gradient_of(gradient_step)  # gradient_of sets the seed
    gradient_step.sums.zero_()
    gradient_step.compute(gradient_step.prepare(SENTENCES, DataPosition(0, 1), 0.5))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], gradient_step.sums)


def test_recomputing_layers_gives_the_same_gradient() -> None:
    said: list[str] = []
    plain = made(P_drop=0.1, precision="float32", said=said)
    plain.graphed = False
    recomputing = made(P_drop=0.1, precision="float32", recompute=True, said=said)
    assert recomputing.path == "packed, float32"
    assert_same(gradient_of(recomputing), gradient_of(plain), 1e-5)


def test_a_pinned_batch_is_the_batch() -> None:
    plain = pack(part_of(pairs_of(LENGTHS)), np.arange(len(LENGTHS)), (384, 384))
    pinned = plain.pinned()
    assert pinned.flat is not None
    assert plain.flat is not None
    assert pinned.flat.is_pinned()
    assert torch.equal(pinned.flat, plain.flat)
    assert (pinned.used, pinned.places) == (plain.used, plain.places)


# --- Memory ------------------------------------------------------------------------------------


@contextmanager
def room_for(more: int) -> Iterator[None]:
    """Let torch have so many bytes more than it has."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + more) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


def large(said: list[str], **recipe: Any) -> GradientStep:
    """A gradient step whose update of 25,000 tokens takes GiBs, a tenth in micro-batches."""
    lengths = realistic(900, longest=64)
    model = small_model(P_drop=0.0, N=3, d_model=512, d_ff=2048, h=8, d_k=64, d_v=64, max_len=64)
    told = TrainConfig(batch_tokens=25_000, **recipe)
    part = part_of(pairs_of(lengths))
    return GradientStep(model.train().to("cuda"), told, part, Processes(), said.append)


def test_out_of_memory_an_update_is_cut_into_more_pieces_and_stays_the_same() -> None:
    said: list[str] = []
    gradient_step = large(said)
    sentences = gradient_step.layout.updates(np.random.default_rng(0))[0]
    whole = gradient_of(gradient_step, sentences)
    assert said == []
    del gradient_step
    gradient_step = large(said)
    with room_for(3 * 2**29):
        found = gradient_of(gradient_step, sentences)
    assert gradient_step.micro_batches > 1
    assert said
    assert all(line.startswith("out of memory with ") for line in said)
    assert_same(found, whole, 2e-2)


def test_probing_finds_the_pieces_that_fit_and_leaves_no_trace() -> None:
    said: list[str] = []
    gradient_step = large(said, accumulate=None)
    torch.manual_seed(3)
    before = torch.cuda.get_rng_state()
    gradient_step.sums.fill_(3.0)  # of a window that a resumed run goes on with
    with room_for(3 * 2**29):
        gradient_step.probe_memory()
    assert gradient_step.micro_batches > 1
    assert said[-1] == (
        f"25,000 tokens a side in {gradient_step.micro_batches} pieces: "
        "the largest that fit into memory"
    )
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert gradient_step.sums.tolist() == [3.0, 3.0]


# --- Whole runs --------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for kill -9."""


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
def test_killed_and_resumed_it_ends_with_the_same_bits(
    kernels: str, tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout: random bits go on where they were, recorded in a graph or not."""
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


# --- Decoding ----------------------------------------------------------------------------------


def found_by(decoder: Decoder, jobs: list[Job], config: SearchConfig, batch: int) -> list[Any]:
    found = dict(decoder.search(jobs, config, batch))
    return [found[i] for i in range(len(jobs))]


@pytest.mark.parametrize(
    "config", [{"nbest": 4}, {"beam": 1}, {"beam": 5}, {"sample": True}], ids=str
)
@pytest.mark.parametrize("way", ["recorded", "plain", "without kernels"])
@pytest.mark.parametrize("changes", [{}, *KINDS], ids=str)
def test_decoding_finds_what_the_cpu_finds(
    config: dict[str, Any], way: str, changes: dict[str, Any]
) -> None:
    """With more sentences than slots, twice, so that slots and what is recorded serve again."""
    model = small_model(3, **changes)
    model.kernels.enabled = way != "without kernels"
    with torch.no_grad():
        model.output.mul_(4)
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    jobs.sort(key=lambda job: -len(job.source))
    search = SearchConfig(extra=10, **config)
    expected = found_by(Decoder([model], [0, 1, 3]), jobs, search, 16)
    decoder = Decoder([copy.deepcopy(model).cuda()], [0, 1, 3], record=way == "recorded")
    for _ in range(2):
        found = found_by(decoder, jobs, search, 16)
        for ours, theirs in zip(found, expected, strict=True):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs]
            for one, other in zip(ours, theirs, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-3)


def test_decoding_in_half_precision_scores_as_in_full() -> None:
    model = small_model(4).cuda()
    jobs = [Job(sentence(20, n), number=(n,)) for n in range(40)]
    search = SearchConfig(extra=5)
    full = found_by(Decoder([model], [0, 1, 3]), jobs, search, 64)
    half = found_by(
        Decoder([copy.deepcopy(model).narrow(torch.float16)], [0, 1, 3]), jobs, search, 64
    )
    for ours, theirs in zip(half, full, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, abs=0.02)


def test_a_search_that_was_given_up_leaves_nothing_to_the_next() -> None:
    model = small_model(3).cuda()
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    search = SearchConfig(extra=10)
    expected = found_by(Decoder([model], [0, 1, 3]), jobs, search, 16)
    decoder = Decoder([model], [0, 1, 3])
    first, second = decoder.search(jobs, search, 16), decoder.search(jobs, search, 16)
    next(first)
    assert [one.tokens for one in dict(second)[7]] == [one.tokens for one in expected[7]]
    next(first)
    del first, second
    for ours, theirs in zip(found_by(decoder, jobs, search, 16), expected, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]


@pytest.mark.parametrize("record", [True, False])
def test_an_output_may_reach_the_last_position(record: bool) -> None:
    model = small_model(max_len=64, positions="learned", logits_bias=True).cuda()
    with torch.no_grad():
        assert model.logits_bias is not None
        model.logits_bias[EOS] = -50
    jobs = [Job(sentence(length, length)) for length in (64, 60, 5, 5, 5, 5)]
    decoder = Decoder([model.narrow(torch.float16)], [0, 1, 3], record=record)
    found = found_by(decoder, jobs, SearchConfig(beam=2, extra=8), 4)
    assert [len(one[0].tokens) + 1 for one in found] == [64, 64, 13, 13, 13, 13]


# --- The convolutional baselines ---------------------------------------------------------------


def baseline(architecture: str, device: str = "cuda", **recipe: Any) -> GradientStep:
    model = small(architecture, P_drop=0.0, d_model=64, d_ff=64, max_len=64).train().to(device)
    told = TrainConfig(batch_tokens=3000, **recipe)
    said: list[str] = []
    gradient_step = GradientStep(model, told, part_of(PAIRS), Processes(), said.append)
    assert said == []
    return gradient_step


@pytest.mark.parametrize(
    ("architecture", "precision", "tolerance"),
    [
        *(("convs2s", "float32", 1e-3), ("convs2s", "bf16", 1e-1)),
        *(("bytenet", "float32", 1e-3), ("bytenet", "bf16", 3e-1)),  # three norms a block
    ],
)
def test_a_recorded_pass_of_a_baseline_has_the_gradients_of_the_cpu(
    architecture: str, precision: str, tolerance: float
) -> None:
    """For one update after the other, the first of which is recorded."""
    gradient_step, plain = (
        baseline(architecture, precision=precision),
        baseline(architecture, "cpu"),
    )
    assert gradient_step.path == f"packed, {precision}, CUDA graph"
    for sentences in (SENTENCES, SENTENCES[:30], SENTENCES[20:]):
        sums, *gradients = gradient_of(plain, sentences)
        found, *others = gradient_of(gradient_step, sentences)
        assert distance(found, sums) < 5e-3
        assert_same(others, gradients, tolerance)
    assert gradient_step.graphs is not None


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_decoding_with_a_baseline_finds_what_the_cpu_finds(architecture: str, beam: int) -> None:
    model = small(architecture, 3)
    with torch.no_grad():
        model.output.mul_(4)
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    jobs.sort(key=lambda job: -len(job.source))
    search = SearchConfig(extra=10, beam=beam)
    expected = found_by(Decoder([model], [0, 1, 3]), jobs, search, 16)
    decoder = Decoder([copy.deepcopy(model).cuda()], [0, 1, 3])
    for _ in range(2):
        for ours, theirs in zip(found_by(decoder, jobs, search, 16), expected, strict=True):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    assert len(decoder.workspaces.pool) == 1
    narrow = Decoder([copy.deepcopy(model).cuda().narrow(torch.float16)], [0, 1, 3])
    # A random model finds another way at a near tie, now and then.
    half = found_by(narrow, jobs, search, 16)
    assert median(abs(a[0].score - b[0].score) for a, b in zip(half, expected, strict=True)) < 0.1


# --- Table 1 -----------------------------------------------------------------------------------


def test_the_layers_of_table_1_are_measured() -> None:
    """Restricted attention with work that grows as n, all of it by our kernels."""
    finding = table1(Plan(n=(512, 2048, 8192), d=(512,), seconds=60), "cuda", Silent())
    assert finding.data["attention"] == "our packed kernels"
    rows = {(row["layer"], row["projections"]): row for row in finding.data["rows"]}
    assert all(len(row["cells"]) == 3 for row in rows.values())
    for row in rows.values():
        assert all(cell["forward"] > 0 and cell["memory"] > 0 for cell in row["cells"])
    assert rows["restricted", False]["exponents"]["seconds"]["exponent"] < 1.25
    assert rows["self-attention", False]["exponents"]["seconds"]["exponent"] > 1.6
