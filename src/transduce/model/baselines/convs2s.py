"""ConvS2S (Gehring et al. 2017): gated convolutions, and attention in every decoder layer.

T tokens in a batch, S sentences, k hypotheses each, R = S * k rows, K source tokens, C channels.
`d_model` is the width of embeddings, `d_ff` the number of channels, `kernel` the kernel width.
"""

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.batching.packed import KeyRanges, PackedTokens, SourceRows
from transduce.config import ModelConfig
from transduce.model.attention import DotProduct, Heads
from transduce.model.base import DecoderState, Stack, Transducer
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.states import States
from transduce.model.contexts.selection import cross_context
from transduce.model.embedding import Embedding
from transduce.model.ops.dropout import dropout
from transduce.model.ops.linear import Linear, product
from transduce.system.devices import widest_float

HALF = math.sqrt(0.5)  # keeps the variance of a sum of two terms
DEVIATION = 0.1  # of initial embeddings and positions, as in their paper

Attend = Callable[[Tensor], Tensor]  # queries (T, d_model) -> averages of the source


class WeightNormed(Linear):
    """x W^T + b with W = g v / |v|: weight normalisation (Salimans and Kingma 2016).

    `weight` holds v until `fold` is called.
    """

    def __init__(self, inputs: int, outputs: int, *, gain: float) -> None:
        """Draw v so that outputs have `gain` times the variance of inputs (their section 3.5)."""
        super().__init__(inputs, outputs, bias=True)
        nn.init.normal_(self.weight, std=math.sqrt(gain / inputs))
        self.g: nn.Parameter | None = nn.Parameter(self.weight.detach().norm(dim=1, keepdim=True))

    def forward(self, x: Tensor) -> Tensor:
        """Map each token. (T, inputs) -> (T, outputs)."""
        if self.g is None:
            return super().forward(x)
        return product(x, torch._weight_norm(self.weight, self.g, 0), self.bias)  # noqa: SLF001

    @torch.no_grad()
    def fold(self) -> None:
        """Replace v by W: for inference only."""
        if self.g is not None:
            self.weight.copy_(torch._weight_norm(self.weight, self.g, 0))  # noqa: SLF001
            self.g = None


class Block(nn.Module):
    """A convolution with gated linear units, A * sigmoid(B) (their section 3.2)."""

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__()
        C, k = config.d_ff, config.kernel
        # The gates reduce the variance to 1/4.
        weights = WeightNormed(k * C, 2 * C, gain=4 * (1 - config.P_drop))
        self.convolution = Convolution(weights, taps(k, 1, causal=causal))
        self.P_drop = config.P_drop

    def forward(self, x: Tensor, where: Neighbours | Tensor) -> Tensor:
        """Transform packed tokens, or one token given its past. (T, C) -> (T, C)."""
        x = dropout(x, self.P_drop if self.training else 0.0)
        return F.glu(self.convolution(x, where))


