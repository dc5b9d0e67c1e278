"""Flags: what is suspicious about a translation."""

import re
from dataclasses import dataclass
from typing import Literal

from transduce.text.words import HAS_UNSPACED, UNSPACED

Kind = Literal["repetition", "copy", "length", "script", "numbers", "confidence"]
KINDS: tuple[Kind, ...] = ("repetition", "copy", "length", "script", "numbers", "confidence")

PROTECTED = re.compile("[\U000f0000-\U000ffffd]+")  # stand for spans that are not translated
_WORDS = re.compile(r"\w+")
_CHARACTERS_OR_WORDS = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class Flag:
    """A reason to doubt a translation."""

    kind: Kind
    detail: str  # for people, with the numbers or words in question

    def to_json(self) -> dict[str, str]:
        """Return the flag as a JSON object."""
        return {"kind": self.kind, "detail": self.detail}


def words_of(text: str) -> list[str]:
    """Return the words of a text; in scripts without spaces, the characters."""
    if text.isascii() or not HAS_UNSPACED.search(text):
        return _WORDS.findall(text)
    return _CHARACTERS_OR_WORDS.findall(text)


def shortened(text: str, limit: int = 40) -> str:
    """Return the beginning of a text for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
