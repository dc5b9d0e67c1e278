"""Our kernels compute what they stand for: run here by Triton's interpreter, word for word.

On a GPU the same is shown by test_gpu.py; bf16 there alone, for the interpreter has none.
"""

import copy
import math
import types
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

pytest.importorskip("triton")

from models import SMALL, batch_of, pairs_of, part_of, small_model
from reference import attention_of, cross_entropy_of, distance, view_of
from transduce.batching.packed import Batch
from transduce.batching.static import pack
from transduce.config import ModelConfig
from transduce.model import loss as losses
from transduce.model.attention import DotProduct, Heads
from transduce.model.baselines.bytenet import ByteNet
from transduce.model.cache import Cache
from transduce.model.ops import fused, kernels, packed_attention
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.packed_attention import attend_cross, attend_self
from transduce.model.ops.triton import attention, rows
from transduce.model.transformer import Transformer
from transduce.subwords import PAD
from transduce.training.gradient import Objective

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter is for machines without a GPU"
)

EXACT = {torch.float32: 1e-6, torch.float16: 1e-3}  # of the norm
SHAPES = [(16, 16), (64, 64), (16, 64), (48, 40), (128, 128)]
# Short sentences share a tile of 64 tokens; two are longer than one, and end within another.
LENGTHS = [(9, 7), (3, 12), (2, 2), (70, 15), (5, 9), (11, 80)]
PLACES = 112, 144


@pytest.fixture
def batch() -> Batch:
    return pack(part_of(pairs_of(LENGTHS)), np.arange(len(LENGTHS)), PLACES)


class Interpreted(Kernels):
    """Kernels that Triton's interpreter runs on the CPU."""

    def usable(self, x: Tensor) -> bool:
        return True


INTERPRETED = Interpreted()


def interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything go through the kernels, here too."""
    monkeypatch.setattr(Kernels, "usable", lambda *_: True)
    monkeypatch.setattr(packed_attention, "_by_triton", lambda _: True)


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Memory in which anything that is not written shows."""
    return torch.full(shape, math.nan, dtype=dtype)


# --- Attention ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(("d_k", "d_v", "h"), [*((*shape, 2) for shape in SHAPES), (512, 512, 1)])
@pytest.mark.parametrize("kind", ["self", "causal", "cross", "self, 5 near", "causal, 40 near"])
def test_attention_is_equation_1_forward_and_backward(
    batch: Batch, kind: str, d_k: int, d_v: int, h: int, dtype: torch.dtype
) -> None:
    view = view_of(batch, kind)
    queries, keys = len(view.first), len(view.seen_first)
    torch.manual_seed(0)
    q, k, v, d_out = (
        torch.randn(tokens, h, channels).to(dtype)
        for tokens, channels in ((queries, d_k), (keys, d_k), (keys, d_v), (queries, d_v))
    )
    out, lse = poisoned(queries, h, d_v, dtype=dtype), poisoned(h, queries)
    attention.forward(q, k, v, out, lse, view.first, view.last)
    gradients = [poisoned(*one.shape, dtype=dtype) for one in (q, k, v)]
    attention.backward(d_out, q, k, v, out, lse, view, *gradients)
    exact = attention_of(q, k, v, view, d_out)
    for ours, theirs in zip((out, *gradients), exact, strict=True):
        assert distance(ours, theirs) < EXACT[dtype]


def test_filler_has_no_output_and_no_gradient(batch: Batch) -> None:
    view = view_of(batch, "cross")
    torch.manual_seed(0)
    q, k, v, d_out = (
        torch.randn(tokens, 2, 16) for tokens in (PLACES[1], PLACES[0], PLACES[0], PLACES[1])
    )
    out, lse = poisoned(PLACES[1], 2, 16), poisoned(2, PLACES[1])
    attention.forward(q, k, v, out, lse, view.first, view.last)
    d_q, d_k, d_v = (poisoned(*one.shape) for one in (q, k, v))
    attention.backward(d_out, q, k, v, out, lse, view, d_q, d_k, d_v)
    source, target = batch.used
    assert target < PLACES[1]
    assert source < PLACES[0]
    for one in (out[target:], d_q[target:], d_k[source:], d_v[source:], lse[:, target:]):
        assert (one == 0).all()


