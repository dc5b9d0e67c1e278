"""An engine that answers from a table of texts, so that tests decide what a model writes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from untrained_translator import TEXT

from transduce import Translator
from transduce.config import SearchConfig, TrainConfig
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec, Subwords
from transduce.translation.types import Hypothesis, Ints, Job

SUBWORDS = Subwords.learn(TEXT, 320)
Weights = npt.NDArray[np.float32]
Aligner = Callable[[Ints, Ints], Weights]


@dataclass(frozen=True)
class Searched:
    """What the engine was asked for."""

    source: str
    config: SearchConfig
    required: tuple[tuple[str, ...], ...]  # the alternatives of each phrase
    prefix: str


def in_order(source: Ints, target: Ints) -> Weights:
    """Align the tokens in order."""
    return np.eye(len(target), len(source), dtype=np.float32)


def by_words(links: dict[str, str]) -> Aligner:
    """Align the tokens of words: a target word with the source word that it is linked to."""

    def align(source: Ints, target: Ints) -> Weights:
        weights = np.zeros((len(target), len(source)), np.float32)
        sources, targets = (_owners(ids[:-1].tolist()) for ids in (source, target))
        for row, word in enumerate(targets):
            for column, other in enumerate(sources):
                weights[row, column] = links.get(word) == other
        return weights

    return align


def _owners(ids: list[int]) -> list[str]:
    """Return the word that each token is part of, without punctuation."""
    words = SUBWORDS.decode(ids).split()
    starts = np.cumsum([SUBWORDS.starts_word(token) or not i for i, token in enumerate(ids)])
    return [words[number - 1].strip(".,!?") for number in starts]


class Scripted:
    """Answers each search of a source with the next of its outputs, and records the searches.

    With a prefix the output is the prefix and what the answer has behind it.
    """

    name, batch = "scripted", 8

    def __init__(self, answers: dict[str, list[str]], aligner: Aligner = in_order) -> None:
        self.answers = {source: iter(outputs) for source, outputs in answers.items()}
        self.searched: list[Searched] = []
        self.aligner, self.aligned = aligner, 0

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        for number, job in enumerate(jobs):
            source = SUBWORDS.decode(job.source[:-1].tolist())
            phrases = tuple(
                tuple(SUBWORDS.decode(list(one)) for one in phrase) for phrase in job.required
            )
            prefix = SUBWORDS.decode(list(job.prefix))
            self.searched.append(Searched(source, config, phrases, prefix))
            output = next(self.answers[source])
            assert output.startswith(prefix), f"{output!r} does not begin with {prefix!r}"
            rest = SUBWORDS.encode(output)[len(SUBWORDS.encode(prefix)) :] if prefix else None
            tokens = SUBWORDS.encode(output) if rest is None else [*job.prefix, *rest]
            yield number, [Hypothesis.of(tokens, -0.1 * len(tokens), config)] * config.nbest

    def lanes(self) -> "list[Scripted]":
        return [self]

    def score(self, pairs: object) -> list[list[float]]:
        raise NotImplementedError

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[Weights]:
        self.aligned += len(pairs)
        return [self.aligner(*pair) for pair in pairs]


def scripted_translator(
    answers: dict[str, list[str]],
    aligner: Aligner = in_order,
    *,
    max_len: int = 64,
    preset: str = "tiny",
) -> tuple[Translator, Scripted]:
    """Return a translator with a scripted engine."""
    engine = Scripted(answers, aligner)
    size = len(SUBWORDS)
    sizes = {"max_len": max_len, "source_vocabulary": size, "target_vocabulary": size}
    model = find_preset(preset).model.replace(**sizes)
    config = RunConfig(model=model, train=TrainConfig(), languages=("en", "de"))
    return Translator(engine, Codec(SUBWORDS, SUBWORDS), config), engine
