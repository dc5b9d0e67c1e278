"""Pre-norm stacks: x + Dropout(Sublayer(Norm(x))), and a norm of the last sum. T tokens.

Differs: the paper normalises each sum, LayerNorm(x + Dropout(Sublayer(x))) (3.1, 5.4).

A residual connection returns its sum and the norm of the sum: the sum continues the residual
stream, and the norm is the input of the next sub-layer or, at the end, the output of the stack. So
the layers have the same norms as in the paper, and each stack has one more, below the first layer.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import CrossContext, SelfContext
from transduce.model.layers import DecoderLayer, EncoderLayer, make_norm
from transduce.model.ops.fused import norm
from transduce.model.ops.kernels import Kernels


class PreNorm(nn.Module):
    """Applies the layers of both stacks; `apply` is `Transducer.apply_layer`."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.below_encoder = make_norm(config)
        self.below_decoder = make_norm(config)

    def run_encoder(
        self,
        layers: Iterable[EncoderLayer],
        x: Tensor,
        context: SelfContext,
        apply: Callable[..., Any],
    ) -> Tensor:
        """Apply the encoder's layers. (T, d_model) -> (T, d_model)."""
        below = self.below_encoder
        normed = norm(x, below.weight, below.bias, below.eps, self.kernels)
        for layer in layers:
            x, normed = apply(encoder_layer, layer, x, normed, context)
        return normed

    def run_decoder(
        self,
        layers: Iterable[DecoderLayer],
        x: Tensor,
        memory: Tensor | None,
        contexts: Iterable[tuple[SelfContext, CrossContext]],
        apply: Callable[..., Any],
    ) -> Tensor:
        """Apply the decoder's layers, each with its contexts. (T, d_model) -> (T, d_model)."""
        below = self.below_decoder
        normed = norm(x, below.weight, below.bias, below.eps, self.kernels)
        for layer, (context, cross) in zip(layers, contexts, strict=True):
            x, normed = apply(decoder_layer, layer, x, normed, memory, context, cross)
        return normed


def encoder_layer(
    layer: EncoderLayer, x: Tensor, normed: Tensor, context: SelfContext
) -> tuple[Tensor, Tensor]:
    """Return the stream after a layer, and its norm. (T, d_model)."""
    x, normed = layer.after_self.sum_and_norm(x, layer.self_attention(normed, context))
    return layer.after_feed.sum_and_norm(x, layer.feed_forward(normed))


def decoder_layer(
    layer: DecoderLayer,
    x: Tensor,
    normed: Tensor,
    memory: Tensor | None,
    context: SelfContext,
    cross: CrossContext,
) -> tuple[Tensor, Tensor]:
    """Return the stream after a layer, and its norm. (T, d_model)."""
    x, normed = layer.after_self.sum_and_norm(x, layer.self_attention(normed, context))
    x, normed = layer.after_cross.sum_and_norm(x, layer.cross_attention(normed, memory, cross))
    return layer.after_feed.sum_and_norm(x, layer.feed_forward(normed))
