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
from transduce.subwords import EOS, Coder
from transduce.translation.guard import Attempt as Checked
from transduce.translation.guard import Flag, check, retry_settings
from transduce.translation.model_input import Mode
from transduce.translation.outputs import Output, read_output, spans_survive, unit_links
from transduce.translation.segments import Attempt, SegmentedText, Segmenter, Sentence
from transduce.translation.terms import beginning_with_term
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

    First where the model did not copy a span. Then where the output lacks a term of the glossary:
    with the term in place of the words that are aligned with it, or, if there are none, anywhere.
    Then, with guard = "retry", where the output is flagged.
    """

    segmenter: Segmenter
    config: SearchConfig
    tag: str | None
    guard: Guard
    space: str  # between sentences in the target language
    attends: bool  # whether the model aligns its output with its source

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
            checked = [pair for pair in pending if self._needs_checks(*pair)]
            pending = yield from self._repeat(checked)

    def _needs_checks(self, text: SegmentedText, sentence: Sentence) -> bool:
        if sentence.remembered is not None:
            return False
        return bool(text.protected.spans or sentence.terms or self.guard != "off")

    def _repeat(self, pairs: Sequence[Pair]) -> Steps[list[Pair]]:
        """Add another attempt to the sentences that need one, and return them."""
        again, cut = list[Pair](), list[Pair]()
        to_place = list[tuple[SegmentedText, Sentence, Output]]()
        for text, sentence in pairs:
            attempt = sentence.attempts[-1]
            output = read_output(sentence, attempt, 0, self.coder, text.protected.spans, self.space)
            if not self._spans_survive(text, sentence):
                cut.append((text, sentence))
                continue
            attempt.lost = missing(sentence.terms, output.text)
            attempt.flags = self._flags(sentence, output)
            if self._may_place(text, sentence):
                to_place.append((text, sentence, output))
            elif self._require_terms(sentence) or self._retry(sentence):
                again.append((text, sentence))
            else:
                sentence.chosen = _best(sentence)
        again += yield from self._place_terms(to_place)
        encoded = self.segmenter.attempts(cut, [Mode.CUT] * len(cut), self.tag)
        for (_, sentence), new in zip(cut, encoded, strict=True):
            sentence.attempts.append(new)
        return cut + again

    def _may_place(self, text: SegmentedText, sentence: Sentence) -> bool:
        """Return whether the next search may begin with a part of the output and a lost term."""
        attempt = sentence.attempts[-1]
        is_free = not attempt.required and (sentence.number > 0 or not text.prefix)
        return self.attends and is_free and self._can_force(attempt)

    def _can_force(self, attempt: Attempt) -> bool:
        """Return whether a search can make up for lost terms: samples depend on no glossary."""
        is_sample = (attempt.config or self.config).sample
        return bool(attempt.lost) and len(attempt.segments) == 1 and not is_sample

    def _place_terms(
        self, outputs: Sequence[tuple[SegmentedText, Sentence, Output]]
    ) -> Steps[list[Pair]]:
        """Add attempts that begin with the first lost term in its place, if it has one."""
        again = []
        pairs = [
            (job.source, np.array([*sentence.attempts[-1].hypotheses[0][0].tokens, EOS]))
            for text, sentence, _ in outputs
            for job in text.jobs(sentence)
        ]
        weights: Iterator[Any] = iter((yield Align(pairs)) if pairs else ())
        for text, sentence, output in outputs:
            attempt, source = sentence.attempts[-1], self.segmenter.codec.source
            links = unit_links(sentence, attempt, 0, output, source, [next(weights)])
            prefix = beginning_with_term(sentence, attempt, output, links, self.coder)
            if prefix is not None and self.segmenter.can_write(prefix):
                sentence.attempts.append(attempt.again(prefix=prefix))
                again.append((text, sentence))
            elif self._require_terms(sentence) or self._retry(sentence):
                again.append((text, sentence))
            else:
                sentence.chosen = _best(sentence)
        return again

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

    def _require_terms(self, sentence: Sentence) -> bool:
        """Add a search whose outputs must contain the lost terms, unless it was tried."""
        attempt = sentence.attempts[-1]
        required = self._required(sentence)
        if required == attempt.required or not self._can_force(attempt):
            return False
        sentence.attempts.append(attempt.again(required=required, prefix=()))
        return True

    def _retry(self, sentence: Sentence) -> bool:
        """Add a search with other settings for a flagged output, if there is one to try."""
        attempt = sentence.attempts[-1]
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
