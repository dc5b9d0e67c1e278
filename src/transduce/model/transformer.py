"""The Transformer (paper 3). T tokens of a packed run, S sentences, H heads."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.batching.packed import Batch, CrossGroup, CrossView, Ranges, Run, SelfView
from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, KeysValues, Past, SelfAttention
from transduce.model.base import Memory, Stack, Transducer, dropped
from transduce.model.cache import Cache
from transduce.model.ops import kernels
from transduce.model.ops.fused import linear_relu, residual_norm
from transduce.model.ops.linear import Linear

# Beside ReLU, which has a kernel of its own.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"swish": F.silu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """Eq. 2, max(0, x W1 + b1) W2 + b2, at each position by itself (paper 3.3).

    Differs: imported models may have another function in the place of max(0, x).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.W_1 = Linear(config.d_model, config.d_ff, bias=True)
        self.W_2 = Linear(config.d_ff, config.d_model, bias=True)
        self.relu_dropout = config.relu_dropout
        self.activation = ACTIVATIONS.get(config.activation)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token. (T, d_model) -> (T, d_model)."""
        if self.activation:
            inner = self.activation(self.W_1(x))
        elif kernels.usable(x):
            inner = linear_relu(x, self.W_1.weight, self.W_1.bias)
        else:
            inner = F.relu(self.W_1(x), inplace=True)
        if self.training and self.relu_dropout:
            inner = inner * dropped(inner, self.relu_dropout)
        return self.W_2(inner)  # type: ignore[no-any-return]


class Residual(nn.Module):
    """What stands around every sub-layer: LayerNorm(x + Dropout(Sublayer(x))) (paper 3.1, 5.4)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.P_drop = config.P_drop

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Add a sub-layer's output `y` to its input `x`. (T, d_model)."""
        P_drop = self.P_drop if self.training else 0.0
        if kernels.usable(x):
            return residual_norm(x, y, self.norm.weight, self.norm.bias, P_drop, self.norm.eps)
        total = torch.addcmul(x, y, dropped(y, P_drop)) if P_drop else x + y
        return self.norm(total.float()).to(x.dtype)  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network (paper 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)
        self.after_self = Residual(config)
        self.after_feed = Residual(config)

    def last(self) -> list[Linear]:
        """Return the last matrix of each sub-layer."""
        return [self.self_attention.W_O, self.feed_forward.W_2]

    def forward(self, x: Tensor, view: SelfView | Ranges) -> Tensor:
        """Transform a run. (T, d_model) -> (T, d_model)."""
        x = self.after_self(x, self.self_attention(x, view, causal=False))
        return self.after_feed(x, self.feed_forward(x))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the source, a feed-forward network (paper 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.cross_attention = CrossAttention(config)
        self.feed_forward = FeedForward(config)
        self.after_self = Residual(config)
        self.after_cross = Residual(config)
        self.after_feed = Residual(config)

    def last(self) -> list[Linear]:
        """Return the last matrix of each sub-layer."""
        return [self.self_attention.W_O, self.cross_attention.W_O, self.feed_forward.W_2]

    def forward(
        self,
        x: Tensor,
        own: SelfView | Ranges | Past,
        source: KeysValues | Tensor | Past,
        cross: tuple[CrossGroup, ...] | Ranges = (),
    ) -> Tensor:
        """Transform a run, or the next tokens after a past. (T, d_model) -> (T, d_model)."""
        x = self.after_self(x, self.self_attention(x, own, causal=True))
        x = self.after_cross(x, self.cross_attention(x, source, cross))
        return self.after_feed(x, self.feed_forward(x))  # type: ignore[no-any-return]


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
        self.packs = config.attention == "dot-product"  # as our kernels do
        self.encoder: Stack[EncoderLayer] = Stack(EncoderLayer(config) for _ in range(config.N))
        self.decoder: Stack[DecoderLayer] = Stack(
            DecoderLayer(config) for _ in range(config.depth_of_decoder)
        )
        _calm([layer.last() for layer in self.encoder])
        _calm([layer.last() for layer in self.decoder])

    def encode(self, source: Run) -> Tensor:
        """Transform a run of source sentences. -> (T, d_model)."""
        x = self.source_embedding(source.tokens, source.positions)
        view = self._near(source.view)
        for layer in self.encoder:
            x = self.through(layer, x, view)
        return x  # type: ignore[no-any-return]

    def decode(self, target: Run, memory: Tensor, cross: CrossView | Ranges) -> Tensor:
        """Transform a run of target sentences, each seeing its source. -> (T, d_model)."""
        x = self.target_embedding(target.tokens, target.positions)
        view = self._near(target.view)
        for layer in self.decoder:
            if isinstance(cross, Ranges):
                x = self.through(layer, x, view, memory, cross)
            else:
                source = layer.cross_attention.keys_values(memory, cross)
                x = self.through(layer, x, view, source, cross.groups)
        return x  # type: ignore[no-any-return]

    def _near(self, view: SelfView | Ranges) -> SelfView | Ranges:
        """Narrow ranges to the neighbourhood (4), once for all layers; groups they narrow."""
        r = self.config.neighbourhood
        return view.around(r) if r is not None and isinstance(view, Ranges) else view

    def remembered(self, memory: Tensor) -> Tensor:
        """Project the encoder's output for every layer of the decoder. (T, d) -> (N, T, H * C)."""
        return torch.stack([layer.cross_attention.W_KV(memory) for layer in self.decoder])

    def cache(self, slots: int, hypotheses: int, room: tuple[int, int]) -> Cache:
        """Make an empty cache of keys and values."""
        like = self.output.new_empty(0, dtype=self.dtype)
        return Cache(self.config, slots, hypotheses, room, like)

    def cached_numbers(self, hypotheses: int, room: tuple[int, int]) -> int:
        """Return how many numbers the cache holds of a sentence."""
        config = self.config
        each = config.depth_of_decoder * config.h * (config.d_k + config.d_v)
        return each * (room[0] + room[1] * hypotheses)

    def step(self, tokens: Tensor, positions: Tensor, cache: Memory) -> Tensor:
        """Add one token to each hypothesis; return the scores of all next words. (R,) -> (R, V)."""
        assert isinstance(cache, Cache)
        x = self.target_embedding(tokens, positions)
        for layer, *pasts in zip(self.decoder, *cache.pasts, strict=True):
            x = layer(x, *pasts)
        return self.wide_logits(x)

    def asked(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the encoder's output, and what the last layer asks it with. (T, d_model) each."""
        assert isinstance(batch.cross, CrossView)
        memory, view = self.encode(batch.source), batch.target.view
        x = self.target_embedding(batch.target.tokens, batch.target.positions)
        *below, last = self.decoder
        for layer in below:
            source = layer.cross_attention.keys_values(memory, batch.cross)
            x = layer(x, view, source, batch.cross.groups)
        return memory, last.after_self(x, last.self_attention(x, view, causal=True))

    def weights(self, batch: Batch) -> Weights:
        """Return the attention weights of every layer and head for the one pair of a batch."""
        assert len(batch.order) == 1
        assert isinstance(batch.cross, CrossView)
        encoder, decoder, cross = [], [], []
        memory = self.source_embedding(batch.source.tokens, batch.source.positions)
        for below in self.encoder:
            encoder.append(below.self_attention.weights(memory, causal=False))
            memory = below(memory, batch.source.view)
        x = self.target_embedding(batch.target.tokens, batch.target.positions)
        for layer in self.decoder:
            decoder.append(layer.self_attention.weights(x, causal=True))
            seen = layer.after_self(x, layer.self_attention(x, batch.target.view, causal=True))
            cross.append(layer.cross_attention.weights(seen, memory))
            source = layer.cross_attention.keys_values(memory, batch.cross)
            x = layer(x, batch.target.view, source, batch.cross.groups)
        return Weights(torch.stack(encoder), torch.stack(decoder), torch.stack(cross), x)


@torch.no_grad()
def _calm(stack: list[list[Linear]]) -> None:
    """Let all sub-layers of a stack together change what passes it about as much as one would.

    The paper is silent on the first weights. With every matrix drawn alike, six layers leave the
    tokens of a sentence so similar (mean cosine 0.96) that the decoder finds the source only after
    thousands of steps; drawn so they differ (0.24), and it does at once.
    """
    matrices = [matrix for layer in stack for matrix in layer]
    for matrix in matrices:
        matrix.weight *= len(matrices) ** -0.5
