"""Strings to strings: the public way to use a trained model."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from transduce.batches import Ints
from transduce.checkpoint import RunConfig, load_model
from transduce.config import SearchConfig
from transduce.errors import BadInput
from transduce.machine import choose_device, cores
from transduce.model import Transformer
from transduce.search import Hypothesis, log_probabilities, search
from transduce.subwords import EOS, Codec, Coder

WINDOW = 100  # batches that are read ahead, so that similar lengths meet
ENDS = (".", "!", "?", "…", "。", "！", "？", ";", ":")  # where an over-long sentence is best cut


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation of a sentence."""

    text: str
    score: float  # the log-probability over the length penalty; higher is better
    log_probability: float  # natural logarithm, of the whole output with its end
    tokens: tuple[str, ...]  # the subwords, as people read them


@dataclass(frozen=True, slots=True)
class Translation:
    """The translations of one text, best first."""

    source: str
    candidates: tuple[Candidate, ...]
    parts: int = 1  # more than 1: the text was longer than the model's limit and was cut

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.candidates[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """The subwords of the best translation."""
        return self.candidates[0].tokens


class Translator:
    """A trained model, ready to translate.

    >>> translator = Translator.load("runs/en-de")
    >>> translator("The paper is the default.")
    'Das Papier ist die Vorgabe.'
    """

    def __init__(
        self, model: Transformer, codec: Codec, config: RunConfig, weights: str = ""
    ) -> None:
        self.model, self.codec, self.config = model.eval(), codec, config
        self.weights = weights  # in words, which weights these are
        self.forbidden = codec.target.forbidden()

    @classmethod
    def load(cls, run: str | Path, *, device: str = "auto") -> Self:
        """Load the model of a run folder."""
        run = Path(run)
        config = RunConfig.load(run)
        codec = Codec.load(run / "subwords.json")
        on = choose_device(device)
        if on.type == "cpu":
            torch.set_num_threads(cores())
        model, weights = load_model(run, config, on)
        return cls(model, codec, config, weights)

    def __call__(self, text: str) -> str:
        """Translate one text."""
        return self.translate([text])[0].text

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        batch: int = 32,
        **settings: Any,
    ) -> list[Translation]:
        """Translate many texts; `settings` are those of SearchConfig: beam, alpha, nbest and so on.

        With `prefixes`, the translation of each text begins with its prefix.
        """
        if prefixes is not None and len(prefixes) != len(texts):
            raise BadInput(
                f"{len(prefixes):,} prefixes for {len(texts):,} texts: expected one each"
            )
        return list(self.stream(texts, prefixes=prefixes, batch=batch, **settings))

    def stream(
        self,
        texts: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        batch: int = 32,
        window: int = WINDOW,
        advance: Callable[[int], None] = lambda done: None,
        **settings: Any,
    ) -> Iterator[Translation]:
        """Translate any number of texts, in order, holding a window of them in memory.

        `batch` is the number of sentences searched side by side, `window` the number of batches
        read ahead; neither changes a translation. `advance` hears how many texts are done.
        """
        config = self.config.search.replace(**settings)
        if batch < 1:
            raise BadInput(f"batch = {batch}: expected at least 1 sentence")
        forced = itertools.repeat(None) if prefixes is None else prefixes
        numbered = enumerate(zip(texts, forced, strict=False))
        while some := list(itertools.islice(numbered, window * batch)):
            yield from self._window(some, config, batch, advance)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, first: int = 1, **settings: Any
    ) -> list[Candidate]:
        """Score given translations, as the search would have; `first` numbers the first pair."""
        config = self.config.search.replace(**settings)
        encoded = [
            (self._ids(source, self.codec.source), self._ids(target, self.codec.target))
            for source, target in pairs
        ]
        limit = self.config.model.max_len
        for number, both in enumerate(encoded, start=first):
            if max(map(len, both)) > limit:
                raise BadInput(
                    f"pair {number:,} has {max(map(len, both)):,} subwords on a side: "
                    f"the model scores at most {limit:,}"
                )
        results: list[Candidate | None] = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda i: sum(map(len, encoded[i])))
        for some in _batched(order, 32):
            scores = log_probabilities(self.model, [encoded[i] for i in some])
            for i, of_tokens in zip(some, scores, strict=True):
                ids = encoded[i][1][:-1].tolist()
                results[i] = self._candidate(Hypothesis.of(ids, sum(of_tokens), config))
        return [one for one in results if one is not None]

    def _window(
        self,
        window: list[tuple[int, tuple[str, str | None]]],
        config: SearchConfig,
        batch: int,
        advance: Callable[[int], None],
    ) -> Iterator[Translation]:
        """Translate some texts, similar lengths side by side."""
        jobs: list[_Job] = []
        for place, (number, (text, prefix)) in enumerate(window):
            if text.strip():
                jobs += self._jobs(place, number, text, prefix)
            else:
                advance(1)
        jobs.sort(key=lambda job: len(job.source))
        found: list[dict[int, list[Hypothesis]]] = [{} for _ in window]
        for some in _batched(jobs, batch):
            hypotheses = search(
                self.model,
                [job.source for job in some],
                config,
                forbidden=self.forbidden,
                prefixes=[job.prefix for job in some],
                numbers=[(job.number, job.part) for job in some],
            )
            for job, best in zip(some, hypotheses, strict=True):
                found[job.place][job.part] = best
            advance(sum(job.part == 0 for job in some))
        for (_, (text, _)), parts in zip(window, found, strict=True):
            ordered = [parts[part] for part in sorted(parts)]
            yield Translation(text, self._joined(ordered), max(1, len(ordered)))

    def _jobs(self, place: int, number: int, text: str, prefix: str | None) -> list["_Job"]:
        """Return what to search for one text: one source, or several where it is over-long."""
        ids = self.codec.source.encode(_one_line(text))
        forced = self.codec.target.encode(_one_line(prefix)) if prefix else []
        room = self.model.target_embedding.positions.size(0) - 2
        if len(forced) > room:
            raise BadInput(
                f"the prefix of text {number + 1:,} has {len(forced):,} subwords: "
                f"the model writes at most {room:,}"
            )
        if not {*forced}.isdisjoint(self.forbidden):
            raise BadInput(
                f"the prefix of text {number + 1:,} has characters that the model cannot write"
            )
        return [
            _Job(place, number, part, np.array([*piece, EOS]), forced if part == 0 else [])
            for part, piece in enumerate(cut(ids, self.config.model.max_len - 1, self.codec.source))
        ]

    def _joined(self, parts: list[list[Hypothesis]]) -> tuple[Candidate, ...]:
        """Return the candidates of a text from those of its parts."""
        if not parts:  # a blank line is translated by a blank line
            return (Candidate("", 0.0, 0.0, ()),)
        if len(parts) == 1:
            return tuple(self._candidate(one) for one in parts[0])
        candidates = []
        for rank in range(min(map(len, parts))):
            chosen = [self._candidate(part[rank]) for part in parts]
            candidates.append(
                Candidate(
                    " ".join(one.text.strip() for one in chosen),
                    sum(one.score for one in chosen),
                    sum(one.log_probability for one in chosen),
                    tuple(itertools.chain.from_iterable(one.tokens for one in chosen)),
                )
            )
        return tuple(candidates)

    def _candidate(self, hypothesis: Hypothesis) -> Candidate:
        target = self.codec.target
        return Candidate(
            target.decode(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_probability,
            tuple(target.pieces(hypothesis.tokens)),
        )

    @staticmethod
    def _ids(text: str, subwords: Coder) -> Ints:
        return np.array([*subwords.encode(_one_line(text)), EOS])


@dataclass(frozen=True, slots=True)
class _Job:
    """One source to search, and where its outputs belong."""

    place: int
    number: int
    part: int
    source: Ints
    prefix: list[int]


def cut(ids: list[int], limit: int, subwords: Coder) -> list[list[int]]:
    """Cut a sentence that is longer than the model's limit: after a mark, else between words."""
    parts = []
    while len(ids) > limit:
        pieces = subwords.pieces(ids[: limit + 1])
        begins = [i for i in range(max(1, limit // 2), limit + 1) if subwords.starts_word(ids[i])]
        after_mark = [i for i in begins if pieces[i - 1].rstrip().endswith(ENDS)]
        end = (after_mark or begins or [limit])[-1]
        parts.append(ids[:end])
        ids = ids[end:]
    return [*parts, ids]


def _one_line(text: str) -> str:
    """Take line breaks out of a text: the model has never seen one."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def _batched(items: Sequence[Any], size: int) -> Iterator[Any]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
