"""The model is the paper's, and a sentence never sees its neighbours."""

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from models import (
    batch_of,
    logits_by_sentence,
    pairs_of,
    small_model,
    stepped,
    together_and_alone,
    with_a_token_changed,
)
from transduce.batching.packed import make_batch, pack
from transduce.config import ModelConfig
from transduce.model.attention_maps import attention_maps
from transduce.model.embedding import Embedding
from transduce.model.ops.dropout import dropout_factors
from transduce.model.positions import sinusoids
from transduce.model.transformer import Transformer
from transduce.subwords import EOS


@pytest.mark.parametrize("library", [torch, np])
def test_positions_follow_the_formula_from_0(library: ModuleType) -> None:
    """Paper 3.5, element by element: interleaved, no offset, no zeroed row."""
    table = sinusoids(50, 12, library)
    for pos in (0, 1, 7, 49):
        for i in range(6):
            angle = pos / 10_000 ** (2 * i / 12)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_embeddings_are_scaled_on_the_way_in_and_not_on_the_way_out() -> None:
    model = small_model()
    tokens = torch.tensor([5, 9])
    x = model.source_embedding(tokens, torch.tensor([0, 1]))
    expected = model.output[tokens] * math.sqrt(32) + sinusoids(2, 32, torch).float()
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(model.logits(x), x @ model.output.T)


def test_the_three_tied_matrices_are_one_tensor() -> None:
    model = small_model()
    assert model.source_embedding.matrix is model.target_embedding.matrix is model.output
    assert sum(p.shape == (50, 32) for p in model.parameters()) == 1


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_matrices_are_tied_as_set(tie: str, matrices: int) -> None:
    model = small_model(tie=tie)
    assert sum(p.shape == (50, 32) for p in model.parameters()) == matrices


def test_embeddings_are_initialised_with_a_deviation_of_one_over_root_d_model() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(N=1, source_vocabulary=5000, target_vocabulary=5000))
    assert model.output.std(0).mean().item() == pytest.approx(512**-0.5, rel=0.01)


def test_there_is_a_norm_after_each_sublayer_and_nowhere_else() -> None:
    model = small_model()
    norms = [name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 2 * 3  # two layers of each stack, two and three sub-layers
    out = model(batch_of((5, 6)))
    # Post-norm: what leaves the last layer has just been normalised, with no further norm.
    torch.testing.assert_close(out.mean(-1), torch.zeros(6), atol=1e-5, rtol=0)


def test_changing_a_future_token_leaves_earlier_logits_exactly_as_they_were() -> None:
    model = small_model()
    before, after = with_a_token_changed(model)
    assert torch.equal(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=9))
def test_a_sentence_alone_and_beside_others_has_the_same_outputs(
    lengths: list[tuple[int, int]],
) -> None:
    model = small_model()
    for together, alone in together_and_alone(model, lengths):
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"d_k": 4}, {"positions": "learned"}, {"N_decoder": 1}])
def test_decoding_step_by_step_gives_the_teacher_forced_logits(changes: dict[str, int]) -> None:
    model = small_model(**changes)
    pairs = pairs_of([(3, 10), (5, 10), (9, 10)])
    forced = logits_by_sentence(model, make_batch(pairs))
    with torch.inference_mode():
        steps = stepped(model, pairs, 1)
    torch.testing.assert_close(torch.stack(steps, dim=1), torch.stack(forced), rtol=1e-4, atol=1e-5)


