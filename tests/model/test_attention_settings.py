"""Settings of attention, norms and feed-forward networks: the whole model, on every path."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attention_settings import DOT_PRODUCTS, NORMS, SETTINGS, seen_by
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
from transduce.batching.packed import KeyRanges, make_batch
from transduce.batching.static import pack
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadSetting
from transduce.model.attention_maps import attention_maps, source_weights
from transduce.model.cache import Cache
from transduce.model.ops.kernels import Kernels
from transduce.model.transformer import Transformer
from transduce.model.variants.restricted import narrow
from transduce.subwords import BOS
from transduce.training.gradient import Objective


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
def test_padded_tensors_give_the_logits_of_packed_ones(changes: dict[str, Any]) -> None:
    model, pairs = small_model(**changes), pairs_of([(3, 9), (7, 2), (5, 4)])
    source, target = (
        torch.nn.utils.rnn.pad_sequence([torch.from_numpy(side) for side in sides], True)
        for sides in (
            [source for source, _ in pairs],
            [np.append(BOS, target[:-1]) for _, target in pairs],
        )
    )
    padded = model.forward_padded(source, target)
    for row, logits in zip(padded, logits_by_sentence(model, make_batch(pairs)), strict=True):
        torch.testing.assert_close(row[: len(logits)], logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_decoding_step_by_step_gives_the_teacher_forced_logits(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    pairs = pairs_of([(3, 12), (5, 12), (9, 12)])
    forced = logits_by_sentence(model, make_batch(pairs))
    with torch.inference_mode():
        steps = stepped(model, pairs, 1)
    torch.testing.assert_close(torch.stack(steps, dim=1), torch.stack(forced), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_search_with_a_cache_is_plain_beam_search(changes: dict[str, Any]) -> None:
    """Hypotheses continue one another, and slots are at different steps."""
    model = small_model(3, source_vocabulary=9, target_vocabulary=9, **changes)
    with torch.no_grad():
        model.output.mul_(4)
    sources = [sentence(length, length, 9) for length in (4, 2, 7)]
    config = SearchConfig(beam=3, nbest=2, extra=5)
    outputs = search(model, sources, config, forbidden=[0, 1, 3], batch=2)
    for source, ours in zip(sources, outputs, strict=True):
        expected = plain_search([model], source, config, forbidden=[0, 1, 3])
        assert [output.tokens for output in ours] == [output.tokens for output in expected]
        for output, other in zip(ours, expected, strict=True):
            assert output.score == pytest.approx(other.score, abs=1e-4)


def test_a_vacant_slot_sees_at_least_one_key() -> None:
    """Its softmax would be NaN, and sampling from it would fail."""
    config = small_model(1, neighbourhood=2).config
    cache = Cache(config, 2, 1, (4, 12), torch.empty(0), Kernels())
    for step in range(9):
        cache.begin_step(4, step + 1)
        cache.end_step(torch.zeros(2, 1, dtype=torch.long), torch.ones(2, dtype=torch.int32))
    cache.lengths[1] = 1  # a new sentence; the other slot is vacant
    cache.begin_step(4, 2)
    assert not cache.target_mask.isinf().all(dim=-1).any()


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_narrow_and_packed_models_score_nearly_as_before(changes: dict[str, Any]) -> None:
    sources, config = [sentence(n, n) for n in (9, 4)], SearchConfig(extra=3)
    scores = []
    models = [small_model(**changes) for _ in range(3)]
    models[1].narrow(torch.bfloat16)
    models[2].pack()
    for model in models:
        outputs = search(model, sources, config, forbidden=[0, 1, 3])
        scores.append([best.score for best, *_ in outputs])
    assert scores[1] == pytest.approx(scores[0], abs=0.05)
    assert scores[2] == pytest.approx(scores[0], abs=1e-5)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_attention_maps_are_the_weights_that_were_used(changes: dict[str, Any]) -> None:
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
    smoothed, nll = Objective(model, TrainConfig())(batch)
    smoothed.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [smoothed.detach(), nll, *gradients]


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_alignment_is_the_cross_attention_of_the_last_layer(changes: dict[str, Any]) -> None:
    model, pairs = small_model(**changes), pairs_of([(6, 9), (3, 9), (8, 2)])
    batch = make_batch(pairs)
    for number, weights in zip(batch.order, source_weights(model, batch), strict=True):
        source = len(pairs[number][0])
        alone = attention_maps(model, make_batch([pairs[number]])).cross[-1].mean(0)
        torch.testing.assert_close(weights[:, :source], alone, rtol=1e-4, atol=1e-5)
        assert not weights[:, source:].any()


@pytest.mark.parametrize("changes", [*DOT_PRODUCTS, *NORMS], ids=str)
def test_packed_and_grouped_batches_have_the_same_loss_and_gradients(
    changes: dict[str, Any],
) -> None:
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
def test_narrowed_ranges_are_consistent_and_never_decrease(
    lengths: list[tuple[int, int]], r: int
) -> None:
    total = sum(map(max, lengths)) + 7  # some padding
    batch = pack(part_of(pairs_of(lengths)), np.arange(len(lengths)), (total, total))
    token = torch.arange(total)
    for side, causal in ((batch.source, False), (batch.target, True)):
        assert isinstance(side.segments, KeyRanges)
        ranges = narrow(side.segments, r)
        keys = (token >= ranges.first[:, None]) & (token < ranges.last[:, None])
        queries = (token >= ranges.seen_first[:, None]) & (token < ranges.seen_last[:, None])
        assert torch.equal(keys, queries.T)
        sentence_keys = token >= side.segments.first[:, None]
        sentence_keys &= token < side.segments.last[:, None]
        assert torch.equal(keys, sentence_keys & seen_by(total, r, causal=causal))
        assert all(bool((bound.diff() >= 0).all()) for bound in ranges)


@pytest.mark.parametrize(("name", "value"), [("scaled", False), ("neighbourhood", 3)])
def test_settings_of_dot_products_are_refused_with_additive_attention(
    name: str, value: Any
) -> None:
    with pytest.raises(BadSetting, match=f"{name} = {value}: expected .*additive attention"):
        ModelConfig(attention="additive").replace(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_k": 7}, "d_k = 7: expected an even number: rotary positions rotate pairs"),
        ({"attention": "additive"}, "positions = 'rotary': expected .* dot-product"),
        ({"architecture": "convs2s"}, "positions = 'rotary': expected .* dot-product"),
    ],
)
def test_rotary_positions_are_refused_where_nothing_rotates(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadSetting, match=message):
        ModelConfig(positions="rotary").replace(**changes)


def test_only_additive_attention_has_weights_of_its_own() -> None:
    usual = dict(small_model().named_parameters())
    for changes in DOT_PRODUCTS:
        other = dict(small_model(**changes).named_parameters())
        assert usual.keys() == other.keys()
        assert all(torch.equal(usual[name], other[name]) for name in usual)
    more = small_model(attention="additive").named_parameters()
    assert {name.rpartition(".")[2] for name, _ in more} - {
        name.rpartition(".")[2] for name in usual
    } == {"v_a"}


@pytest.mark.parametrize(
    "setting",
    ["scaled=false", "neighbourhood=8", "attention=additive", "positions=rotary", "pre_norm=true"],
)
def test_a_model_trains_translates_and_is_inspected_and_export_refuses_it(
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
