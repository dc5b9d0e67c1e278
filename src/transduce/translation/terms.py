"""Put a term where the output has another word for it: the beginning of the next search.

The beginning is the output up to the words that are aligned with the term, and the translation of
the term. The model continues it, so that the rest of the sentence fits the term.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from transduce.glossary import Match
from transduce.markup.placing import units
from transduce.subwords import Coder
from transduce.translation.outputs import NO_TOKEN, Output
from transduce.translation.segments import Attempt, Sentence


def beginning_with_term(
    sentence: Sentence, attempt: Attempt, output: Output, links: Sequence[int], coder: Coder
) -> tuple[int, ...] | None:
    """Return the tokens of an output up to its first lost term, with the term's translation.

    `links` has the sentence's unit of each unit of the output. None: no word behind the beginning
    of the attempt is aligned with a lost term.
    """
    source_units, target_units = units(sentence.text), units(output.text)
    places: list[tuple[int, Match]] = []
    for match in attempt.lost:
        first = bisect_right(source_units, match.start, key=lambda unit: unit[1])
        last = bisect_left(source_units, match.end, key=lambda unit: unit[0])
        for (start, _), link in zip(target_units, links, strict=True):
            token = _first_token(output, start)
            if first <= link < last and token is not None and token >= len(attempt.prefix):
                places.append((token, match))
                break
    if not places:
        return None
    token, match = min(places, key=lambda place: place[0])
    target = match.entry.target
    if token == 0 and not match.entry.case:
        target = target[:1].upper() + target[1:]
    return (*attempt.hypotheses[0][0].tokens[:token], *coder.encode(target))


def _first_token(output: Output, start: int) -> int | None:
    """Return the first token of a word, its space included; None if no word begins here."""
    if start == 0:
        return 0
    token = output.owners[start - 1]
    if not output.text[start - 1].isspace() or token in (NO_TOKEN, output.owners[start - 2]):
        return None
    return token
