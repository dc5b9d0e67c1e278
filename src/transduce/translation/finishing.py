"""Complete the outputs of texts with spans and tags, and join them into translations."""

import dataclasses
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from transduce.glossary import missing
from transduce.markup.inline import Inline, Tag
from transduce.markup.placing import NONE, Aligned, place_tags, units
from transduce.markup.protected import STAND_IN, find_literal, restore, span_index, stand_ins
from transduce.markup.spans import is_by_order
from transduce.subwords import Codec
from transduce.translation.alignment import Links
from transduce.translation.joining import join_sentences, separator
from transduce.translation.outputs import Output, complete, read_output, unit_links
from transduce.translation.rounds import Align, Steps
from transduce.translation.segments import Finished, SegmentedText, Sentence
from transduce.translation.translation import (
    Candidate,
    Placed,
    PlacedSpan,
    TranslatedSentence,
    Translation,
    UsedMemory,
    UsedTerm,
)
from transduce.translation.types import Ints

AT_ONCE = 256  # sentences to align in one step, to bound memory

Unfinished = tuple[SegmentedText, Sentence, int, Output]  # the number is the rank


def finish(
    texts: Sequence[SegmentedText], codec: Codec, language: str, *, align: bool, attends: bool
) -> Steps[None]:
    """Insert missing spans into the outputs, and link their units to those of the source.

    A model that does not attend to its source has no alignment: tokens are linked by position.
    """
    waiting: list[Unfinished] = []
    for unfinished in _outputs(texts, codec, language):
        text, sentence, _, output = unfinished
        needs_links = output.missing or text.protected.elements or align
        if needs_links and sentence.attempt.segments:
            waiting.append(unfinished)
        else:
            # A sentence of spans alone is aligned with itself; other links are not needed.
            is_own = not sentence.attempt.segments and sentence.remembered is None
            own = range(len(units(output.text))) if is_own else ()
            sentence.finished.append(Finished(output.text, (), tuple(own)))
        if len(waiting) == AT_ONCE:
            yield from _align(waiting, codec, attends=attends)
            waiting = []
    yield from _align(waiting, codec, attends=attends)


def _outputs(texts: Sequence[SegmentedText], codec: Codec, language: str) -> Iterator[Unfinished]:
    """Yield the outputs of all sentences at all ranks, of texts with spans or tags."""
    space = separator(language)
    for text in texts:
        spans = text.protected.spans
        for sentence in () if text.is_plain else text.sentences:
            attempt = sentence.attempt
            for rank in range(min(map(len, attempt.hypotheses), default=1)):
                output = read_output(sentence, attempt, rank, codec.target, spans, space)
                yield text, sentence, rank, output


def _align(waiting: Sequence[Unfinished], codec: Codec, *, attends: bool) -> Steps[None]:
    pairs: list[tuple[Ints, Ints]] = []
    for text, sentence, rank, _ in waiting:
        pairs += text.sentence_pairs(sentence, rank)
    weights: Iterator[Any] = map(_by_position, pairs)
    if attends and pairs:
        weights = iter((yield Align(pairs)))
    for _, sentence, rank, output in waiting:
        own = [next(weights) for _ in sentence.attempt.segments]
        links = unit_links(sentence, sentence.attempt, rank, output, codec.source, own)
        sentence.finished.append(complete(sentence, output, links))


