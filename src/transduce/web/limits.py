"""What the service takes, and for how long: one default a limit."""

from dataclasses import dataclass

BEAM = NBEST = 16  # at most, of a search
ALPHA = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much a request may ask for, and how much may wait."""

    characters: int = 50_000  # of the text of a request
    queue: int = 2_000  # sentences that wait or are searched, of all requests together
    timeout: float = 60.0  # seconds for an answer
    remember: int = 2_000  # sentences of each model whose translations are kept
    inspections: int = 8  # that wait or run
    weights: int = 8_000_000  # of an inspection that is sent: 21 MB
    receiving: float = 10.0  # seconds for a request to arrive, its head and its body each
    head: int = 65_536  # bytes of a request's line and headers

    @property
    def body(self) -> int:
        r"""Bytes of a request's body: JSON may write a character as \ud83d\ude00, URLs as %F0…."""
        return 12 * self.characters + 65_536
