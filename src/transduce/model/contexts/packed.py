"""Attention over packed tokens: each query attends to a range of keys. T tokens."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from transduce.batching.packed import KeyRanges
from transduce.model.attention import Heads
from transduce.model.ops.packed_attention import attend_cross, attend_self


@dataclass(frozen=True, slots=True)
class PackedSelf:
    """Self-attention; the ranges already exclude later tokens in the decoder.

    The kernels support only dot products without attention dropout: for other settings,
    `training/gradient` makes grouped batches.
    """

    ranges: KeyRanges
    positions: Tensor  # (T,)

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each token attend to its range. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
        return attend_self(qkv, self.ranges, heads.h, heads.d_k, heads.d_v)


@dataclass(frozen=True, slots=True)
class PackedCross:
    """Cross-attention: the range of each target token is its source sentence."""

    ranges: KeyRanges

    def attend(
        self, q: Tensor, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> Tensor:
        """Let each query attend to its range of the source. (T, H * d_k) -> (T, H * d_v)."""
        assert memory is not None
        return attend_cross(q, project(memory), self.ranges, heads.h, heads.d_k, heads.d_v)
