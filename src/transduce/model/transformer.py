"""The Transformer (paper 3). T tokens of a packed run, S sentences, H heads."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.batching.packed import (
    Batch,
    KeyRanges,
    LengthGroups,
    PackedTokens,
    SourceRows,
)
from transduce.config import ModelConfig
from transduce.model.base import DecoderState, Stack, Transducer
from transduce.model.cache import Cache
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.ops.linear import Linear


@dataclass(frozen=True, slots=True)
class Weights:
    """The attention weights of every layer and head for one pair of sentences, and the outcome."""

    encoder: Tensor  # (N, H, source, source)
    decoder: Tensor  # (N, H, target, target)
    cross: Tensor  # (N, H, target, source)
    output: Tensor  # (target, d_model) of the decoder, as `forward` returns it


class Transformer(Transducer):
    """The model of the paper's Figure 1 (3.1), as a `torch.nn.Module`.

    It is computed on packed runs of tokens, without padding: `forward` takes a `Batch` of them.
    `forward_padded` takes padded tensors.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.supports_packed = config.attention == "dot-product"  # as our kernels do
        self.encoder: Stack[EncoderLayer] = Stack(
            EncoderLayer(config, self.kernels) for _ in range(config.N)
        )
        self.decoder: Stack[DecoderLayer] = Stack(
            DecoderLayer(config, self.kernels) for _ in range(config.decoder_layers)
        )
        scale_residual_init([layer.residual_outputs() for layer in self.encoder])
        scale_residual_init([layer.residual_outputs() for layer in self.decoder])

    def encode(self, source: PackedTokens) -> Tensor:
        """Transform a run of source sentences. -> (T, d_model)."""
        x = self.source_embedding(source.tokens, source.positions)
        view = self._near(source.segments)
        for layer in self.encoder:
            x = self.apply_layer(layer, x, view)
        return x  # type: ignore[no-any-return]

    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform a run of target sentences, each seeing its source. -> (T, d_model)."""
        x = self.target_embedding(target.tokens, target.positions)
        view = self._near(target.segments)
        for layer in self.decoder:
            if isinstance(cross, KeyRanges):
                x = self.apply_layer(layer, x, view, memory, cross)
            else:
                source = layer.cross_attention.keys_values(memory, cross)
                x = self.apply_layer(layer, x, view, source, cross.groups)
        return x  # type: ignore[no-any-return]

    def _near(self, view: LengthGroups | KeyRanges) -> LengthGroups | KeyRanges:
        """Narrow ranges to the neighbourhood (4), once for all layers; groups they narrow."""
        r = self.config.neighbourhood
        return view.around(r) if r is not None and isinstance(view, KeyRanges) else view

    def project_memory(self, memory: Tensor) -> Tensor:
        """Project the encoder's output for every layer of the decoder. (T, d) -> (N, T, H * C)."""
        return torch.stack([layer.cross_attention.W_KV(memory) for layer in self.decoder])

    def cache(self, slots: int, hypotheses: int, room: tuple[int, int]) -> Cache:
        """Make an empty cache of keys and values."""
        like = self.output.new_empty(0, dtype=self.dtype)
        by_kernels = self.supports_packed and self.kernels.usable(like)
        return Cache(self.config, slots, hypotheses, room, like, by_kernels=by_kernels)

    def cache_size(self, hypotheses: int, room: tuple[int, int]) -> int:
        """Return how many numbers the cache holds of a sentence."""
        config = self.config
        each = config.decoder_layers * config.h * (config.d_k + config.d_v)
        return each * (room[0] + room[1] * hypotheses)

    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Add one token to each hypothesis; return the scores of all next words. (R,) -> (R, V)."""
        assert isinstance(cache, Cache)
        x = self.target_embedding(tokens, positions)
        for layer, *pasts in zip(self.decoder, *cache.pasts, strict=True):
            x = layer(x, *pasts)
        return self.logits_float32(x)

    def asked(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the encoder's output, and what the last layer asks it with. (T, d_model) each."""
        assert isinstance(batch.cross, SourceRows)
        memory, view = self.encode(batch.source), batch.target.segments
        x = self.target_embedding(batch.target.tokens, batch.target.positions)
        *below, last = self.decoder
        for layer in below:
            source = layer.cross_attention.keys_values(memory, batch.cross)
            x = layer(x, view, source, batch.cross.groups)
        return memory, last.after_self(x, last.self_attention(x, view, causal=True))

    def weights(self, batch: Batch) -> Weights:
        """Return the attention weights of every layer and head for the one pair of a batch."""
        assert len(batch.order) == 1
        assert isinstance(batch.cross, SourceRows)
        encoder, decoder, cross = [], [], []
        memory = self.source_embedding(batch.source.tokens, batch.source.positions)
        for below in self.encoder:
            encoder.append(below.self_attention.weights(memory, causal=False))
            memory = below(memory, batch.source.segments)
        x = self.target_embedding(batch.target.tokens, batch.target.positions)
        for layer in self.decoder:
            decoder.append(layer.self_attention.weights(x, causal=True))
            seen = layer.after_self(x, layer.self_attention(x, batch.target.segments, causal=True))
            cross.append(layer.cross_attention.weights(seen, memory))
            source = layer.cross_attention.keys_values(memory, batch.cross)
            x = layer(x, batch.target.segments, source, batch.cross.groups)
        return Weights(torch.stack(encoder), torch.stack(decoder), torch.stack(cross), x)


@torch.no_grad()
def scale_residual_init(stack: list[list[Linear]]) -> None:
    """Let all sub-layers of a stack together change what passes it about as much as one would.

    The paper is silent on the first weights. With every matrix drawn alike, six layers leave the
    tokens of a sentence so similar (mean cosine 0.96) that the decoder finds the source only after
    thousands of steps; drawn so they differ (0.24), and it does at once.
    """
    matrices = [matrix for layer in stack for matrix in layer]
    for matrix in matrices:
        matrix.weight *= len(matrices) ** -0.5
