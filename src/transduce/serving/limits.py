"""The limits of the service and their defaults."""

from dataclasses import dataclass

BEAM = NBEST = 16  # the maximum in a request
ALPHA = 10.0
GLOSSARY = 1_000  # entries of a glossary in a request
KEEP = 100  # words and phrases to keep, in a request
TERM = 100  # characters of each of these
RATE, PER_CLIENT = 600, 16  # defaults for clients on other machines
SHARE = 0.5  # the part of the queue that one such client may fill


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits on the size of requests and the queue, on connections, and on time."""

    characters: int = 50_000  # in the text of a request, or in a document
    texts: int = 1_000  # in one request
    queue: int = 2_000  # sentences that wait or are being searched, over all requests
    wait: float = 4.0  # estimated seconds until a request's turn; above this, the answer is 503
    timeout: float = 60.0  # seconds for an answer
    rate: int | None = None  # requests per minute and client; 0: no limit; None: RATE if remote
    per_client: int | None = None  # concurrent requests per client; 0 and None likewise
    connections: int = 1_000  # open at the same time, over all clients
    remember: int = 2_000  # cached sentences per model
    inspections: int = 8  # that wait or run at the same time
    weights: int = 8_000_000  # attention weights in one answer: 21 MB
    receiving: float = 10.0  # seconds for the head of a request, and for its body
    head: int = 65_536  # bytes of the request line and headers
    documents: int = 4  # that are received, read, translated or written at the same time
    # Of a Word document with its pictures; other formats: `body`. 0: no documents are accepted.
    document_bytes: int = 10 * 2**20
    uploading: float = 60.0  # seconds for a document to arrive
    downloads: int = 256 * 2**20  # bytes of translated documents that are kept
    keeping: float = 1_800.0  # seconds that each is kept

    @property
    def body(self) -> int:
        r"""Bytes in a request's body: a character may take 12 as \ud83d\ude00 or %F0…."""
        return 12 * self.characters + 65_536

    @property
    def document_markup(self) -> int:
        """Bytes of XML with text in a Word document, unpacked."""
        return 32 * self.characters + 65_536

    def for_client(self, *, local: bool) -> tuple[int, int]:
        """Return a client's limits: requests per minute, and concurrent requests; 0: no limit.

        The defaults apply to clients on other machines only.
        """
        rate = self.rate if self.rate is not None else 0 if local else RATE
        requests = self.per_client if self.per_client is not None else 0 if local else PER_CLIENT
        return rate, requests
