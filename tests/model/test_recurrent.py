"""The recurrent baseline: torch's LSTM, Bahdanau's attention, and no leaks."""

import copy
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from models import (
    batch_of,
    logits_by_sentence,
    pairs_of,
    search,
    sentence,
    stepped,
    together_and_alone,
    with_a_token_changed,
)
from transduce.batching.packed import LengthGroups, make_batch, pack
from transduce.bench.flops import flops
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.decoding.search import log_probabilities
from transduce.errors import BadSetting
from transduce.model.architecture import build, count_parameters
from transduce.model.baselines.lstm import LSTM, Steps, pad_rows, run_lstm, take_rows
from transduce.model.baselines.recurrent import Attention, Recurrent
from transduce.model.baselines.states import States
from transduce.model.ops.linear import Linear
from transduce.model.variants.additive import additive_scores
from transduce.presets import find_preset
from transduce.subwords import BOS, EOS, PAD, UNK
from transduce.training.gradient import Objective

RECURRENT: dict[str, Any] = {
    "architecture": "recurrent",
    "attention": "additive",
    "positions": "none",
    "N": 3,
    "d_model": 32,
    "d_ff": 24,
    "h": 1,
    "d_k": 16,
    "d_v": 20,
    "source_vocabulary": 50,
    "target_vocabulary": 50,
}
DOT: dict[str, Any] = {"attention": "dot-product"}
KINDS: list[dict[str, Any]] = [
    {},
    DOT,
    DOT | {"scaled": False},
    {"h": 2},
    {"N": 1},
    {"N": 2, "N_decoder": 4},
]
FORBIDDEN = [PAD, BOS, UNK]


def recurrent(seed: int = 0, **changes: Any) -> Recurrent:
    """Return a small recurrent model with random weights, ready for evaluation."""
    torch.manual_seed(seed)
    model = build(ModelConfig(**(RECURRENT | changes))).eval()
    assert isinstance(model, Recurrent)
    return model


def exact(model: Recurrent) -> Recurrent:
    """Return the model with all arithmetic in float64."""
    model = model.double()
    model.compute_in(torch.float64)
    return model


# --- Its parts ------------------------------------------------------------------------------------


def torch_lstm(*layer: LSTM) -> nn.LSTM:
    """Return torch's LSTM with the weights of ours."""
    theirs = nn.LSTM(layer[0].inputs, layer[0].cells, bidirectional=len(layer) == 2)
    with torch.no_grad():
        for lstm, suffix in zip(layer, ("", "_reverse"), strict=False):
            named = dict(theirs.named_parameters())
            named[f"weight_ih_l0{suffix}"].copy_(lstm.weight[:, : lstm.inputs])
            named[f"weight_hh_l0{suffix}"].copy_(lstm.weight[:, lstm.inputs :])
            named[f"bias_ih_l0{suffix}"].copy_(lstm.bias)
            named[f"bias_hh_l0{suffix}"].zero_()
    return theirs


@pytest.mark.parametrize("directions", [1, 2])
def test_a_layer_on_packed_sentences_equals_torchs_lstm_on_each(
    directions: int,
) -> None:
    torch.manual_seed(0)
    layer = [LSTM(6, 5) for _ in range(directions)]
    lengths = [1, 3, 3, 8]
    run = torch.randn(sum(lengths), 6)
    steps = Steps.of(LengthGroups.of(np.array(lengths)), run.device)
    found = take_rows(run_lstm(layer, take_rows(run, steps.order), steps.sizes), steps.back)
    for ours, x in zip(found.split(lengths), run.split(lengths), strict=True):
        theirs, _ = torch_lstm(*layer)(x)
        torch.testing.assert_close(ours, theirs)


def test_a_layer_gives_the_same_step_by_step() -> None:
    torch.manual_seed(0)
    layer, x = LSTM(6, 5), torch.randn(7, 6)
    at_once, _ = torch_lstm(layer)(x)
    h = c = torch.zeros(1, 5)
    for now, expected in zip(x, at_once, strict=True):
        h, c = layer.step(now[None], h, c)
        torch.testing.assert_close(h[0], expected)


