"""Heads whose attention can be described as a job, such as "looks at the word before".

A head's share for a job is the weight it puts where the job says to look, averaged over the words
for which the job is defined. The baseline is the share of a head with uniform attention. Words are
whole (see `AttentionMatrices`). N layers, H heads, Q queries, K keys; layers and heads from 1.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from transduce.inspection.matrices import KINDS, AttentionMatrices
from transduce.subwords import SPECIAL

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection

Mask = npt.NDArray[np.bool_]  # (Q, K) where a job looks; queries without any key are not counted
Alignment = npt.NDArray[np.int64]  # (Q,) the source word that each target word translates
Where = Callable[[AttentionMatrices, Alignment], Mask]

FAR = 3  # words
LONG_EXAMPLE = 5  # words: longer examples are not preferred


@dataclass(frozen=True, slots=True)
class Job:
    """Something that a head may do."""

    name: str
    kinds: tuple[str, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class BestHead:
    """The head with the largest share for a job."""

    job: str
    kind: str
    layer: int
    head: int
    share: float
    baseline: float  # the share of a head with uniform attention
    example: int  # the sentence that shows it best


def find(inspections: Iterable["Inspection"]) -> list[BestHead]:
    """Find the best head for each job over all sentences; the clearest first."""
    tallies: dict[tuple[str, str], _Tally] = {}
    for number, inspection in enumerate(inspections):
        alignment = align(inspection)
        for kind in KINDS:
            attention = AttentionMatrices.of(inspection, kind, words=True)
            for job in JOBS:
                if kind in job.kinds:
                    tally = tallies.setdefault((job.name, kind), _Tally())
                    tally.add(attention, job.where(attention, alignment), number)
    best = [tally.best(*names) for names, tally in tallies.items() if tally.words]
    return sorted(best, key=lambda head: head.baseline - head.share)


def align(inspection: "Inspection") -> Alignment:
    """Return the source word that each target word translates, as `translate --align` does.

    It is the word with the largest mean weight in the last layer.
    """
    weights = AttentionMatrices.of(inspection, "cross", words=True).mean(None)
    return np.asarray(weights[:, :-1].argmax(1))


def jobs_of(
    sentences: Sequence[AttentionMatrices], layer: int, head: int
) -> dict[str, tuple[float, float]]:
    """Return one encoder head's share for each job, and the baseline, over some sentences."""
    shares: dict[str, tuple[float, float]] = {}
    for job in JOBS:
        if "encoder" in job.kinds:
            tally = _Tally()
            for number, attention in enumerate(sentences):
                unaligned = np.zeros(len(attention.queries), dtype=np.int64)
                tally.add(attention, job.where(attention, unaligned), number)
            if tally.words:
                share = float(np.asarray(tally.shares)[layer - 1, head - 1])
                shares[job.name] = share / tally.words, tally.uniform / tally.words
    return shares


class _Tally:
    """The shares of all heads of one kind for one job."""

    def __init__(self) -> None:
        self.words = 0
        self.uniform = 0.0  # share of a uniform head, summed over words
        self.shares: npt.NDArray[np.float64] | float = 0.0  # (N, H), summed over words
        # For each sentence: its number, its words (up to LONG_EXAMPLE), and shares above uniform.
        self.examples: list[tuple[int, int, npt.NDArray[np.float64]]] = []

    def add(self, attention: AttentionMatrices, mask: Mask, number: int) -> None:
        """Add one sentence."""
        visible = np.asarray((attention.weights > 0).any((0, 1)))  # excludes the decoder's future
        mask = mask & visible
        rows = mask.any(1)
        words = int(rows.sum())
        if not words:
            return
        received = (attention.weights * mask).sum(-1)[..., rows]  # (N, H, rows)
        uniform = float((mask.sum(1) / visible.sum(1))[rows].sum())
        shares = received.sum(-1).astype(np.float64)
        self.words += words
        self.uniform += uniform
        self.shares = self.shares + shares
        self.examples.append((number, min(words, LONG_EXAMPLE), (shares - uniform) / words))

    def best(self, job: str, kind: str) -> BestHead:
        """Return the head with the largest share."""
        shares = np.asarray(self.shares) / self.words
        layer, head = np.unravel_index(int(shares.argmax()), shares.shape)
        number, _, _ = max(self.examples, key=lambda example: (example[1], example[2][layer, head]))
        return BestHead(
            job=job,
            kind=kind,
            layer=int(layer) + 1,
            head=int(head) + 1,
            share=float(shares[layer, head]),
            baseline=self.uniform / self.words,
            example=number,
        )


