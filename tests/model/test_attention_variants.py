"""One layer of unscaled, restricted, additive and rotary attention is its formula."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from attention_settings import SETTINGS, seen_by
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reference import distance
from transduce.batching.packed import LengthGroups, PackedTokens, SourceRows
from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, SelfAttention, SelfContext, attention
from transduce.model.contexts.grouped import GroupedCross, GroupedSelf
from transduce.model.contexts.recorded import RecordedCross, RecordedSelf
from transduce.model.contexts.selection import grouped_self
from transduce.model.embedding import Embedding
from transduce.model.ops.kernels import Kernels
from transduce.model.variants import additive
from transduce.model.variants.additive import additive_scores
from transduce.model.variants.restricted import BLOCK, neighbours, restricted, span
from transduce.model.variants.rotary import Rotary

SHAPE = ModelConfig(d_model=24, h=3, d_k=8, d_v=4)


def rotated(x: Tensor) -> Tensor:
    """Su et al. 2021, Eq. 13: each pair of channels, as a complex number, turned by its position.

    (H, T, C).
    """
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    frequency = 10_000 ** (-torch.arange(0, x.size(-1), 2, dtype=torch.float64) / x.size(-1))
    angle = torch.arange(x.size(1), dtype=torch.float64)[:, None] * frequency
    return torch.view_as_real(pairs * torch.exp(1j * angle)).flatten(-2)


def rms_norm(x: Tensor) -> Tensor:
    """Zhang and Sennrich 2019, Eq. 4, without the gain."""
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def plain_self(layer: SelfAttention, x: Tensor, config: ModelConfig, *, causal: bool) -> Tensor:
    """Self-attention of one sentence, as the paper writes it, in float64. (T, d) -> (T, d)."""
    q, k, v = (
        (x.double() @ W.double().T).unflatten(-1, (config.h, -1)).transpose(0, 1)
        for W in (layer.W_Q, layer.W_K, layer.W_V)
    )
    if layer.qk_norm is not None and layer.qk_norm.gain is not None:
        gains = layer.qk_norm.gain.double().chunk(2)
        q, k = (rms_norm(x) * gain for x, gain in zip((q, k), gains, strict=True))
    if config.positions == "rotary":
        q, k = rotated(q), rotated(k)
    if config.attention == "additive":
        assert layer.v_a is not None
        sums = torch.tanh(q[:, :, None] + k[:, None])  # (H, Q, K, C)
        scores = (sums * layer.v_a.double()[:, None, None]).sum(-1)
    else:
        scores = q @ k.mT / (math.sqrt(config.d_k) if config.scaled else 1)
    seen = seen_by(len(x), config.neighbourhood, causal=causal)
    y = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
    out: Tensor = y.transpose(0, 1).flatten(1) @ layer.W_O.weight.double().T
    return out


def context_of(lengths: list[int], config: ModelConfig, *, causal: bool) -> GroupedSelf:
    """The context of sentences of these lengths, shortest first."""
    positions = torch.cat([torch.arange(length) for length in lengths])
    tokens = PackedTokens(positions, positions, LengthGroups.of(np.array(lengths)))
    return grouped_self(tokens, causal=causal, neighbourhood=config.neighbourhood)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "changes", [*SETTINGS[:-1], {"neighbourhood": 40}, {"neighbourhood": 300}], ids=str
)
def test_self_attention_is_its_formula_forward_and_backward(
    changes: dict[str, Any], causal: bool
) -> None:
    """Within one block of queries, in a few, and in many."""
    config = SHAPE.replace(**changes)
    torch.manual_seed(0)
    layer = SelfAttention(config, Kernels())
    if layer.qk_norm is not None and layer.qk_norm.gain is not None:
        torch.nn.init.uniform_(layer.qk_norm.gain, 0.5, 2)
    lengths = [1, 3, 3, 40, 90, 200]
    x = torch.randn(sum(lengths), config.d_model, requires_grad=True)
    ours = layer(x, context_of(lengths, config, causal=causal))
    exact = torch.cat(
        [plain_self(layer, sentence, config, causal=causal) for sentence in x.split(lengths)]
    )
    assert distance(ours, exact) < 1e-6
    upstream = torch.randn_like(ours)
    inputs = [x, *layer.parameters()]
    gradients = torch.autograd.grad(ours, inputs, upstream)
    expected = torch.autograd.grad(exact, inputs, upstream.double())
    for gradient, other in zip(gradients, expected, strict=True):
        assert distance(gradient, other) < 1e-5


@pytest.mark.parametrize("changes", SETTINGS[:-1], ids=str)
def test_weights_are_those_that_average_the_values(changes: dict[str, Any]) -> None:
    config = SHAPE.replace(**changes)
    torch.manual_seed(0)
    layer = SelfAttention(config, Kernels())
    x = torch.randn(50, config.d_model)
    for causal in (False, True):
        context = RecordedSelf(context_of([50], config, causal=causal))
        output = layer(x, context)
        (((weights,),),) = context.weights  # (H, T, T)
        seen = seen_by(50, config.neighbourhood, causal=causal)
        assert bool((weights[:, ~seen] == 0).all())
        assert bool((weights[:, seen] > 0).all())
        v = (
            layer.W_QKV(x)
            .split(layer.W_QKV.blocks, -1)[2]
            .unflatten(-1, (config.h, -1))
            .transpose(0, 1)
        )
        y = layer.W_O((weights @ v).transpose(0, 1).flatten(1))
        torch.testing.assert_close(y, output)


@pytest.mark.parametrize(
    "changes",
    [{"scaled": False}, {"attention": "additive"}, {"scaled": False, "qk_norm": True}],
    ids=str,
)
def test_cross_attention_is_its_formula(changes: dict[str, Any]) -> None:
    config = SHAPE.replace(**changes)
    torch.manual_seed(0)
    layer = CrossAttention(config, Kernels())
    for norm in (layer.q_norm, layer.k_norm):
        if norm is not None and norm.gain is not None:
            torch.nn.init.uniform_(norm.gain, 0.5, 2)
    x, memory = torch.randn(7, 24), torch.randn(11, 24)
    rows = SourceRows.of(queries=np.array([3, 4]), keys=np.array([5, 6]), rows=np.array([1, 0]))
    context = RecordedCross(GroupedCross(rows))
    outputs = layer(x, memory, context).split([3, 4])
    (groups,) = context.weights
    for target, source, y, (weights,) in zip(
        x.split([3, 4]), (memory[5:], memory[:5]), outputs, groups, strict=True
    ):
        projections = (target, layer.W_Q.weight), (source, layer.W_K), (source, layer.W_V)
        q, k, v = (
            (tokens.double() @ W.double().T).unflatten(-1, (config.h, -1)).transpose(0, 1)
            for tokens, W in projections
        )
        if layer.q_norm is not None and layer.k_norm is not None:
            assert layer.q_norm.gain is not None
            assert layer.k_norm.gain is not None
            q, k = rms_norm(q) * layer.q_norm.gain, rms_norm(k) * layer.k_norm.gain
        if layer.v_a is None:
            scores = q @ k.mT
        else:
            sums = torch.tanh(q[:, :, None] + k[:, None])
            scores = (sums * layer.v_a.double()[:, None, None]).sum(-1)
        assert distance(weights, scores.softmax(-1)) < 1e-6
        exact = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1) @ layer.W_O.weight.double().T
        assert distance(y, exact) < 1e-6


@given(st.integers(1, 40))
def test_a_neighbourhood_has_r_tokens_around_its_own(r: int) -> None:
    before, after = span(r)
    assert before + 1 + after == r
    assert before - after in (0, 1)
    assert span(r, causal=True) == (before, 0)
    seen = neighbours(100, r, causal=False, device=torch.device("cpu"))
    assert torch.equal(seen, seen_by(100, r, causal=False))
    assert seen[50].sum() == r


@settings(max_examples=30)
@given(n=st.integers(1, 160), r=st.integers(1, 70), causal=st.booleans())
def test_attention_by_blocks_is_attention_with_a_mask(n: int, r: int, causal: bool) -> None:
    torch.manual_seed(n)
    q, k, v = torch.randn(3, 2, 2, n, 4, requires_grad=True).unbind()
    ours = restricted(q, k, v, r, causal=causal)
    exact = attention(q, k, v, seen_by(n, r, causal=causal))
    torch.testing.assert_close(ours, exact)
    upstream = torch.randn_like(ours)
    for gradient, expected in zip(
        torch.autograd.grad(ours, (q, k, v), upstream),
        torch.autograd.grad(exact, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected)


def test_restricted_attention_works_on_r_keys_a_token() -> None:
    """Counted in operations: they grow with n, not with its square."""
    from torch.utils.flop_counter import FlopCounterMode

    counted = []
    for n in (16 * BLOCK, 32 * BLOCK):
        x = torch.randn(1, 2, n, 4, device="meta")
        with FlopCounterMode(display=False) as counter:
            restricted(x, x, x, 8, causal=False)
        counted.append(counter.get_total_flops())
    assert 0 < counted[1] == 2 * counted[0]


def test_a_key_outside_the_neighbourhood_has_no_influence_in_one_layer() -> None:
    config = SHAPE.replace(neighbourhood=9)
    layer = SelfAttention(config, Kernels())
    x = torch.randn(120, SHAPE.d_model)
    changed = x.clone()
    changed[60] += 100
    for causal in (False, True):
        context: SelfContext = context_of([120], config, causal=causal)
        before, after = layer(x, context), layer(changed, context)
        same = (before == after).all(-1)
        last = 60 + 4  # the last token whose 4 predecessors include 60
        first = 60 if causal else 60 - 4
        assert [token for token in range(120) if not same[token]] == list(range(first, last + 1))


@pytest.mark.parametrize("chunk", [1, 100, 2**26])
def test_additive_scores_do_not_depend_on_the_chunk_size(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(additive.CHUNK, "cpu", chunk)
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 5, 4, requires_grad=True), torch.randn(2, 3, 7, 4, requires_grad=True)
    v = torch.randn(3, 4, requires_grad=True)
    exact = (torch.tanh(q[:, :, :, None] + k[:, :, None]) * v[:, None, None]).sum(-1)
    ours = additive_scores(q, k, v)
    torch.testing.assert_close(ours, exact)
    upstream = torch.randn_like(ours)
    for gradient, expected in zip(
        torch.autograd.grad(ours, (q, k, v), upstream),
        torch.autograd.grad(exact, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("changes", [{"attention": "additive"}, {"neighbourhood": 3}], ids=str)
def test_attention_dropout_acts_on_the_weights(changes: dict[str, Any]) -> None:
    config = SHAPE.replace(attention_dropout=0.5, **changes)
    layer, x = SelfAttention(config, Kernels()), torch.randn(60, SHAPE.d_model)
    context = context_of([60], config, causal=True)
    torch.testing.assert_close(layer.eval()(x, context), layer(x, context))
    layer.train()
    assert not torch.allclose(layer(x, context), layer(x, context))


# --- Rotary positions --------------------------------------------------------------------------


def test_rotary_positions_are_those_of_llama() -> None:
    """Llama pairs channel i with d_k / 2 + i; we pair 2i with 2i + 1, as Su et al. do."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    torch.manual_seed(0)
    positions = torch.tensor([0, 1, 2, 7, 100, 300])
    q, k = torch.randn(2, 6, 2, 16, dtype=torch.float64).unbind()  # (T, H, C)
    v = torch.randn(6, 2 * 4, dtype=torch.float64)
    rotary = Rotary(ModelConfig(h=2, d_k=16, d_v=4, positions="rotary"), Kernels()).double()
    ours = rotary(torch.cat([q.flatten(1), k.flatten(1), v], dim=-1), positions)
    frequencies = 10_000 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    angles = (positions[:, None] * frequencies).repeat(1, 2)[None]  # (1, T, C)
    halves = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])
    theirs = llama.apply_rotary_pos_emb(
        *(x[..., halves].transpose(0, 1)[None] for x in (q, k)), angles.cos(), angles.sin()
    )
    for projection, expected in zip(ours[:, :64].split(32, dim=-1), theirs, strict=True):
        by_head = projection.unflatten(-1, (2, 16))[..., halves].transpose(0, 1)[None]
        torch.testing.assert_close(by_head, expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(ours[:, 64:], v)
    default = llama.LlamaRotaryEmbedding(
        llama.LlamaConfig(hidden_size=32, num_attention_heads=2, head_dim=16)
    )
    torch.testing.assert_close(default.inv_freq.double(), frequencies, rtol=1e-6, atol=0)


def test_the_product_of_rotated_queries_and_keys_depends_on_their_distance_only() -> None:
    rotary = Rotary(ModelConfig(h=1, d_k=8, d_v=2, positions="rotary"), Kernels()).double()
    q, k = torch.randn(2, 8, dtype=torch.float64)

    def product(query_at: int, key_at: int) -> float:
        rows = torch.stack([torch.cat([x, x, x[:2]]) for x in (q, k)])
        query, key = rotary(rows, torch.tensor([query_at, key_at]))
        return float(query[:8] @ key[8:16])

    assert product(3, 1) == pytest.approx(product(203, 201), abs=1e-5)
    assert product(5, 9) == pytest.approx(product(100, 104), abs=1e-5)
    assert product(3, 1) != pytest.approx(product(3, 2), abs=1e-3)
    assert product(7, 7) == pytest.approx(float(q @ k), abs=1e-5)


def test_rotary_positions_add_nothing_to_the_embeddings() -> None:
    config = ModelConfig(N=1, d_model=8, source_vocabulary=9, target_vocabulary=9)
    embedding = Embedding(torch.nn.Parameter(torch.randn(9, 8)), config.replace(positions="rotary"))
    x = embedding.eval()(torch.tensor([4, 4, 5]), torch.tensor([0, 1, 2]))
    assert torch.equal(x[0], x[1])
    assert not torch.equal(x[0], x[2])
