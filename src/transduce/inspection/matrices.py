"""What is to be drawn of an inspection: weights between two rows of labels, of pieces or of words.

Q queries, K keys; N layers, H heads. Layers and heads count from 1 here, as people count them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from transduce.errors import BadInput, did_you_mean

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection, Kind

Floats = npt.NDArray[np.float32]

KINDS = ("encoder", "decoder", "cross")
INSIDE = "\N{MIDDLE DOT}"  # before a piece that goes on with a word
SPACE = "\N{OPEN BOX}"  # a piece of white space alone


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionMatrices:
    """Who looks at what: each row of weights sums to 1."""

    kind: "Kind"
    weights: Floats  # (N, H, Q, K)
    queries: tuple[str, ...]
    keys: tuple[str, ...]

    @classmethod
    def of(cls, inspection: "Inspection", kind: str, *, words: bool = False) -> Self:
        """Take one kind of attention; with `words`, the pieces of a word together.

        What the pieces of a word receive adds up, what they attend to is averaged.
        """
        if kind not in KINDS:
            raise BadInput(
                f"--kind {kind}: expected {', '.join(KINDS)}.{did_you_mean(kind, KINDS)}"
            )
        known = cast("Kind", kind)
        source = _Side(inspection.source, inspection.source_words, inspection.spelled[0])
        target = _Side(inspection.target, inspection.target_words, inspection.spelled[1])
        inputs = _Side(
            inspection.inputs,
            (0, *(1 + word for word in target.words[:-1])),
            (inspection.inputs[0], *target.spelled[:-1]),
        )
        queries = source if kind == "encoder" else target
        keys = inputs if kind == "decoder" else source
        weights = inspection.attention(known)
        if not words:
            labels = queries.labels(), keys.labels()
        else:
            of_queries, of_keys = queries.belongs(), keys.belongs()
            weights = of_queries / of_queries.sum(1, keepdims=True) @ weights @ of_keys.T
            labels = queries.spelled, keys.spelled
        return cls(kind=known, weights=weights, queries=labels[0], keys=labels[1])

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self.weights)

    @property
    def heads(self) -> int:
        """How many heads a layer has."""
        return len(self.weights[0])

    def layer(self, number: int | None) -> int:
        """Return the number of a layer, the last by default, or refuse one that is not there."""
        number = self.layers if number is None else number
        if not 1 <= number <= self.layers:
            stack = "encoder" if self.kind == "encoder" else "decoder"
            raise BadInput(f"--layer {number}: the {stack} has layers 1 to {self.layers}")
        return number

    def some(self, numbers: Sequence[int]) -> list[int]:
        """Return the numbers of heads, all by default, or refuse what is not there."""
        for number in numbers:
            if not 1 <= number <= self.heads:
                raise BadInput(f"--head {number}: a layer has heads 1 to {self.heads}")
        return list(dict.fromkeys(numbers)) or list(range(1, self.heads + 1))

    def which(self, layer: int, heads: Sequence[int], *, mean: bool = False) -> str:
        """Say in words which layer and heads are meant."""
        text = f"layer {layer} of {self.layers}"
        if len(heads) == 1:
            return f"{text}, head {heads[0]} of {self.heads}"
        of = "mean of " if mean else ""
        if len(heads) == self.heads:
            return f"{text}, {of}all {self.heads} heads"
        *others, last = map(str, heads)
        return f"{text}, {of}heads {', '.join(others)} and {last}"

    def mean(self, layer: int | None, heads: Sequence[int] = ()) -> Floats:
        """Return the mean of some heads of a layer. (Q, K)."""
        chosen = [head - 1 for head in self.some(heads)]
        return cast("Floats", self.weights[self.layer(layer) - 1, chosen].mean(0))

    def places(self, word: str) -> list[int]:
        """Return where a word stands among the queries, whatever its case, or refuse it."""
        plain = [label.removeprefix(INSIDE).casefold() for label in self.queries]
        found = [place for place, label in enumerate(plain) if label == word.strip().casefold()]
        if not found:
            hint = did_you_mean(word, [label.removeprefix(INSIDE) for label in self.queries])
            there = " ".join(self.queries)
            raise BadInput(f"--word {word}: it is not among {there}.{hint}")
        return found


class _Side(NamedTuple):
    """What stands along one side of a map."""

    pieces: tuple[str, ...]
    words: tuple[int, ...]  # which each piece belongs to
    spelled: tuple[str, ...]  # the words

    def belongs(self) -> Floats:
        """Tell which pieces are of each word. (words, pieces), 1 or 0."""
        numbers = np.arange(len(self.spelled))[:, None]
        return np.asarray(numbers == np.array(self.words), dtype=np.float32)

    def labels(self) -> tuple[str, ...]:
        """Write pieces so that one tells which go on with a word."""
        before = [-1, *self.words[:-1]]
        return tuple(
            (INSIDE if word == last else "") + (piece.strip() or SPACE)
            for piece, word, last in zip(self.pieces, self.words, before, strict=True)
        )
