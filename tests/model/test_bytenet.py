"""ByteNet as in its paper: dilated blocks, a decoder stacked on the encoder, log paths."""

import math
from typing import Any

import pytest
import torch
from convolutional import convolved, small
from torch import Tensor
from torch.nn import functional as F

from models import pairs_of, sentence
from transduce.batching.packed import make_batch, pack
from transduce.model.baselines.bytenet import Block, ByteNet, dilation, unfold
from transduce.model.baselines.convolution import taps
from transduce.model.ops.linear import Linear
from transduce.subwords import BOS


def reach(blocks: int, kernel: int, *, causal: bool) -> int:
    """Return how many positions back the output of this many blocks depends on its input."""
    return sum(-taps(kernel, dilation(block), causal=causal)[0] for block in range(blocks))


def path_length(distance: int, kernel: int, *, causal: bool) -> int:
    """Return how many blocks cover a distance: about log_2 of it within a set of dilations."""
    assert kernel > 1
    blocks = 0
    while reach(blocks, kernel, causal=causal) < distance:
        blocks += 1
    return blocks


def model_of(**changes: Any) -> ByteNet:
    model = small("bytenet", **changes)
    assert isinstance(model, ByteNet)
    return model


def rectified(x: Tensor) -> Tensor:
    """Layer norm with weights of 1, then ReLU."""
    centred = x - x.mean(-1, keepdim=True)
    return (centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)).clamp(min=0)


def linear(x: Tensor, layer: Linear) -> Tensor:
    return x @ layer.weight.T + layer.bias


def reference_block(block: Block, x: Tensor, spacing: int) -> Tensor:
    inside = rectified(linear(rectified(x), block.W_1))
    weights = block.convolution.weights
    inside = convolved(inside, weights.weight, weights.bias, block.convolution.reads, spacing)
    return x + linear(rectified(inside), block.W_2)


def reference(model: ByteNet, source: Tensor, inputs: Tensor) -> Tensor:
    """Compute the model for one pair, block by block."""
    x = F.embedding(source, model.source_embedding.matrix) * math.sqrt(model.config.d_model)
    for number, block in enumerate(model.encoder):
        x = reference_block(block, x, 2 ** (number % 5))
    memory = rectified(x)[: len(inputs)]
    below = F.pad(memory, (0, 0, 0, len(inputs) - len(memory)))
    x = F.embedding(inputs, model.target_embedding.matrix) * math.sqrt(model.config.d_model)
    x = linear(torch.cat([x, below], dim=1), model.join)
    for number, block in enumerate(model.decoder):
        x = reference_block(block, x, 2 ** (number % 5))
    return linear(rectified(x), model.last)


@pytest.mark.parametrize("lengths", [(6, 30), (1, 1), (30, 4)])
def test_the_model_equals_its_blocks_in_float64(lengths: tuple[int, int]) -> None:
    model = model_of()
    with torch.no_grad():  # norms as initialised
        for name, parameter in model.named_parameters():
            if ("norm" in name and name.endswith("bias")) or name.startswith("after"):
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    model.double().compute_in(torch.float64)
    ((source, target),) = pairs_of([lengths])
    inputs = torch.tensor([BOS, *target[:-1].tolist()])
    found = model(make_batch([(source, target)]))
    torch.testing.assert_close(found, reference(model, torch.tensor(source), inputs))


def test_dilations_double_in_sets_of_five() -> None:
    assert [dilation(block) for block in range(7)] == [1, 2, 4, 8, 16, 1, 2]


def test_a_target_position_reads_the_same_source_position_and_0_beyond_its_end() -> None:
    pairs = pairs_of([(2, 5), (4, 3), (3, 3)])
    batch = make_batch(pairs)
    memory = batch.source.tokens[:, None].float()
    found = unfold(memory, batch.target.positions, batch.cross).flatten().tolist()
    expected: list[float] = []
    for number in batch.order:
        source, target = pairs[number]
        expected += [*source.tolist(), *[0] * len(target)][: len(target)]
    assert found == expected


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("blocks", [1, 3, 5, 6])
def test_the_receptive_field_of_the_encoder_is_as_computed(blocks: int, kernel: int) -> None:
    """The gradient of one output shows which embeddings it depends on."""
    model = model_of(N=blocks, N_decoder=1, kernel=kernel, max_len=200)
    far = reach(blocks, kernel, causal=False)
    n, position = 2 * far + 9, far + 4
    run = pack([sentence(n, 0)])
    outputs: list[Tensor] = []

    def keep(module: torch.nn.Module, arguments: object, output: Tensor) -> None:
        output.retain_grad()
        outputs.append(output)

    model.source_embedding.register_forward_hook(keep)
    model.encode(run)[position].sin().sum().backward()
    assert outputs[0].grad is not None
    read = outputs[0].grad.abs().sum(1).nonzero().flatten().tolist()
    assert min(read) == position - far
    assert max(read) == position + (far if kernel % 2 else 0)


@pytest.mark.parametrize("blocks", [2, 5, 6])
def test_the_receptive_field_of_the_decoder_is_as_computed(blocks: int) -> None:
    model = model_of(N=1, N_decoder=blocks)
    far = reach(blocks, 3, causal=True)
    batch = make_batch(pairs_of([(3, far + 9)]))
    outputs: list[Tensor] = []

    def keep(module: torch.nn.Module, arguments: object, output: Tensor) -> None:
        output.retain_grad()
        outputs.append(output)

    model.join.register_forward_hook(keep)
    model(batch)[far + 5].sin().sum().backward()
    assert outputs[0].grad is not None
    read = outputs[0].grad.abs().sum(1).nonzero().flatten().tolist()
    assert (min(read), max(read)) == (5, far + 5)


def test_the_path_length_is_logarithmic_in_the_distance() -> None:
    for distance in range(1, 32):
        assert path_length(distance, 2, causal=True) == math.ceil(math.log2(distance + 1))
        assert path_length(distance, 3, causal=False) == math.ceil(math.log2(distance + 1))
    assert path_length(0, 3, causal=True) == 0
    assert path_length(32, 2, causal=True) == 6  # a second set of dilations begins
    assert reach(30, 3, causal=True) == 6 * 62
