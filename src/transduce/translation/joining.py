"""Join the hypotheses of a text's segments into its translations."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from transduce.markup.inline import Inline
from transduce.markup.placing import NONE
from transduce.subwords import Codec, Coder
from transduce.text.languages import language_code
from transduce.translation.alignment import (
    NO_WORD,
    Links,
    link_words,
    word_indices,
    words_of_characters,
)
from transduce.translation.outputs import source_positions
from transduce.translation.segments import Segment, SegmentedText
from transduce.translation.translation import Candidate, TranslatedSentence, Translation

# Languages without spaces between sentences.
WITHOUT_SPACES = frozenset({"zh", "yue", "ja", "th", "lo", "km", "my", "bo"})


def join(
    text: SegmentedText, codec: Codec, language: str, alignments: Sequence[Links] | None = None
) -> Translation:
    """Return the translations of a text into `language`; `alignments` has one entry per rank."""
    before = gaps(text.segments, language)
    indices = range(len(text.segments))
    candidates = [
        _candidate(text, codec, indices, rank, before, alignments[rank] if alignments else None)
        for rank in range(text.nbest)
    ]
    was_cut = not all(segment.begins for segment in text.segments)
    content = None if isinstance(text.content, str) else _with_outer_space(text, candidates[0].text)
    return Translation(
        *(text.text, tuple(candidates), max(1, len(text.segments)), was_cut), content=content
    )


def _with_outer_space(text: SegmentedText, output: str) -> Inline:
    """Return a translation with the white space around the text, which a document needs."""
    source = text.protected.text
    if not source.strip():
        return (source,)
    lead = source[: len(source) - len(source.lstrip())]
    return (lead + output.strip() + source[len(source.rstrip()) :],)


def join_sentences(text: SegmentedText, codec: Codec, language: str) -> list[TranslatedSentence]:
    """Return the sentences of a text, each with its translations.

    The gaps and best translations of all sentences, concatenated, are the text's best translation.
    """
    before = gaps(text.segments, language)
    begins = [index for index, segment in enumerate(text.segments) if segment.begins]
    translated = []
    ends = itertools.pairwise([*begins, len(text.segments)])
    for sentence, (begin, end) in zip(text.sentences, ends, strict=True):
        indices = range(begin, end)
        nbest = min(len(text.hypotheses[index]) for index in indices)
        candidates = [_candidate(text, codec, indices, rank, before) for rank in range(nbest)]
        translated.append(TranslatedSentence(before[begin], sentence.text, tuple(candidates)))
    return translated


def _candidate(
    text: SegmentedText,
    codec: Codec,
    indices: range,
    rank: int,
    before: Sequence[str],
    alignment: Links | None = None,
) -> Candidate:
    """Join neighbouring segments, with the gap before each except the first."""
    hypotheses = [text.hypotheses[index][rank] for index in indices]
    outputs = [codec.target.decode(hypothesis.tokens) for hypothesis in hypotheses]
    if len(text.segments) > 1:
        outputs = [output.strip() for output in outputs]
    between = ["", *(before[index] for index in indices[1:])]
    return Candidate(
        "".join(itertools.chain.from_iterable(zip(between, outputs, strict=False))),
        sum((hypothesis.score for hypothesis in hypotheses), 0.0),
        sum((hypothesis.log_probability for hypothesis in hypotheses), 0.0),
        tuple(p for hypothesis in hypotheses for p in codec.target.pieces(hypothesis.tokens)),
        alignment,
    )


def align_words(
    text: SegmentedText,
    codec: Codec,
    language: str,
    weights: Iterator[npt.NDArray[np.float32]],
) -> list[Links]:
    """Return the word alignment of each candidate.

    `weights` yields the attention of each segment's hypothesis, candidate by candidate.
    """
    source = source_words(text, codec.source)
    before = gaps(text.segments, language)
    alignments = []
    for rank in range(text.nbest):
        outputs = [codec.target.piece_bytes(best[rank].tokens) for best in text.hypotheses]
        target = word_indices(outputs, before)
        segment_weights = itertools.islice(weights, len(text.segments))
        links = itertools.chain.from_iterable(map(link_words, segment_weights, source, target))
        alignments.append(tuple(sorted(set(links), key=lambda link: link[::-1])))
    return alignments


def gaps(segments: Sequence[Segment], language: str) -> list[str]:
    """Return the white space before the translation of each segment.

    It is the white space before the segment in the source; if there is none, a space if the target
    language puts spaces between sentences.
    """
    space = separator(language)
    return ["" if index == 0 else segment.gap or space for index, segment in enumerate(segments)]


def separator(language: str) -> str:
    """Return what stands between the sentences of a language."""
    return "" if language_code(language) in WITHOUT_SPACES else " "


def source_words(text: SegmentedText, coder: Coder) -> list[list[int]]:
    """Return the word index of each token in each segment; words count over the whole text."""
    words = words_of_characters(text.protected.text)
    indices = []
    for sentence in text.sentences:
        positions = iter(source_positions(sentence.attempt, coder))
        indices += [
            [
                NO_WORD if position == NONE else words[sentence.start + position]
                for position in itertools.islice(positions, len(segment.ids))
            ]
            for segment in sentence.attempt.segments
        ]
    return indices
