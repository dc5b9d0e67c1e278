"""Flags: what is suspicious about a translation."""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["repetition", "copy", "length", "script", "numbers", "confidence"]
KINDS: tuple[Kind, ...] = ("repetition", "copy", "length", "script", "numbers", "confidence")

PROTECTED = re.compile("[\U000f0000-\U000ffffd]+")  # stand for spans that are not translated
# Scripts without spaces between words: each character counts as a word. Han and its extensions,
# kana, Thai, Lao, Tibetan, Myanmar, Khmer.
UNSPACED = (
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    "\u3041-\u309f\u30a0-\u30ff\uff66-\uff9f\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
)
HAS_UNSPACED = re.compile(f"[{UNSPACED}]")
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