def test_both_matrices_of_a_gate_are_initialised_by_their_own_size() -> None:
    torch.manual_seed(0)
    layer = LSTM(300, 40)
    assert not layer.bias.any()
    for gate in layer.weight.split(40):
        for matrix in gate.split([300, 40], dim=1):
            bound = math.sqrt(6 / sum(matrix.shape))
            assert matrix.abs().max().item() == pytest.approx(bound, rel=0.01)


def test_padding_rows_and_taking_them_back_is_the_identity_with_its_gradient() -> None:
    lengths = [2, 2, 5]
    run = torch.randn(9, 3, requires_grad=True)
    steps = Steps.of(LengthGroups.of(np.array(lengths)), run.device)
    rows = pad_rows(take_rows(run, steps.order), steps.rows, steps.shape)
    assert rows.shape == (3, 5, 3)
    for row, sentence_rows in zip(rows, run.split(lengths), strict=True):
        assert torch.equal(row[: len(sentence_rows)], sentence_rows)
        assert not row[len(sentence_rows) :].any()
    back = take_rows(take_rows(rows.flatten(0, 1), steps.rows), steps.back)
    assert torch.equal(back, run)
    gradient = torch.randn(9, 3)
    back.backward(gradient)
    assert run.grad is not None
    assert torch.equal(run.grad, gradient)


def bahdanau(attention: Attention, q: Tensor, source: Tensor) -> Tensor:
    """Attend with one query to the keys and values of one sentence, word by word."""
    assert attention.v_a is not None
    d_k = attention.sizes[0]
    scores = torch.stack([(attention.v_a[0] * (q + word[:d_k]).tanh()).sum() for word in source])
    weights = scores.exp() / scores.exp().sum()
    return sum((a * word[d_k:] for a, word in zip(weights, source, strict=True)), torch.tensor(0.0))


def test_additive_attention_is_bahdanaus_formula() -> None:
    model = exact(recurrent())
    attention = model.attention
    q, source = torch.randn(2, 3, 16).double(), torch.randn(2, 5, 36).double()
    real = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    found = attention(q, source, real)
    for row, keys in enumerate((5, 2)):
        for query in range(3):
            expected = bahdanau(attention, q[row, query], source[row, :keys])
            torch.testing.assert_close(found[row, query], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("scaled", "divisor"), [(True, math.sqrt(16)), (False, 1.0)])
def test_dot_product_attention_is_equation_1_scaled_or_not(scaled: bool, divisor: float) -> None:
    attention = exact(recurrent(**DOT, scaled=scaled)).attention
    q, source = torch.randn(1, 3, 16).double(), torch.randn(1, 5, 36).double()
    found = attention(q, source, torch.ones(1, 5, dtype=torch.bool))
    weights = (q @ source[..., :16].mT / divisor).softmax(-1)
    torch.testing.assert_close(found, weights @ source[..., 16:])


def test_scores_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(3, 1, 7, 4), torch.randn(3, 1, 5, 4), torch.randn(1, 4)
    whole = additive_scores(q, k, v)
    monkeypatch.setattr("transduce.model.variants.additive.CHUNK", {"cpu": 100, "cuda": 100})
    torch.testing.assert_close(additive_scores(q, k, v), whole)


# --- The model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_changing_a_future_token_leaves_earlier_logits_exactly_as_they_were(
    changes: dict[str, Any],
) -> None:
    model = recurrent(**changes)
    before, after = with_a_token_changed(model)
    assert torch.equal(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:])


