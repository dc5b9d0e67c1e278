"""Jobs, hypotheses and the Engine protocol: the interface between translation and decoding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from transduce.config import SearchConfig

Ints = npt.NDArray[np.int64]
Required = tuple[tuple[tuple[int, ...], ...], ...]  # see `Job`


@dataclass(frozen=True, slots=True)
class Job:
    """One sentence to translate."""

    source: Ints  # token ids, </s> last
    prefix: Sequence[int] = ()  # token ids that the output must begin with
    number: tuple[int, ...] = ()  # identifies the job; samples depend only on it and the seed
    classes: Sequence[int] = ()  # for a constraint: the lexicon's class of each word to parse
    # Phrases that the output must contain; each as alternatives, of which one is enough.
    required: Required = ()


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output: its token ids without </s>, its log-probability and its score."""

    tokens: list[int]
    log_probability: float
    score: float

    @classmethod
    def of(cls, tokens: list[int], log_probability: float, config: SearchConfig) -> "Hypothesis":
        """Score an output; its length counts </s>."""
        penalty = length_penalty(len(tokens) + 1, config)
        return cls(tokens, log_probability, log_probability / penalty)


def length_penalty(length: float, config: SearchConfig) -> float:
    """Return the divisor of a log-probability; `length` counts </s>.

    Paper: 6.1, after Wu et al. 2016, ((5 + |Y|) / 6)^alpha.
    """
    base = length if config.penalty == "power" else (5 + length) / 6
    return float(base**config.alpha)


def output_limit(job: Job, config: SearchConfig, max_positions: int) -> int:
    """Return the maximum output length for a job, </s> included.

    `extra` is added to the length of the source or the prefix, whichever is longer.
    """
    return min(max(len(job.source), len(job.prefix)) + config.extra, max_positions)


class Engine(Protocol):
    """Translates token ids to token ids."""

    name: str  # for messages
    batch: int  # the default number of sentences to search side by side

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's index and its `nbest` hypotheses, best first, as jobs finish.

        Results may come in any order. `batch` sentences are searched side by side, longest first.
        """

    def lanes(self) -> "Sequence[Engine]":
        """Return engines that may search at the same time, each in its own thread."""

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of the given targets, </s> included."""

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return how much each target token attends to each source token. (target, source)."""
