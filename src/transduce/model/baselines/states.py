"""What a decoder without self-attention remembers. S sentences, k hypotheses, K source tokens.

Of the source a row for each token; of each hypothesis some states of fixed size, which follow it
when the search reorders its hypotheses.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class States:
    """The sources and states of one model, for so many sentences side by side."""

    def __init__(
        self,
        slots: int,
        hypotheses: int,
        source: tuple[int, int, int],
        shapes: Sequence[tuple[int, ...]],
        like: Tensor,
    ) -> None:
        """Make empty states of these shapes; `source` is (n, room for tokens, numbers of a row)."""
        n, room, row = source
        self.k = hypotheses
        self.source = like.new_zeros(n, slots, room, row)
        self.states = [like.new_zeros(slots, hypotheses, *shape) for shape in shapes]
        ints: dict[str, Any] = {"dtype": torch.int32, "device": like.device}
        self.source_lengths = torch.ones(slots, **ints)  # no query may have nothing to see
        self.lengths = torch.zeros(slots, **ints)
        # Of the step that is being made:
        self.used = room
        self.real = torch.ones(slots, room, dtype=torch.bool, device=like.device)

    def put(
        self, slots: Tensor, lengths: Tensor, places: tuple[Tensor, Tensor], rows: Tensor
    ) -> None:
        """Begin new sentences in some slots, with states of 0."""
        slot, position = places
        self.source[:, slot, position] = rows
        self.source_lengths.index_copy_(0, slots, lengths)
        self.lengths.index_fill_(0, slots, 0)
        for state in self.states:
            state.index_fill_(0, slots, 0)

    def grow(self, source: int, steps: int) -> None:
        """Have room for so many tokens of a source; states do not grow."""
        missing = source - self.source.size(2)
        if missing > 0:
            self.source = F.pad(self.source, (0, 0, 0, missing))

    def keep(self, slots: Tensor) -> None:
        """Go on with some of the slots."""
        self.source = self.source[:, slots]
        self.states = [state[slots] for state in self.states]
        self.source_lengths, self.lengths = self.source_lengths[slots], self.lengths[slots]

    def begin_step(self, source: int, steps: int) -> None:
        """Make ready for a step, where no source is longer than told."""
        self.used = source
        places = torch.arange(source, device=self.source.device)
        self.real = places < self.source_lengths[:, None]  # (S, K)

    def end_step(self, parents: Tensor, made: Tensor) -> None:
        """Let hypotheses go on with the states of others of their sentence."""
        for state in self.states:
            chosen = parents.view(*parents.shape, *[1] * (state.dim() - 2)).expand_as(state)
            state.copy_(state.gather(1, chosen))
        self.lengths += made

    def of_source(self, layer: int = 0) -> Tensor:
        """Return what is remembered of the sources. (S, K, row)."""
        return self.source[layer, :, : self.used]
