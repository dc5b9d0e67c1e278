"""Repetition: the output says something several times in a row, or a phrase again and again."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq

from transduce.text.words import HAS_UNSPACED
from transduce.translation.guard.flags import shortened, words_of

MAX_PERIOD = 100  # words of the longest loop that is recognised
LONG_WORD = 15  # characters from which a loop inside a word is looked for
MARKS = re.compile(r"([^\w\s])(?:\s*\1){5,}")  # "! ! ! ! ! !"
IN_WORD = re.compile(r"(.{1,8}?)\1{3,}")  # "ababababab"
# A loop of this many words must come at least so often; longer ones twice.
TIMES = {1: 3, 2: 2}
TIMES_UNSPACED = {1: 5, 2: 3, 3: 3}  # of characters: 哈哈哈 and 天天 are words
PHRASE, PHRASE_UNSPACED = 5, 10  # words or characters of a phrase that comes again later


def find_repetition(source: str, output: str) -> str | None:
    """Describe a repetition in an output that the source does not have."""
    if (match := MARKS.search(output)) and not MARKS.search(source):
        return f"{match[1]!r} again and again"
    words = words_of(output.lower())
    for word in words:
        if len(word) < LONG_WORD or not (match := IN_WORD.search(word)):
            continue
        if word not in source.lower():
            return f"{match[1]!r} again and again in {shortened(word)!r}"
    duplicates = len(words) - len(set(words))
    loop = _loop(words, duplicates)
    if not loop and duplicates < PHRASE:  # most translations end here
        return None
    before = words_of(source.lower())
    if loop:
        in_source = _loop(before, len(before) - len(set(before)))
        if not in_source or in_source.times < loop.times:
            return f"{_joined(loop.phrase)!r} {loop.times} times in a row"
    return _repeated_phrase(before, words) if duplicates >= PHRASE else None


@dataclass(frozen=True, slots=True)
class Loop:
    """A phrase that comes several times in a row."""

    phrase: Sequence[str]
    times: int


def _loop(words: Sequence[str], duplicates: int) -> Loop | None:
    """Return the first loop with the shortest period.

    In a loop of period p that comes r times, (r - 1) p words equal those p before.
    """
    if duplicates <= 0:
        return None
    unspaced = HAS_UNSPACED.match(words[-1]) is not None
    needed = TIMES_UNSPACED if unspaced else TIMES
    for period in range(1, min(duplicates, MAX_PERIOD) + 1):
        shortest = (needed.get(period, 2) - 1) * period
        if shortest > duplicates:
            continue
        equal = bytes(map(eq, words[period:], words))
        start = equal.find(b"\x01" * shortest)
        if start >= 0:
            end = equal.find(b"\x00", start)
            length = (end if end >= 0 else len(equal)) - start
            return Loop(words[start : start + period], length // period + 1)
    if 2 * duplicates == len(words) == 2 and not unspaced:  # "Why? Why?": the whole output
        return Loop(words[:1], 2)
    return None


def _repeated_phrase(source: Sequence[str], output: Sequence[str]) -> str | None:
    """Describe a phrase that comes again later, unless the source repeats as many words."""
    unspaced = HAS_UNSPACED.match(output[-1]) is not None
    phrases = _phrases(output, PHRASE_UNSPACED if unspaced else PHRASE)
    extra = len(phrases) - len(set(phrases))
    if not extra:
        return None
    in_source = _phrases(source, 2)  # a short phrase may have a long translation
    if extra <= len(in_source) - len(set(in_source)):
        return None
    counts = Counter(phrases)
    return f"{_joined(next(phrase for phrase in phrases if counts[phrase] > 1))!r} more than once"


def _phrases(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[offset:] for offset in range(size)), strict=False))


def _joined(words: Sequence[str]) -> str:
    unspaced = HAS_UNSPACED.match(words[-1])
    return shortened(("" if unspaced else " ").join(words))
