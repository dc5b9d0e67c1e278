"""The constraint that every output is a tree over exactly the words of its sentence.

S sentences, k hypotheses per sentence, R = S * k rows, V symbols.

Each hypothesis counts the words left, the open brackets, the brackets opened in a row, and the
symbols that may still be written. A word is allowed while words are left, with a tag that the next
word can have. A bracket may be opened while words are left and the output can still close it, and
not too often in a row; it may be closed if it is not empty. The end is allowed when no words are
left and no bracket is open. So some symbol is always allowed, and the output never exceeds its
length limit.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.decoding.search import NONE, Constrain
from transduce.parsing.lexicon import Lexicon
from transduce.parsing.sequences import CLOSE
from transduce.subwords import EOS, SPECIAL, Coder

IN_A_ROW = 16  # maximum number of consecutive opening brackets; CRAFT's trees have at most 8
NEVER, WORD, OPEN, SHUT, END = range(5)  # kinds of symbols


class WellFormed:
    """The state of each hypothesis, in tensors updated in place, as CUDA graphs require."""

    def __init__(
        self,
        kinds: Sequence[int],
        tags: Tensor,
        slots: int,
        k: int,
        max_words: int,
        device: torch.device,
    ) -> None:
        """Allocate states; `tags` (classes, V) says which symbols the words of a class may have."""
        self.kinds = torch.tensor(list(kinds), device=device)  # (V,)
        self.tags = tags.to(device)
        counts = torch.zeros(slots, k, dtype=torch.int64, device=device)
        self.classes = counts.new_zeros(slots, max_words)
        self.words = counts.new_zeros(slots, 1)
        self.words_left, self.open_brackets, self.opened_in_row = (counts.clone() for _ in range(3))
        self.budget = counts.new_zeros(slots, 1)  # symbols that may still be written before the end

    def begin(self, slots: Tensor, classes: Tensor, limits: Tensor) -> None:
        """Start sentences in some slots with words of these classes. (n,), (n, max_words), (n,)."""
        words = (classes != NONE).sum(1, keepdim=True)
        self.classes.index_copy_(0, slots, classes.clamp(min=0))
        self.words.index_copy_(0, slots, words)
        self.words_left.index_copy_(0, slots, words.expand(-1, self.words_left.size(1)))
        self.open_brackets.index_fill_(0, slots, 0)
        self.opened_in_row.index_fill_(0, slots, 0)
        self.budget.index_copy_(0, slots, limits[:, None] - 1)

    def allowed(self) -> Tensor:
        """Return which symbols are allowed next. (R, V)."""
        left, opened, row = self.words_left > 0, self.open_brackets > 0, self.opened_in_row
        fits = self.words_left + self.open_brackets + 2 <= self.budget
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
        next_word = (self.words - self.words_left).clamp(max=self.classes.size(1) - 1)
        tags = self.tags[self.classes.gather(1, next_word)]  # (S, k, V)
        return (by_kind[..., self.kinds] & tags).flatten(0, 1)

    def follow(self, words: Tensor, parents: Tensor) -> None:
        """Extend the parent hypotheses by these symbols. (S, k), (S, k)."""
        kind = self.kinds[words]
        opens = kind == OPEN
        self.words_left.copy_(self.words_left.gather(1, parents) - (kind == WORD).long())
        depth = self.open_brackets.gather(1, parents)
        self.open_brackets.copy_(depth + opens.long() - (kind == SHUT).long())
        self.opened_in_row.copy_(torch.where(opens, self.opened_in_row.gather(1, parents) + 1, 0))
        self.budget -= 1

    def keep(self, slots: Tensor) -> None:
        """Remove all slots but these."""
        for name in ("classes", "words", "words_left", "open_brackets", "opened_in_row", "budget"):
            setattr(self, name, getattr(self, name)[slots])


def well_formed(symbols: Coder, lexicon: Lexicon) -> Constrain:
    """Return a factory that makes the constraint for a vocabulary of symbols."""
    kinds = [_kind(number, name) for number, name in enumerate(symbols.names)]
    words = torch.tensor(kinds) == WORD
    tags = torch.ones(len(lexicon.classes), len(kinds), dtype=torch.bool)
    for number, allowed in enumerate(lexicon.classes):
        if allowed:  # a class without tags allows every tag
            tags[number] = ~words | torch.tensor([name in allowed for name in symbols.names])
    return lambda slots, k, max_words, device: WellFormed(kinds, tags, slots, k, max_words, device)


def _kind(number: int, name: str) -> int:
    if number < len(SPECIAL):
        return END if number == EOS else NEVER
    if name == CLOSE:
        return SHUT
    return OPEN if name.startswith("(") else WORD
