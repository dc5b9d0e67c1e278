"""What every kind of subwords has in common: the special tokens, and what may be asked of them."""

import functools
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

from tokenizers import Encoding

from transduce.errors import BadInput

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # in the order of their ids

AnyKind = Literal["bpe", "wordpiece", "sentencepiece"]  # the last comes with imported models


class Coder(Protocol):
    """Text to ids and back, for one language, or for both where the vocabulary is joint."""

    names: list[str]  # of all ids, each once

    @property
    def kind(self) -> AnyKind | Literal["symbols"]:
        """The kind of the subwords; symbols are what they are, and no text."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, with no special tokens added."""

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; padding, begin and end are nothing."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each piece for people to read: its text, with its space if it begins a word."""

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each piece; those of special tokens are none."""

    def starts_word(self, piece: int) -> bool:
        """Tell whether a piece begins a word."""

    def forbidden_ids(self) -> list[int]:
        """Return the ids that may never come out of a search.

        These are pad, begin, unknown, and every piece that would end a line or that no text file
        may hold: one line in is one line out.
        """

    def same_vocabulary(self, other: "Coder") -> bool:
        """Tell whether an id of the other means the same here: whether one vocabulary is shared."""

    def to_json(self) -> dict[str, Any]:
        """Return all there is to store."""


def encodings(encode: Callable[..., list[Encoding]], texts: list[str]) -> list[Encoding]:
    """Encode texts by a function of `tokenizers`, or say which of them is no text."""
    try:
        return encode(texts, add_special_tokens=False)
    except TypeError:
        for number, text in enumerate(texts, start=1):
            if any(unicodedata.category(letter) == "Cs" for letter in text):
                raise BadInput(
                    f"text {number:,} of {len(texts):,} holds half a surrogate pair: "
                    "expected text that can be written as UTF-8"
                ) from None
        raise


@functools.cache
def readable(piece: bytes) -> str:
    r"""Write a piece for people: part of a character as <0xE2>, a control character as \n."""
    text = piece.decode("utf-8", errors="surrogateescape")
    return "".join(map(_shown, text))


def _shown(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "Cs":  # a byte that is part of no character here: surrogateescape adds 0xDC00
        return f"<0x{ord(letter) - 0xDC00:02X}>"
    return ascii(letter)[1:-1] if category == "Cc" else letter
