"""Segments: a text is split into sentences, and over-long sentences are cut into pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from transduce.errors import BadInput
from transduce.runs.folder import RunConfig
from transduce.subwords import EOS, Codec, Coder
from transduce.text.splitting import check_installed as splitter_ready
from transduce.text.splitting import split_line
from transduce.translation.types import Hypothesis, Ints, Job

# An over-long sentence is preferably cut after one of these.
PUNCTUATION = (".", "!", "?", "…", "。", "！", "？", ";", ":")


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence, or a piece of an over-long one; each is searched separately."""

    ids: list[int]  # source tokens, the tag first, without </s>
    gap: str = ""  # the white space before it, if it begins a sentence
    begins: bool = True  # False: it continues a sentence that was cut


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text split into segments, with the hypotheses of each segment."""

    text: str
    segments: list[Segment]
    hypotheses: list[list[Hypothesis]]  # per segment, best first; empty before the search
    prefix: Sequence[int] = ()  # token ids that the translation must begin with
    number: int = 0
    sentences: Sequence[str] = ()  # each is one segment, or several if it was cut

    @property
    def nbest(self) -> int:
        """The number of candidates; a blank text has one blank candidate."""
        return min(map(len, self.hypotheses), default=1)

    def job(self, index: int) -> Job:
        """Return the search job for a segment."""
        source = np.array([*self.segments[index].ids, EOS])
        return Job(source, () if index else self.prefix, (self.number, index))

    def pairs(self, rank: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield the tokens of each segment and of its hypothesis at this rank, </s> last."""
        for segment, best in zip(self.segments, self.hypotheses, strict=True):
            yield np.array([*segment.ids, EOS]), np.array([*best[rank].tokens, EOS])


@dataclass(frozen=True, slots=True)
class Segmenter:
    """Prepares texts for the search."""

    codec: Codec
    config: RunConfig
    forbidden: Sequence[int]  # tokens that the model never writes

    def prepare(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str | None],
        first: int,
        *,
        split: bool,
        tag: str | None = None,
    ) -> list[SegmentedText]:
        """Split and encode texts, numbered from `first`; a blank text has no segments."""
        split = split and splitter_ready()
        sentences = [
            self._sentences(one_line(text), prefix, split=split)
            for text, prefix in zip(texts, prefixes, strict=True)
        ]
        coder = self.codec.source
        tag_ids = coder.tag_ids(tag)
        limit = self.config.model.max_len - 1 - len(tag_ids)
        encoded = iter(coder.encode_batch([text for parts in sentences for _, text in parts]))
        prepared = []
        rows = zip(texts, prefixes, sentences, strict=True)
        for number, (text, prefix, parts) in enumerate(rows, start=first):
            segments = [
                Segment(tag_ids + ids, gap, begins=index == 0)
                for gap, _ in parts
                for index, ids in enumerate(cut(next(encoded), limit, coder))
            ]
            prefix_ids = self._encode_prefix(prefix, number) if prefix else []
            lines = [sentence for _, sentence in parts]
            hypotheses: list[list[Hypothesis]] = [[] for _ in segments]
            prepared.append(SegmentedText(text, segments, hypotheses, prefix_ids, number, lines))
        return prepared

    def _sentences(self, text: str, prefix: str | None, *, split: bool) -> list[tuple[str, str]]:
        """Return the sentences of a text, each with the white space before it.

        A prefix of several sentences translates several sentences of the text, so such a text is
        not split.
        """
        source, target = self.config.languages
        if split and (prefix is None or len(split_line(one_line(prefix), target)) <= 1):
            return split_line(text, source)
        return [("", text)] if text.strip() else []

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
