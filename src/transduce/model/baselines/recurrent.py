"""A recurrent encoder-decoder with attention, which the paper set out to replace (paper 1, 2).

Bahdanau et al. 2015; the layers are those of GNMT (Wu et al. 2016). T tokens in a batch, S
sentences, Q queries, K keys, H heads (one in the literature), R hypotheses, C cells per layer.
"""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.batching.packed import KeyRanges, LengthGroups, PackedTokens, SourceRows
from transduce.config import ModelConfig
from transduce.model.base import DecoderState, Stack, Transducer
from transduce.model.baselines.lstm import LSTM, Steps, pad_rows, run_lstm, take_rows
from transduce.model.baselines.states import States
from transduce.model.ops.dropout import dropout
from transduce.model.ops.linear import Linear
from transduce.model.variants.additive import additive_scores

RESIDUAL = 2  # the first layer with a residual connection; the bottom layer is 0


class Attention(nn.Module):
    """Attention of the decoder to the source: v^T tanh(W q + U k) (Bahdanau), or dot products.

    Differs: values are projections of the encoder's output, as in the Transformer. This is
    equivalent, except for the rank of the matrices that read the average.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.h, self.attention, self.scaled = config.h, config.attention, config.scaled
        self.sizes = [config.h * config.d_k, config.h * config.d_v]
        bias = config.attention_bias
        self.W_Q = Linear(config.d_ff, self.sizes[0], bias=bias)
        self.W_KV = Linear(config.d_ff, sum(self.sizes), bias=bias, blocks=self.sizes)
        self.v_a: nn.Parameter | None = None
        if config.attention == "additive":
            v_a = torch.empty(config.h, config.d_k)
            self.v_a = nn.Parameter(nn.init.normal_(v_a, std=config.d_k**-0.5))

    def forward(self, q: Tensor, source: Tensor, real: Tensor) -> Tensor:
        """Average the values of the source. (S, Q, H * d_k), (S, K, …) -> (S, Q, H * d_v).

        `q` are queries projected by W_Q, `source` the encoder's output projected by W_KV; `real`
        (S, K) is false for padding.
        """
        parts = (q, *source.split(self.sizes, dim=-1))
        q, k, v = (part.unflatten(-1, (self.h, -1)).transpose(1, 2) for part in parts)
        allowed = real[:, None, None]  # (S, H, Q, K)
        match self.attention:
            case "dot-product":
                scale = None if self.scaled else 1.0
                y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)
            case "additive":
                assert self.v_a is not None
                scores = additive_scores(q, k, self.v_a).masked_fill(~allowed, -torch.inf)
                y = scores.softmax(-1) @ v
        return y.transpose(1, 2).flatten(2)


class Recurrent(Transducer):
    """Bidirectional LSTM encoder, LSTM decoder with attention.

    The first layer of the encoder is bidirectional; from the third layer on, a layer's output is
    added to its input. The bottom layer of the decoder computes the attention queries; the other
    layers and the output read the average. `d_ff` is the number of cells of each layer.

    Differs: there is no input feeding (attention of the previous step as input), so that one call
    of cuDNN computes a layer for whole sentences; and the decoder's initial states are 0.
    """

    architecture = "recurrent"
    supports_packed = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        C, read = config.d_ff, config.h * config.d_v
        self.both_ways: Stack[LSTM] = Stack(LSTM(config.d_model, C) for _ in range(2))
        inputs = [2 * C] + [C] * (config.N - 2)
        self.encoder: Stack[LSTM] = Stack(LSTM(wide, C) for wide in inputs[: config.N - 1])
        self.W_M = Linear(2 * C, C, bias=True) if config.N == 1 else nn.Identity()
        self.bottom = LSTM(config.d_model, C)
        self.decoder: Stack[LSTM] = Stack(
            LSTM(C + read, C) for _ in range(config.decoder_layers - 1)
        )
        self.attention = Attention(config)
        self.W_O = Linear(C + read, config.d_model, bias=True)

    @staticmethod
    def weights_per_token(config: ModelConfig) -> tuple[int, int]:
        """Return the number of weights applied to each source token and each target token."""
        d, C, keys = config.d_model, config.d_ff, config.h * config.d_k
        values = config.h * config.d_v
        encoder = [d + C, d + C, *[3 * C][: config.N - 1], *[2 * C] * (config.N - 2)]
        decoder = [d + C] + [2 * C + values] * (config.decoder_layers - 1)
        source = 4 * C * sum(encoder) + C * (keys + values) + (2 * C * C if config.N == 1 else 0)
        target = 4 * C * sum(decoder) + C * keys + (C + values) * d
        return source, target + d * config.target_vocabulary

    def encode(self, source: PackedTokens) -> Tensor:
        """Transform source sentences. -> (T, C)."""
        assert isinstance(source.segments, LengthGroups)
        steps = Steps.of(source.segments, source.tokens.device)
        x = take_rows(self.embed_source(source), steps.order)
        x = self._read(list(self.both_ways), x, steps)
        for number, layer in enumerate(self.encoder, 1):
            y = self._read([layer], self._drop(x), steps)
            x = x + y if number >= RESIDUAL else y
        return self.W_M(take_rows(x, steps.back))  # type: ignore[no-any-return]

    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform target sentences, each with attention to its source. -> (T, d_model)."""
        assert isinstance(target.segments, LengthGroups)
        assert isinstance(cross, SourceRows)
        steps = Steps.of(target.segments, target.tokens.device)
        x = take_rows(self.embed_target(target), steps.order)
        x = self._read([self.bottom], x, steps)
        attention = self.attention
        q = pad_rows(attention.W_Q(x), steps.rows, steps.shape)  # (S, Q, H * d_k)
        S, K = cross.real.shape
        source = pad_rows(attention.W_KV(self._drop(memory)), cross.place, (S, K))
        context = take_rows(
            attention(q, source, cross.real).flatten(0, 1), steps.rows
        )  # (T, H * d_v)
        for number, layer in enumerate(self.decoder, 1):
            y = self._read([layer], self._drop(torch.cat([x, context], dim=-1)), steps)
            x = x + y if number >= RESIDUAL else y
        x = take_rows(torch.cat([x, context], dim=-1), steps.back)
        return self.W_O(self._drop(x))  # type: ignore[no-any-return]

    def _drop(self, x: Tensor) -> Tensor:
        """Dropout between layers; not between the steps of one layer."""
        return dropout(x, self.config.P_drop if self.training else 0.0)

    def _read(self, layer: list[LSTM], x: Tensor, steps: Steps) -> Tensor:
        """Apply a layer, or the two directions of one."""
        return self.apply_layer(functools.partial(run_lstm, layer), x, steps.sizes)  # type: ignore[no-any-return]

    def project_memory(self, memory: Tensor) -> Tensor:
        """Project the encoder's output for the decoder's attention. (T, C) -> (1, T, …)."""
        return self.attention.W_KV(memory)[None]  # type: ignore[no-any-return]

    def cache(self, slots: int, hypotheses: int, capacity: tuple[int, int]) -> States:
        """Return an empty state: the projections of the sources, and h and c of each layer."""
        like = self.output.new_empty(0, dtype=self.dtype)
        source = 1, capacity[0], sum(self.attention.sizes)
        shapes = [(self.config.d_ff,)] * (2 * self.config.decoder_layers)
        return States(slots, hypotheses, source, shapes, like)

    def cache_size(self, hypotheses: int, capacity: tuple[int, int]) -> int:
        """Return the number of elements that the state holds per sentence."""
        states = 2 * self.config.decoder_layers * self.config.d_ff
        return sum(self.attention.sizes) * capacity[0] + states * hypotheses

    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Append one token to each hypothesis; return the logits of the next. (R,) -> (R, V)."""
        assert isinstance(cache, States)
        x = self.target_embedding(tokens, positions)
        x = self._step(self.bottom, x, cache, 0)
        q = self.attention.W_Q(x).unflatten(0, (-1, cache.k))
        context = self.attention(q, cache.source_rows(), cache.real).flatten(0, 1)
        for number, layer in enumerate(self.decoder, 1):
            y = self._step(layer, torch.cat([x, context], dim=-1), cache, number)
            x = x + y if number >= RESIDUAL else y
        return self.logits_float32(self.W_O(torch.cat([x, context], dim=-1)))

    def _step(self, layer: LSTM, x: Tensor, cache: States, number: int) -> Tensor:
        """Apply a layer to the next token of every hypothesis."""
        states = cache.states[2 * number : 2 * number + 2]  # each (S, k, C)
        new = layer.step(x, *(state.flatten(0, 1) for state in states))
        for state, now in zip(states, new, strict=True):
            state.copy_(now.unflatten(0, (-1, cache.k)))
        return new[0]
