"""Search texts in rounds: first all sentences, then those whose output is not good enough.

`rounds` is a generator that asks for searches and alignments and is sent their results, so that a
translator can answer them at once and a service can answer them from its queues.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from transduce.config import SearchConfig
from transduce.glossary import Match, missing
from transduce.markup.protected import stand_ins
from transduce.subwords import Coder
from transduce.translation.guard import Attempt as Checked
from transduce.translation.guard import Flag, check, retry_settings
from transduce.translation.model_input import Mode
from transduce.translation.outputs import Output, read_output, spans_survive
from transduce.translation.segments import SegmentedText, Segmenter, Sentence
from transduce.translation.types import Hypothesis, Ints, Job, Required

T = TypeVar("T")
Pair = tuple[SegmentedText, Sentence]
Guard = Literal["off", "flag", "retry"]
RETRIES = 3  # searches with other settings, for flagged outputs
Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Search:
    """Search these jobs; the answer is a list with the hypotheses of each."""

    jobs: Sequence[Job]
    config: SearchConfig


@dataclass(frozen=True, slots=True)
class Align:
    """Align these pairs; the answer is a list with the attention of each."""

    pairs: Sequence[tuple[Ints, Ints]]


Answer = list[list[Hypothesis]] | list[Weights]
Steps = Generator[Search | Align, Answer, T]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Searches sentences again as long as that may repair their outputs.

    First where the model did not copy a span; then where the output lacks a term of the glossary;
    then, with guard = "retry", where it is flagged.
    """

    segmenter: Segmenter
    config: SearchConfig
    tag: str | None
    guard: Guard
    space: str  # between sentences in the target language

    @property
    def coder(self) -> Coder:
        """The target's subwords."""
        return self.segmenter.codec.target

    def run(self, texts: Sequence[SegmentedText]) -> Steps[None]:
        """Search all sentences of the texts."""
        pending = [(text, sentence) for text in texts for sentence in text.sentences]
        while pending:
            configs = dict.fromkeys(s.attempts[-1].config or self.config for _, s in pending)
            for config in configs:
                group = [
                    (text, sentence)
                    for text, sentence in pending
                    if (sentence.attempts[-1].config or self.config) == config
                ]
                jobs = [job for text, sentence in group for job in text.jobs(sentence)]
                results: Iterator[Any] = iter((yield Search(jobs, config)) if jobs else ())
                for _, sentence in group:
                    attempt = sentence.attempts[-1]
                    attempt.hypotheses = [next(results) for _ in attempt.segments]
            pending = self._repeat([pair for pair in pending if self._needs_checks(*pair)])

    def _needs_checks(self, text: SegmentedText, sentence: Sentence) -> bool:
        return bool(text.protected.spans or sentence.terms or self.guard != "off")

    def _repeat(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Add another attempt to the sentences that need one, and return them."""
        again, cut = [], []
        for text, sentence in pairs:
            output = read_output(
                sentence, sentence.attempts[-1], 0, self.coder, text.protected.spans, self.space
            )
            if not self._spans_survive(text, sentence):
                cut.append((text, sentence))
            elif self._add_attempt(sentence, output):
                again.append((text, sentence))
            else:
                sentence.chosen = _best(sentence)
        encoded = self.segmenter.attempts(cut, [Mode.CUT] * len(cut), self.tag)
        for (_, sentence), attempt in zip(cut, encoded, strict=True):
            sentence.attempts.append(attempt)
        return cut + again

    def _spans_survive(self, text: SegmentedText, sentence: Sentence) -> bool:
        """Return whether every output has the spans that the model was shown as text."""
        spans = text.protected.spans
        mode = sentence.attempts[-1].mode
        if mode is not Mode.TEXT or not spans or not stand_ins(sentence.text):
            return True
        attempt = sentence.attempts[-1]
        ranks = range(min(map(len, attempt.hypotheses), default=0))
        outputs = (
            read_output(sentence, attempt, rank, self.coder, spans, self.space) for rank in ranks
        )
        return all(spans_survive(output, mode, spans) for output in outputs)

    def _add_attempt(self, sentence: Sentence, output: Output) -> bool:
        """Check an output; add an attempt that may be better, if there is one to try."""
        attempt = sentence.attempts[-1]
        attempt.lost = missing(sentence.terms, output.text)
        attempt.flags = self._flags(sentence, output)
        required = self._required(sentence)
        if attempt.lost and required != attempt.required and len(attempt.segments) == 1:
            sentence.attempts.append(attempt.again(required=required))
            return True
        if self.guard != "retry" or not attempt.flags:
            return False
        tried = {each.config or self.config for each in sentence.attempts}
        nbest = self.config.nbest
        for changed in retry_settings(attempt.flags, self.config):
            config = changed.replace(nbest=nbest, beam=max(changed.beam, nbest))
            if config not in tried and len(tried) <= RETRIES:
                sentence.attempts.append(attempt.again(config=config))
                return True
        return False

    def _flags(self, sentence: Sentence, output: Output) -> tuple[Flag, ...]:
        best = [hypotheses[0] for hypotheses in sentence.attempts[-1].hypotheses]
        if self.guard == "off" or not best:
            return ()
        return check(
            sentence.text,
            output.text,
            log_probability=sum(hypothesis.log_probability for hypothesis in best),
            tokens=sum(len(hypothesis.tokens) + 1 for hypothesis in best),
            languages=self.segmenter.config.languages,
        )

    def _required(self, sentence: Sentence) -> Required:
        """Return the phrases of all terms that any attempt lost.

        A term that occurs twice is required twice, and an output that has one term may lose another
        that the first output had.
        """
        lost = {match.entry.target for each in sentence.attempts for match in each.lost}
        terms = [match for match in sentence.terms if match.entry.target in lost]
        return tuple(self._alternatives(match, sentence) for match in terms)

    def _alternatives(self, match: Match, sentence: Sentence) -> tuple[tuple[int, ...], ...]:
        """Return the ids of a term's translation, capitalised too where a sentence begins."""
        target = match.entry.target
        forms = [target]
        if not sentence.text[: match.start].strip() and not match.entry.case:
            forms.append(target[:1].upper() + target[1:])
        return tuple(tuple(self.coder.encode(form)) for form in dict.fromkeys(forms))


def _best(sentence: Sentence) -> int:
    """Return the attempt with the most terms and the least severe flags; then the best score."""
    last = sentence.attempts[-1].mode
    numbers = [n for n, attempt in enumerate(sentence.attempts) if attempt.mode is last]

    def badness(number: int) -> tuple[int, float, float]:
        attempt = sentence.attempts[number]
        score = sum(best[0].score for best in attempt.hypotheses)
        return len(attempt.lost), Checked("", score, attempt.flags).severity, -score

    return min(numbers, key=badness)