def _nowhere(attention: AttentionMatrices) -> Mask:
    return np.zeros((len(attention.queries), len(attention.keys)), dtype=bool)


def _beside(steps: int) -> Where:
    """Look `steps` words after the query; in the decoder, after the word to be written."""

    def where(attention: AttentionMatrices, alignment: Alignment) -> Mask:
        first = 1 if attention.kind == "decoder" else 0  # the first key of the decoder is <s>
        mask = np.eye(len(attention.queries), len(attention.keys), k=steps + first, dtype=bool)
        mask[:, :first] = False
        return mask

    return where


def _first(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    mask = _nowhere(attention)
    mask[1:, 0] = True
    return mask


def _end(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    mask = _nowhere(attention)
    mask[:-1, -1] = True
    return mask


def _punctuation(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    marks = [not any(map(str.isalnum, key)) for key in attention.keys]
    return np.array([marks] * len(attention.queries))


def _same(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    """Look at the same word elsewhere, or in the other language."""
    queries, keys = (  # tokens without letters or digits match no other
        np.array([w.casefold() if w.isalnum() else f"{n} {side}" for n, w in enumerate(words)])
        for side, words in enumerate((attention.queries, attention.keys))
    )
    same = queries[:, None] == keys
    if attention.kind == "cross":
        return np.asarray(same)
    itself = np.eye(len(queries), len(keys), k=int(attention.kind == "decoder"), dtype=bool)
    return np.asarray(same & ~itself)


def _far(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    keys = np.arange(len(attention.keys)) - int(attention.kind == "decoder")  # <s> is the first
    distance = np.abs(np.arange(len(attention.queries))[:, None] - keys)
    words = [key not in SPECIAL for key in attention.keys]
    return np.asarray((distance >= FAR) & words)


def _translated(steps: int) -> Where:
    """Look `steps` words after the one that is being translated."""

    def where(attention: AttentionMatrices, alignment: Alignment) -> Mask:
        mask = np.asarray(np.arange(len(attention.keys)) == alignment[:, None] + steps)
        mask[-1] = False  # </s> translates nothing
        return mask

    return where


def _moved(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    """Look at the translated word, if its position in the sentence is quite different."""
    diagonal = np.linspace(0, len(attention.keys) - 1, len(attention.queries))
    mask = _translated(0)(attention, alignment)
    mask[np.abs(diagonal - alignment) < FAR] = False
    return mask


def _just_translated(attention: AttentionMatrices, alignment: Alignment) -> Mask:
    """Look at the source word just translated, unless the current word translates it too."""
    previous = np.roll(alignment, 1)
    mask = np.asarray(np.arange(len(attention.keys)) == previous[:, None])
    mask[[0, -1]] = False
    mask[previous == alignment] = False
    return mask


JOBS = (
    Job("the word before", ("encoder", "decoder"), _beside(-1)),
    Job("two words before", ("encoder", "decoder"), _beside(-2)),
    Job("the word itself", ("encoder",), _beside(0)),
    Job("the word after", ("encoder",), _beside(1)),
    Job("the first of all", ("encoder", "decoder", "cross"), _first),
    Job("the end, </s>", ("encoder", "cross"), _end),
    Job("commas and full stops", ("encoder", "decoder", "cross"), _punctuation),
    Job("the same word elsewhere", ("encoder", "decoder", "cross"), _same),
    Job(f"{FAR} or more words away", ("encoder", "decoder"), _far),
    Job("the word it translates", ("cross",), _translated(0)),
    Job("the word it translates, moved", ("cross",), _moved),
    Job("the word after that", ("cross",), _translated(1)),
    Job("the word before that", ("cross",), _translated(-1)),
    Job("the word it has just translated", ("cross",), _just_translated),
)
