"""The peers of `transduce bench` train the same model on the same sentences with the same loss."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import threads_kept
from torch import Tensor, nn

from models import logits_by_sentence, pairs_of, small_model
from transduce.batching.packed import make_batch
from transduce.bench import huggingface, peer, pytorch
from transduce.bench.peer import Padded, Peer, tune
from transduce.bench.random_text import random_corpus
from transduce.config import ModelConfig, TrainConfig
from transduce.corpus.token_files import open_corpus
from transduce.runs.folder import RunConfig

SHAPE = ModelConfig(
    N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8, source_vocabulary=300, target_vocabulary=300
)
CONFIG = RunConfig(model=SHAPE, train=TrainConfig(batch_tokens=300, threads=1, clip=1.0, warmup=1))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peers") / "corpus"
    shape = {"vocabulary": 300, "joint": True, "batch_tokens": 300, "max_len": 256, "seed": 1}
    random_corpus(folder, "mixed", **shape)  # type: ignore[arg-type]
    return folder


def test_padding_is_counted_on_each_side() -> None:
    """Sources of 2 and 3 tokens in rows of 3, targets of 4 and 2 in rows of 4."""
    pairs = [(np.array([9, 2]), np.array([5, 6, 7, 2])), (np.array([8, 8, 2]), np.array([5, 2]))]
    padded = Padded.from_pairs(pairs)
    assert padded.source.tolist() == [[9, 2, 0], [8, 8, 2]]
    assert padded.labels.tolist() == [[5, 6, 7, 2], [5, 2, 0, 0]]
    assert padded.target.tolist() == [[1, 5, 6, 7], [1, 5, 0, 0]]
    result = padded.tokens()
    assert (result.source_tokens, result.places_source) == (5, 6)
    assert (result.target_tokens, result.places_target) == (6, 8)


@pytest.mark.parametrize("make", [huggingface.Model, pytorch.Model])
@pytest.mark.filterwarnings("ignore:::transformers")
def test_a_step_of_a_peer_learns_from_pairs_of_the_corpus(
    corpus: Path, make: Callable[[ModelConfig], nn.Module]
) -> None:
    part = open_corpus(corpus).train
    pairs = [
        tuple(tuple(side.tolist()) for side in pair) for pair in map(part.pair, range(len(part)))
    ]
    with threads_kept():
        side = Peer(make, CONFIG, corpus, "cpu", "float32", as_it_comes=False)
        side.prepare(2)
        batch, expected = side.waiting[0]
        before = [parameter.clone() for parameter in side.model.parameters()]
        tokens = side.step()
    assert tokens == expected == batch.tokens()
    assert tokens.source_tokens <= 300
    assert 200 < tokens.target_tokens <= 300
    for row in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
        assert tuple(tuple(filter(None, side)) for side in row) in pairs
    changed = [
        not torch.equal(old, new)
        for old, new in zip(before, side.model.parameters(), strict=True)
        if new.requires_grad
    ]
    assert all(changed)
    assert len(side.waiting) == 1


@pytest.mark.parametrize("make", [huggingface.Model, pytorch.Model])
@pytest.mark.filterwarnings("ignore:::transformers")
def test_padding_has_no_influence_on_a_peer(make: Callable[[ModelConfig], nn.Module]) -> None:
    torch.manual_seed(0)
    model = make(SHAPE).eval()
    short, long = pairs_of([(5, 4), (9, 8)])
    alone, batch = Padded.from_pairs([short]), Padded.from_pairs([short, long])
    # With gradients: otherwise torch uses kernels that training does not use.
    torch.testing.assert_close(
        model(batch.source, batch.target)[0, :4], model(alone.source, alone.target)[0]
    )


def test_the_peer_torch_computes_the_same_as_our_model() -> None:
    """Its attention has biases; they are 0 here."""
    ours = small_model()
    theirs = pytorch.Model(ours.config).eval()
    other: Any
    with torch.no_grad():
        theirs.embedding.weight.copy_(ours.output)
        for encoder, other in zip(ours.encoder, theirs.transformer.encoder.layers, strict=True):
            attention = encoder.self_attention
            copy_feed_forward(encoder, other)
            copy_attention(attention.W_QKV.weight, attention.W_O, other.self_attn)
        for decoder, other in zip(ours.decoder, theirs.transformer.decoder.layers, strict=True):
            attention, cross = decoder.self_attention, decoder.cross_attention
            copy_feed_forward(decoder, other)
            copy_attention(attention.W_QKV.weight, attention.W_O, other.self_attn)
            projections = torch.cat([cross.W_Q.weight, cross.W_KV.weight])
            copy_attention(projections, cross.W_O, other.multihead_attn)
    pairs = pairs_of([(5, 8), (9, 3), (2, 6)])
    padded = Padded.from_pairs(pairs)
    logits = theirs(padded.source, padded.target)
    for row, expected in enumerate(logits_by_sentence(ours, make_batch(pairs))):
        torch.testing.assert_close(logits[row, : len(expected)], expected, rtol=1e-4, atol=1e-4)


def copy_attention(projections: Tensor, W_O: nn.Linear, other: nn.MultiheadAttention) -> None:
    other.in_proj_weight.copy_(projections)
    other.in_proj_bias.zero_()
    other.out_proj.weight.copy_(W_O.weight)
    other.out_proj.bias.zero_()


def copy_feed_forward(ours: Any, other: Any) -> None:
    for linear, target in (
        (ours.feed_forward.W_1, other.linear1),
        (ours.feed_forward.W_2, other.linear2),
    ):
        target.weight.copy_(linear.weight)
        target.bias.copy_(linear.bias)


def test_the_peer_torch_has_the_same_dropout() -> None:
    config = SHAPE.replace(P_drop=0.3, attention_dropout=0.1, relu_dropout=0.2)
    layer: Any = pytorch.transformer(config).decoder.layers[0]
    assert layer.self_attn.dropout == layer.multihead_attn.dropout == 0.1
    assert layer.dropout.p == 0.2
    assert layer.dropout1.p == layer.dropout2.p == layer.dropout3.p == 0.3


@pytest.mark.parametrize(("precision", "dtype"), [("float32", 32), ("bf16", 16)])
def test_a_peer_multiplies_in_our_precision_and_sums_its_loss_in_float32(
    corpus: Path, precision: str, dtype: int
) -> None:
    with threads_kept():
        side = Peer(pytorch.Model, CONFIG, corpus, "cpu", precision, as_it_comes=False)
        side.prepare(1)
        result: list[Tensor] = []
        side.model.register_forward_hook(lambda _, __, logits: result.append(logits))
        loss = side.loss(side.waiting[0][0])
    assert result[0].dtype == {32: torch.float32, 16: torch.bfloat16}[dtype]
    assert loss.dtype == torch.float32
    assert side.path == f"padded, {precision}"


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Restore the global settings of torch."""
    result: dict[str, Any] = {}
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda on: result.update(cudnn=on))
    monkeypatch.setattr(
        torch, "set_float32_matmul_precision", lambda word: result.update(products=word)
    )
    return result


def test_a_peer_on_a_gpu_is_tuned_unless_defaults_are_requested(
    switched: dict[str, Any],
) -> None:
    assert tune("cpu", as_it_comes=False) == []
    assert switched == {}
    assert tune("cuda", as_it_comes=False) == ["without cuDNN's attention"]
    assert switched == {"cudnn": False, "products": "high"}
    assert tune("cuda", as_it_comes=True) == ["as it comes"]
    assert switched == {"cudnn": True, "products": "high"}
    assert "expandable_segments:True" in peer.ENVIRONMENT.values()