def test_every_source_token_affects_every_target_token() -> None:
    model = recurrent()
    source, target = sentence(6, 0), sentence(5, 1)
    before = logits_by_sentence(model, make_batch([(source, target)]))[0]
    for position in range(5):
        changed = source.copy()
        changed[position] = (changed[position] - 4 + 1) % 46 + 4
        after = logits_by_sentence(model, make_batch([(changed, target)]))[0]
        assert ((after - before).abs().amax(-1) > 0).all()


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_a_sentence_alone_and_beside_longer_ones_has_the_same_outputs(
    changes: dict[str, Any],
) -> None:
    model = recurrent(**changes)
    for together, alone in together_and_alone(model, [(5, 7), (1, 9), (11, 2), (4, 4), (4, 12)]):
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def filled(model: Recurrent, sources: list[Any]) -> States:
    """Return a cache with these sources, sorted by length, and one hypothesis of each."""
    lengths = [len(source) for source in sources]
    cache = model.cache(len(sources), 1, (max(lengths), 1))
    places = [(slot, i) for slot, length in enumerate(lengths) for i in range(length)]
    slot, position = torch.tensor(places).unbind(1)
    rows = model.project_memory(model.encode(pack(sources)))
    slots = torch.arange(len(sources))
    cache.put(slots, torch.tensor(lengths, dtype=torch.int32), (slot, position), rows)
    return cache


def as_it_is(model: Recurrent) -> Recurrent:
    return model


def as_packed(model: Recurrent) -> Recurrent:
    return model.pack()


@pytest.mark.parametrize("prepare", [as_it_is, as_packed])
@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_decoding_step_by_step_gives_the_teacher_forced_logits(
    changes: dict[str, Any], prepare: Callable[[Recurrent], Recurrent]
) -> None:
    model = recurrent(**changes)
    pairs = pairs_of([(3, 10), (5, 10), (9, 10)])
    forced = logits_by_sentence(model, make_batch(pairs))
    with torch.inference_mode():
        outputs = stepped(prepare(model), pairs, 1)
    torch.testing.assert_close(
        torch.stack(outputs, dim=1), torch.stack(forced), rtol=1e-4, atol=1e-5
    )


def test_a_packed_model_still_scores_whole_sentences() -> None:
    model, pairs = recurrent(), pairs_of([(5, 40), (3, 9)])
    expected = log_probabilities([model], pairs)
    for ours, theirs in zip(log_probabilities([model.pack()], pairs), expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


def test_a_narrow_model_scores_nearly_the_same() -> None:
    model, pairs = recurrent(), pairs_of([(5, 12), (3, 9)])
    expected = log_probabilities([model], pairs)
    narrow = model.narrow(torch.bfloat16)
    assert {p.dtype for p in narrow.parameters() if p.dim() == 2 and len(p) > 1} == {torch.bfloat16}
    for ours, theirs in zip(log_probabilities([narrow], pairs), expected, strict=True):
        assert ours == pytest.approx(theirs, abs=0.1)


@pytest.mark.parametrize("beam", [1, 4])
def test_scores_of_a_search_are_those_of_teacher_forcing(beam: int) -> None:
    """With more sentences than slots: states are reordered, and slots are reused."""
    model = recurrent(3)
    with torch.no_grad():
        model.output.mul_(4)
    sources = [sentence(2 + 3 * n % 11, n) for n in range(9)]
    config = SearchConfig(beam=beam, alpha=0.0, extra=6)
    found = search(model, sources, config, forbidden=FORBIDDEN, batch=4)
    assert len({tuple(outputs[0].tokens) for outputs in found}) > 3
    for source, (best, *_) in zip(sources, found, strict=True):
        pairs = [(source, np.array([*best.tokens, EOS]))]
        assert best.score == pytest.approx(sum(log_probabilities([model], pairs)[0]), abs=1e-3)


@pytest.mark.parametrize("changes", [{}, DOT, {"h": 2, "N": 1, "logits_bias": True}], ids=str)
def test_gradients_are_those_of_finite_differences(changes: dict[str, Any]) -> None:
    """In float64, for the loss of the whole model, along a random direction of each parameter."""
    model = exact(recurrent(P_drop=0.0, **changes)).train()
    objective, batch = Objective(model, TrainConfig()), batch_of((5, 4), (2, 6), (7, 1))

    def loss() -> Tensor:
        return cast("Tensor", objective(batch)[0])

    loss().backward()
    for name, parameter in model.named_parameters():
        direction, before = torch.randn_like(parameter), parameter.detach().clone()
        ends = []
        for sign in (1, -1):
            parameter.data = before + sign * 1e-6 * direction
            ends.append(loss().item())
        parameter.data = before
        assert parameter.grad is not None, name
        measured = (ends[0] - ends[1]) / 2e-6
        assert (parameter.grad * direction).sum().item() == pytest.approx(measured, rel=1e-5), name


def test_recomputing_layers_gives_the_same_gradient() -> None:
    model, batch = recurrent(P_drop=0.1).train(), batch_of((5, 4), (2, 6))
    again = copy.deepcopy(model)
    again.recompute = True
    for network in (model, again):
        torch.manual_seed(1)
        network(batch).square().sum().backward()
    for ours, theirs in zip(again.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    model, batch = recurrent(P_drop=0.5), batch_of((5, 6))
    assert torch.equal(model(batch), model(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))


@pytest.mark.parametrize("attention", ["additive", "dot-product"])
def test_a_few_pairs_can_be_memorised(attention: str) -> None:
    model = recurrent(attention=attention, P_drop=0.0).train()
    pairs = pairs_of([(5, 6), (7, 4), (3, 8), (6, 6)])
    batch = make_batch(pairs)
    objective, optimizer = (
        Objective(model, TrainConfig(eps_ls=0.0)),
        torch.optim.Adam(model.parameters(), lr=1e-2),
    )
    for _ in range(80):
        optimizer.zero_grad()
        loss, _ = objective(batch)
        (loss / len(batch.labels)).backward()
        optimizer.step()
    found = search(
        model.eval(), [source for source, _ in pairs], SearchConfig(), forbidden=FORBIDDEN
    )
    assert [outputs[0].tokens for outputs in found] == [target[:-1].tolist() for _, target in pairs]


# --- Settings, presets and arithmetic -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("neighbourhood", 5, "neighbourhood = 5: expected none"),
        ("positions", "learned", "positions = 'learned': expected 'none'"),
        ("relu_dropout", 0.1, "relu_dropout = 0.1: expected 0.0"),
        ("kernel", 5, "kernel = 5: expected 3"),
        ("scaled", False, "scaled = False: expected true"),
    ],
)
def test_a_setting_without_effect_is_refused(name: str, value: object, expected: str) -> None:
    with pytest.raises(BadSetting, match=f"^{expected}"):
        ModelConfig(**(RECURRENT | {name: value}))


