"""Attention is Eq. 1, in every layout and in every kernel."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transduce.batching.packed import LengthGroups, SourceRows
from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, SelfAttention, attention, attention_weights


def equation_1(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Eq. 1 word for word, in float64."""
    scores = torch.einsum("bhqc,bhkc->bhqk", q.double(), k.double()) / math.sqrt(q.size(-1))
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    exponential = (scores - scores.amax(-1, keepdim=True)).exp()
    return torch.einsum(
        "bhqk,bhkc->bhqc", exponential / exponential.sum(-1, keepdim=True), v.double()
    )


@pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (4, 8), (8, 4), (64, 64)])
@pytest.mark.parametrize("mask", ["none", "causal", "keys"])
def test_the_kernel_is_equation_1_forward_and_backward(d_k: int, d_v: int, mask: str) -> None:
    torch.manual_seed(0)
    q, k = (torch.randn(3, 2, 7, d_k, requires_grad=True) for _ in range(2))
    v = torch.randn(3, 2, 7, d_v, requires_grad=True)
    real = torch.arange(7)[None, None, None] < torch.tensor([7, 3, 1])[:, None, None, None]
    allowed = {"none": None, "causal": torch.ones(7, 7).tril().bool(), "keys": real}[mask]
    ours = attention(q, k, v, causal=mask == "causal", allowed=real if mask == "keys" else None)
    reference = equation_1(q, k, v, allowed)
    torch.testing.assert_close(ours.double(), reference, rtol=1e-5, atol=1e-6)
    upstream = torch.randn_like(ours)
    own = torch.autograd.grad(ours, (q, k, v), upstream)
    exact = torch.autograd.grad(reference, (q, k, v), upstream.double())
    for a, b in zip(own, exact, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_forbidden_key_has_no_influence() -> None:
    """Paper 3.2.3: what the mask forbids must not leak into the output."""
    q, k, v = torch.randn(3, 1, 2, 5, 8).unbind(0)  # (B, H, Q=K, C)
    before = attention(q, k, v, causal=True)
    v[..., -1, :] += 100.0
    torch.testing.assert_close(attention(q, k, v, causal=True)[..., :-1, :], before[..., :-1, :])


def test_weights_are_those_that_average_the_values() -> None:
    q, k, v = torch.randn(3, 2, 2, 5, 8).unbind(0)
    for causal in (False, True):
        weights = attention_weights(q, k, causal=causal)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))
        torch.testing.assert_close(weights @ v, attention(q, k, v, causal=causal))


SHAPE = ModelConfig(d_model=24, h=3, d_k=8, d_v=4)


def heads(x: Tensor, h: int) -> Tensor:
    return x.view(len(x), h, -1).transpose(0, 1)[None]  # (1, H, T, C)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.booleans())
def test_packed_self_attention_is_each_sentence_alone(lengths: list[int], causal: bool) -> None:
    torch.manual_seed(1)
    layer = SelfAttention(SHAPE)
    lengths = sorted(lengths)
    x = torch.randn(sum(lengths), SHAPE.d_model)
    packed = layer(x, LengthGroups.of(np.array(lengths)), causal=causal)
    W_Q, W_K, W_V = layer.W_QKV.weight.split(layer.sizes)
    for part, out in zip(x.split(lengths), packed.split(lengths), strict=True):
        q, k, v = (heads(part @ W.T, SHAPE.h) for W in (W_Q, W_K, W_V))
        allowed = torch.ones(len(part), len(part)).tril().bool() if causal else None
        y = equation_1(q, k, v, allowed)[0].transpose(0, 1).flatten(1)
        torch.testing.assert_close(
            out.double(), y @ layer.W_O.weight.double().T, rtol=1e-4, atol=1e-5
        )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_packed_cross_attention_meets_its_own_source_only(lengths: list[tuple[int, int]]) -> None:
    """The source is found in its own order, whatever the order of the targets."""
    torch.manual_seed(2)
    layer = CrossAttention(SHAPE)
    queries = np.array([query for query, _ in lengths])
    keys = np.array([key for _, key in lengths])
    by_source = np.argsort(keys, kind="stable")
    by_target = np.argsort(queries, kind="stable")
    view = SourceRows.of(
        queries=queries[by_target], keys=keys[by_source], rows=np.argsort(by_source)[by_target]
    )
    memory = torch.randn(int(keys.sum()), SHAPE.d_model, requires_grad=True)
    x = torch.randn(int(queries.sum()), SHAPE.d_model)
    packed = layer(x, layer.keys_values(memory, view), view.groups)
    sources = dict(zip(by_source, memory.split(keys[by_source].tolist()), strict=True))
    W_K, W_V = layer.W_KV.weight.split(layer.sizes)
    reference = []
    for sentence, part in zip(by_target, x.split(queries[by_target].tolist()), strict=True):
        source = sources[sentence]
        q = heads(part @ layer.W_Q.weight.T, SHAPE.h)
        k, v = heads(source @ W_K.T, SHAPE.h), heads(source @ W_V.T, SHAPE.h)
        reference.append(equation_1(q, k, v)[0].transpose(0, 1).flatten(1))
    expected = torch.cat(reference) @ layer.W_O.weight.double().T
    torch.testing.assert_close(packed.double(), expected, rtol=1e-4, atol=1e-5)
    upstream = torch.randn_like(packed)
    (ours,) = torch.autograd.grad(packed, memory, upstream)
    (exact,) = torch.autograd.grad(expected, memory, upstream.double())
    torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-5)


def test_projections_begin_as_if_they_were_apart() -> None:
    """Each block of a shared matrix has the spread of its own fan, not of the whole."""
    torch.manual_seed(0)
    config = ModelConfig()
    layer = SelfAttention(config)
    for block in layer.W_QKV.weight.split(layer.sizes):
        expected = math.sqrt(2 / (config.d_model + len(block)))
        assert block.std().item() == pytest.approx(expected, rel=0.02)
    assert not [name for name, _ in layer.named_parameters() if name.endswith("bias")]
