"""Attention weights with their labels, by pieces or by whole words.

N layers, H heads, Q queries, K keys. Layers and heads count from 1, as in the paper's figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from transduce.errors import BadInput, did_you_mean

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
Floats = npt.NDArray[np.float32]

CONTINUES = "\N{MIDDLE DOT}"  # before a piece that continues a word
SPACE = "\N{OPEN BOX}"  # stands for white space


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionMatrices:
    """One kind of attention, in all layers and heads; each row of weights sums to 1."""

    kind: Kind
    weights: Floats  # (N, H, Q, K)
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    model: str = ""  # its name

    @classmethod
    def of(cls, inspection: "Inspection", kind: str, *, words: bool = False) -> Self:
        """Return one kind of attention; with `words`, the pieces of a word are merged.

        The weights that the pieces of a word receive are added; the weights they give are averaged.
        """
        if kind not in KINDS:
            raise BadInput(
                f"--kind {kind}: expected {', '.join(KINDS)}.{did_you_mean(kind, KINDS)}"
            )
        source = _Side(inspection.source, inspection.source_words, inspection.spelled[0])
        target = _Side(inspection.target, inspection.target_words, inspection.spelled[1])
        inputs = _Side(
            inspection.inputs,
            (0, *(1 + word for word in target.words[:-1])),
            (inspection.inputs[0], *target.spelled[:-1]),
        )
        queries = source if kind == "encoder" else target
        keys = inputs if kind == "decoder" else source
        weights = inspection.attention(kind)
        if not words:
            labels = queries.labels(), keys.labels()
        else:
            of_queries, of_keys = queries.membership(), keys.membership()
            weights = of_queries / of_queries.sum(1, keepdims=True) @ weights @ of_keys.T
            labels = queries.spelled, keys.spelled
        return cls(
            kind=kind,
            weights=weights,
            queries=labels[0],
            keys=labels[1],
            model=inspection.model,
        )

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.weights)

    @property
    def heads(self) -> int:
        """The number of heads in a layer."""
        return len(self.weights[0])

    def layer(self, number: int | None) -> int:
        """Return a layer's number, the last by default; refuse one that does not exist."""
        number = self.layers if number is None else number
        if not 1 <= number <= self.layers:
            stack = "encoder" if self.kind == "encoder" else "decoder"
            raise BadInput(f"--layer {number}: the {stack} has layers 1 to {self.layers}")
        return number

    def select_heads(self, numbers: Sequence[int]) -> list[int]:
        """Return heads without repetition, all by default; refuse one that does not exist."""
        for number in numbers:
            if not 1 <= number <= self.heads:
                raise BadInput(f"--head {number}: a layer has heads 1 to {self.heads}")
        return list(dict.fromkeys(numbers)) or list(range(1, self.heads + 1))

    def describe(self, layer: int, heads: Sequence[int], *, mean: bool = False) -> str:
        """Describe a layer and heads in words."""
        text = f"layer {layer} of {self.layers}"
        if len(heads) == 1:
            return f"{text}, head {heads[0]} of {self.heads}"
        prefix = "mean of " if mean else ""
        if len(heads) == self.heads:
            return f"{text}, {prefix}all {self.heads} heads"
        *others, last = map(str, heads)
        return f"{text}, {prefix}heads {', '.join(others)} and {last}"

    def mean(self, layer: int | None, heads: Sequence[int] = ()) -> Floats:
        """Return the mean of some heads of a layer. (Q, K)."""
        chosen = [head - 1 for head in self.select_heads(heads)]
        return cast("Floats", self.weights[self.layer(layer) - 1, chosen].mean(0))

    def find(self, word: str) -> list[int]:
        """Return the queries equal to a word, ignoring case; refuse a word that does not occur."""
        labels = [label.removeprefix(CONTINUES) for label in self.queries]
        wanted = word.strip().casefold()
        indices = [index for index, label in enumerate(labels) if label.casefold() == wanted]
        if not indices:
            hint = did_you_mean(word, labels)
            raise BadInput(f"--word {word}: it is not among {' '.join(self.queries)}.{hint}")
        return indices


class _Side(NamedTuple):
    """The labels of one side of a matrix."""

    pieces: tuple[str, ...]
    words: tuple[int, ...]  # the word of each piece
    spelled: tuple[str, ...]  # the words

    def membership(self) -> Floats:
        """Return a 0/1 matrix of the pieces of each word. (words, pieces)."""
        numbers = np.arange(len(self.spelled))[:, None]
        return np.asarray(numbers == np.array(self.words), dtype=np.float32)

    def labels(self) -> tuple[str, ...]:
        """Return the pieces, with a dot before those that continue a word."""
        previous = [-1, *self.words[:-1]]
        return tuple(
            (CONTINUES if word == before else "") + (piece.strip() or SPACE)
            for piece, word, before in zip(self.pieces, self.words, previous, strict=True)
        )