@pytest.mark.parametrize(
    ("name", "transformer", "vocabulary"),
    [
        ("recurrent", "base", 37_000),
        ("recurrent-small", "small", 8_000),
        ("recurrent-tiny", "tiny", 8_000),
    ],
)
def test_a_preset_is_as_large_as_the_transformer_of_its_size(
    name: str, transformer: str, vocabulary: int
) -> None:
    words = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
    ours, theirs = (
        count_parameters(find_preset(preset).model.replace(**words))
        for preset in (name, transformer)
    )
    assert ours == pytest.approx(theirs, rel=0.03)


@pytest.mark.parametrize("changes", [{}, {"N": 1}, {"N": 2, "N_decoder": 4, "h": 2}], ids=str)
def test_flops_equal_those_that_torch_counts(changes: dict[str, Any]) -> None:
    """In a decoding step: torch does not count inside `torch.lstm`, which is computed by hand."""
    model = recurrent(**changes)
    with torch.no_grad():
        cache = filled(model, [sentence(1, 0)])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        cache.begin_step(1, 1)
        model.step(torch.tensor([BOS]), torch.tensor([0]), cache)
    counts = counter.get_flop_counts()["Global"]
    counted = sum(counts[kind] for kind in (torch.ops.aten.mm, torch.ops.aten.addmm))
    # The backward pass costs as much again for each of its two gradients.
    assert flops(model.config, source_tokens=0, target_tokens=1) == 3 * counted
    layers = [*model.both_ways, *model.encoder, model.W_M, model.attention.W_KV]
    source_weights = sum(layer.weight.numel() for layer in layers if isinstance(layer, Linear))
    assert flops(model.config, source_tokens=1, target_tokens=0) == 6 * source_weights