def test_attention_maps_are_of_every_layer_and_head() -> None:
    model = small_model(N_decoder=3)
    maps = attention_maps(model, batch_of((5, 7)))
    assert maps.encoder.shape == (2, 4, 5, 5)
    assert maps.decoder.shape == (3, 4, 7, 7)
    assert maps.cross.shape == (3, 4, 7, 5)
    for weights in (maps.encoder, maps.decoder, maps.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert maps.decoder.triu(1).abs().max() == 0


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    model, batch = small_model(P_drop=0.5), batch_of((5, 6))
    assert torch.equal(model(batch), model(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))


def test_dropout_is_on_the_embedding_sum_and_on_every_sublayer() -> None:
    """Paper 5.4: the output of each sub-layer, and the embeddings of both stacks."""
    model, batch = small_model(P_drop=0.5).train(), batch_of((5, 6))
    calls = []

    def counted(x: torch.Tensor, P_drop: float) -> torch.Tensor:
        calls.append(P_drop)
        return torch.ones_like(x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transduce.model.ops.fused.dropout_factors", counted)
        patch.setattr("transduce.model.ops.dropout.dropout_factors", counted)
        model(batch)
    assert calls == [0.5] * (2 + 2 * 2 + 2 * 3)
    first = next(iter(model.encoder))
    assert first.self_attention.dropout == 0.0  # off by default
    assert first.feed_forward.relu_dropout == 0.0


def test_relu_and_attention_dropout_act_in_training_when_set() -> None:
    batch = batch_of((5, 6))
    for model in (
        small_model(P_drop=0, relu_dropout=0.5),
        small_model(P_drop=0, attention_dropout=0.5),
    ):
        model.train()
        assert not torch.equal(model(batch), model(batch))
        model.eval()
        assert torch.equal(model(batch), model(batch))


def test_dropout_factors_have_the_right_mean_and_values() -> None:
    torch.manual_seed(0)
    for P_drop in (0.1, 0.3):
        factors = dropout_factors(torch.empty(1000, 999), P_drop)
        assert factors.unique().tolist() == pytest.approx([0.0, 1 / (1 - P_drop)], rel=1e-4)
        assert factors.mean().item() == pytest.approx(1.0, abs=0.002)
        assert (factors == 0).float().mean().item() == pytest.approx(P_drop, abs=0.002)


def test_dropout_factors_differ_from_call_to_call() -> None:
    torch.manual_seed(0)
    first, second = (
        dropout_factors(torch.empty(64, 64), 0.5),
        dropout_factors(torch.empty(64, 64), 0.5),
    )
    agreement = (first == second).float().mean().item()
    assert agreement == pytest.approx(0.5, abs=0.05)


def test_learned_positions_are_weights_of_both_stacks() -> None:
    model = small_model(positions="learned", max_len=20)
    names = dict(model.named_parameters())
    assert names["source_embedding.positions"].shape == names["target_embedding.positions"].shape
    assert isinstance(model.source_embedding, Embedding)
    model(batch_of((5, 6))).pow(3).sum().backward()
    gradient = names["source_embedding.positions"].grad
    assert gradient is not None
    assert gradient[:5].abs().sum() > 0


def test_the_longest_and_the_shortest_sentences_have_finite_outputs() -> None:
    model = small_model(max_len=30)
    for lengths in ((1, 1), (30, 30), (1, 30), (30, 1)):
        assert torch.isfinite(model(batch_of(lengths))).all()


def test_an_untrained_encoder_keeps_the_tokens_of_a_sentence_distinct() -> None:
    """Otherwise the decoder ignores the source for thousands of steps: see docs/log.md."""
    torch.manual_seed(0)
    config = ModelConfig(source_vocabulary=500, target_vocabulary=500, P_drop=0.0)
    model = Transformer(config)
    tokens = np.append(np.random.default_rng(0).integers(4, 500, 29), EOS)
    x = model.encode(pack([tokens]))
    similarity = torch.nn.functional.cosine_similarity(x[:1], x[1:])
    assert similarity.mean() < 0.4  # 0.96 with init = "xavier"


def test_the_loss_of_a_fixed_seed_does_not_change() -> None:
    """Refactoring the model must not change these numbers."""
    from transduce.model.loss import loss

    model, batch = small_model(P_drop=0.1).train(), batch_of((5, 6), (7, 3), (2, 9))
    torch.manual_seed(3)
    smoothed, nll = loss(model(batch), model.output, batch.labels, 0.1)
    assert smoothed.item() == pytest.approx(PINNED[0], rel=1e-5)
    assert nll.item() == pytest.approx(PINNED[1], rel=1e-5)


PINNED = (87.33035, 87.82507)


@pytest.mark.parametrize(
    ("activation", "function"),
    [("relu", torch.relu), ("swish", lambda x: x * x.sigmoid()), ("gelu", nn.GELU())],
)
def test_the_feed_forward_network_has_the_activation_that_is_set(
    activation: str, function: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    network = next(iter(small_model(activation=activation).encoder)).feed_forward
    x = torch.randn(40, 32)
    inner = function(x @ network.W_1.weight.T + network.W_1.bias)
    torch.testing.assert_close(network(x), inner @ network.W_2.weight.T + network.W_2.bias)


def test_the_bias_of_the_logits_is_added_and_is_a_weight_only_if_set() -> None:
    model = small_model(logits_bias=True)
    assert model.logits_bias is not None
    nn.init.normal_(model.logits_bias)
    x = torch.randn(3, 32)
    torch.testing.assert_close(model.logits(x), x @ model.output.T + model.logits_bias)
    assert "logits_bias" in dict(model.named_parameters())
    assert "logits_bias" not in dict(small_model().named_parameters())
