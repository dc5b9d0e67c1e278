"""A vocabulary of symbols separated by spaces, for targets that are not text, such as trees."""

from collections.abc import Iterable
from typing import Any, Literal, Self

from transduce.subwords.base import SPECIAL, UNK, Coder


class Symbols(Coder):
    """A closed set of symbols in the order of their ids; all others are `<unk>`."""

    kind: Literal["symbols"] = "symbols"

    def __init__(self, symbols: Iterable[str]) -> None:
        """Make the vocabulary of these symbols; the special tokens are added."""
        self.names = [*SPECIAL, *symbols]
        for name in self.names[len(SPECIAL) :]:
            if not isinstance(name, str) or _split(name) != [name]:
                raise ValueError(f"{name!r} is not a symbol: expected text without spaces")
        self._ids = {name: number for number, name in enumerate(self.names)}
        if len(self._ids) < len(self.names):
            raise ValueError("a symbol occurs twice")

    @classmethod
    def learn(cls, lines: Iterable[str]) -> Self:
        """Make the vocabulary of all symbols in the lines, in alphabetical order."""
        return cls(sorted({symbol for line in lines for symbol in _split(line)} - {*SPECIAL}))

    def encode(self, text: str) -> list[int]:
        """Return the ids of symbols separated by spaces."""
        return [self._ids.get(symbol, UNK) for symbol in _split(text)]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the symbols of ids; `<pad>`, `<s>` and `</s>` are skipped."""
        return " ".join(self.names[piece] for piece in ids if piece >= UNK)

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each symbol; special tokens have none."""
        return [b"" if piece < len(SPECIAL) else f" {self.names[piece]}".encode() for piece in ids]

    def to_json(self) -> dict[str, Any]:
        """Return the content to store."""
        return {"symbols": self.names[len(SPECIAL) :]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the symbols from the result of `to_json`."""
        return cls(value["symbols"])


def _split(text: str) -> list[str]:
    """Return the symbols of a text, separated by spaces only."""
    return [symbol for symbol in text.split(" ") if symbol]
