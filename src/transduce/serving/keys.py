"""Keys that clients show: where they come from, and whether one is right."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from transduce.errors import BadInput

VARIABLE = "TRANSDUCE_KEY"
SHORTEST = 16  # characters; of random ones, more than can ever be tried
MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))' writes one"

Headers = Iterable[tuple[bytes, bytes]]


class Keys:
    """The keys that a service takes, of which it holds the digests alone."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key.encode()) for key in keys)

    def find(self, given: bytes) -> int | None:
        """Return the place of a key among them; None: it is none of them.

        Every key is compared whole, so that the time tells nothing of any.
        """
        digest, found = _digest(given), None
        for place, own in enumerate(self._digests):
            if hmac.compare_digest(digest, own):
                found = place
        return found


def shown_in(headers: Headers) -> bytes | None:
    """Return the key that a request's headers show: that of Authorization, else of X-API-Key."""
    found = None
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
        if name == b"x-api-key":
            found = value.strip()
    return found


def read_keys(
    file: Path | None, environment: Mapping[str, str] = os.environ
) -> tuple[Keys | None, str]:
    """Return the keys of a file and of the environment, None without any, and what to warn of."""
    found: dict[str, None] = {}
    warning = ""
    if file is not None:
        text, mode = _read(file)
        found |= dict.fromkeys(_keys_of(text, str(file)))
        if not found:
            raise BadInput(f"{file} holds no key: expected one on each line; {MAKE}")
        if mode & stat.S_IROTH:
            warning = f"{file} can be read by every user of this machine: chmod 600 {file}"
    if environment.get(VARIABLE, "").strip():
        found |= dict.fromkeys(_keys_of(environment[VARIABLE], VARIABLE))
    return (Keys(found) if found else None), warning


def _read(file: Path) -> tuple[str, int]:
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(), os.fstat(stream.fileno()).st_mode
    except OSError as error:
        raise BadInput(f"--key-file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"--key-file {file} is no text: expected a key on each line") from None


def _keys_of(text: str, where: str) -> Iterator[str]:
    """Yield the keys of a text; what is said of a wrong one does not show it."""
    for number, line in enumerate(text.splitlines(), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise BadInput(
                f"line {number} of {where} holds what no header can carry: expected a key of "
                f"ASCII letters, digits and signs, without spaces; {MAKE}"
            )
        if len(key) < SHORTEST:
            raise BadInput(
                f"line {number} of {where} has a key of {len(key)} characters: expected at least "
                f"{SHORTEST}, or it could be guessed; {MAKE}"
            )
        yield key


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
