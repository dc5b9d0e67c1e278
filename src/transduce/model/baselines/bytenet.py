"""ByteNet (Kalchbrenner et al. 2016) over subwords: dilated convolutions without attention.

T tokens in a batch, S sentences, R rows of hypotheses. `d_model` is the number of channels between
blocks, `d_ff` the number inside them (half as many in their paper), `kernel` the kernel width.
"""

import math

import torch
from torch import Tensor, nn

from transduce.batching.packed import KeyRanges, PackedTokens, SourceRows
from transduce.config import ModelConfig
from transduce.model.base import DecoderState, Stack, Transducer
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.states import States
from transduce.model.ops.dropout import dropout
from transduce.model.ops.fused import norm_relu
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.linear import Linear

DILATIONS = (1, 2, 4, 8, 16)  # in a set of blocks; each set starts with 1 (their section 3.5)


def dilation(block: int) -> int:
    """Return the dilation of a block; blocks are numbered from 0."""
    return DILATIONS[block % len(DILATIONS)]


class NormReLU(nn.LayerNorm):
    """max(0, LayerNorm(x)), with the statistics in float32."""

    def __init__(self, channels: int, kernels: Kernels) -> None:
        super().__init__(channels)
        self.kernels = kernels

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token. (T, C) -> (T, C)."""
        return norm_relu(x, self.weight, self.bias, self.eps, self.kernels)


class Block(nn.Module):
    """The residual block with ReLUs (their section 3.6): narrow, convolve, widen, add.

    Differs: dropout on the block's output, as on the sub-layers of the Transformer.
    """

    def __init__(self, config: ModelConfig, kernels: Kernels, number: int, *, causal: bool) -> None:
        super().__init__()
        d_model, C, k = config.d_model, config.d_ff, config.kernel
        reads = taps(k, dilation(number), causal=causal)
        self.norm_1 = NormReLU(d_model, kernels)
        self.W_1 = Linear(d_model, C, bias=True)
        self.norm_2 = NormReLU(C, kernels)
        self.convolution = Convolution(Linear(k * C, C, bias=True), reads)
        self.norm_3 = NormReLU(C, kernels)
        self.W_2 = Linear(C, d_model, bias=True)
        self.P_drop = config.P_drop

    def forward(self, x: Tensor, where: Neighbours | Tensor) -> Tensor:
        """Transform packed tokens, or one token given its past. (T, d_model) -> (T, d_model)."""
        inside = self.W_1(self.norm_1(x))
        inside = self.convolution(self.norm_2(inside), where)
        added = self.W_2(self.norm_3(inside))
        return x + dropout(added, self.P_drop if self.training else 0.0)


class ByteNet(Transducer):
    """A decoder stacked on the encoder: at position t it reads the encoder's output at position t.

    Differs: over subwords. Beyond the end of the source the decoder reads 0; the authors extend the
    source to a|s| + b positions instead. The encoder's output and the embedding of the last word
    are concatenated and mapped by one matrix.
    """

    architecture = "bytenet"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d_model = config.d_model
        self.encoder: Stack[Block] = Stack(
            Block(config, self.kernels, number, causal=False) for number in range(config.N)
        )
        self.after_encoder = NormReLU(d_model, self.kernels)
        self.join = Linear(2 * d_model, d_model, bias=True)
        self.decoder: Stack[Block] = Stack(
            Block(config, self.kernels, number, causal=True)
            for number in range(config.decoder_layers)
        )
        self.after_decoder = NormReLU(d_model, self.kernels)
        self.last = Linear(d_model, d_model, bias=True)
        for stack in (self.encoder, self.decoder):
            scale_residual_init(stack)

    @staticmethod
    def weights_per_token(config: ModelConfig) -> tuple[int, int]:
        """Return the number of weights applied to each source token and each target token."""
        d_model, C = config.d_model, config.d_ff
        block = 2 * d_model * C + config.kernel * C * C
        target = 3 * d_model * d_model + config.decoder_layers * block
        return config.N * block, target + d_model * config.target_vocabulary

    def encode(self, source: PackedTokens) -> Tensor:
        """Transform source sentences. -> (T, d_model)."""
        x = self.embed_source(source)
        return self.after_encoder(self._pass(self.encoder, x, source.positions))  # type: ignore[no-any-return]

    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform target sentences, each stacked on its source. -> (T, d_model)."""
        below = unfold(memory, target.positions, cross)
        x = torch.cat([self.embed_target(target), below], dim=-1)
        return self._out(self._pass(self.decoder, self.join(x), target.positions))

    def _pass(self, stack: Stack[Block], x: Tensor, positions: Tensor) -> Tensor:
        where = Neighbours(positions, self.dtype)
        for block in stack:
            x = self.apply_layer(block, x, where)
        return x

    def _out(self, x: Tensor) -> Tensor:
        return self.last(self.after_decoder(x))  # type: ignore[no-any-return]

    def project_memory(self, memory: Tensor) -> Tensor:
        """Return the encoder's output unchanged. (T, d_model) -> (1, T, d_model)."""
        return memory[None]

    def cache(self, slots: int, hypotheses: int, capacity: tuple[int, int]) -> States:
        """Return an empty state: the last inputs of each block's convolution."""
        like = self.output.new_empty(0, dtype=self.dtype)
        source = 1, capacity[0], self.config.d_model
        return States(slots, hypotheses, source, self._pasts(), like)

    def _pasts(self) -> list[tuple[int, int]]:
        return [(block.convolution.behind, self.config.d_ff) for block in self.decoder]

    def cache_size(self, hypotheses: int, capacity: tuple[int, int]) -> int:
        """Return the number of elements that the state holds per sentence."""
        return self.config.d_model * capacity[0] + hypotheses * sum(map(math.prod, self._pasts()))

    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Append one token to each hypothesis; return the logits of the next. (R,) -> (R, V)."""
        assert isinstance(cache, States)
        source = cache.source_rows()  # (S, K, d_model)
        position = positions.unflatten(0, (-1, cache.k))
        inside = (position < cache.source_lengths[:, None])[..., None]
        row = position.clamp(max=source.size(1) - 1)[..., None].expand(-1, -1, source.size(2))
        below = (source.gather(1, row.long()) * inside).flatten(0, 1)
        x = self.join(torch.cat([self.target_embedding(tokens, positions), below], dim=-1))
        for block, past in zip(self.decoder, cache.states, strict=True):
            x = block(x, past)
        return self.logits_float32(self._out(x))


def unfold(memory: Tensor, positions: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
    """Return the encoder's output at each target token's position; 0 beyond the source's end.

    Dynamic unfolding (their section 3.2). (T, d_model) of the source -> of the target.
    """
    if isinstance(cross, KeyRanges):
        index = cross.first + positions
        inside = index < cross.last
    else:
        sentences = torch.cat(
            [torch.full((group.sentences,), group.queries) for group in cross.groups]
        ).to(positions.device)
        rows = torch.arange(len(cross.index), device=positions.device)
        row = rows.repeat_interleave(sentences, output_size=len(positions))
        column = positions.clamp(max=cross.index.size(1) - 1)
        index = cross.index[row, column]
        inside = cross.real[row, column] & (positions == column)
    # No source token is read twice, so gradients are not summed in an order that may vary.
    return memory.index_select(0, index.clamp(max=len(memory) - 1)) * inside[:, None]


@torch.no_grad()
def scale_residual_init(stack: Stack[Block]) -> None:
    """Scale the blocks of a stack so that their sum is about as large as one block's output."""
    for block in stack:
        block.W_2.weight *= len(stack) ** -0.5
