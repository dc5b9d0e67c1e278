"""Heads whose attention can be described as a job, such as "looks at the word before".

A head's share of a job is the weight it puts where the job says to look, averaged over the words
for which the job is defined. The baseline is the share of a head with uniform attention. Words are
whole (see `AttentionMatrices`). Q queries, K keys; layers and heads count from 1.
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

Places = npt.NDArray[np.bool_]  # (Q, K) where a job looks; a word without any is not counted
Linked = npt.NDArray[np.int64]  # (Q,) the source word that each target word translates
Where = Callable[[AttentionMatrices, Linked], Places]

FAR = 3  # words
ENOUGH = 5  # words that an example should have


@dataclass(frozen=True, slots=True)
class Job:
    """What a head may do."""

    name: str
    kinds: tuple[str, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Found:
    """The head that does a job best."""

    job: str
    kind: str
    layer: int
    head: int
    share: float
    baseline: float  # the share of a head that looks at all alike
    example: int  # the sentence, of those with some words, in which it does it most


def find(inspections: Iterable["Inspection"]) -> list[Found]:
    """Find the best head for each job, over all sentences; the most striking first."""
    tallies: dict[tuple[str, str], _Tally] = {}
    for number, inspection in enumerate(inspections):
        linked = links(inspection)
        for kind in KINDS:
            view = AttentionMatrices.of(inspection, kind, words=True)
            for job in JOBS:
                if kind in job.kinds:
                    tally = tallies.setdefault((job.name, kind), _Tally())
                    tally.add(view, job.where(view, linked), number)
    found = [tally.best(*names) for names, tally in tallies.items() if tally.words]
    return sorted(found, key=lambda one: one.baseline - one.share)


def links(inspection: "Inspection") -> Linked:
    """Return the source word that each target word translates.

    It is the one that the heads of the last layer look at most, as in `translate --align`.
    """
    weights = AttentionMatrices.of(inspection, "cross", words=True).mean(None)
    return np.asarray(weights[:, :-1].argmax(1))


def jobs_of(
    views: Sequence[AttentionMatrices], layer: int, head: int
) -> dict[str, tuple[float, float]]:
    """Return how much one head of the encoder does of each job, over some sentences.

    Beside its share stands that of a head which looks at everything alike.
    """
    found: dict[str, tuple[float, float]] = {}
    for job in JOBS:
        if "encoder" in job.kinds:
            tally = _Tally()
            for number, view in enumerate(views):
                nothing = np.zeros(len(view.queries), dtype=np.int64)
                tally.add(view, job.where(view, nothing), number)
            if tally.words:
                share = float(np.asarray(tally.shares)[layer - 1, head - 1])
                found[job.name] = share / tally.words, tally.alike / tally.words
    return found


class _Tally:
    """The shares of all heads of one kind in one job."""

    def __init__(self) -> None:
        self.words = 0
        self.alike = 0.0  # what a head that looks at all alike would have
        self.shares: npt.NDArray[np.float64] | float = 0.0  # (N, H), summed over words
        # Of each sentence its number, its words, up to enough, and what heads have beyond that.
        self.excess: list[tuple[int, int, npt.NDArray[np.float64]]] = []

    def add(self, view: AttentionMatrices, places: Places, number: int) -> None:
        """Count one sentence."""
        visible = _visible(view)
        places = places & visible
        rows = places.any(1)
        if not rows.any():
            return
        received = (view.weights * places).sum(-1)[..., rows]  # (N, H, rows)
        alike = float((places.sum(1) / visible.sum(1))[rows].sum())
        shares = received.sum(-1).astype(np.float64)
        self.words += int(rows.sum())
        self.alike += alike
        self.shares = self.shares + shares
        counted = int(rows.sum())
        self.excess.append((number, min(counted, ENOUGH), (shares - alike) / counted))

    def best(self, job: str, kind: str) -> Found:
        """Return the head with the largest share."""
        shares = np.asarray(self.shares) / self.words
        layer, head = np.unravel_index(int(shares.argmax()), shares.shape)
        example, _, _ = max(self.excess, key=lambda one: (one[1], one[2][layer, head]))
        return Found(
            *(job, kind, int(layer) + 1, int(head) + 1),
            float(shares[layer, head]),
            self.alike / self.words,
            example,
        )


def _beside(steps: int) -> Where:
    """Look so many words after oneself; in the decoder, after the word that is to be written."""

    def where(view: AttentionMatrices, linked: Linked) -> Places:
        first = 1 if view.kind == "decoder" else 0  # there <s> is the first key
        places = np.eye(len(view.queries), len(view.keys), k=steps + first, dtype=bool)
        places[:, :first] = False
        return places

    return where


def _first(view: AttentionMatrices, linked: Linked) -> Places:
    places = np.zeros((len(view.queries), len(view.keys)), dtype=bool)
    places[1:, 0] = True
    return places


def _end(view: AttentionMatrices, linked: Linked) -> Places:
    places = np.zeros((len(view.queries), len(view.keys)), dtype=bool)
    places[:-1, -1] = True
    return places


def _mark(view: AttentionMatrices, linked: Linked) -> Places:
    marks = [not any(map(str.isalnum, key)) for key in view.keys]
    return np.array([marks] * len(view.queries))


def _same(view: AttentionMatrices, linked: Linked) -> Places:
    """Look at the same word in another place, or in the other language."""
    queries, keys = (
        np.array([one.casefold() if one.isalnum() else f"{n} {side}" for n, one in enumerate(some)])
        for side, some in enumerate((view.queries, view.keys))
    )
    own = np.eye(len(queries), len(keys), k=int(view.kind == "decoder"), dtype=bool)
    same = queries[:, None] == keys
    return np.asarray(same if view.kind == "cross" else same & ~own)


def _far(view: AttentionMatrices, linked: Linked) -> Places:
    places = np.arange(len(view.keys)) - int(view.kind == "decoder")  # there <s> is the first
    distance = np.abs(np.arange(len(view.queries))[:, None] - places)
    words = [key not in SPECIAL for key in view.keys]
    return np.asarray((distance >= FAR) & words)


def _translated(steps: int) -> Where:
    """Look so many words after the one that is being translated."""

    def where(view: AttentionMatrices, linked: Linked) -> Places:
        places = np.asarray(np.arange(len(view.keys)) == linked[:, None] + steps)
        places[-1] = False  # </s> translates nothing
        return places

    return where


def _moved(view: AttentionMatrices, linked: Linked) -> Places:
    """Look at the translated word, where it stands at quite another place of its sentence."""
    level = np.linspace(0, len(view.keys) - 1, len(view.queries))
    places = _translated(0)(view, linked)
    places[np.abs(level - linked) < FAR] = False
    return places


def _just_translated(view: AttentionMatrices, linked: Linked) -> Places:
    """Look at the word that the last written one translates, where the next is another's."""
    places = np.asarray(np.arange(len(view.keys)) == np.roll(linked, 1)[:, None])
    places[[0, -1]] = False
    places[np.roll(linked, 1) == linked] = False
    return places


def _visible(view: AttentionMatrices) -> Places:
    """Tell what can be seen: in the decoder nothing that is still to be written."""
    return np.asarray((view.weights > 0).any((0, 1)))


JOBS = (
    Job("the word before", ("encoder", "decoder"), _beside(-1)),
    Job("two words before", ("encoder", "decoder"), _beside(-2)),
    Job("the word itself", ("encoder",), _beside(0)),
    Job("the word after", ("encoder",), _beside(1)),
    Job("the first of all", ("encoder", "decoder", "cross"), _first),
    Job("the end, </s>", ("encoder", "cross"), _end),
    Job("commas and full stops", ("encoder", "decoder", "cross"), _mark),
    Job("the same word elsewhere", ("encoder", "decoder", "cross"), _same),
    Job(f"{FAR} or more words away", ("encoder", "decoder"), _far),
    Job("the word it translates", ("cross",), _translated(0)),
    Job("the word it translates, moved", ("cross",), _moved),
    Job("the word after that", ("cross",), _translated(1)),
    Job("the word before that", ("cross",), _translated(-1)),
    Job("the word it has just translated", ("cross",), _just_translated),
)
