"""Attention over packed tokens: each query sees a range of keys, by the GPU's kernels. T tokens."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from transduce.batching.packed import KeyRanges
from transduce.model.attention import Heads
from transduce.model.ops.packed_attention import attend_cross, attend_self


@dataclass(frozen=True, slots=True)
class PackedSelf:
    """Self-attention; the ranges already exclude later tokens in the decoder.

    The kernels compute dot products only, without dropout of the weights: with other settings
    `training/gradient` makes grouped batches.
    """

    ranges: KeyRanges
    positions: Tensor  # (T,)

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each token see its range. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
        return attend_self(qkv, self.ranges, heads.h, heads.d_k, heads.d_v)


@dataclass(frozen=True, slots=True)
class PackedCross:
    """Cross-attention: the range of each target token is its source sentence."""

    ranges: KeyRanges

    def attend(
        self, q: Tensor, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> Tensor:
        """Let each query see its range of the source. (T, H * d_k) -> (T, H * d_v)."""
        assert memory is not None
        return attend_cross(q, project(memory), self.ranges, heads.h, heads.d_k, heads.d_v)
