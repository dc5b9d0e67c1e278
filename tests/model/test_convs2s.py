"""ConvS2S follows its paper: weight normalisation, gated blocks, attention in every layer."""

import math
from typing import Any

import pytest
import torch
from convolutional import convolved, small
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from models import batch_of, pairs_of
from transduce.batching.packed import make_batch
from transduce.config import ModelConfig
from transduce.model.baselines.convs2s import Block, ConvS2S, WeightNormed
from transduce.presets import find_preset
from transduce.subwords import BOS


def model_of(**changes: Any) -> ConvS2S:
    model = small("convs2s", **changes)
    assert isinstance(model, ConvS2S)
    return model


def matrix(layer: WeightNormed) -> Tensor:
    assert layer.g is not None
    return layer.g * layer.weight / layer.weight.pow(2).sum(1, keepdim=True).sqrt()


def linear(x: Tensor, layer: WeightNormed) -> Tensor:
    return x @ matrix(layer).T + layer.bias


def test_weight_normalisation_equals_torchs_forward_and_backward() -> None:
    torch.manual_seed(0)
    ours, theirs = WeightNormed(7, 5, gain=1), weight_norm(nn.Linear(7, 5))
    assert ours.g is not None
    original = theirs.parametrizations.weight
    with torch.no_grad():
        ours.g.mul_(1.5)
        original.original0.copy_(ours.g)
        original.original1.copy_(ours.weight)
        theirs.bias.copy_(ours.bias.normal_())
    x, upstream = torch.randn(40, 7), torch.randn(40, 5)
    torch.testing.assert_close(ours(x), theirs(x))
    pairs = zip(
        torch.autograd.grad(ours(x), [ours.g, ours.weight, ours.bias], upstream),
        torch.autograd.grad(
            theirs(x), [original.original0, original.original1, theirs.bias], upstream
        ),
        strict=True,
    )
    for gradient, expected in pairs:
        torch.testing.assert_close(gradient, expected)


def test_folding_the_weight_normalisation_keeps_the_output_and_removes_g() -> None:
    torch.manual_seed(0)
    layer = WeightNormed(7, 5, gain=1)
    assert layer.g is not None
    layer.g.data.mul_(3)
    x = torch.randn(4, 7)
    before = layer(x)
    layer.fold()
    layer.fold()
    torch.testing.assert_close(layer(x), before)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_initial_weights_have_the_papers_deviation() -> None:
    torch.manual_seed(0)
    block = Block(ModelConfig(architecture="convs2s", d_ff=128, P_drop=0.2), causal=True)
    weights = block.convolution.weights
    assert weights.weight.std().item() == pytest.approx(math.sqrt(4 * 0.8 / 384), rel=0.02)
    torch.testing.assert_close(matrix(weights), weights.weight)  # type: ignore[arg-type]
    model = model_of(d_model=256, source_vocabulary=2000, target_vocabulary=2000)
    tokens = torch.arange(4, 2000)
    embedded = model.source_embedding(tokens, tokens % 256)
    assert embedded.std().item() == pytest.approx(math.sqrt(2) * 0.1, rel=0.05)


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_initial_sums_of_embeddings_and_positions_are_small(positions: str) -> None:
    model = model_of(positions=positions)
    x = model.source_embedding(torch.arange(4, 50), torch.arange(46))
    assert x.std().item() < 0.2


def reference_block(block: Block, x: Tensor) -> Tensor:
    """Convolve one sentence, and gate the first half of the channels by the second (GLU)."""
    reads = block.convolution.reads
    weights = block.convolution.weights
    assert isinstance(weights, WeightNormed)
    y = convolved(x, matrix(weights), weights.bias, reads, 1)
    half = y.size(1) // 2
    return y[:, :half] / (1 + torch.exp(-y[:, half:]))


def reference(model: ConvS2S, source: Tensor, inputs: Tensor) -> Tensor:
    """Compute the model for one pair by the formulas of fairseq."""
    root = math.sqrt(0.5)
    e = model.source_embedding(source, torch.arange(len(source)))
    x = linear(e, model.into_encoder)
    for layer in model.encoder:
        x = (x + reference_block(layer.block, x)) * root
    z = linear(x, model.out_of_encoder)
    values = (z + e) * root
    g = model.target_embedding(inputs, torch.arange(len(inputs)))
    x = linear(g, model.into_decoder)
    m = len(source)
    for decoder in model.decoder:
        h = reference_block(decoder.block, x)
        d = (linear(h, decoder.W_Q) + g) * root
        a = torch.stack([F.softmax(torch.stack([row @ key for key in z]), 0) for row in d])
        c = torch.stack([sum(a[i, j] * values[j] for j in range(m)) for i in range(len(d))])
        h = (h + linear(c * m * math.sqrt(1 / m), decoder.W_O)) * root
        x = (x + h) * root
    return linear(x, model.out_of_decoder)


@pytest.mark.parametrize("lengths", [(6, 9), (1, 1), (12, 3)])
def test_the_model_equals_its_formulas_in_float64(lengths: tuple[int, int]) -> None:
    model = model_of(kernel=3).double()
    model.compute_in(torch.float64)
    ((source, target),) = pairs_of([lengths])
    inputs = torch.tensor([BOS, *target[:-1].tolist()])
    found = model(make_batch([(source, target)]))
    torch.testing.assert_close(found, reference(model, torch.tensor(source), inputs))


def test_the_encoders_gradient_is_divided_by_twice_the_number_of_decoder_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Plain:
        @staticmethod
        def apply(x: Tensor, factor: float) -> Tensor:
            return x

    model, batch = model_of(N=2, N_decoder=3), batch_of((5, 6), (3, 4))
    weights = list(model.encoder.parameters())
    scaled = torch.autograd.grad(model(batch).sin().sum(), weights)
    monkeypatch.setattr("transduce.model.baselines.convs2s._ScaleGradient", Plain)
    unscaled = torch.autograd.grad(model(batch).sin().sum(), weights)
    for gradient, expected in zip(scaled, unscaled, strict=True):
        torch.testing.assert_close(gradient * 6, expected, rtol=1e-4, atol=1e-6)


def test_initial_attention_is_not_concentrated_on_one_key() -> None:
    """Dot products are not scaled by 1 / sqrt(d_k), so queries and keys must start small."""
    torch.manual_seed(0)
    model = ConvS2S(find_preset("convs2s").model).eval()
    run = make_batch(pairs_of([(20, 2)])).source
    g = model.target_embedding(run.tokens, run.positions)
    weights = (g @ model.encode(run)[:, :512].T).softmax(-1)
    assert weights.amax(-1).mean() < 0.3  # 1.0 with embeddings of unit variance
