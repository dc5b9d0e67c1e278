"""A vocabulary of whole symbols, with spaces between them: for what is no text, such as trees."""

from collections.abc import Iterable
from typing import Any, Literal, Self

from transduce.subwords.base import BOS, PAD, SPECIAL, UNK, Coder


class Symbols:
    """A closed set of symbols, in the order of their ids; what is not among them is unknown."""

    kind: Literal["symbols"] = "symbols"

    def __init__(self, symbols: Iterable[str]) -> None:
        """Take the symbols that there are, without the special tokens."""
        self.names = [*SPECIAL, *symbols]
        for name in self.names[len(SPECIAL) :]:
            if not isinstance(name, str) or _cut(name) != [name]:
                raise ValueError(f"{name!r} is no symbol: expected text without spaces")
        self._ids = {name: number for number, name in enumerate(self.names)}
        if len(self._ids) < len(self.names):
            raise ValueError("a symbol stands twice in it")

    @classmethod
    def learn(cls, lines: Iterable[str]) -> Self:
        """Take all symbols of some lines, in alphabetical order."""
        return cls(sorted({symbol for line in lines for symbol in _cut(line)} - {*SPECIAL}))

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Return the ids of symbols with spaces between them."""
        return [self._ids.get(symbol, UNK) for symbol in _cut(text)]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the symbols of ids; padding, begin and end are nothing."""
        return " ".join(self.names[one] for one in ids if one >= UNK)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each symbol, with a space before it."""
        return [self.names[one] if one < len(SPECIAL) else f" {self.names[one]}" for one in ids]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each symbol; those of special tokens are none."""
        return [b"" if one < len(SPECIAL) else f" {self.names[one]}".encode() for one in ids]

    def starts_word(self, piece: int) -> bool:
        """Tell that every symbol is a word of its own."""
        return piece >= len(SPECIAL)

    def forbidden_ids(self) -> list[int]:
        """Return the ids that may never come out of a search."""
        return [PAD, BOS, UNK]

    def same_vocabulary(self, other: Coder) -> bool:
        """Tell whether an id of the other means the same here."""
        return other is self

    def to_json(self) -> dict[str, Any]:
        """Return all there is to store."""
        return {"symbols": self.names[len(SPECIAL) :]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the symbols of what `to_json` returned; ValueError if it is something else."""
        try:
            return cls(value["symbols"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"it holds no symbols ({error})") from None


def _cut(text: str) -> list[str]:
    """Return the symbols of a text; only a space separates them."""
    return [symbol for symbol in text.split(" ") if symbol]