def _by_position(pair: tuple[Ints, Ints]) -> npt.NDArray[np.float32]:
    """Return an attention of each token to the source token at the same relative position."""
    source, target = map(len, pair)
    weights = np.zeros((target, source), np.float32)
    weights[np.arange(target), np.arange(target) * source // target] = 1
    return weights


def join_marked(text: SegmentedText, codec: Codec, language: str, *, align: bool) -> Translation:
    """Return the translations of a text with spans or tags."""
    space = separator(language)
    candidates, targets = [], []
    content: Inline | None = None
    for rank in range(text.nbest):
        target, links = _joined(text, rank, space)
        targets.append(target)
        if rank == 0 and not isinstance(text.content, str):
            source = text.protected.text
            lead = source[: len(source) - len(source.lstrip())]
            trail = source[len(source.rstrip()) :] if source.strip() else ""
            target = lead + target.strip() + trail
            content = place_tags(Aligned(source, target, links), text.protected)
        hypotheses = [best[rank] for best in text.hypotheses]
        candidates.append(
            Candidate(
                _text(text, target, links),
                sum((hypothesis.score for hypothesis in hypotheses), 0.0),
                sum((hypothesis.log_probability for hypothesis in hypotheses), 0.0),
                tuple(p for h in hypotheses for p in codec.target.pieces(h.tokens)),
                _word_links(text, target, links) if align else None,
            )
        )
    was_cut = not all(segment.begins for segment in text.segments)
    return Translation(
        *(text.text, tuple(candidates), max(1, len(text.segments)), was_cut),
        content=content,
        spans=tuple(_placed_spans(text, targets[0])),
    )


def _text(text: SegmentedText, target: str, links: Sequence[int]) -> str:
    """Return a translation as text; tags in a text are part of it, those of a document are not."""
    if not isinstance(text.content, str) or not text.protected.elements:
        return restore(target, text.protected.spans)
    placed = place_tags(Aligned(text.protected.text, target, links), text.protected)
    return "".join(part if isinstance(part, str) else str(part.data) for part in placed)


def checked(text: SegmentedText, translation: Translation) -> Translation:
    """Add terms, flags, and what the memory knew of a text, to its translation."""
    terms = tuple(term for sentence in text.sentences for term in _used_terms(sentence))
    flags = tuple(flag for sentence in text.sentences for flag in sentence.attempt.flags)
    memory = tuple(
        UsedMemory(restore(sentence.text, text.protected.spans), sentence.remembered)
        for sentence in text.sentences
        if sentence.remembered is not None
    )
    if not (terms or flags or memory):
        return translation
    return dataclasses.replace(translation, terms=terms, flags=flags, memory=memory)


def _used_terms(sentence: Sentence) -> Iterator[UsedTerm]:
    """Yield the terms of a sentence, and whether its best translation has them."""
    lost = sentence.attempt.lost
    if any(each.inserted for each in sentence.finished[:1]):
        # A span that was inserted may be between the words of a term.
        lost = missing(sentence.terms, sentence.finished[0].text)
    lost_ids = {id(match) for match in lost}
    for match in sentence.terms:
        yield UsedTerm(match.entry.source, match.entry.target, id(match) not in lost_ids)


def _placed_spans(text: SegmentedText, target: str) -> Iterator[PlacedSpan]:
    """Yield the spans of a text with how they came into a translation, and repeated tags.

    A model may write what it was not shown, and join a number with a digit: 15 km for 5 km.
    """
    spans, elements = text.protected.spans, text.protected.elements
    inserted = {number for s in text.sentences for number in s.finished[0].inserted}
    source, output = (restore(flat, spans) for flat in (text.protected.text, target))
    tags = [tag.data for each in elements for tag in (each.opening, each.closing)]
    tags = [tag for tag in tags if isinstance(text.content, str) and tag not in spans]
    counts = Counter(span for span in spans if isinstance(span, str))
    more: dict[str, int] = {}  # occurrences in the output than in the source
    for span in {*counts, *tags}:
        written, alone = len(find_literal(output, span)), len(find_literal(source, span))
        # In the source a letter may touch a span: the output may keep that or not.
        more[span] = max(0, written - max(alone, counts[span])) + min(0, written - alone)
    moved = _reordered(text, target)
    for number, span in enumerate(spans):
        if isinstance(span, str):
            placed: Placed = "aligned" if number in inserted else "copied"
            if number in moved:
                placed = "reordered"
            if more[span]:
                placed = "repeated" if more[span] > 0 else "joined"
            yield PlacedSpan(span, placed)
    yield from (PlacedSpan(tag, "repeated") for tag in dict.fromkeys(tags) if more[tag] > 0)


def _reordered(text: SegmentedText, target: str) -> set[int]:
    """Return the placeholders that stand for values by their order, if that has changed."""
    spans = text.protected.spans
    by_order = [n for n, span in enumerate(spans) if isinstance(span, str) and is_by_order(span)]
    written = [number for number in stand_ins(target) if number in by_order]
    return {new for new, old in zip(written, by_order, strict=False) if new != old}


def _joined(text: SegmentedText, rank: int, space: str) -> tuple[str, list[int]]:
    """Return the outputs of all sentences at a rank, with links to the units of the text."""
    starts = [start for start, _ in units(text.protected.text)]
    target, link_at = "", {}
    for index, sentence in enumerate(text.sentences):
        output = sentence.finished[min(rank, len(sentence.finished) - 1)]
        own = [start for start, _ in units(sentence.text)]
        linked = output.links or (NONE,) * len(units(output.text))
        written = output.text.strip() if len(text.sentences) > 1 else output.text
        spans = text.protected.spans
        target += _gap(sentence, target, written, space, spans) if index else ""
        for (begin, _), link in zip(units(written), linked, strict=True):
            if link != NONE:
                source = bisect_right(starts, sentence.start + own[link]) - 1
                link_at[len(target) + begin] = source
        target += written
    # Without a space between sentences, their last and first words may be one unit.
    return target, [link_at.get(begin, NONE) for begin, _ in units(target)]


def _gap(
    sentence: Sentence, before: str, output: str, space: str, spans: Sequence[str | Tag]
) -> str:
    """Return what is between a sentence's output and the outputs before it.

    If nothing is between the sentences themselves, a tag between them, such as <br>, is enough.
    """
    beside = STAND_IN.findall(before[-1:] + output[:1])
    has_tag = any(_is_tag(spans[span_index(character)]) for character in beside)
    return sentence.gap or ("" if has_tag else space)


def _is_tag(span: str | Tag) -> bool:
    return isinstance(span, Tag) or span.startswith("<")


def _word_links(text: SegmentedText, target: str, links: Sequence[int]) -> Links:
    """Return the links between words, as white space separates them once spans are restored."""
    source_words = _words_of_units(text.protected.text, text)
    target_words = _words_of_units(target, text)
    counts: dict[int, Counter[int]] = {}
    for word, link in zip(target_words, links, strict=True):
        if link != NONE:
            counts.setdefault(word, Counter())[source_words[link]] += 1
    return tuple((counts[word].most_common(1)[0][0], word) for word in sorted(counts))


def _words_of_units(flat: str, text: SegmentedText) -> list[int]:
    """Return for each unit the word that it begins in; a span may have several words."""
    words, word, position = [], -1, 0
    after_space = True
    for begin, end in units(flat):
        after_space |= any(character.isspace() for character in flat[position:begin])
        own = flat[begin:end]
        if STAND_IN.match(own):
            span = text.protected.spans[span_index(own)]
            own = span if isinstance(span, str) else ""
        if own:
            word += after_space or own[:1].isspace()
            after_space = own[-1:].isspace()
        words.append(max(word, 0))
        word += max(0, len(own.split()) - 1)
        position = end
    return words


def finished_sentences(
    text: SegmentedText, codec: Codec, language: str
) -> list[TranslatedSentence]:
    """Return the sentences of a text, each with its translations.

    A text with pairs of tags is returned as one: an element may have several sentences.
    """
    if text.protected.elements:
        whole = checked(text, join_marked(text, codec, language, align=False))
        marks = whole.terms, whole.flags, whole.spans
        return [TranslatedSentence("", text.text, whole.candidates, *marks)]
    join_all = join_sentences if text.is_plain else _sentences_with_spans
    return [
        dataclasses.replace(
            translated, terms=tuple(_used_terms(sentence)), flags=sentence.attempt.flags
        )
        if sentence.terms or sentence.attempt.flags
        else translated
        for sentence, translated in zip(
            text.sentences, join_all(text, codec, language), strict=True
        )
    ]


def _sentences_with_spans(
    text: SegmentedText, codec: Codec, language: str
) -> list[TranslatedSentence]:
    spans, space = text.protected.spans, separator(language)
    numbers = (number for number, span in enumerate(spans) if isinstance(span, str))
    placed = dict(zip(numbers, _placed_spans(text, _joined(text, 0, space)[0]), strict=False))
    several = len(text.sentences) > 1
    translated = []
    for index, sentence in enumerate(text.sentences):
        best = sentence.attempt.hypotheses
        candidates = []
        for rank, output in enumerate(sentence.finished):
            hypotheses = [each[rank] for each in best]
            candidates.append(
                Candidate(
                    restore(output.text.strip() if several else output.text, spans),
                    sum((hypothesis.score for hypothesis in hypotheses), 0.0),
                    sum((hypothesis.log_probability for hypothesis in hypotheses), 0.0),
                    tuple(p for h in hypotheses for p in codec.target.pieces(h.tokens)),
                )
            )
        before = text.sentences[index - 1].finished[0].text.rstrip() if index else ""
        after = sentence.finished[0].text.strip()
        gap = _gap(sentence, before, after, space, spans) if index else ""
        own = tuple(placed[number] for number in stand_ins(sentence.text) if number in placed)
        source = restore(sentence.text, spans)
        translated.append(TranslatedSentence(gap, source, tuple(candidates), spans=own))
    return translated
