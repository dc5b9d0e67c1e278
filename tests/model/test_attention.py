"""Every implementation of attention is Eq. 1."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models import pairs_of, part_of
from transduce.batching.packed import KeyRanges, LengthGroups, PackedTokens, SourceRows
from transduce.batching.static import pack
from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, DotProduct, Heads, SelfAttention, attention
from transduce.model.cache import Cache
from transduce.model.contexts.grouped import GroupedCross, GroupedSelf
from transduce.model.contexts.packed import PackedCross, PackedSelf
from transduce.model.contexts.recorded import RecordedCross, RecordedSelf
from transduce.model.ops.kernels import Kernels

DTYPES = [(torch.float32, 1e-5), (torch.float64, 1e-12)]


def equation_1(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Eq. 1 without the functions that our code uses, in float64."""
    scores = torch.einsum("bhqc,bhkc->bhqk", q.double(), k.double()) / math.sqrt(q.size(-1))
    exponential = (scores - scores.amax(-1, keepdim=True)).exp() * allowed
    return torch.einsum(
        "bhqk,bhkc->bhqc", exponential / exponential.sum(-1, keepdim=True), v.double()
    )


@pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (4, 8), (8, 4), (64, 64)])
@pytest.mark.parametrize("mask", ["none", "causal", "keys"])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_reference_and_the_fused_kernel_are_equation_1_forward_and_backward(
    d_k: int, d_v: int, mask: str, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(0)
    q, k = (torch.randn(3, 2, 7, d_k, dtype=dtype, requires_grad=True) for _ in range(2))
    v = torch.randn(3, 2, 7, d_v, dtype=dtype, requires_grad=True)
    real = torch.arange(7)[None, None, None] < torch.tensor([7, 3, 1])[:, None, None, None]
    everything = torch.ones(7, 7, dtype=torch.bool)
    allowed = {"none": everything, "causal": everything.tril(), "keys": real}[mask]
    exact = equation_1(q, k, v, allowed)
    fused = DotProduct().attend(
        *(q, k, v),
        mask=real if mask == "keys" else None,
        causal=mask == "causal",
        dropout=0.0,
    )
    upstream = torch.randn_like(fused)
    expected = torch.autograd.grad(exact, (q, k, v), upstream.double())
    for ours in (attention(q, k, v, allowed), fused):
        torch.testing.assert_close(ours.double(), exact, rtol=tolerance, atol=tolerance)
        gradients = torch.autograd.grad(ours, (q, k, v), upstream)
        for gradient, other in zip(gradients, expected, strict=True):
            torch.testing.assert_close(gradient, other, rtol=10 * tolerance, atol=10 * tolerance)


def test_a_forbidden_key_has_no_influence() -> None:
    """Paper 3.2.3: what the mask forbids must not leak into the output."""
    q, k, v = torch.randn(3, 1, 2, 5, 8).unbind(0)  # (B, H, Q=K, C)
    allowed = torch.ones(5, 5, dtype=torch.bool).tril()
    before = attention(q, k, v, allowed)
    v[..., -1, :] += 100.0
    torch.testing.assert_close(attention(q, k, v, allowed)[..., :-1, :], before[..., :-1, :])


# --- Contexts against the reference ------------------------------------------------------------

H, D_K, D_V = 3, 8, 4
HEADS = Heads(H, D_K, D_V, 0.0, DotProduct())
lengths_strategy = st.lists(st.integers(1, 9), min_size=1, max_size=12)
pairs_strategy = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


def by_head(x: Tensor) -> Tensor:
    by_token: Tensor = x.unflatten(-1, (H, -1))
    return by_token.transpose(0, 1)[None]  # (T, H * C) -> (1, H, T, C)


def reference_self(qkv: Tensor, *, causal: bool) -> Tensor:
    """Eq. 1 of one sentence. (n, H * (2 d_k + d_v)) -> (n, H * d_v)."""
    q, k, v = (by_head(part) for part in qkv.split([H * D_K, H * D_K, H * D_V], dim=-1))
    allowed = torch.ones(len(qkv), len(qkv), dtype=torch.bool)
    y = attention(q, k, v, allowed.tril() if causal else allowed)
    return y[0].transpose(0, 1).flatten(1)


def reference_cross(q: Tensor, kv: Tensor) -> Tensor:
    """Eq. 1 between two sentences. (Q, H * d_k), (K, H * (d_k + d_v)) -> (Q, H * d_v)."""
    k, v = (by_head(part) for part in kv.split([H * D_K, H * D_V], dim=-1))
    y = attention(by_head(q), k, v, torch.ones(len(q), len(kv), dtype=torch.bool))
    return y[0].transpose(0, 1).flatten(1)


def assert_same_gradient(ours: Tensor, exact: Tensor, inputs: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours, exact, rtol=tolerance, atol=tolerance)
    upstream = torch.randn_like(ours)
    (own,) = torch.autograd.grad(ours, inputs, upstream)
    (expected,) = torch.autograd.grad(exact, inputs, upstream)
    torch.testing.assert_close(own, expected, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@settings(max_examples=15, deadline=None)
@given(lengths=lengths_strategy, causal=st.booleans())
def test_grouped_self_attention_is_the_reference_in_each_sentence(
    dtype: torch.dtype, tolerance: float, lengths: list[int], causal: bool
) -> None:
    lengths = sorted(lengths)
    qkv = torch.randn(sum(lengths), H * (2 * D_K + D_V), dtype=dtype, requires_grad=True)
    groups = LengthGroups.of(np.array(lengths))
    context = RecordedSelf(GroupedSelf(groups, torch.empty(0), causal=causal))
    ours = context.attend(qkv, HEADS)
    exact = torch.cat([reference_self(part, causal=causal) for part in qkv.split(lengths)])
    assert_same_gradient(ours, exact, qkv, tolerance)
    v = [by_head(part[:, 2 * H * D_K :])[0] for part in qkv.split(lengths)]
    (layer,) = context.weights
    weights = [sentence for group in layer for sentence in group]  # (H, n, n) each
    averaged = [
        (weight @ values).transpose(0, 1).flatten(1)
        for weight, values in zip(weights, v, strict=True)
    ]
    torch.testing.assert_close(torch.cat(averaged), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@settings(max_examples=15, deadline=None)
@given(lengths=pairs_strategy)
def test_grouped_cross_attention_is_the_reference_with_its_own_source(
    dtype: torch.dtype, tolerance: float, lengths: list[tuple[int, int]]
) -> None:
    """The source is found in its own order, whatever the order of the targets."""
    queries = np.array([query for query, _ in lengths])
    keys = np.array([key for _, key in lengths])
    by_source = np.argsort(keys, kind="stable")
    by_target = np.argsort(queries, kind="stable")
    rows = SourceRows.of(
        queries=queries[by_target], keys=keys[by_source], rows=np.argsort(by_source)[by_target]
    )
    memory = torch.randn(int(keys.sum()), H * (D_K + D_V), dtype=dtype, requires_grad=True)
    q = torch.randn(int(queries.sum()), H * D_K, dtype=dtype)
    context = RecordedCross(GroupedCross(rows))
    ours = context.attend(q, lambda memory: memory, memory, HEADS)
    sources = dict(zip(by_source, memory.split(keys[by_source].tolist()), strict=True))
    parts = zip(by_target, q.split(queries[by_target].tolist()), strict=True)
    exact = torch.cat([reference_cross(part, sources[sentence]) for sentence, part in parts])
    assert_same_gradient(ours, exact, memory, tolerance)
    (layer,) = context.weights
    for group in layer:
        torch.testing.assert_close(group.sum(-1), torch.ones(group.shape[:-1], dtype=dtype))


@settings(max_examples=15, deadline=None)
@given(lengths=pairs_strategy, spare=st.integers(0, 5))
def test_packed_attention_is_the_reference_in_each_sentence(
    lengths: list[tuple[int, int]], spare: int
) -> None:
    used = sum(source for source, _ in lengths), sum(target for _, target in lengths)
    batch = pack(
        part_of(pairs_of(lengths)), np.arange(len(lengths)), (used[0] + spare, used[1] + spare)
    )
    for side, tokens, causal in ((0, batch.source, False), (1, batch.target, True)):
        qkv = torch.randn(len(tokens.tokens), H * (2 * D_K + D_V), requires_grad=True)
        context = PackedSelf(ranges_of(tokens), tokens.positions)
        sentences = qkv[: used[side]].split([pair[side] for pair in lengths])
        exact = torch.cat([reference_self(part, causal=causal) for part in sentences])
        assert_same_gradient(context.attend(qkv, HEADS)[: used[side]], exact, qkv, 1e-5)
    assert isinstance(batch.cross, KeyRanges)
    memory = torch.randn(len(batch.source.tokens), H * (D_K + D_V), requires_grad=True)
    q = torch.randn(len(batch.target.tokens), H * D_K)
    ours = PackedCross(batch.cross).attend(q, lambda memory: memory, memory, HEADS)
    sources = memory[: used[0]].split([source for source, _ in lengths])
    targets = q[: used[1]].split([target for _, target in lengths])
    exact = torch.cat([reference_cross(*both) for both in zip(targets, sources, strict=True)])
    assert_same_gradient(ours[: used[1]], exact, memory, 1e-5)


def ranges_of(tokens: PackedTokens) -> KeyRanges:
    assert isinstance(tokens.segments, KeyRanges)
    return tokens.segments


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_cached_attention_is_the_reference_of_each_hypothesis(
    dtype: torch.dtype, tolerance: float
) -> None:
    """Hypotheses continue one another; each sees the path that led to it, and its source."""
    torch.manual_seed(0)
    S, k, steps, keys = 2, 3, 5, torch.tensor([4, 2])
    config = ModelConfig(N=1, d_model=24, h=H, d_k=D_K, d_v=D_V)
    cache = Cache(config, S, k, (4, steps), torch.empty(0, dtype=dtype), Kernels())
    memory = torch.randn(S, 4, H * (D_K + D_V), dtype=dtype)
    slot, position = torch.arange(S).repeat_interleave(4), torch.arange(4).repeat(S)
    cache.put(torch.arange(S), keys.int(), (slot, position), memory.flatten(0, 1)[None])
    paths: list[list[Tensor]] = [[] for _ in range(S * k)]  # the projections of each hypothesis
    for step in range(steps):
        cache.begin_step(4, step + 1)
        qkv = torch.randn(S * k, H * (2 * D_K + D_V), dtype=dtype)
        q = torch.randn(S * k, H * D_K, dtype=dtype)
        ((own, cross),) = cache.contexts(torch.full((S * k,), step))
        ours = own.attend(qkv, HEADS), cross.attend(q, torch.relu, None, HEADS)
        for row, path in enumerate(paths):
            path.append(qkv[row])
            source = memory[row // k, : keys[row // k]]
            exact = (
                reference_self(torch.stack(path), causal=True)[-1],
                reference_cross(q[row : row + 1], source)[0],
            )
            for output, expected in zip(ours, exact, strict=True):
                torch.testing.assert_close(output[row], expected, rtol=tolerance, atol=tolerance)
        parents = torch.randint(k, (S, k))
        cache.end_step(parents, torch.ones(S, dtype=torch.bool))
        rows = (parents + k * torch.arange(S)[:, None]).flatten().tolist()
        paths = [list(paths[row]) for row in rows]


# --- Modules -----------------------------------------------------------------------------------

SHAPE = ModelConfig(d_model=24, h=H, d_k=D_K, d_v=D_V)


def matrices() -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each named view, and where it lies in the parameter that holds it."""
    own, cross = SelfAttention(SHAPE, Kernels()), CrossAttention(SHAPE, Kernels())
    begin = 0
    for view in (own.W_Q, own.W_K, own.W_V):
        yield view, own.W_QKV.weight[begin : begin + len(view)]
        begin += len(view)
    assert begin == len(own.W_QKV.weight)
    yield cross.W_K, cross.W_KV.weight[: H * D_K]
    yield cross.W_V, cross.W_KV.weight[H * D_K :]


def test_the_named_projections_are_views_of_the_shared_matrix() -> None:
    for view, part in matrices():
        assert torch.equal(view, part)
        assert view.data_ptr() == part.data_ptr()


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_projects_then_attends_then_projects(causal: bool) -> None:
    layer, x = SelfAttention(SHAPE, Kernels()), torch.randn(6, SHAPE.d_model)
    ours = layer(x, GroupedSelf(LengthGroups(((1, 6),)), torch.arange(6), causal=causal))
    qkv = torch.cat([x @ W.T for W in (layer.W_Q, layer.W_K, layer.W_V)], dim=-1)
    exact = reference_self(qkv, causal=causal) @ layer.W_O.weight.T
    torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-5)


def test_cross_attention_projects_then_attends_then_projects() -> None:
    layer = CrossAttention(SHAPE, Kernels())
    x, memory = torch.randn(5, SHAPE.d_model), torch.randn(7, SHAPE.d_model)
    rows = SourceRows.of(queries=np.array([5]), keys=np.array([7]), rows=np.array([0]))
    ours = layer(x, memory, GroupedCross(rows))
    kv = torch.cat([memory @ layer.W_K.T, memory @ layer.W_V.T], dim=-1)
    exact = reference_cross(x @ layer.W_Q.weight.T, kv) @ layer.W_O.weight.T
    torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-5)


def test_projections_are_initialised_as_separate_matrices() -> None:
    """Each block of a shared matrix is initialised by its own size, not that of the matrix."""
    torch.manual_seed(0)
    config = ModelConfig()
    layer = SelfAttention(config, Kernels())
    for block in layer.W_QKV.weight.split(layer.W_QKV.blocks):
        expected = math.sqrt(2 / (config.d_model + len(block)))
        assert block.std().item() == pytest.approx(expected, rel=0.02)
    assert not [name for name, _ in layer.named_parameters() if name.endswith("bias")]
