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


class Images(States):
    """An image for each hypothesis, which begins as that of its source, and the tape of each layer.

    Images and tapes have a row for each position; tapes have more before and behind, so that each
    word can be added to the rows around it.
    """

    def __init__(
        self,
        slots: int,
        hypotheses: int,
        height: int,
        widths: tuple[int, Sequence[int], int],
        like: Tensor,
    ) -> None:
        """Create images of 0; `widths` are those of an image, of each tape, and of its border."""
        image, tapes, self.border = widths
        shapes = [(height, image), *((height + 2 * self.border, tape) for tape in tapes)]
        super().__init__(slots, hypotheses, (0, 1, image), shapes, like)
        self.height = height  # of the current step

    @property
    def image(self) -> Tensor:
        """The rows of the images that the current step uses. (S, k, height, width)."""
        return self.states[0][:, :, : self.height]

    def put(
        self, slots: Tensor, lengths: Tensor, places: tuple[Tensor, Tensor], rows: Tensor
    ) -> None:
        """Begin new sentences in some slots, each with the image of its source (1, T, width)."""
        for state in self.states:
            state.index_fill_(0, slots, 0)
        slot, position = places
        self.states[0][slot, :, position] = rows[0, :, None]
        self.source_lengths.index_copy_(0, slots, lengths)
        self.lengths.index_fill_(0, slots, 0)

    def grow(self, source: int, steps: int) -> None:
        """Grow to a capacity of at least this many rows: by an eighth or more, to grow rarely."""
        capacity = self.states[0].size(2)
        missing = max(source, steps) - capacity
        if missing > 0:
            missing = max(missing, capacity // 8)
            self.states = [F.pad(state, (0, 0, 0, missing)) for state in self.states]

    def begin_step(self, source: int, steps: int) -> None:
        """Prepare a step that needs no more rows than this."""
        self.height = max(source, steps)

    def write(self, places: Tensor, words: Tensor) -> list[Tensor]:
        """Add the words (R, …) to these rows (R, k) of the tapes; return the tapes (R, …)."""
        tapes = [state.flatten(0, 1) for state in self.states[1:]]
        for tape, word in zip(tapes, words.chunk(len(tapes), dim=1), strict=True):
            added = word.unflatten(1, (-1, tape.size(2)))  # (R, k, width)
            index = places[..., None].expand_as(added)
            tape.scatter_(1, index, tape.gather(1, index) + added)
        return [tape[:, : self.height + 2 * self.border].contiguous() for tape in tapes]