class EncoderLayer(nn.Module):
    """A centred block with a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.block = Block(config, causal=False)

    def forward(self, x: Tensor, where: Neighbours) -> Tensor:
        """Transform packed tokens. (T, C) -> (T, C)."""
        return (x + self.block(x, where)) * HALF  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """A causal block, and attention over the source (their section 3.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.block = Block(config, causal=True)
        self.W_Q = WeightNormed(config.d_ff, config.d_model, gain=1)
        self.W_O = WeightNormed(config.d_model, config.d_ff, gain=1)
        # Dot products are not scaled in ConvS2S: sqrt(d_model) cancels the scaling of Eq. 1.
        self.scale = HALF * math.sqrt(config.d_model)

    def forward(
        self, x: Tensor, embedded: Tensor, where: Neighbours | Tensor, attend: Attend
    ) -> Tensor:
        """Transform packed tokens, or one token given its past. (T, C) -> (T, C).

        Their Eq. 1: d = W h + b + g, where g is the embedding of the previous token.
        """
        h = self.block(x, where)
        average = attend((self.W_Q(h) + embedded) * self.scale)
        h = (h + self.W_O(average)) * HALF
        return (x + h) * HALF  # type: ignore[no-any-return]


class ConvS2S(Transducer):
    """Convolutional sequence to sequence learning.

    Differs: the softmax matrix is shared with the embeddings (`tie`) and has no weight
    normalisation. As in the authors' code, queries and residual sums are multiplied by sqrt(0.5).
    """

    architecture = "convs2s"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d_model, C, P_keep = config.d_model, config.d_ff, 1 - config.P_drop
        for embedding in (self.source_embedding, self.target_embedding):
            _scale_embedding(embedding)
        self.into_encoder = WeightNormed(d_model, C, gain=P_keep)
        self.encoder: Stack[EncoderLayer] = Stack(EncoderLayer(config) for _ in range(config.N))
        self.out_of_encoder = WeightNormed(C, d_model, gain=1)
        self.into_decoder = WeightNormed(d_model, C, gain=P_keep)
        self.decoder: Stack[DecoderLayer] = Stack(
            DecoderLayer(config) for _ in range(config.decoder_layers)
        )
        self.out_of_decoder = WeightNormed(C, d_model, gain=1)

    @staticmethod
    def weights_per_token(config: ModelConfig) -> tuple[int, int]:
        """Return the number of weights applied to each source token and each target token."""
        d_model, C = config.d_model, config.d_ff
        ends, block, attention = 2 * d_model * C, config.kernel * C * 2 * C, 2 * d_model * C
        target = ends + config.decoder_layers * (block + attention)
        return ends + config.N * block, target + d_model * config.target_vocabulary

    def encode(self, source: PackedTokens) -> Tensor:
        """Return the keys z and values z + e of source sentences. -> (T, 2 * d_model)."""
        embedded = self.embed_source(source)
        x, where = self.into_encoder(embedded), Neighbours(source.positions, self.dtype)
        for layer in self.encoder:
            x = self.apply_layer(layer, x, where)
        # The gradients of all decoder layers are summed here, so they are scaled (section 3.5).
        z = _ScaleGradient.apply(self.out_of_encoder(x), 0.5 / len(self.decoder))  # type: ignore[no-untyped-call]
        # The average of m values is multiplied by m sqrt(1/m) (the same section).
        values = (z + embedded) * (HALF * _sqrt_lengths(source)).to(z.dtype)
        return torch.cat([z, values], dim=-1)

    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform target sentences, each with attention to its source. -> (T, d_model)."""
        embedded = self.embed_target(target)
        x, where = self.into_decoder(embedded), Neighbours(target.positions, self.dtype)
        attend = _attention_over(memory, cross)
        for layer in self.decoder:
            x = self.apply_layer(layer, x, embedded, where, attend)
        return self._out(x)

    def _out(self, x: Tensor) -> Tensor:
        return dropout(self.out_of_decoder(x), self.config.P_drop if self.training else 0.0)

    def project_memory(self, memory: Tensor) -> Tensor:
        """Return keys and values, which all layers share. (T, 2 * d_model) -> (2, T, d_model)."""
        return memory.unflatten(-1, (2, -1)).transpose(0, 1)  # type: ignore[no-any-return]

    def cache(self, slots: int, hypotheses: int, capacity: tuple[int, int]) -> States:
        """Return an empty state: the last inputs of each layer's convolution."""
        like = self.output.new_empty(0, dtype=self.dtype)
        shapes = [self._past] * len(self.decoder)
        return States(slots, hypotheses, (2, capacity[0], self.config.d_model), shapes, like)

    @property
    def _past(self) -> tuple[int, int]:
        return self.config.kernel - 1, self.config.d_ff

    def cache_size(self, hypotheses: int, capacity: tuple[int, int]) -> int:
        """Return the number of elements that the state holds per sentence."""
        per_hypothesis = len(self.decoder) * math.prod(self._past)
        return 2 * self.config.d_model * capacity[0] + hypotheses * per_hypothesis

    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Append one token to each hypothesis; return the logits of the next. (R,) -> (R, V)."""
        assert isinstance(cache, States)
        embedded = self.target_embedding(tokens, positions)
        x, attend = self.into_decoder(embedded), _attention_over_states(cache)
        for layer, past in zip(self.decoder, cache.states, strict=True):
            x = layer(x, embedded, past, attend)
        return self.logits_float32(self._out(x))

    def narrow(self, dtype: torch.dtype) -> Self:
        """Store the matrices in this precision, without weight normalisation: for inference."""
        self._fold()
        return super().narrow(dtype)

    def pack(self) -> Self:
        """Store the matrices in the processor's fastest layout, without normalisation."""
        self._fold()
        return super().pack()

    def _fold(self) -> None:
        for module in self.modules():
            if isinstance(module, WeightNormed):
                module.fold()


class _ScaleGradient(torch.autograd.Function):
    """The identity; the gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


@torch.no_grad()
def _scale_embedding(embedding: Embedding) -> None:
    """Give embeddings and positions a standard deviation of 0.1 each.

    Dot products are not divided by sqrt(d_k) in ConvS2S. With unit variance they would be so large
    that every query would attend to a single key.
    """
    embedding.scale *= DEVIATION
    if isinstance(embedding.positions, nn.Parameter):
        nn.init.normal_(embedding.positions, std=DEVIATION)
    elif embedding.positions is not None:
        embedding.positions *= DEVIATION


def _sqrt_lengths(source: PackedTokens) -> Tensor:
    """Return sqrt(m) for each token of a sentence with m tokens. (T, 1)."""
    if isinstance(source.segments, KeyRanges):
        lengths = source.segments.last - source.segments.first
    else:
        sentences, length = np.array(source.segments.groups).T
        lengths = torch.from_numpy(length.repeat(sentences * length)).to(source.tokens.device)
    return lengths[:, None].to(widest_float(lengths.device)).sqrt()


def _attention_over(memory: Tensor, cross: SourceRows | KeyRanges) -> Attend:
    """Return attention over packed sources; memory: (T, 2 * d_model)."""
    d_model = memory.size(1) // 2
    context, heads = cross_context(cross), Heads(1, d_model, d_model, 0.0, DotProduct())
    return lambda q: context.attend(q, _identity, memory, heads)


def _identity(memory: Tensor) -> Tensor:
    return memory


def _attention_over_states(cache: States) -> Attend:
    """Return attention of each hypothesis over the source of its sentence."""
    keys, values = cache.source_rows(0), cache.source_rows(1)  # (S, K, d_model)
    mask = torch.zeros_like(cache.real, dtype=keys.dtype).masked_fill_(~cache.real, -math.inf)
    scale = keys.size(-1) ** -0.5

    def attend(q: Tensor) -> Tensor:
        by_sentence = q.unflatten(0, (-1, cache.k))
        scores = torch.baddbmm(mask[:, None], by_sentence, keys.mT, alpha=scale)
        return torch.bmm(scores.softmax(-1), values).flatten(0, 1)

    return attend
