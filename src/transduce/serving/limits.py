"""What the service takes, and for how long: one default a limit."""

from dataclasses import dataclass

BEAM = NBEST = 16  # at most, of a search
ALPHA = 10.0
RATE, PER_CLIENT = 600, 16  # of a client on another machine, unless said otherwise
SHARE = 0.5  # of the queue that one such client may fill


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much a request may ask for, and how much may wait."""

    characters: int = 50_000  # of the text of a request
    texts: int = 1_000  # of a request that is a list of them
    queue: int = 2_000  # sentences that wait or are searched, of all requests together
    wait: float = 4.0  # seconds that requests may wait for their turn, as far as can be told
    timeout: float = 60.0  # seconds for an answer
    rate: int | None = None  # requests a minute of a client; 0: without limit; None: as above
    per_client: int | None = None  # requests of a client at the same time; likewise
    connections: int = 1_000  # open at the same time, of all clients
    remember: int = 2_000  # sentences of each model whose translations are kept
    inspections: int = 8  # that wait or run
    weights: int = 8_000_000  # of an inspection that is sent: 21 MB
    receiving: float = 10.0  # seconds for a request to arrive, its head and its body each
    head: int = 65_536  # bytes of a request's line and headers

    @property
    def body(self) -> int:
        r"""Bytes of a request's body: JSON may write a character as \ud83d\ude00, URLs as %F0…."""
        return 12 * self.characters + 65_536

    def of_client(self, *, local: bool) -> tuple[int, int]:
        """Return the requests of a client in a minute and at the same time; 0: without limit.

        What is not said holds for other machines alone: this one's programs are its owner's.
        """
        rate = self.rate if self.rate is not None else 0 if local else RATE
        together = self.per_client if self.per_client is not None else 0 if local else PER_CLIENT
        return rate, together
