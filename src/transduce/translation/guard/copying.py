"""Copies: the output repeats the source instead of translating it."""

from collections import Counter
from collections.abc import Sequence

from transduce.markup import Span, find_spans
from transduce.translation.guard.flags import words_of

MIN_WORDS = 3  # ordinary words of a source that can be recognised as copied
COPIED = 0.8  # share of them that the output has


def find_copy(text: str, source: Sequence[str], output: Sequence[str]) -> str | None:
    """Describe how far an output is a copy of a text; `source` and `output` are words.

    Only ordinary words count, those in small letters: names, acronyms, numbers and identifiers with
    capitals, digits or underscores may stay, and so may all of a URL, path, tag or code.
    """
    common = set(source).intersection(output)
    if len(common) < 2 or sum(map(is_ordinary, common)) < 2:  # most translations end here
        return None
    if spans := find_spans(text):
        source = words_of(_without(text, spans))
    ordinary = [word for word in source if is_ordinary(word)]
    copied = (Counter(ordinary) & Counter(output)).total()
    if len(ordinary) < MIN_WORDS or copied < COPIED * len(ordinary):
        return None
    return f"{copied} of {len(ordinary)} words are those of the source"


def _without(text: str, spans: Sequence[Span]) -> str:
    for span in reversed(spans):
        text = f"{text[: span.start]} {text[span.end :]}"
    return text


def is_ordinary(word: str) -> bool:
    """Whether a word should change in translation: letters of one case, or without case."""
    return word.isalpha() and word == word.lower()
