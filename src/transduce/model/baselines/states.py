"""The state of a decoder without self-attention. S sentences, k hypotheses, K source tokens.

It holds a row for each token of a source, and states of fixed size for each hypothesis, which are
reordered with the hypotheses of the search.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class States:
    """The sources and states of one model, for several sentences at once."""

    def __init__(
        self,
        slots: int,
        hypotheses: int,
        source: tuple[int, int, int],
        shapes: Sequence[tuple[int, ...]],
        like: Tensor,
    ) -> None:
        """Create states of these shapes, all 0; `source` is (n, maximum tokens, row width)."""
        n, tokens, width = source
        self.k, self.uses_kernels = hypotheses, False
        self.source = like.new_zeros(n, slots, tokens, width)
        self.states = [like.new_zeros(slots, hypotheses, *shape) for shape in shapes]
        ints: dict[str, Any] = {"dtype": torch.int32, "device": like.device}
        self.source_lengths = torch.ones(slots, **ints)  # at least 1: a softmax needs a key
        self.lengths = torch.zeros(slots, **ints)
        # State of the current step:
        self.used = tokens
        self.real = torch.ones(slots, tokens, dtype=torch.bool, device=like.device)

    def put(
        self, slots: Tensor, lengths: Tensor, places: tuple[Tensor, Tensor], rows: Tensor
    ) -> None:
        """Begin new sentences in some slots, with all states 0."""
        slot, position = places
        self.source[:, slot, position] = rows
        self.source_lengths.index_copy_(0, slots, lengths)
        self.lengths.index_fill_(0, slots, 0)
        for state in self.states:
            state.index_fill_(0, slots, 0)

    def grow(self, source: int, steps: int) -> None:
        """Grow to a capacity of at least `source` source tokens; the states do not grow."""
        missing = source - self.source.size(2)
        if missing > 0:
            self.source = F.pad(self.source, (0, 0, 0, missing))

    def keep(self, slots: Tensor) -> None:
        """Remove all other slots."""
        self.source = self.source[:, slots]
        self.states = [state[slots] for state in self.states]
        self.source_lengths, self.lengths = self.source_lengths[slots], self.lengths[slots]

    def begin_step(self, source: int, steps: int) -> None:
        """Prepare a step; no source is longer than `source`."""
        self.used = source
        position = torch.arange(source, device=self.source.device)
        self.real = position < self.source_lengths[:, None]  # (S, K)

    def end_step(self, parents: Tensor, live: Tensor) -> None:
        """Let each hypothesis continue with the states of its parent (S, k)."""
        for state in self.states:
            chosen = parents.view(*parents.shape, *[1] * (state.dim() - 2)).expand_as(state)
            state.copy_(state.gather(1, chosen))
        self.lengths += live

    def source_rows(self, layer: int = 0) -> Tensor:
        """Return the rows of the sources. (S, K, width)."""
        return self.source[layer, :, : self.used]
