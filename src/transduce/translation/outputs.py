"""The output of a sentence with spans: text with stand-ins, checked and aligned."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transduce.markup.inline import Tag
from transduce.markup.placing import NONE, Aligned, insert_spans, units
from transduce.markup.protected import STAND_IN, find_literal, stand_in, stand_ins
from transduce.subwords import UNK, Coder
from transduce.translation.model_input import OBJECT, Mode
from transduce.translation.segments import Attempt, Finished, Sentence

Weights = npt.NDArray[np.float32]
NO_TOKEN = -1
VISIBLE = re.compile(r"\S+")


@dataclass(slots=True)
class Output:
    """A translation of a sentence, with stand-ins for the spans that the model copied."""

    text: str
    owners: list[int]  # for each character the number of its token in the sentence, or NO_TOKEN
    missing: list[int]  # spans of the sentence that it lacks
    surplus: bool = False  # a span occurs more often than in the sentence


def read_output(
    sentence: Sentence,
    attempt: Attempt,
    rank: int,
    coder: Coder,
    spans: Sequence[str | Tag],
    space: str,
) -> Output:
    """Return the output of an attempt at a rank.

    Spans are recognised by the model's sentinels, or by their own text.
    """
    if sentence.remembered is not None:
        remembered = Output(sentence.remembered, [NO_TOKEN] * len(sentence.remembered), [])
        _recognise_literal(remembered, stand_ins(sentence.text), spans)
        return remembered
    if not attempt.segments:  # only spans
        return Output(sentence.text, [NO_TOKEN] * len(sentence.text), [])
    characters: list[str] = []
    owners: list[int] = []
    first = 0
    for best in attempt.hypotheses:
        tokens = best[rank].tokens
        text, text_owners = _decode(tokens, coder, attempt.shown.sentinels, first)
        if len(attempt.hypotheses) > 1:
            begin = len(text) - len(text.lstrip())
            text = text.strip()
            text_owners = text_owners[begin : begin + len(text)]
        if characters:
            characters += space
            owners += [NO_TOKEN] * len(space)
        characters += text
        owners += text_owners
        first += len(tokens)
    output = Output("".join(characters), owners, [])
    expected = stand_ins(sentence.text)
    _drop_repeated(output)
    _recognise_literal(output, [n for n in expected if stand_in(n) not in output.text], spans)
    present = {*stand_ins(output.text)}
    output.missing = [number for number in expected if number not in present]
    return output


def spans_survive(output: Output, mode: Mode, spans: Sequence[str | Tag]) -> bool:
    """Return whether the model wrote the spans that it was shown as text, each once."""
    if mode is not Mode.TEXT:
        return True
    return not output.surplus and all(isinstance(spans[n], Tag) for n in output.missing)


def _decode(
    tokens: Sequence[int], coder: Coder, sentinels: Sequence[int], first: int
) -> tuple[str, list[int]]:
    """Return the text of tokens with stand-ins, and the token of each character.

    Only sentinels are stand-ins. A model may also write private-use characters as text, which
    would be taken for stand-ins of other spans.
    """
    spans = dict(zip(coder.sentinels, map(stand_in, sentinels), strict=False))
    pieces = [
        spans.get(token, "").encode() if token in coder.sentinels else piece
        for token, piece in zip(tokens, coder.piece_bytes(tokens), strict=True)
    ]
    text, starts = _characters(pieces)
    owners = [first + token for token, count in enumerate(starts) for _ in range(count)]
    for match in STAND_IN.finditer(text):
        if tokens[owners[match.start()] - first] not in spans:
            text = text[: match.start()] + "\N{REPLACEMENT CHARACTER}" + text[match.end() :]
    return (text[1:], owners[1:]) if text.startswith(" ") else (text, owners)


def _characters(pieces: Sequence[bytes]) -> tuple[str, list[int]]:
    """Return the text of pieces, and how many characters begin in each piece."""
    data = b"".join(pieces)
    text = data.decode("utf-8", errors="surrogateescape")
    lengths = (len(letter.encode("utf-8", errors="surrogateescape")) for letter in text)
    starts = np.cumsum([0, *lengths])[:-1]
    ends = np.cumsum([len(piece) for piece in pieces])
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    return re.sub("[\udc80-\udcff]", "\N{REPLACEMENT CHARACTER}", text), counts.tolist()


def _drop_repeated(output: Output) -> None:
    """Keep the first of equal stand-ins."""
    for match in reversed([*STAND_IN.finditer(output.text)]):
        if output.text.index(match[0]) < match.start():
            output.surplus = True
            after_space = output.text[match.start() - 1] == " "
            _replace(output, match.start() - after_space, match.end(), "")


def _recognise_literal(output: Output, wanted: Sequence[int], spans: Sequence[str | Tag]) -> None:
    """Replace spans that the model wrote as text by their stand-ins, longest first."""
    numbers: dict[str, list[int]] = {}
    for number in wanted:
        span = spans[number]
        if isinstance(span, str):
            numbers.setdefault(span, []).append(number)
    for span in sorted(numbers, key=lambda text: (-len(text), text)):
        found = find_literal(output.text, span)
        output.surplus |= len(found) > len(numbers[span])
        for (begin, end), number in reversed([*zip(found, numbers[span], strict=False)]):
            _replace(output, begin, end, stand_in(number))


def _replace(output: Output, begin: int, end: int, text: str) -> None:
    owner = next((o for o in output.owners[begin:end] if o != NO_TOKEN), NO_TOKEN)
    output.text = output.text[:begin] + text + output.text[end:]
    output.owners[begin:end] = [owner] * len(text)


def unit_links(
    sentence: Sentence,
    attempt: Attempt,
    rank: int,
    output: Output,
    coder: Coder,
    weights: Sequence[Weights],
) -> list[int]:
    """Return, for each unit of an output, the unit of the sentence that it attends to most.

    `weights` is the attention of each segment's hypothesis.
    """
    target_units = units(output.text)
    target_of: list[list[int]] = [[] for _ in range(sum(map(len, _tokens(attempt, rank))))]
    for number, (begin, end) in enumerate(target_units):
        for owner in {*output.owners[begin:end]} - {NO_TOKEN}:
            target_of[owner].append(number)
    starts = [start for start, _ in units(sentence.text)]
    source_of = [
        [] if position == NONE else [bisect_right(starts, position) - 1]
        for position in source_positions(attempt, coder)
    ]
    links, strongest = [NONE] * len(target_units), [0.0] * len(target_units)
    first, source_first = 0, 0
    # One segment at a time: the matrices of all together would be large.
    for segment, tokens, matrix in zip(
        attempt.segments, _tokens(attempt, rank), weights, strict=True
    ):
        size, count = len(segment.ids), len(tokens)
        to_target, target_first = _membership(target_of[first : first + count])
        to_source, unit_first = _membership(source_of[source_first : source_first + size])
        first, source_first = first + count, source_first + size
        received = to_target.T @ matrix[:count, :size] @ to_source
        if not received.size:
            continue
        best = zip(received.argmax(1).tolist(), received.max(1).tolist(), strict=True)
        for number, (unit, weight) in enumerate(best, start=target_first):
            if weight > strongest[number]:
                links[number], strongest[number] = unit_first + unit, weight
    return links


def _tokens(attempt: Attempt, rank: int) -> list[list[int]]:
    return [best[rank].tokens for best in attempt.hypotheses]


def _membership(units_of: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.float64], int]:
    """Return a matrix with 1 where a token is part of a unit, and its first unit. (token, unit)."""
    numbers = [unit for each in units_of for unit in each]
    first = min(numbers, default=0)
    matrix = np.zeros((len(units_of), max(numbers, default=first - 1) + 1 - first))
    for token, each in enumerate(units_of):
        for unit in each:
            matrix[token, unit - first] = 1
    return matrix, first


def source_positions(attempt: Attempt, coder: Coder) -> list[int]:
    """Return where each source token begins in the sentence, or NONE if it has no visible text.

    The translation of a term, which the model is shown, stands where the term ends.
    """
    tags = range(coder.first_tag, coder.first_tag + len(coder.tags))
    ids = [token for segment in attempt.segments for token in segment.ids]
    without_text = {UNK, *coder.sentinels, *(coder.term_markers or ())}
    pieces = [
        OBJECT.encode() if token in without_text else piece
        for token, piece in zip(ids, coder.piece_bytes(ids), strict=True)
    ]
    text, counts = _characters(pieces)
    shown = attempt.shown
    places = _places(text, shown.text)
    result = []
    end = 0
    for token, count in zip(ids, counts, strict=True):
        # A piece without a character of its own continues the last one.
        begin, end = max(0, end - (count == 0)), end + count
        visible = (n for n in range(begin, end) if not text[n].isspace())
        first = next(visible, None) if token not in tags else None
        result.append(NONE if first is None else shown.positions[places[first]])
    return result


def _places(read: str, shown: str) -> Sequence[int]:
    """Return where each character that a model reads is in the text that it was shown.

    Subwords begin with a space, and may normalise the text: words are then matched in order.
    """
    if read.removeprefix(" ") == shown:
        return range(len(shown) - len(read), len(shown))
    words, others = ([match.span() for match in VISIBLE.finditer(text)] for text in (read, shown))
    if len(words) != len(others):
        return [place * len(shown) // len(read) for place in range(len(read))]
    places = [0] * len(read)
    for (begin, end), (start, stop) in zip(words, others, strict=True):
        for place in range(begin, end):
            places[place] = start + (place - begin) * (stop - start) // (end - begin)
    return places


def complete(sentence: Sentence, output: Output, links: Sequence[int]) -> Finished:
    """Insert the missing spans of an output by its alignment."""
    if not output.missing:
        return Finished(output.text, (), tuple(links))
    text = insert_spans(Aligned(sentence.text, output.text, links), output.missing)
    inserted = {stand_in(number) for number in output.missing}
    rest = iter(links)
    new_links = (NONE if text[begin] in inserted else next(rest) for begin, _ in units(text))
    return Finished(text, tuple(output.missing), tuple(new_links))
