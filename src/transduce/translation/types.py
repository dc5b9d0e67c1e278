"""What a search is given and what it finds; whichever engine searches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from transduce.config import SearchConfig

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Job:
    """One sentence to translate."""

    source: Ints  # its tokens, </s> last
    prefix: Sequence[int] = ()  # tokens that its output must begin with
    number: tuple[int, ...] = ()  # its name: what is drawn for it depends on nothing else
    classes: Sequence[int] = ()  # of what its output is about, for a constraint: words of a tree


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output: its tokens without </s>, its log-probability, and its score."""

    tokens: list[int]
    log_probability: float
    score: float

    @classmethod
    def of(cls, tokens: list[int], log_probability: float, config: SearchConfig) -> "Hypothesis":
        """Score an output; its length counts </s>."""
        penalty = length_penalty(len(tokens) + 1, config)
        return cls(tokens, log_probability, log_probability / penalty)


def length_penalty(length: float, config: SearchConfig) -> float:
    """Return what a log-probability is divided by; `length` counts </s>.

    Paper: 6.1, after Wu et al. 2016, ((5 + |Y|) / 6)^alpha.
    """
    base = length if config.penalty == "power" else (5 + length) / 6
    return float(base**config.alpha)


class Engine(Protocol):
    """What translates tokens to tokens."""

    name: str  # for people
    batch: int  # sentences that are best searched side by side

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's place and its `nbest` outputs, best first, in the order they are done.

        `batch` sentences are searched side by side; jobs come with the longest first.
        """

    def lanes(self) -> "Sequence[Engine]":
        """Return engines that may search at the same time, each in a thread of its own."""

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of given targets, </s> included."""

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return how much each target token attended to each source token. (target, source)."""