def test_keys_of_other_sentences_have_no_influence(batch: Batch) -> None:
    """They stand in the same tile, and are loaded with it."""
    view = view_of(batch, "self")
    torch.manual_seed(0)
    q, k, v = torch.randn(3, PLACES[0], 2, 16)
    found = []
    for shift in (0.0, 1000.0):
        k[9:12] += shift  # the second sentence
        v[9:12] += shift
        out, lse = poisoned(PLACES[0], 2, 16), poisoned(2, PLACES[0])
        attention.forward(q, k, v, out, lse, view.first, view.last)
        found.append(out)
    before, after = found
    assert torch.equal(before[:9], after[:9])
    assert torch.equal(before[12:], after[12:])
    assert not torch.equal(before[9:12], after[9:12])


def test_large_scores_do_not_overflow(batch: Batch) -> None:
    view = view_of(batch, "causal")
    torch.manual_seed(0)
    q, k, v = 100 * torch.randn(3, PLACES[1], 2, 16)
    out, lse = poisoned(PLACES[1], 2, 16), poisoned(2, PLACES[1])
    attention.forward(q, k, v, out, lse, view.first, view.last)
    exact, *_ = attention_of(q, k, v, view, v)
    assert distance(out, exact) < 1e-4
    assert torch.isfinite(lse).all()


