"""Initial weights of the Transformer (the setting `init`), which the paper does not specify.

Every scheme scales the same draw: Xavier's uniform distribution for each matrix (ops/linear.py).
Only the weights at step 0 differ, so a trained model does not depend on the scheme. LayerNorm is
scale-invariant: LayerNorm(omega x + f(x)) = LayerNorm(x + f(x) / omega). The residual scaling of
Admin and DeepNet is therefore a division of the matrix that ends f.
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from transduce.batching.packed import make_batch
from transduce.model.attention import CrossAttention, SelfAttention
from transduce.model.base import Stack, Transducer
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.ops.linear import Linear
from transduce.model.positions import sinusoids

Layers = Iterable[EncoderLayer | DecoderLayer]

SENTENCES, LENGTH = 16, 24  # sentences of usual length, on which schemes measure


@torch.no_grad()
def initialise(
    model: Transducer, encoder: Stack[EncoderLayer], decoder: Stack[DecoderLayer]
) -> None:
    """Scale the weights of both stacks as the setting `init` says."""
    init = model.config.init
    if init in ("depth-scaled", "centred", "small"):
        scale_by_depth(encoder)
        scale_by_depth(decoder)
    match init:
        case "xavier" | "depth-scaled":
            pass
        case "centred":
            centre(model, encoder, decoder)
        case "small":
            shrink_attention(model, model.config.d_model)
        case "admin":
            matrices = residual_outputs(encoder) + residual_outputs(decoder)
            variances = output_variances(model, matrices)
            scale_by_variance(encoder, variances)
            scale_by_variance(decoder, variances)
        case "deepnet":
            N, M = len(encoder), len(decoder)
            depth = (N**4 * M) ** (1 / 16)
            scale_as_deepnet(encoder, alpha=0.81 * depth, beta=0.87 / depth)
            scale_as_deepnet(decoder, alpha=(3 * M) ** 0.25, beta=(12 * M) ** -0.25)


def residual_outputs(layers: Layers) -> list[Linear]:
    """Return the last matrix of each sub-layer, in order."""
    return [matrix for layer in layers for matrix in layer.residual_outputs()]


def scale_by_depth(layers: Layers) -> None:
    """Divide the last matrix of each sub-layer in a stack by the square root of their number.

    Together, the sub-layers then change the residual stream about as much as one would. Without
    scaling, six layers make the tokens of a sentence so similar (mean cosine 0.96) that the decoder
    learns to use the source only after thousands of steps. With scaling, the tokens differ (0.24),
    and it does so at once.
    """
    matrices = residual_outputs(layers)
    for matrix in matrices:
        matrix.weight *= len(matrices) ** -0.5


def centre(model: Transducer, encoder: Stack[EncoderLayer], decoder: Stack[DecoderLayer]) -> None:
    """Reduce what all tokens have in common, so that the first updates do not make them equal.

    Adam moves each weight by about the learning rate, however small its gradient is. What a
    sub-layer's inputs have in common then adds the same vector to all tokens; LayerNorm makes room
    for it at the cost of what distinguishes them. At a high rate the encoder's outputs are equal
    after 30 steps, and the decoder cannot find the source (docs/log.md). Three things are shared:

    - the mean of the positional encodings, which is subtracted from the embeddings. A vector
      subtracted from all rows of the softmax matrix changes no probability.
    - the mean of the ReLU's outputs. Negative biases b_1 leave it at 0 for 98% of them.
    - a constant output, which the loss prefers while the logits are noise. In models of more than
      three layers, which suffer most, they begin smaller.
    """
    config = model.config
    if config.positions == "sinusoidal":
        positions = sinusoids(LENGTH, config.d_model, torch).float()
        shared = positions.mean(0) / math.sqrt(config.d_model)
        for matrix in {model.source_embedding.matrix, model.target_embedding.matrix}:
            matrix.sub_(shared)
    if config.activation == "relu" and not config.gated:
        deviation = math.sqrt(2 * config.d_model / (config.d_model + config.d_ff))  # of x W_1
        for layer in (*encoder, *decoder):
            layer.feed_forward.W_1.bias.fill_(-2 * deviation)
    *_, last = decoder
    last.after_feed.norm.weight.mul_(min(1.0, (3 / len(decoder)) ** 2))


def shrink_attention(model: nn.Module, d_model: int) -> None:
    """Scale the attention matrices from Xavier's standard deviation to sqrt(2 / (5 d_model)).

    SmallInit (Nguyen and Salazar 2019): that of a matrix from d_model to 4 d_model.
    """
    attentions = [m for m in model.modules() if isinstance(m, SelfAttention | CrossAttention)]
    for matrix in [m for attention in attentions for m in attention.children()]:
        if isinstance(matrix, Linear):
            for block in matrix.weight.split(matrix.blocks):
                block.mul_(math.sqrt(sum(block.shape) / (5 * d_model)))


def scale_by_variance(layers: Layers, variances: dict[Linear, float]) -> None:
    """Divide the output of each sub-layer by the standard deviation of the sum before it.

    Admin (Liu et al. 2020): omega_i^2 is the variance of the stack's input, 1, plus that of the
    outputs of the sub-layers before i. Differs: in Admin, omega is a weight, trained with the
    others; here it is part of the matrix, to keep the function of 3.1. Both are equal at step 0.
    """
    total = 1.0
    for matrix in residual_outputs(layers):
        matrix.weight /= math.sqrt(total)
        total += variances[matrix]


def output_variances(model: Transducer, matrices: list[Linear]) -> dict[Linear, float]:
    """Return the variance of each matrix's outputs for sentences of random tokens.

    Differs: Admin measures on a batch of the training data.
    """
    variances: dict[Linear, float] = dict.fromkeys(matrices, 0.0)
    if model.output.is_meta:  # only shapes matter
        return variances

    def record(matrix: nn.Module, _: object, output: Tensor) -> None:
        assert isinstance(matrix, Linear)
        variances[matrix] = output.var().item()

    hooks = [matrix.register_forward_hook(record) for matrix in matrices]
    config, random = model.config, np.random.default_rng(0)
    size = SENTENCES, min(LENGTH, config.max_len)
    sources = random.integers(0, config.source_vocabulary, size)
    targets = random.integers(0, config.target_vocabulary, size)
    model.eval()(make_batch([*zip(sources, targets, strict=True)]).to(model.output.device))
    model.train()
    for hook in hooks:
        hook.remove()
    return variances


def scale_as_deepnet(layers: Layers, *, alpha: float, beta: float) -> None:
    """Multiply values and feed-forward matrices by beta; divide each sub-layer's output by alpha.

    DeepNet (Wang et al. 2022). Differs: there, LayerNorm(alpha x + f(x)) keeps alpha.
    """
    for layer in layers:
        for module in layer.children():
            if isinstance(module, SelfAttention | CrossAttention):
                module.W_V.mul_(beta)
        layer.feed_forward.W_1.weight *= beta
        for matrix in layer.residual_outputs():
            matrix.weight *= beta / alpha
