"""What makes every output a tree over exactly its words.

S sentences, k hypotheses of each, R = S * k rows, V symbols.

A hypothesis knows how many words it has written, how many brackets are open, how many of them it
has opened just now, and how many symbols its output may still have. A word may come while words are
left; a bracket may be opened while words are left and there is room to close it, and not too often
in a row; it may be closed when something is in it; the end comes when all words are written and
nothing is open. So there is always something that may come, and whatever comes, the rest fits.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.parsing.sequences import CLOSE
from transduce.search import Constrain
from transduce.subwords import EOS, SPECIAL, Coder

IN_A_ROW = 16  # openings; of the 30,830 trees of CRAFT one has 8, none more
NEVER, WORD, OPEN, SHUT, END = range(5)  # kinds of symbols


class WellFormed:
    """The state of each hypothesis, in tensors that a recorded step changes in place."""

    def __init__(self, kinds: Sequence[int], slots: int, k: int, device: torch.device) -> None:
        self.kinds = torch.tensor(list(kinds), device=device)  # (V,)
        counts = torch.zeros(slots, k, dtype=torch.int64, device=device)
        self.left, self.opened, self.row = (counts.clone() for _ in range(3))
        self.room = torch.zeros(slots, 1, dtype=torch.int64, device=device)  # before the end

    def begin(self, slots: Tensor, sizes: Tensor, limits: Tensor) -> None:
        """Begin new sentences in some slots, of so many words. (n,), (n,), (n,)."""
        k = self.left.size(1)
        self.left.index_copy_(0, slots, sizes[:, None].expand(-1, k))
        self.opened.index_fill_(0, slots, 0)
        self.row.index_fill_(0, slots, 0)
        self.room.index_copy_(0, slots, limits[:, None] - 1)

    def allowed(self) -> Tensor:
        """Return which symbols may come next. (R, V)."""
        left, opened, row = self.left > 0, self.opened > 0, self.row
        fits = self.left + self.opened + 2 <= self.room
        by_kind = torch.stack(
            [
                torch.zeros_like(left),
                left,
                left & fits & (row < IN_A_ROW),
                opened & (row == 0),
                ~left & ~opened,
            ],
            dim=-1,
        )
        return by_kind.flatten(0, 1)[:, self.kinds]

    def follow(self, words: Tensor, parents: Tensor) -> None:
        """Go on with these symbols after those hypotheses. (S, k), (S, k)."""
        kind = self.kinds[words]
        opens = kind == OPEN
        self.left.copy_(self.left.gather(1, parents) - (kind == WORD).long())
        depth = self.opened.gather(1, parents)
        self.opened.copy_(depth + opens.long() - (kind == SHUT).long())
        self.row.copy_(torch.where(opens, self.row.gather(1, parents) + 1, 0))
        self.room -= 1

    def keep(self, slots: Tensor) -> None:
        """Go on with some of the slots."""
        for name in ("left", "opened", "row", "room"):
            setattr(self, name, getattr(self, name)[slots])


def well_formed(symbols: Coder) -> Constrain:
    """Return what makes the constraint for a vocabulary of symbols."""
    kinds = [_kind(number, name) for number, name in enumerate(symbols.names)]
    return lambda slots, k, device: WellFormed(kinds, slots, k, device)


def _kind(number: int, name: str) -> int:
    if number < len(SPECIAL):
        return END if number == EOS else NEVER
    if name == CLOSE:
        return SHUT
    return OPEN if name.startswith("(") else WORD
