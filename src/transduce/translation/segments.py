"""Segments: a text is split into sentences, and over-long sentences are cut into pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from transduce.config import SearchConfig
from transduce.errors import BadInput
from transduce.glossary import Glossary, Match
from transduce.markup.inline import Inline, inline_text
from transduce.markup.protected import STAND_IN, Protected, protect
from transduce.markup.spans import BUILT_IN, SpanRules, has_words
from transduce.runs.folder import RunConfig
from transduce.subwords import EOS, Codec, Coder
from transduce.text.splitting import check_installed as splitter_ready
from transduce.text.splitting import split_line
from transduce.translation.guard import Flag
from transduce.translation.memory import Memory
from transduce.translation.model_input import WORD, Mode, ModelInput, ShownTerm, model_input
from transduce.translation.types import Hypothesis, Ints, Job, Required

# An over-long sentence is preferably cut after one of these.
PUNCTUATION = (".", "!", "?", "…", "。", "！", "？", ";", ":")


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence, or a piece of an over-long one; each is searched separately."""

    ids: list[int]  # source tokens, the tag first, without </s>
    gap: str = ""  # the white space before it, if it begins a sentence
    begins: bool = True  # False: it continues a sentence that was cut


@dataclass(slots=True)
class Attempt:
    """A sentence as it was searched, and what was found."""

    mode: Mode
    shown: ModelInput
    segments: list[Segment]  # none if there is nothing to translate
    config: SearchConfig | None = None  # None: that of the translation
    required: Required = ()
    prefix: tuple[int, ...] = ()  # token ids that the output must begin with
    hypotheses: list[list[Hypothesis]] = field(default_factory=list)  # per segment, best first
    flags: tuple[Flag, ...] = ()  # of the best output
    lost: Sequence[Match] = ()  # terms whose translation it lacks

    def again(
        self,
        *,
        config: SearchConfig | None = None,
        required: Required | None = None,
        prefix: tuple[int, ...] | None = None,
    ) -> "Attempt":
        """Return the same input, to be searched in another way."""
        return Attempt(
            *(self.mode, self.shown, self.segments),
            self.config if config is None else config,
            self.required if required is None else required,
            self.prefix if prefix is None else prefix,
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """An output of a sentence with all its spans."""

    text: str  # with stand-ins
    inserted: tuple[int, ...] = ()  # spans that the model did not write, placed by alignment
    links: tuple[int, ...] = ()  # for each unit the unit of the sentence; none if not needed


@dataclass(slots=True)
class Sentence:
    """A sentence of a text: one segment, or several if it was cut."""

    gap: str  # the white space before it
    start: int  # its position in the protected text
    text: str  # with stand-ins for its spans
    number: int  # of its first segment in the text
    attempts: list[Attempt]  # the first search, and further ones with other settings
    terms: Sequence[Match] = ()  # of the glossary
    remembered: str | None = None  # its translation in the memory; then nothing is searched
    copied: bool = False  # without words; then nothing is searched
    chosen: int = 0  # the attempt that is used
    finished: list[Finished] = field(
        default_factory=list
    )  # per rank; if the text has spans or tags

    @property
    def attempt(self) -> Attempt:
        """The attempt that is used."""
        return self.attempts[self.chosen]


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text split into sentences and segments."""

    content: str | Inline
    protected: Protected
    sentences: list[Sentence]
    prefix: Sequence[int] = ()  # token ids that the translation must begin with
    number: int = 0

    @property
    def text(self) -> str:
        """The text without tags."""
        return self.content if isinstance(self.content, str) else inline_text(self.content)

    @property
    def is_plain(self) -> bool:
        """Whether the text has neither spans nor tags, and all sentences are searched."""
        if self.protected.spans or self.protected.elements:
            return False
        return not any(s.copied or s.remembered is not None for s in self.sentences)

    @property
    def segments(self) -> list[Segment]:
        """The segments of all sentences."""
        return [segment for s in self.sentences for segment in s.attempt.segments]

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of all segments."""
        return [best for s in self.sentences for best in s.attempt.hypotheses]

    @property
    def nbest(self) -> int:
        """The number of candidates; a blank text has one blank candidate."""
        return min(map(len, self.hypotheses), default=1)

    def jobs(self, sentence: Sentence) -> list[Job]:
        """Return the search jobs of a sentence's last attempt."""
        attempt, again = sentence.attempts[-1], len(sentence.attempts) - 1
        return [
            Job(
                np.array([*segment.ids, EOS]),
                attempt.prefix or (() if sentence.number + index else self.prefix),
                (self.number, sentence.number + index, *((again,) if again else ())),
                required=attempt.required,
            )
            for index, segment in enumerate(attempt.segments)
        ]

    def sentence_pairs(self, sentence: Sentence, rank: int) -> list[tuple[Ints, Ints]]:
        """Return the tokens of each segment of a sentence and of its hypothesis, </s> last."""
        attempt = sentence.attempt
        return [
            (np.array([*segment.ids, EOS]), np.array([*best[rank].tokens, EOS]))
            for segment, best in zip(attempt.segments, attempt.hypotheses, strict=True)
        ]

    def pairs(self, rank: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the tokens of each segment and of its hypothesis at this rank, </s> last."""
        for sentence in self.sentences:
            yield from self.sentence_pairs(sentence, rank)


@dataclass(frozen=True, slots=True)
class Preparation:
    """How texts are prepared for the search."""

    split: bool = True
    tag: str | None = None
    rules: SpanRules | None = None  # which spans are protected
    glossary: Glossary | None = None
    memory: Memory | None = None


def preparation(
    *,
    split: bool = True,
    tag: str | None = None,
    keep: bool | SpanRules | None = None,
    glossary: Glossary | None = None,
    memory: Memory | None = None,
) -> Preparation:
    """Return how to prepare texts; by default, spans are kept unless texts are test sets."""
    kept = split if keep is None else keep
    rules = (BUILT_IN if kept else None) if isinstance(kept, bool) else kept
    return Preparation(split, tag, rules, glossary, memory)


@dataclass(frozen=True, slots=True)
class Segmenter:
    """Prepares texts for the search."""

    codec: Codec
    config: RunConfig
    forbidden: Sequence[int]  # tokens that the model never writes

    def prepare(
        self,
        texts: Sequence[str | Inline],
        prefixes: Sequence[str | None],
        first: int,
        how: Preparation,
    ) -> list[SegmentedText]:
        """Split and encode texts, numbered from `first`; a blank text has no sentences."""
        split = how.split and splitter_ready()
        prepared = []
        for number, (text, prefix) in enumerate(zip(texts, prefixes, strict=True), start=first):
            protected = protect(text, how.rules)
            prefix_ids = self._encode_prefix(prefix, number) if prefix else []
            memory = None if prefix else how.memory
            whole = None if memory is None else memory.find_protected(protected.text, protected)
            sentences = [
                Sentence(gap, start, sentence, 0, [])
                for gap, start, sentence in self._sentences(
                    protected.text, prefix, split=split and whole is None
                )
            ]
            for index, each in enumerate(sentences):
                if memory is not None:
                    each.remembered = memory.find_protected(each.text, protected)
                each.copied = not (prefix and index == 0) and _has_nothing_to_translate(
                    each.text, how.rules
                )
            prepared.append(SegmentedText(text, protected, sentences, prefix_ids, number))
        pairs = [(each, sentence) for each in prepared for sentence in each.sentences]
        if how.glossary is not None:
            for _, sentence in pairs:
                if sentence.remembered is not None:
                    continue
                sentence.terms = how.glossary.find(sentence.text)
        first_mode = Mode.SENTINELS if self.codec.source.sentinels else Mode.TEXT
        attempts = self.attempts(pairs, [first_mode] * len(pairs), how.tag)
        for (_, sentence), attempt in zip(pairs, attempts, strict=True):
            sentence.attempts.append(attempt)
        for text_of_sentences in prepared:
            count = 0
            for sentence in text_of_sentences.sentences:
                sentence.number = count
                count += len(sentence.attempts[0].segments)
        return prepared

    def attempts(
        self,
        pairs: Sequence[tuple[SegmentedText, Sentence]],
        modes: Sequence[Mode],
        tag: str | None,
    ) -> list[Attempt]:
        """Return what the model reads of each sentence in a mode, encoded and cut."""
        coder = self.codec.source
        shown = [
            self._shown(text, sentence, mode)
            for (text, sentence), mode in zip(pairs, modes, strict=True)
        ]
        tag_ids = [*coder.language_ids(self.config.languages[1]), *coder.tag_ids(tag)]
        limit = self.config.model.max_len - 1 - len(tag_ids)
        encoded = _encode([each.parts for each in shown], coder)
        return [
            Attempt(
                mode,
                each,
                [
                    Segment(tag_ids + ids, sentence.gap, begins=index == 0)
                    for index, ids in enumerate(cut(token_ids, limit, coder))
                ]
                if sentence.remembered is None and not sentence.copied
                else [],
            )
            for mode, each, token_ids, (_, sentence) in zip(
                modes, shown, encoded, pairs, strict=True
            )
        ]

    def can_write(self, ids: Sequence[int]) -> bool:
        """Return whether an output may begin with these tokens."""
        limit = self.config.model.max_positions - 2
        return len(ids) <= limit and {*ids}.isdisjoint(self.forbidden)

    def _shown(self, text: SegmentedText, sentence: Sentence, mode: Mode) -> ModelInput:
        coder = self.codec.source
        terms = [
            ShownTerm(match.start, match.end, match.entry.target)
            for match in (sentence.terms if coder.term_markers else ())
        ]
        return model_input(sentence.text, text.protected.spans, mode, coder, terms)

    def _sentences(
        self, text: str, prefix: str | None, *, split: bool
    ) -> Iterator[tuple[str, int, str]]:
        """Yield the sentences of a text, each with the white space before it and its position.

        A prefix of several sentences translates several sentences of the text, so such a text is
        not split.
        """
        source, target = self.config.languages
        whole = not split or (prefix and len(split_line(one_line(prefix), target)) > 1)
        sentences = [("", text)] if whole and text.strip() else [] if whole else None
        position = 0
        for gap, sentence in split_line(text, source) if sentences is None else sentences:
            start = text.index(sentence, position)
            position = start + len(sentence)
            yield gap, start, sentence

    def _encode_prefix(self, prefix: str, number: int) -> list[int]:
        ids = self.codec.target.encode(one_line(prefix))
        limit = self.config.model.max_positions - 2
        if len(ids) > limit:
            raise BadInput(
                f"the prefix of text {number + 1:,} has {len(ids):,} subwords: "
                f"the model writes at most {limit:,}"
            )
        if not {*ids}.isdisjoint(self.forbidden):
            raise BadInput(
                f"the prefix of text {number + 1:,} has characters that the model cannot write"
            )
        return ids


def _encode(parts: Sequence[Sequence[str | int]], coder: Coder) -> list[list[int]]:
    """Encode sentences; only those with special tokens need more than `encode_batch`."""
    encoded: list[list[int]] = [[] for _ in parts]
    plain = [i for i, each in enumerate(parts) if all(isinstance(part, str) for part in each)]
    special = sorted({*range(len(parts))} - {*plain})
    texts = ["".join(str(part) for part in parts[i]) for i in plain]
    for i, ids in zip(plain, coder.encode_batch(texts), strict=True):
        encoded[i] = ids
    for i, ids in zip(special, coder.encode_parts([parts[i] for i in special]), strict=True):
        encoded[i] = ids
    return encoded


def _has_nothing_to_translate(sentence: str, rules: SpanRules | None) -> bool:
    """Return whether a sentence has no words beside its spans.

    Models invent sentences for 12.5, which stands in many cells of tables. Without protection, only
    a sentence of tags is left.
    """
    if rules is None:
        return bool(STAND_IN.search(sentence)) and not WORD.search(sentence)
    return not has_words(sentence)


def cut(ids: list[int], limit: int, coder: Coder) -> list[list[int]]:
    """Cut a sentence longer than `limit` tokens: after punctuation, else between words."""
    parts = []
    while len(ids) > limit:
        pieces = coder.pieces(ids[: limit + 1])
        word_starts = [i for i in range(max(1, limit // 2), limit + 1) if coder.starts_word(ids[i])]
        after_mark = [i for i in word_starts if pieces[i - 1].rstrip().endswith(PUNCTUATION)]
        end = (after_mark or word_starts or [limit])[-1]
        parts.append(ids[:end])
        ids = ids[end:]
    return [*parts, ids]


def one_line(text: str) -> str:
    """Replace all line breaks with spaces."""
    return " ".join(text.splitlines())
