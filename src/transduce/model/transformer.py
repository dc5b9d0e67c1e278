"""The Transformer (paper 3). T tokens in a packed batch, R rows of hypotheses, V words.

The base class (base.py) has the embeddings, the softmax matrix (3.4) and `forward`.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from transduce.batching.packed import KeyRanges, PackedTokens, SourceRows
from transduce.config import ModelConfig
from transduce.model.attention import CrossContext, SelfContext
from transduce.model.base import DecoderState, Stack, Transducer
from transduce.model.cache import Cache
from transduce.model.contexts.selection import cross_context, self_context
from transduce.model.initialisation import initialise, residual_outputs
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.ops.linear import Linear
from transduce.model.variants.pre_norm import PreNorm


class Transformer(Transducer):
    """The model of the paper's Figure 1 (3.1), as a `torch.nn.Module`.

    It computes on packed tokens, without padding: `forward` takes a `Batch` of them.
    `forward_padded` takes padded tensors.
    """

    architecture = "transformer"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.supports_packed = config.uses_dot_products  # our packed kernels need them
        self.encoder: Stack[EncoderLayer] = Stack(
            EncoderLayer(config, self.kernels) for _ in range(config.N)
        )
        self.decoder: Stack[DecoderLayer] = Stack(
            DecoderLayer(config, self.kernels) for _ in range(config.decoder_layers)
        )
        self.pre_norm = PreNorm(config, self.kernels) if config.pre_norm else None
        initialise(self, self.encoder, self.decoder)

    def encode(self, source: PackedTokens) -> Tensor:
        """Transform source sentences. -> (T, d_model)."""
        context = self_context(source, causal=False, neighbourhood=self.config.neighbourhood)
        return self.run_encoder(source, context)

    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform target sentences, each attending to its source. -> (T, d_model)."""
        context = self_context(target, causal=True, neighbourhood=self.config.neighbourhood)
        contexts = [(context, cross_context(cross))] * len(self.decoder)
        return self.run_decoder(self.embed_target(target), memory, contexts)

    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Add one token to each hypothesis; return the logits of the next. (R,) -> (R, V)."""
        contexts = cast("Cache", cache).contexts(positions)
        x = self.target_embedding(tokens, positions)
        return self.logits_float32(self.run_decoder(x, None, contexts))

    def run_encoder(self, source: PackedTokens, context: SelfContext) -> Tensor:
        """Apply the encoder's layers with this attention context. -> (T, d_model)."""
        x = self.embed_source(source)
        if self.pre_norm is not None:
            return self.pre_norm.run_encoder(self.encoder, x, context, self.apply_layer)
        for layer in self.encoder:
            x = self.apply_layer(layer, x, context)
        return x

    def run_decoder(
        self,
        x: Tensor,
        memory: Tensor | None,
        contexts: Sequence[tuple[SelfContext, CrossContext]],
    ) -> Tensor:
        """Apply the decoder's layers to embeddings, each with its contexts. -> (T, d_model).

        Training, scoring, decoding, alignment and attention maps differ only in the contexts. The
        contexts of a cache need no `memory`: the cache holds the keys and values of the sources.
        """
        if self.pre_norm is not None:
            return self.pre_norm.run_decoder(self.decoder, x, memory, contexts, self.apply_layer)
        for layer, (context, cross) in zip(self.decoder, contexts, strict=True):
            x = self.apply_layer(layer, x, memory, context, cross)
        return x

    def residual_outputs(self) -> list[Linear]:
        """Return the last matrix of each sub-layer."""
        return residual_outputs((*self.encoder, *self.decoder))

    def project_memory(self, memory: Tensor) -> Tensor:
        """Project the encoder's output to the keys and values of every layer. -> (N, T, H * C)."""
        return torch.stack([layer.cross_attention.project_memory(memory) for layer in self.decoder])

    def cache(self, slots: int, hypotheses: int, capacity: tuple[int, int]) -> Cache:
        """Return an empty cache of keys and values."""
        like = self.output.new_empty(0, dtype=self.dtype)
        return Cache(self.config, slots, hypotheses, capacity, like, self.kernels)

    def cache_size(self, hypotheses: int, capacity: tuple[int, int]) -> int:
        """Return the number of elements that the cache holds per sentence."""
        config = self.config
        per_token = config.decoder_layers * config.h * (config.d_k + config.d_v)
        return per_token * (capacity[0] + capacity[1] * hypotheses)

    @staticmethod
    def weights_per_token(config: ModelConfig) -> tuple[int, int]:
        """Return the number of weights applied to each source token and each target token."""
        W_Q = config.d_model * config.h * config.d_k
        W_KV = config.d_model * config.h * (config.d_k + config.d_v)
        W_O = config.h * config.d_v * config.d_model
        feed_forward = (3 if config.gated else 2) * config.d_model * config.d_ff
        layer = W_Q + W_KV + W_O + feed_forward
        source = config.N * layer + config.decoder_layers * W_KV  # cross-attention
        target = config.decoder_layers * (layer + W_Q + W_O)
        return source, target + config.d_model * config.target_vocabulary
