"""The Triton kernels of attention compute Eq. 1, in training and in decoding."""

import pytest

pytest.importorskip("triton")

import torch
from interpreted import EXACT, PLACES, Interpreted, packed_batch, poisoned
from torch import Tensor

from models import small_model
from reference import attention_of, distance, view_of
from transduce.batching.packed import Batch
from transduce.model.attention import DotProduct, Heads
from transduce.model.cache import Cache
from transduce.model.ops import packed_attention
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.packed_attention import attend_cross, attend_self
from transduce.model.ops.triton import attention

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter is for machines without a GPU"
)

SHAPES = [(16, 16), (64, 64), (16, 64), (48, 40), (128, 128)]


@pytest.fixture
def batch() -> Batch:
    return packed_batch()


# --- Attention ------------------------------------------------------------------------------------


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
    gradients = [poisoned(*tensor.shape, dtype=dtype) for tensor in (q, k, v)]
    attention.backward(d_out, q, k, v, out, lse, view, *gradients)
    exact = attention_of(q, k, v, view, d_out)
    for ours, theirs in zip((out, *gradients), exact, strict=True):
        assert distance(ours, theirs) < EXACT[dtype]


def test_padding_has_no_output_and_no_gradient(batch: Batch) -> None:
    view = view_of(batch, "cross")
    torch.manual_seed(0)
    q, k, v, d_out = (
        torch.randn(tokens, 2, 16) for tokens in (PLACES[1], PLACES[0], PLACES[0], PLACES[1])
    )
    out, lse = poisoned(PLACES[1], 2, 16), poisoned(2, PLACES[1])
    attention.forward(q, k, v, out, lse, view.first, view.last)
    d_q, d_k, d_v = (poisoned(*tensor.shape) for tensor in (q, k, v))
    attention.backward(d_out, q, k, v, out, lse, view, d_q, d_k, d_v)
    source, target = batch.used
    assert target < PLACES[1]
    assert source < PLACES[0]
    for rest in (out[target:], d_q[target:], d_k[source:], d_v[source:], lse[:, target:]):
        assert (rest == 0).all()


def test_keys_of_other_sentences_have_no_influence(batch: Batch) -> None:
    """They are loaded with the same tile."""
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
def test_packed_attention_of_projections_is_equation_1(
    batch: Batch, d_k: int, d_v: int, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernels and by torch operations."""
    monkeypatch.setattr(packed_attention, "_uses_triton", lambda _: interpreted)
    h = 3
    torch.manual_seed(0)
    causal, cross = view_of(batch, "causal"), view_of(batch, "cross")
    qkv = torch.randn(PLACES[1], h * (2 * d_k + d_v), requires_grad=True)
    q = torch.randn(PLACES[1], h * d_k, requires_grad=True)
    kv = torch.randn(PLACES[0], h * (d_k + d_v), requires_grad=True)
    d_out = torch.randn(PLACES[1], h * d_v)
    sizes = [h * d_k, h * d_k, h * d_v]

    def heads(*of: Tensor) -> list[Tensor]:
        return [tensor.detach().unflatten(-1, (h, -1)) for tensor in of]

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


# --- Decoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize(
    ("d_k", "d_v", "k", "r"),
    [
        *((16, 16, 4, None), (8, 24, 1, None), (64, 64, 5, None), (48, 40, 20, None)),
        *((16, 16, 4, 7), (16, 16, 1, 1), (16, 16, 20, 4)),
    ],
)
def test_the_kernels_of_decoding_compute_what_products_and_masks_compute(
    d_k: int, d_v: int, k: int, r: int | None, dtype: torch.dtype
) -> None:
    """Several steps with reordered hypotheses, and sentences that began at different steps."""
    config = small_model(N=1, h=2, d_k=d_k, d_v=d_v, neighbourhood=r).config
    torch.manual_seed(0)
    S, capacity, row = 3, (70, 12), 2 * (d_k + d_v)
    like = torch.empty(0, dtype=dtype)
    caches = [
        Cache(config, S, k, capacity, like, kernels) for kernels in (Kernels(), Interpreted())
    ]
    keys = torch.randn(1, S * capacity[0], row).to(dtype)
    heads = Heads(2, d_k, d_v, 0.0, DotProduct())
    for step in range(10):
        if step in (0, 4):  # the second sentence begins again
            slots = torch.tensor([0, 1, 2] if step == 0 else [1])
            lengths = torch.tensor([70, 1, 33] if step == 0 else [66], dtype=torch.int32)
            places = (
                slots.repeat_interleave(capacity[0]),
                torch.arange(capacity[0]).repeat(len(slots)),
            )
            for cache in caches:
                cache.put(slots, lengths, places, keys[:, places[0] * capacity[0] + places[1]])
        qkv, q = torch.randn(S * k, 2 * d_k + row).to(dtype), torch.randn(S * k, 2 * d_k).to(dtype)
        parents = torch.randint(k, (S, k))
        alive = torch.tensor([True, True, step < 7])
        for cache in caches:
            cache.begin_step(capacity[0], step + 1)
        outputs = []
        for cache in caches:
            ((own, source),) = cache.contexts(torch.full((S * k,), step))
            outputs.append((own.attend(qkv, heads), source.attend(q, torch.relu, None, heads)))
        exact, ours = outputs
        for output, expected in zip(ours, exact, strict=True):
            assert distance(output, expected) < EXACT[dtype]
        for cache in caches:
            cache.end_step(parents, alive)