@pytest.mark.parametrize("interpreted", [True, False])
@pytest.mark.parametrize(("d_k", "d_v"), [(16, 16), (16, 24), (5, 3)])
def test_projections_side_by_side_meet_without_copies(
    batch: Batch, d_k: int, d_v: int, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the model calls them, and by the plain way beside them: Eq. 1 in both."""
    monkeypatch.setattr(packed_attention, "_by_triton", lambda _: interpreted)
    h = 3
    torch.manual_seed(0)
    causal, cross = view_of(batch, "causal"), view_of(batch, "cross")
    qkv = torch.randn(PLACES[1], h * (2 * d_k + d_v), requires_grad=True)
    q = torch.randn(PLACES[1], h * d_k, requires_grad=True)
    kv = torch.randn(PLACES[0], h * (d_k + d_v), requires_grad=True)
    d_out = torch.randn(PLACES[1], h * d_v)
    sizes = [h * d_k, h * d_k, h * d_v]

    def heads(*of: Tensor) -> list[Tensor]:
        return [one.detach().unflatten(-1, (h, -1)) for one in of]

    out = attend_self(qkv, causal, h, d_k, d_v)
    (d_qkv,) = torch.autograd.grad(out, qkv, d_out)
    q_, k_, v_, d_out_ = heads(*qkv.split(sizes, -1), d_out)
    exact = attention_of(q_, k_, v_, causal, d_out_)
    for ours, theirs in zip(heads(out, *d_qkv.split(sizes, -1)), exact, strict=True):
        assert distance(ours, theirs) < 1e-6

    out = attend_cross(q, kv, cross, h, d_k, d_v)
    d_q, d_kv = torch.autograd.grad(out, (q, kv), d_out)
    q_, k_, v_, d_out_ = heads(q, *kv.split(sizes[1:], -1), d_out)
    exact = attention_of(q_, k_, v_, cross, d_out_)
    for ours, theirs in zip(heads(out, d_q, *d_kv.split(sizes[1:], -1)), exact, strict=True):
        assert distance(ours, theirs) < 1e-6


# --- Residuals and their norms -----------------------------------------------------------------

ROWS, D, EPS = 11, 40, 1e-5  # neither whole quads of rows nor a power of 2


def seed(number: int) -> Tensor:
    return torch.tensor([number])


def kept(P_drop: float, number: int, tokens: int = ROWS, width: int = D) -> Tensor:
    """The factors that a seed stands for: 0 or 1 / (1 - P_drop)."""
    zero, one = torch.zeros(tokens, width), torch.ones(tokens, width)
    _, total, _ = rows.residual_forward(zero, one, one[0], zero[0], seed(number), P_drop, EPS)
    return total


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("P_drop", [0.0, 0.3])
@pytest.mark.parametrize("programs", [1024, 2])  # with 2, each sums over several quads
def test_residual_and_norm_are_those_of_torch_forward_and_backward(
    P_drop: float, dtype: torch.dtype, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", programs)
    torch.manual_seed(0)
    x, y, d_out = torch.randn(3, ROWS, D).to(dtype)
    weight, bias = 1 + 0.1 * torch.randn(D), 0.1 * torch.randn(D)
    out, total, statistics = rows.residual_forward(x, y, weight, bias, seed(5), P_drop, EPS)
    ours = rows.residual_backward(d_out, total, statistics, weight, seed(5), P_drop)

    exact = [one.double().requires_grad_() for one in (x, y, weight, bias)]
    x_, y_, weight_, bias_ = exact
    y_ = y_ * kept(P_drop, 5).double()
    expected = F.layer_norm(x_ + y_, (D,), weight_, bias_, EPS)
    assert distance(out, expected) < EXACT[dtype]
    assert distance(total, x_ + y_) < EXACT[dtype]
    assert distance(statistics[0], (x_ + y_).mean(-1)) < EXACT[dtype]
    theirs = torch.autograd.grad(expected, exact, d_out.double())
    for a, b in zip(ours, theirs, strict=True):
        assert distance(a, b) < 2 * EXACT[dtype]


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("programs", [1024, 2])
def test_norm_and_relu_are_those_of_torch_forward_and_backward(
    dtype: torch.dtype, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", programs)
    torch.manual_seed(0)
    x, d_out = torch.randn(2, ROWS, D).to(dtype)
    weight, bias = 1 + 0.1 * torch.randn(D), 0.1 * torch.randn(D)
    ours = [one.clone().requires_grad_() for one in (x, weight, bias)]
    out = fused.norm_relu(ours[0], ours[1], ours[2], EPS, INTERPRETED)
    exact = [one.double().requires_grad_() for one in (x, weight, bias)]
    expected = F.layer_norm(exact[0], (D,), exact[1], exact[2], EPS).relu()
    assert distance(out, expected) < EXACT[dtype]
    theirs = torch.autograd.grad(expected, exact, d_out.double())
    for a, b in zip(torch.autograd.grad(out, ours, d_out), theirs, strict=True):
        assert distance(a, b) < 2 * EXACT[dtype]


def test_bytenet_through_the_kernels_is_bytenet(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    changes: dict[str, Any] = SMALL | {"architecture": "bytenet"}
    model = ByteNet(ModelConfig(**changes))
    objective = Objective(model.eval(), 0.1)

    def passed() -> list[Tensor]:
        smoothed, nll = objective(batch)
        return [smoothed, nll, *torch.autograd.grad(smoothed, list(model.parameters()))]

    plain = passed()
    interpret(monkeypatch)
    for ours, theirs in zip(passed(), plain, strict=True):
        assert distance(ours, theirs) < 1e-5


def test_what_is_dropped_in_the_forward_pass_has_no_gradient_in_the_backward_pass() -> None:
    torch.manual_seed(0)
    x, y, d_out = torch.randn(3, ROWS, D)
    weight, bias = torch.ones(D), torch.zeros(D)
    _, total, statistics = rows.residual_forward(x, y, weight, bias, seed(5), 0.3, EPS)
    d_x, d_y, _, _ = rows.residual_backward(d_out, total, statistics, weight, seed(5), 0.3)
    factors = kept(0.3, 5)
    torch.testing.assert_close(total, x + y * factors)
    torch.testing.assert_close(d_y, d_x * factors)
    assert 0 < (factors == 0).sum() < factors.numel()


@pytest.mark.parametrize("P_drop", [0.1, 0.3])
def test_dropout_meets_its_share_and_keeps_the_mean(P_drop: float) -> None:
    factors = kept(P_drop, 1, 100, 1000)
    assert factors.unique().tolist() == pytest.approx([0.0, 1 / (1 - P_drop)])
    assert (factors == 0).float().mean().item() == pytest.approx(P_drop, abs=0.004)
    assert factors.mean().item() == pytest.approx(1, abs=0.004)


def test_a_seed_decides_what_is_dropped_and_no_two_rows_or_columns_are_alike() -> None:
    def agreement(one: Tensor, other: Tensor) -> float:
        return (one == other).float().mean().item()

    first = kept(0.5, 1, 64, 512)
    assert torch.equal(first, kept(0.5, 1, 64, 512))
    assert agreement(first, kept(0.5, 2, 64, 512)) == pytest.approx(0.5, abs=0.01)
    for step in (1, 2, 3, 4, 8):  # of four rows that share a draw, and of the next four
        assert agreement(first[step:], first[:-step]) == pytest.approx(0.5, abs=0.01)
        assert agreement(first[:, step:], first[:, :-step]) == pytest.approx(0.5, abs=0.01)


def test_the_sublayers_surroundings_draw_what_they_drop_anew_each_time() -> None:
    torch.manual_seed(0)
    x, y, d_out = torch.randn(3, ROWS, D)
    y.requires_grad_()
    weight, bias = torch.ones(D), torch.zeros(D)

    def drawn() -> tuple[Tensor, Tensor]:
        out = fused.residual_norm(x, y, weight, bias, 0.5, EPS, INTERPRETED)
        return out.detach(), torch.autograd.grad(out, y, d_out)[0]

    torch.manual_seed(1)
    first, second = drawn(), drawn()
    torch.manual_seed(1)
    again = drawn()
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[1] == 0, second[1] == 0)


# --- ReLU, and the product before it -----------------------------------------------------------


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(("tokens", "width"), [(1, 8), (7, 40), (13, 1030)])
def test_relus_gradient_and_that_of_the_bias_are_those_of_torch(
    tokens: int, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PROGRAMS", 20)  # 5 of them: rows are more
    torch.manual_seed(0)
    inner, d_out = torch.randn(2, tokens, width).to(dtype)
    d_x, d_bias = rows.relu_backward(d_out, inner.relu())
    expected = d_out * (inner > 0)
    assert torch.equal(d_x, expected)
    assert d_bias.dtype == torch.float32
    assert distance(d_bias, expected.double().sum(0)) < 1e-6


def test_product_and_relu_in_one_are_those_of_torch() -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 16, requires_grad=True)
    weight, bias = torch.randn(24, 16, requires_grad=True), torch.randn(24, requires_grad=True)
    d_out = torch.randn(9, 24)
    ours = fused.linear_relu(x, weight, bias, INTERPRETED)
    exact = [one.detach().double().requires_grad_() for one in (x, weight, bias)]
    theirs = F.linear(*exact).relu()
    assert distance(ours, theirs) < 1e-6
    found = torch.autograd.grad(ours, (x, weight, bias), d_out)
    for a, b in zip(found, torch.autograd.grad(theirs, exact, d_out.double()), strict=True):
        assert distance(a, b) < 1e-6


# --- Softmax and loss --------------------------------------------------------------------------


MASKED = pytest.mark.filterwarnings("ignore:overflow encountered")  # as a GPU does: what is masked


@MASKED
@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("eps_ls", [0.0, 0.1])
@pytest.mark.parametrize(
    ("V", "words"), [(5, 5), (37, 64), (8192, 8192), (8195, 8256), (9001, 9001)]
)
def test_softmax_leaves_the_gradient_of_the_smoothed_loss(
    V: int, words: int, eps_ls: float, dtype: torch.dtype
) -> None:
    """And none where there are no words, whatever stands there."""
    torch.manual_seed(0)
    tokens = 7
    z = (2 * torch.randn(tokens, words)).to(dtype)
    z[:, V:] += 1000
    labels = torch.randint(1, V, (tokens,), dtype=torch.int32)
    labels[0], labels[[2, 6]] = V - 1, PAD
    exact, gradient = cross_entropy_of(z[:, :V], labels, eps_ls)
    found = rows.softmax(z, V, labels, eps_ls, PAD)
    assert distance(found, exact) < 1e-6
    assert distance(z[:, :V], gradient) < EXACT[dtype]
    assert (z[:, V:] == 0).all()
    assert (found[[2, 6]] == 0).all()
    assert (z[[2, 6]] == 0).all()


@MASKED
def test_softmax_bears_logits_that_are_very_large_or_very_unlike() -> None:
    z = torch.tensor([[1e4, -1e4, 0.0, 9e3, 1e4], [-1e4, -1e4, -1e4, -1e4, -2e4]])
    labels = torch.tensor([1, 4], dtype=torch.int32)
    exact, gradient = cross_entropy_of(z, labels, 0.1)
    found = rows.softmax(z, 5, labels, 0.1, PAD)
    assert distance(found, exact) < 1e-6
    assert distance(z, gradient) < 1e-3  # float32 knows the sum to so many places


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("chunk", [2**28, 5 * 37, 1])
@pytest.mark.parametrize("words", [37, 64])
def test_the_loss_by_the_kernel_is_the_loss_by_torch(
    padding: bool, chunk: int, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    x, matrix = torch.randn(12, 8, requires_grad=True), torch.randn(37, 8, requires_grad=True)
    bias = torch.randn(37, requires_grad=True)
    labels = torch.randint(1, 37, (12,), dtype=torch.int32)
    if padding:
        labels[[1, 5, 6, 11]] = PAD
    results = []
    for fused_ in (False, True):
        if fused_:
            monkeypatch.setattr(losses, "CHUNK", chunk)
            monkeypatch.setattr(losses, "_padded_vocabulary", lambda *_: words)
        smoothed, nll = losses.loss(x, matrix, labels, 0.1, bias=bias, fused=fused_)
        gradients = torch.autograd.grad(3 * smoothed, (x, matrix, bias))
        assert bool((gradients[0][labels == PAD] == 0).all())
        results.append((smoothed, nll, *gradients))
    for ours, theirs in zip(*results, strict=True):
        assert distance(ours, theirs) < 1e-6
    with torch.inference_mode():
        plain = losses.loss(x, matrix, labels, 0.1, bias=bias, fused=True)
    assert [one.item() for one in plain] == pytest.approx([one.item() for one in results[1][:2]])


@pytest.mark.parametrize(("tokens", "words"), [(1, 5), (24_960, 37_000), (25_000, 37_001), (7, 3)])
def test_logits_are_made_a_few_at_a_time_all_chunks_alike_where_that_can_be(
    tokens: int, words: int
) -> None:
    for chunk in (2**28, 2**20, words):
        at_a_time = losses._equal_chunks(tokens, words, chunk)
        assert 1 <= at_a_time <= tokens
        assert at_a_time * words <= max(chunk + words, words)
    assert 24_960 % losses._equal_chunks(24_960, 37_000, 2**28) == 0


# --- All of them in the model ------------------------------------------------------------------


def sums_and_gradients(model: Transformer, batch: Batch) -> list[Tensor]:
    model.zero_grad()
    smoothed, nll = Objective(model, 0.1)(batch)
    smoothed.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    return [smoothed.detach(), nll, *(one.clone() for one in gradients if one is not None)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"d_k": 5, "d_v": 3},
        {"attention_bias": True},
        {"activation": "swish", "logits_bias": True},
        {"scaled": False},
        {"neighbourhood": 4},
        {"neighbourhood": 1},
    ],
    ids=str,
)
def test_the_whole_model_through_the_kernels_is_the_model(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(P_drop=0.0, N=1, **({"h": 2} | changes)).train()
    lengths = [(9, 7), (3, 12), (2, 2)]
    batch = pack(part_of(pairs_of(lengths)), np.arange(3), (16, 24))
    plain = sums_and_gradients(model, batch)
    grouped = sums_and_gradients(model, batch_of(*lengths))
    interpret(monkeypatch)
    fused_ = sums_and_gradients(model, batch)
    assert len(plain) == 2 + len(list(model.parameters()))
    for ours, theirs, others in zip(fused_, plain, grouped, strict=True):
        assert distance(ours, theirs) < 1e-5
        assert distance(ours, others) < 1e-5


def test_recomputing_layers_drops_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    interpret(monkeypatch)
    model = small_model(P_drop=0.3, N=1, h=1).train()
    batch = pack(part_of(pairs_of([(5, 4), (2, 3)])), np.arange(2), (8, 8))
    found = []
    for recompute in (False, True):
        model.recompute = recompute
        torch.manual_seed(0)
        found.append(sums_and_gradients(model, batch))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_kernels_are_for_gpus_and_for_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "INSTALLED", True)
    on_a_gpu: Any = types.SimpleNamespace(device=torch.device("cuda"))
    one, other = small_model(), small_model()
    assert one.kernels.usable(on_a_gpu)
    assert not one.kernels.usable(torch.empty(1))
    assert not one.kernels.usable(torch.empty(1, device="meta"))
    one.kernels.enabled = False
    assert not one.kernels.usable(on_a_gpu)
    assert other.kernels.usable(on_a_gpu)
    copied = copy.deepcopy(one)
    assert not copied.kernels.enabled
    shared = {id(module.kernels) for module in copied.modules() if hasattr(module, "kernels")}
    assert shared == {id(copied.kernels)}


def test_kernels_that_are_missing_or_fail_are_disabled_and_the_reason_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("ptxas fatal\nno sm_99\n")

    chosen = Kernels()

    def select() -> tuple[str, bool]:
        device = torch.device("cpu")
        reason = chosen.select(ModelConfig(), torch.float32, device, training=True)
        return reason, chosen.enabled

    monkeypatch.setattr(kernels, "INSTALLED", False)
    missing = "Triton is not installed: torch's kernels are used, which is slower"
    assert select() == (missing, False)
    monkeypatch.setattr(kernels, "INSTALLED", True)
    monkeypatch.setattr(kernels, "try_out", lambda *_, **__: None)
    assert select() == ("", True)
    monkeypatch.setattr(kernels, "try_out", fail)
    broken = "our kernels do not work here, torch's are used, which is slower: "
    assert select() == (f"{broken}ValueError: no sm_99", False)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("architecture", "of_training", "of_all"),
    [
        (
            "transformer",
            ["backward", "relu_backward", "residual_backward", "softmax"],
            ["forward", "residual_forward"],
        ),
        ("bytenet", ["norm_relu_backward"] * 2 + ["softmax"], ["norm_relu_forward"] * 2),
        ("recurrent", ["softmax"], []),
    ],
)
def test_trying_out_runs_what_a_model_uses_with_its_sizes(
    architecture: Any,
    of_training: list[str],
    of_all: list[str],
    training: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for module, name in (
        *((attention, one) for one in ("forward", "backward")),
        *((rows, one) for one in vars(rows) if one.endswith(("ward", "softmax")) and one[0] != "_"),
    ):
        original = getattr(module, name)

        def counted(*args: Tensor, original: Any = original, name: str = name) -> object:
            called.append(name)
            shapes.extend(tuple(one.shape) for one in args if isinstance(one, Tensor))
            return original(*args)

        monkeypatch.setattr(module, name, counted)
    config = ModelConfig(
        architecture=architecture,
        attention="additive" if architecture == "recurrent" else "dot-product",
        positions="none" if architecture == "recurrent" else "sinusoidal",
        N=1,
        d_model=24,
        d_ff=40,
        h=1 if architecture == "recurrent" else 3,
        d_k=16,
        d_v=8,
        source_vocabulary=70,
        target_vocabulary=70,
    )
    kernels.try_out(config, torch.float32, torch.device("cpu"), training=training)
    assert sorted(called) == sorted(of_all + (of_training if training else []))
    if architecture == "transformer":
        assert {(128, 24), (128, 3, 16), (128, 3, 8)} <= {*shapes}
        assert ((16, 128) in shapes) is training  # of logits
        assert ((128, 40) in shapes) is training


# --- Decoding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(
    ("d_k", "d_v", "k", "r"),
    [
        *((16, 16, 4, None), (8, 24, 1, None), (64, 64, 5, None), (48, 40, 20, None)),
        *((16, 16, 4, 7), (16, 16, 1, 1), (16, 16, 20, 4)),
    ],
)
def test_decodings_kernels_see_what_the_dense_way_sees(
    d_k: int, d_v: int, k: int, r: int | None, dtype: torch.dtype
) -> None:
    """Several steps with hypotheses that go on from one another, sentences of several ages."""
    config = small_model(N=1, h=2, d_k=d_k, d_v=d_v, neighbourhood=r).config
    torch.manual_seed(0)
    S, room, row = 3, (70, 12), 2 * (d_k + d_v)
    like = torch.empty(0, dtype=dtype)
    caches = [Cache(config, S, k, room, like, kernels) for kernels in (Kernels(), Interpreted())]
    keys = torch.randn(1, S * room[0], row).to(dtype)
    heads = Heads(2, d_k, d_v, 0.0, DotProduct())
    for step in range(10):
        if step in (0, 4):  # the second sentence begins anew
            slots = torch.tensor([0, 1, 2] if step == 0 else [1])
            lengths = torch.tensor([70, 1, 33] if step == 0 else [66], dtype=torch.int32)
            places = slots.repeat_interleave(room[0]), torch.arange(room[0]).repeat(len(slots))
            for cache in caches:
                cache.put(slots, lengths, places, keys[:, places[0] * room[0] + places[1]])
        qkv, q = torch.randn(S * k, 2 * d_k + row).to(dtype), torch.randn(S * k, 2 * d_k).to(dtype)
        parents = torch.randint(k, (S, k))
        made = torch.tensor([True, True, step < 7])
        for cache in caches:
            cache.begin_step(room[0], step + 1)
        outputs = []
        for cache in caches:
            ((own, source),) = cache.contexts(torch.full((S * k,), step))
            outputs.append((own.attend(qkv, heads), source.attend(q, torch.relu, None, heads)))
        exact, ours = outputs
        for one, other in zip(ours, exact, strict=True):
            assert distance(one, other) < EXACT[dtype]
        for cache in caches:
            cache.end_step(parents, made)
