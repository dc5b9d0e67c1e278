"""Attention that records its weights: for attention maps and word alignment. T tokens."""

from collections.abc import Callable

from torch import Tensor

from transduce.model.attention import Heads
from transduce.model.contexts.grouped import GroupedCross, GroupedSelf


class RecordedSelf:
    """Self-attention that records the weights of each layer that uses it."""

    def __init__(self, context: GroupedSelf) -> None:
        self.context, self.positions = context, context.positions
        self.weights: list[list[Tensor]] = []  # by layer, by group: (B, H, n, n)

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each token attend to its sentence. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""
        self.weights.append(self.context.weights(qkv, heads))
        return self.context.attend(qkv, heads)


class RecordedCross:
    """Cross-attention that records the weights of each layer that uses it."""

    def __init__(self, context: GroupedCross) -> None:
        self.context = context
        self.weights: list[list[Tensor]] = []  # by layer, by group: (B, H, Q, K)

    def attend(
        self, q: Tensor, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> Tensor:
        """Let each query attend to its source. (T, H * d_k) -> (T, H * d_v)."""
        source = self.context.keys_values(project, memory, heads)
        self.weights.append(self.context.weights(q, source, heads))
        return self.context.attend_rows(q, source, heads)
