"""Copies: the output repeats the source instead of translating it."""

from collections import Counter
from collections.abc import Sequence

from transduce.markup import Span, find_spans
from transduce.text.words import HAS_UNSPACED
from transduce.translation.guard.flags import words_of

MIN_WORDS = 3  # ordinary words of a source that can be recognised as copied
MIN_CHARACTERS = 10  # in scripts without spaces between words: 東京大学 is the same in Chinese
COPIED = 0.8  # share of them that the output has
SHARED = 0.4  # share of all words, with punctuation, that a copy has at least


def find_copy(source: str, output: str) -> str | None:
    """Describe how far an output is a copy of its source.

    Only ordinary words count, those in small letters: names, acronyms, numbers and identifiers with
    capitals, digits or underscores may stay, and so may all of a URL, path, tag or code.
    """
    unspaced = not source.isascii() and HAS_UNSPACED.search(source) is not None
    if not unspaced:
        words = set(source.split())
        if len(words.intersection(output.split())) < SHARED * len(words):
            return None  # most translations end here
    spans = find_spans(source)
    ordinary = list(filter(is_ordinary, words_of(_without(source, spans) if spans else source)))
    if len(ordinary) < (MIN_CHARACTERS if unspaced else MIN_WORDS):
        return None
    copied = (Counter(ordinary) & Counter(words_of(output))).total()
    if copied < COPIED * len(ordinary):
        return None
    return f"{copied} of {len(ordinary)} words are those of the source"


def _without(text: str, spans: Sequence[Span]) -> str:
    for span in reversed(spans):
        text = f"{text[: span.start]} {text[span.end :]}"
    return text


def is_ordinary(word: str) -> bool:
    """Whether a word should change in translation: letters of one case, or without case."""
    return word.isalpha() and word == word.lower()
