"""The Extended Neural GPU (Kaiser and Bengio 2016): an image in memory that convolutions rewrite.

T tokens in a batch, S sentences of n source tokens, k hypotheses each, R = S * k rows of
hypotheses, A rows in all images (cgru.py), w columns, m channels, q columns that the tape reaches,
b = kernel // 2. `d_model` is m, `d_ff` is w * m, `kernel` the kernel width, and `N` the number of
CGRUs in a step.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from transduce.batching.packed import Ints, KeyRanges, LengthGroups, PackedTokens, SourceRows
from transduce.config import ModelConfig
from transduce.model.base import DecoderState, Stack, Transducer
from transduce.model.baselines.cgru import CGRU, Rows, kernel_columns
from transduce.model.baselines.lstm import take_rows
from transduce.model.baselines.states import Images
from transduce.model.ops.dropout import dropout
from transduce.model.ops.linear import Linear

# Elements that all steps of one side may store for the backward pass on a CPU: 1 GiB. More are
# computed again, as with `recompute`. On a GPU, running out of memory cuts updates into parts.
STORED = 2**28


class NeuralGPU(Transducer):
    """The encoder rewrites an image of n rows n times; the decoder, once for each output token.

    The image holds the source in its first column. Each decoder step also reads the output tape,
    which holds the words written so far, each in the row of its position. The output at position t
    is read from row t of the first column.

    Differs: a target may be longer than its source, so the image grows by one row, of 0, when there
    is no row t; the authors pad both sides of a batch to the same length. Each sentence has its own
    number of steps. Words enter the first column of the tape, as in their paper; in their code,
    every column. Dropout on the embeddings and on the rows that are read; in their code, on the
    image before each step. A matrix between image and softmax, because the softmax matrix is tied.
    No scheduled sampling, and no gate that merges a previous image.
    """

    architecture = "neural-gpu"
    supports_packed = False  # the number of steps, and so the shape of the pass, is in the lengths

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        m, k = config.d_model, config.kernel
        self.border, self.columns = k // 2, config.d_ff // m
        self.encoder: Stack[CGRU] = Stack(CGRU(m, k, self.columns) for _ in range(config.N))
        self.decoder: Stack[CGRU] = Stack(
            CGRU(m, k, self.columns) for _ in range(config.decoder_layers)
        )
        across = kernel_columns(k, self.columns)
        self.tape_columns = across // 2 + 1  # that read the first column
        # The convolutions W' p, W'' p and W p of all layers: what one word adds to the k rows
        # around it. Adding it once, when the word is written, is the convolution of the whole tape.
        blocks = config.decoder_layers * k * self.tape_columns * 3
        self.W_tape = Linear(m, blocks * m, bias=False, blocks=[m] * blocks)
        self.W_O = Linear(m, m, bias=True)
        with torch.no_grad():  # drawn as the matrices of a convolution that reads all taps
            self.W_tape.weight *= math.sqrt(2 / (k * across + 1))

    @staticmethod
    def weights_per_token(config: ModelConfig) -> tuple[int, int]:
        """Return the number of weights applied to each source token and each target token.

        Those applied to images depend on the lengths: `weights_by_length`.
        """
        m = config.d_model
        return 0, _tape_weights(config) + m * m + m * config.target_vocabulary

    @staticmethod
    def weights_by_length(config: ModelConfig, source: Ints, target: Ints) -> int:
        """Return how many weights are applied to images: in the encoder, to n rows in n steps."""
        m, k, columns = config.d_model, config.kernel, config.d_ff // config.d_model
        row = columns * k * kernel_columns(k, columns) * 3 * m * m  # weights of one CGRU
        n, T = source.astype(np.int64), target.astype(np.int64)
        # Step t of the decoder rewrites max(n, t) rows, t = 1 ... T.
        beyond = np.maximum(T - n, 0)
        written = T * n + beyond * (beyond + 1) // 2
        encoder, decoder = int((n * n).sum()), int(written.sum())  # the products exceed 64 bits
        images = row * (config.N * encoder + config.decoder_layers * decoder)
        return images - len(n) * _tape_weights(config)  # <s> is not written on the tape

    def encode(self, source: PackedTokens) -> Tensor:
        """Return the rows of the image after as many steps as it has rows. -> (T, w m)."""
        assert isinstance(source.segments, LengthGroups)
        lengths = _lengths(source.segments)
        rows = Rows.of(lengths, self.border)
        places, positions = _send(rows.places(lengths), rows.positions(), source.tokens.device)
        column = self.embed_source(source)
        column = column.new_zeros(rows.total, column.size(1)).index_copy(0, places, column)
        x = F.pad(column[:, None], (0, 0, 0, self.columns - 1))  # (A, w, m)
        real = (positions >= 0)[:, None, None].to(x.dtype)
        again = self._too_large(lengths * lengths, len(self.encoder), x)
        finished: list[Tensor] = []
        done = last = first_row = 0
        for sentences, length in source.segments.groups:
            for steps in _segments(length - done):
                x = self._segment(again, self._read, len(steps), x, real)
            done, last = length, last + sentences
            # The empty rows before the next image are kept.
            end = rows.begins[last] - self.border if last < len(lengths) else rows.total
            cut, first_row = int(end) - first_row, int(end)
            finished.append(x[:cut])
            x, real = x[cut:], real[cut:]
        return take_rows(torch.cat(finished).flatten(1), places)

    def _read(self, steps: int, x: Tensor, real: Tensor) -> Tensor:
        """Run some steps of the encoder. -> (A, w, m)."""
        real = real[self.border : len(real) - self.border]
        for _ in range(steps):
            for layer in self.encoder:
                x = layer(x, None, real)
        return x

    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform target sentences, each from the image of its source. -> (T, d_model)."""
        assert isinstance(target.segments, LengthGroups)
        assert isinstance(cross, SourceRows)
        plan = _Plan.of(_lengths(target.segments), cross, self.border)
        x = self._begin(plan, memory, cross)
        words = self.W_tape(take_rows(self.embed_target(target), plan.order[plan.sizes[0] :]))
        words = words.unflatten(1, (len(self.decoder), -1))  # (T - S, N, k q 3m)
        of_step = (words[:0], *words.split(plan.sizes[1:]))  # before the first step, none
        tape = x.new_zeros(len(x), self.tape_columns, 3 * x.size(2))
        tapes = [tape] * len(self.decoder)
        heights = np.maximum(plan.lengths, plan.sources)
        again = self._too_large(plan.lengths * heights, len(self.decoder), x)
        outputs: list[Tensor] = []
        for steps in _segments(len(plan.sizes)):
            written = of_step[steps.start : steps.stop]
            x, output, *tapes = self._segment(again, self._write, plan, steps, written, x, *tapes)
            outputs.append(output)
        return self._out(take_rows(torch.cat(outputs), plan.back))

    def _begin(self, plan: "_Plan", memory: Tensor, cross: SourceRows) -> Tensor:
        """Return the images of the sources, with empty rows for longer targets. -> (A, w, m)."""
        K = cross.index.size(1)
        place = plan.begins[cross.place // K] + cross.place % K
        x = memory.new_zeros(len(plan.positions), memory.size(1)).index_copy(0, place, memory)
        return x.view(len(x), self.columns, -1)

    def _write(
        self, plan: "_Plan", steps: range, words: tuple[Tensor, ...], x: Tensor, *tapes: Tensor
    ) -> tuple[Tensor, ...]:
        """Run some steps of the decoder; return the images, the outputs and the tapes."""
        b, held, outputs = self.border, plan.first_row(steps.start - 1), []
        for t, word in zip(steps, words, strict=True):
            first = plan.first_row(t)  # the rows before belong to finished sentences
            x, tapes = x[first - held :], tuple(tape[first - held :] for tape in tapes)
            held = first
            read = plan.read_at(t) - held
            if t > 0:
                around = torch.arange(-1 - b, b, device=x.device)
                places = (read[:, None] + around).flatten()  # the rows around row t - 1
                tapes = tuple(
                    tape.index_add(0, places, added.reshape(-1, *tape.shape[1:]))
                    for tape, added in zip(tapes, word.unbind(1), strict=True)
                )
            real = plan.real_at(t)[b : len(plan.positions) - held - b].to(x.dtype)
            for layer, tape in zip(self.decoder, tapes, strict=True):
                x = layer(x, tape, real)
            outputs.append(x.index_select(0, read)[:, 0])
        return x, torch.cat(outputs), *tapes

    def _out(self, x: Tensor) -> Tensor:
        return self.W_O(dropout(x, self.config.P_drop if self.training else 0.0))  # type: ignore[no-any-return]

    def _segment(self, again: bool, steps: Callable[..., Any], *arguments: Any) -> Any:
        """Run some steps; if they are computed again, only what they begin with is stored."""
        if again:
            return checkpoint(steps, *arguments, use_reentrant=False, preserve_rng_state=False)
        return steps(*arguments)

    def _too_large(self, row_steps: Ints, layers: int, x: Tensor) -> bool:
        """Return whether the steps are computed again in the backward pass, not stored."""
        stored = 4 * int(row_steps.sum()) * layers * x[0].numel()
        return self.training and (self.recompute or (x.device.type == "cpu" and stored > STORED))

    def project_memory(self, memory: Tensor) -> Tensor:
        """Return the encoder's output unchanged. (T, w m) -> (1, T, w m)."""
        return memory[None]

    def cache(self, slots: int, hypotheses: int, capacity: tuple[int, int]) -> Images:
        """Return an empty state: an image for each hypothesis, and the tape of each layer."""
        like = self.output.new_empty(0, dtype=self.dtype)
        tapes = [self.tape_columns * 3 * self.config.d_model] * len(self.decoder)
        return Images(
            slots, hypotheses, max(capacity), (self.config.d_ff, tapes, self.border), like
        )

    def cache_size(self, hypotheses: int, capacity: tuple[int, int]) -> int:
        """Return the number of elements that the state holds per sentence."""
        rows, tapes = max(capacity), len(self.decoder) * self.tape_columns * 3 * self.config.d_model
        return hypotheses * (rows * self.config.d_ff + (rows + 2 * self.border) * tapes)

    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Append one token to each hypothesis; return the logits of the next. (R,) -> (R, V)."""
        assert isinstance(cache, Images)
        b, height = self.border, cache.height + 2 * self.border
        t = positions.long().clamp(max=cache.height - 1)  # of finished sentences it may be larger
        words = self.W_tape(self.target_embedding(tokens, positions)) * (t > 0)[:, None]
        taps = torch.arange(2 * b + 1, device=t.device)
        tapes = cache.write((t - 1).clamp(min=0)[:, None] + taps, words)
        x = F.pad(cache.image.flatten(0, 1), (0, 0, b, b)).view(len(t) * height, self.columns, -1)
        heights = cache.source_lengths[:, None].expand(-1, cache.k).flatten()
        row = torch.arange(-b, height - b, device=t.device)
        real = (row >= 0) & (row < torch.maximum(heights, t + 1)[:, None])
        real = real.view(-1, 1, 1)[b : len(x) - b].to(x.dtype)
        for layer, tape in zip(self.decoder, tapes, strict=True):
            x = layer(x, tape.view(len(x), self.tape_columns, -1), real)
        images = x.view(len(t), height, -1)
        cache.image.copy_(images[:, b : height - b].unflatten(0, (-1, cache.k)))
        first = torch.arange(len(t), device=t.device) * height + b
        return self.logits_float32(self._out(x[first + t, 0]))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The order of decoding a batch: step by step, with the shortest targets first in each."""

    lengths: Ints  # (S,) of the targets, ascending
    sources: Ints  # (S,) of the sources
    rows: Rows
    sizes: list[int]  # sentences in each step
    begins: Tensor  # (S,) the first row of each image
    order: Tensor  # (T,) the index in the batch of each token, step by step
    back: Tensor  # (T,) the inverse of `order`
    read: Tensor  # (T,) the row that each output is read from, step by step
    positions: Tensor  # (A,) of each row in its image; -1 for the empty rows
    heights: Tensor  # (A,) source tokens of the sentence of each row

    @classmethod
    def of(cls, lengths: Ints, cross: SourceRows, border: int) -> Self:
        """Plan a batch with targets of these lengths."""
        sources = cross.real.sum(1).cpu().numpy()  # the only wait for a GPU in a pass
        rows = Rows.of(np.maximum(lengths, sources), border)
        token = np.arange(int(lengths[-1]))[:, None]
        real = token < lengths  # (L, S)
        order = (lengths.cumsum() - lengths + token)[real]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        read, positions = (rows.begins + token)[real], rows.positions()
        heights = np.zeros_like(positions)
        heights[rows.places(rows.heights)] = sources.repeat(rows.heights)
        arrays = (rows.begins, order, back, read, positions, heights)
        sizes = real.sum(1).tolist()
        return cls(lengths, sources, rows, sizes, *_send(*arrays, cross.real.device))

    def first_row(self, t: int) -> int:
        """Return the first row that step t works on: an empty one before an image."""
        first = len(self.lengths) - self.sizes[t] if t >= 0 else 0
        return int(self.rows.begins[first]) - self.rows.border

    def read_at(self, t: int) -> Tensor:
        """Return the rows that the outputs of step t are read from."""
        begin = sum(self.sizes[:t])
        return self.read[begin : begin + self.sizes[t]]

    def real_at(self, t: int) -> Tensor:
        """Return which of the rows that step t works on exist: max(n, t + 1) in each image."""
        positions, heights = (x[self.first_row(t) :] for x in (self.positions, self.heights))
        return ((positions >= 0) & (positions < heights.clamp(min=t + 1)))[:, None, None]


def _tape_weights(config: ModelConfig) -> int:
    """Return the number of weights that write a word on the tape."""
    m, k = config.d_model, config.kernel
    columns = kernel_columns(k, config.d_ff // m) // 2 + 1
    return config.decoder_layers * k * columns * 3 * m * m


def _lengths(segments: LengthGroups) -> Ints:
    counts, values = np.array(segments.groups, dtype=np.int64).T
    lengths: Ints = values.repeat(counts)
    return lengths


def _segments(steps: int) -> Iterator[range]:
    """Divide steps into about as many segments as each has steps."""
    size = math.isqrt(max(steps - 1, 0)) + 1
    return (range(begin, min(begin + size, steps)) for begin in range(0, steps, size))


def _send(*arrays_and_device: Any) -> list[Tensor]:
    """Return index arrays on a device, in one copy."""
    *arrays, device = arrays_and_device
    flat = torch.from_numpy(np.concatenate(arrays))
    if device.type == "cuda":  # pragma: no cover  (tests/gpu)
        flat = flat.pin_memory()
    return list(flat.to(device, non_blocking=device.type == "cuda").split([*map(len, arrays)]))
