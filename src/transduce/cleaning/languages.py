"""Sides in another language or script than they should be.

Most lines are settled by frequent words of their language. Only lines without them are given to
the library, if it is installed; without it, a line is found by frequent words of other languages.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from transduce.text.identification import (
    frequent_words,
    identify,
    most_frequent,
    same_language,
)
from transduce.text.languages import UNKNOWN, language_code
from transduce.translation.guard.scripts import LETTERS, SCRIPTS

MIN_FOREIGN = 3  # letters
MIN_WORDS = 4  # of a line whose language is identified
MIN_LETTERS = 20


class SideLanguage:
    """Checks the language of one side."""

    def __init__(self, language: str, other: str, probability: float, *, library: bool) -> None:
        self.language = language_code(language)
        self.known = language not in UNKNOWN
        self.probability, self.library = probability, library
        self.own = frequent_words(language, other)
        self.opposite = frequent_words(other, language)
        self.scripts = SCRIPTS.get(self.language, set()) if self.known else set()
        self.foreign = _outside(frozenset(self.scripts)) if self.scripts else None
        # A language that is the only one in its script needs no identification.
        shared = [code for code, names in SCRIPTS.items() if names & self.scripts]
        self.alone = len(shared) <= 1

    def wrong_script(self, text: str, letters: int, limit: float) -> bool:
        """Return whether too many letters are of scripts that the language does not use."""
        if self.foreign is None or (text.isascii() and "Latin" in self.scripts):
            return False
        found = len(self.foreign.findall(text))
        return found >= MIN_FOREIGN and found > limit * letters

    def wrong_language(self, text: str, words: Sequence[str], letters: int) -> bool:
        """Return whether a text, given with its words without case, is in another language."""
        if not self.known or self.alone or len(words) < MIN_WORDS or letters < MIN_LETTERS:
            return False
        found = set(words)
        own, opposite = len(found & self.own), len(found & self.opposite)
        if own > opposite and (own > 1 or len(words) < 12):
            return False
        if opposite >= 3 and opposite > 2 * own:
            return True
        if not self.library:
            return own == 0 and most_frequent(found, self.language) is not None
        best, *others = identify(text)
        if same_language(best.language, self.language):
            return False
        expected = [g.probability for g in others if same_language(g.language, self.language)]
        return best.probability >= self.probability and sum(expected) < 0.2


@lru_cache(maxsize=32)
def _outside(scripts: frozenset[str]) -> re.Pattern[str]:
    ranges = "".join(ranges for name, ranges in LETTERS.items() if name not in scripts)
    return re.compile(f"[{ranges}]")
