"""Unscaled, restricted and additive attention are what they say, on every path."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, CommandLine, options
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models import (
    batch_of,
    logits_by_sentence,
    pairs_of,
    part_of,
    search,
    sentence,
    small_model,
    stepped,
    together_and_alone,
    with_a_token_changed,
)
from plain_beam_search import plain_search
from reference import distance
from transduce.batching.packed import (
    KeyRanges,
    LengthGroups,
    PackedTokens,
    SourceRows,
    make_batch,
)
from transduce.batching.static import pack
from transduce.config import ModelConfig, SearchConfig
from transduce.errors import BadSetting
from transduce.model.attention import CrossAttention, SelfAttention, SelfContext, attention
from transduce.model.attention_maps import attention_maps, source_weights
from transduce.model.cache import Cache
from transduce.model.contexts.grouped import GroupedCross, GroupedSelf
from transduce.model.contexts.recorded import RecordedCross, RecordedSelf
from transduce.model.contexts.selection import grouped_self
from transduce.model.ops.kernels import Kernels
from transduce.model.transformer import Transformer
from transduce.model.variants import additive
from transduce.model.variants.additive import additive_scores
from transduce.model.variants.restricted import BLOCK, narrow, neighbours, restricted, span
from transduce.training.gradient import Objective

DOT_PRODUCTS: list[dict[str, Any]] = [
    {"scaled": False},
    {"neighbourhood": 1},
    {"neighbourhood": 4},
    {"neighbourhood": 5, "scaled": False},
]
SETTINGS: list[dict[str, Any]] = [
    *DOT_PRODUCTS,
    {"attention": "additive"},
    {"attention": "additive", "d_k": 5, "attention_bias": True},
]
SHAPE = ModelConfig(d_model=24, h=3, d_k=8, d_v=4)


def seen_by(n: int, r: int | None, *, causal: bool) -> Tensor:
    """Tell who sees whom, token by token."""
    seen = torch.zeros(n, n, dtype=torch.bool)
    for query in range(n):
        for key in range(n):
            near = r is None or query - r // 2 <= key <= query + (r - 1) // 2
            seen[query, key] = near and (key <= query or not causal)
    return seen


def plain_self(layer: SelfAttention, x: Tensor, config: ModelConfig, *, causal: bool) -> Tensor:
    """Self-attention of one sentence, word for word, in float64. (T, d) -> (T, d)."""
    W = layer.W_QKV.weight.double().split(layer.sizes)
    q, k, v = ((x.double() @ one.T).unflatten(-1, (config.h, -1)).transpose(0, 1) for one in W)
    if config.attention == "additive":
        assert layer.v_a is not None
        met = torch.tanh(q[:, :, None] + k[:, None])  # (H, Q, K, C)
        scores = (met * layer.v_a.double()[:, None, None]).sum(-1)
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


# --- One layer ---------------------------------------------------------------------------------


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
    layer = SelfAttention(config)
    lengths = [1, 3, 3, 40, 90, 200]
    x = torch.randn(sum(lengths), config.d_model, requires_grad=True)
    ours = layer(x, context_of(lengths, config, causal=causal))
    exact = torch.cat([plain_self(layer, one, config, causal=causal) for one in x.split(lengths)])
    assert distance(ours, exact) < 1e-6
    upstream = torch.randn_like(ours)
    learned = [x, *layer.parameters()]
    own = torch.autograd.grad(ours, learned, upstream)
    theirs = torch.autograd.grad(exact, learned, upstream.double())
    for a, b in zip(own, theirs, strict=True):
        assert distance(a, b) < 1e-5


@pytest.mark.parametrize("changes", SETTINGS[:-1], ids=str)
def test_weights_are_those_that_average_the_values(changes: dict[str, Any]) -> None:
    config = SHAPE.replace(**changes)
    torch.manual_seed(0)
    layer = SelfAttention(config)
    x = torch.randn(50, config.d_model)
    for causal in (False, True):
        context = RecordedSelf(context_of([50], config, causal=causal))
        output = layer(x, context)
        (((weights,),),) = context.weights  # (H, T, T)
        seen = seen_by(50, config.neighbourhood, causal=causal)
        assert bool((weights[:, ~seen] == 0).all())
        assert bool((weights[:, seen] > 0).all())
        v = layer.W_QKV(x).split(layer.sizes, -1)[2].unflatten(-1, (config.h, -1)).transpose(0, 1)
        y = layer.W_O((weights @ v).transpose(0, 1).flatten(1))
        torch.testing.assert_close(y, output)


@pytest.mark.parametrize("changes", [{"scaled": False}, {"attention": "additive"}], ids=str)
def test_cross_attention_is_its_formula(changes: dict[str, Any]) -> None:
    config = SHAPE.replace(**changes)
    torch.manual_seed(0)
    layer = CrossAttention(config)
    x, memory = torch.randn(7, 24), torch.randn(11, 24)
    view = SourceRows.of(queries=np.array([3, 4]), keys=np.array([5, 6]), rows=np.array([1, 0]))
    context = RecordedCross(GroupedCross(view))
    found = layer(x, memory, context).split([3, 4])
    (groups,) = context.weights
    W_K, W_V = layer.W_KV.weight.double().split(layer.sizes)
    for own, source, y, (weights,) in zip(
        x.split([3, 4]), (memory[5:], memory[:5]), found, groups, strict=True
    ):
        sides = (own, layer.W_Q.weight.double()), (source, W_K), (source, W_V)
        q, k, v = (
            (run.double() @ W.T).unflatten(-1, (config.h, -1)).transpose(0, 1) for run, W in sides
        )
        if layer.v_a is None:
            scores = q @ k.mT
        else:
            met = torch.tanh(q[:, :, None] + k[:, None])
            scores = (met * layer.v_a.double()[:, None, None]).sum(-1)
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
def test_blocks_of_a_sentence_see_what_the_whole_sees(n: int, r: int, causal: bool) -> None:
    torch.manual_seed(n)
    q, k, v = torch.randn(3, 2, 2, n, 4, requires_grad=True).unbind()
    ours = restricted(q, k, v, r, causal=causal)
    exact = attention(q, k, v, seen_by(n, r, causal=causal))
    torch.testing.assert_close(ours, exact)
    upstream = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad(ours, (q, k, v), upstream),
        torch.autograd.grad(exact, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_restricted_attention_works_on_r_keys_a_token() -> None:
    """Scores are counted: they grow with n, and not with its square."""
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
    layer = SelfAttention(config)
    x = torch.randn(120, SHAPE.d_model)
    changed = x.clone()
    changed[60] += 100
    for causal in (False, True):
        context: SelfContext = context_of([120], config, causal=causal)
        before, after = layer(x, context), layer(changed, context)
        same = (before == after).all(-1)
        last = 60 + 4  # the last that sees 60 as one of its 4 before
        first = 60 if causal else 60 - 4
        assert [at for at in range(120) if not same[at]] == list(range(first, last + 1))


@pytest.mark.parametrize("chunk", [1, 100, 2**26])
def test_additive_scores_do_not_depend_on_how_many_are_made_at_a_time(
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
    for a, b in zip(
        torch.autograd.grad(ours, (q, k, v), upstream),
        torch.autograd.grad(exact, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("changes", [{"attention": "additive"}, {"neighbourhood": 3}], ids=str)
def test_attention_dropout_acts_on_the_weights(changes: dict[str, Any]) -> None:
    config = SHAPE.replace(attention_dropout=0.5, **changes)
    layer, x = SelfAttention(config), torch.randn(60, SHAPE.d_model)
    context = context_of([60], config, causal=True)
    torch.testing.assert_close(layer.eval()(x, context), layer(x, context))
    layer.train()
    assert not torch.allclose(layer(x, context), layer(x, context))


# --- The whole model ---------------------------------------------------------------------------


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_changing_a_future_token_leaves_earlier_logits_exactly_as_they_were(
    changes: dict[str, Any],
) -> None:
    model = small_model(**changes)
    before, after = with_a_token_changed(model, 60, 40)
    assert torch.equal(before[:41], after[:41])
    assert not torch.allclose(before[41:], after[41:])


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_a_sentence_alone_and_beside_others_has_the_same_outputs(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    for together, alone in together_and_alone(
        model, [(3, 9), (50, 70), (1, 1), (9, 9), (50, 3), (12, 70)]
    ):
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_decoding_step_by_step_gives_the_teacher_forced_logits(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    pairs = pairs_of([(3, 12), (5, 12), (9, 12)])
    forced = logits_by_sentence(model, make_batch(pairs))
    with torch.inference_mode():
        found = stepped(model, pairs, 1)
    torch.testing.assert_close(torch.stack(found, dim=1), torch.stack(forced), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_searching_with_caches_is_the_plain_search(changes: dict[str, Any]) -> None:
    """Hypotheses that go on from one another, sentences of several ages in a slot."""
    model = small_model(3, source_vocabulary=9, target_vocabulary=9, **changes)
    with torch.no_grad():
        model.output.mul_(4)
    sources = [sentence(length, length, 9) for length in (4, 2, 7)]
    config = SearchConfig(beam=3, nbest=2, extra=5)
    found = search(model, sources, config, forbidden=[0, 1, 3], batch=2)
    for source, ours in zip(sources, found, strict=True):
        theirs = plain_search([model], source, config, forbidden=[0, 1, 3])
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)


def test_a_slot_that_waits_for_its_next_sentence_still_sees_something() -> None:
    """Its softmax would be no number, which a draw from it cannot bear."""
    config = small_model(1, neighbourhood=2).config
    cache = Cache(config, 2, 1, (4, 12), torch.empty(0), Kernels())
    for step in range(9):
        cache.begin_step(4, step + 1)
        cache.end_step(torch.zeros(2, 1, dtype=torch.long), torch.ones(2, dtype=torch.int32))
    cache.lengths[1] = 1  # another sentence has begun beside the one that has ended
    cache.begin_step(4, 2)
    assert not cache.own_mask.isinf().all(dim=-1).any()


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_narrow_and_packed_models_score_nearly_as_before(changes: dict[str, Any]) -> None:
    sources, config = [sentence(n, n) for n in (9, 4)], SearchConfig(extra=3)
    scores = []
    models = [small_model(**changes) for _ in range(3)]
    models[1].narrow(torch.bfloat16)
    models[2].pack()
    for model in models:
        found = search(model, sources, config, forbidden=[0, 1, 3])
        scores.append([one[0].score for one in found])
    assert scores[1] == pytest.approx(scores[0], abs=0.05)
    assert scores[2] == pytest.approx(scores[0], abs=1e-5)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_looking_shows_the_weights_that_were_used(changes: dict[str, Any]) -> None:
    model, batch = small_model(**changes), batch_of((6, 9))
    weights = attention_maps(model, batch)
    r = model.config.neighbourhood
    for part, seen in (
        (weights.encoder, seen_by(6, r, causal=False)),
        (weights.decoder, seen_by(9, r, causal=True)),
        (weights.cross, torch.ones(9, 6, dtype=torch.bool)),  # never restricted
    ):
        torch.testing.assert_close(part.sum(-1), torch.ones(part.shape[:-1]))
        assert bool(((part > 0) == seen).all())
    torch.testing.assert_close(weights.output, model(batch))


def sums_and_gradients(model: Transformer, batch: Any) -> list[Tensor]:
    model.zero_grad()
    smoothed, nll = Objective(model, 0.1)(batch)
    smoothed.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    return [smoothed.detach(), nll, *(one.clone() for one in gradients if one is not None)]


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_alignment_is_the_cross_attention_of_the_last_layer(changes: dict[str, Any]) -> None:
    model, pairs = small_model(**changes), pairs_of([(6, 9), (3, 9), (8, 2)])
    batch = make_batch(pairs)
    for number, weights in zip(batch.order, source_weights(model, batch), strict=True):
        source = len(pairs[number][0])
        alone = attention_maps(model, make_batch([pairs[number]])).cross[-1].mean(0)
        torch.testing.assert_close(weights[:, :source], alone, rtol=1e-4, atol=1e-5)
        assert not weights[:, source:].any()


@pytest.mark.parametrize("changes", DOT_PRODUCTS, ids=str)
def test_packed_runs_have_the_loss_and_the_gradients_of_groups(changes: dict[str, Any]) -> None:
    model = small_model(P_drop=0.0, **changes).train()
    lengths = [(9, 7), (3, 12), (2, 2), (40, 50)]
    packed = pack(part_of(pairs_of(lengths)), np.arange(len(lengths)), (64, 80))
    for ours, theirs in zip(
        sums_and_gradients(model, packed),
        sums_and_gradients(model, batch_of(*lengths)),
        strict=True,
    ):
        assert distance(ours, theirs) < 1e-5


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1), st.integers(1, 30))
def test_narrowed_ranges_see_as_they_are_seen_and_only_grow(
    lengths: list[tuple[int, int]], r: int
) -> None:
    total = sum(map(max, lengths)) + 7  # some filler
    batch = pack(part_of(pairs_of(lengths)), np.arange(len(lengths)), (total, total))
    at = torch.arange(total)
    for run, causal in ((batch.source, False), (batch.target, True)):
        assert isinstance(run.segments, KeyRanges)
        view = narrow(run.segments, r)
        sees = (at >= view.first[:, None]) & (at < view.last[:, None])
        seen = (at >= view.seen_first[:, None]) & (at < view.seen_last[:, None])
        assert torch.equal(sees, seen.T)
        whole = (at >= run.segments.first[:, None]) & (at < run.segments.last[:, None])
        assert torch.equal(sees, whole & seen_by(total, r, causal=causal))
        assert all(bool((one.diff() >= 0).all()) for one in view)


@pytest.mark.parametrize(("name", "value"), [("scaled", False), ("neighbourhood", 3)])
def test_what_additive_attention_has_not_is_refused_with_it(name: str, value: Any) -> None:
    with pytest.raises(BadSetting, match=f"{name} = {value}: expected .*additive attention"):
        ModelConfig(attention="additive").replace(**{name: value})


def test_other_settings_than_additive_attention_make_no_weights() -> None:
    usual = dict(small_model().named_parameters())
    for changes in DOT_PRODUCTS:
        other = dict(small_model(**changes).named_parameters())
        assert usual.keys() == other.keys()
        assert all(torch.equal(usual[name], other[name]) for name in usual)
    more = small_model(attention="additive").named_parameters()
    assert {name.rpartition(".")[2] for name, _ in more} - {
        name.rpartition(".")[2] for name in usual
    } == {"v_a"}


@pytest.mark.parametrize("setting", ["scaled=false", "neighbourhood=8", "attention=additive"])
def test_a_run_learns_translates_and_is_looked_into(
    setting: str, cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    extra = options(TINY | {"lr_scale": "2", "warmup": "10", "validate_bleu": "2"})
    source, target = tiny_files
    done = cli(
        *("train", source, target, "--out", run, "--preset", "tiny", "--device", "cpu"),
        *(*extra, "--set", setting),
    )
    assert done.status == 0, done.stderr
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    done = cli("translate", run, "--device", "cpu", input="a dog sees the man.\n")
    assert (done.status, done.stdout.count("\n")) == (0, 1), done.stderr
    done = cli("look", run, "a dog sees the man.", "--out", tmp_path / "heads.svg")
    assert done.status == 0, done.stderr
    done = cli("export", run, tmp_path / "out", "--to", "huggingface")
    assert setting.partition("=")[0] in done.error
