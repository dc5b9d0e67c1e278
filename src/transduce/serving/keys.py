"""API keys: read from a file or the environment, and compared in constant time."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from transduce.errors import BadInput

VARIABLE, ADMIN_VARIABLE = "TRANSDUCE_KEY", "TRANSDUCE_ADMIN_KEY"
MIN_LENGTH = 16  # characters; random keys of this length cannot be guessed
MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))' prints one"

Headers = Iterable[tuple[bytes, bytes]]


class Keys:
    """The keys of a service. Only their digests are kept."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key.encode()) for key in keys)

    def find(self, given: bytes) -> int | None:
        """Return the index of a key; None if it is unknown.

        The key is compared with all keys, so that the time does not depend on it.
        """
        digest, index = _digest(given), None
        for number, known in enumerate(self._digests):
            if hmac.compare_digest(digest, known):
                index = number
        return index


def key_in(headers: Headers) -> bytes | None:
    """Return the key in a request's headers: Authorization first, then X-API-Key."""
    key = None
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
        if name == b"x-api-key":
            key = value.strip()
    return key


def read_keys(
    file: Path | None,
    environment: Mapping[str, str] = os.environ,
    *,
    option: str = "--key-file",
    variable: str = VARIABLE,
) -> tuple[Keys | None, str]:
    """Return the keys from a file and the environment (None: there are none), and a warning."""
    keys: dict[str, None] = {}
    warning = ""
    if file is not None:
        text, mode = _read(file, option)
        keys |= dict.fromkeys(_parse(text, str(file)))
        if not keys:
            raise BadInput(f"{file} holds no key: expected one on each line; {MAKE}")
        if mode & stat.S_IROTH:
            warning = f"{file} is readable by every user of this machine: chmod 600 {file}"
    if environment.get(variable, "").strip():
        keys |= dict.fromkeys(_parse(environment[variable], variable))
    return (Keys(keys) if keys else None), warning


def _read(file: Path, option: str) -> tuple[str, int]:
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(), os.fstat(stream.fileno()).st_mode
    except OSError as error:
        raise BadInput(f"{option} {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{option} {file} is not UTF-8: expected a key on each line") from None


def _parse(text: str, where: str) -> Iterator[str]:
    """Yield the keys in a text. Error messages never show a key."""
    for number, line in enumerate(text.splitlines(), start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise BadInput(
                f"line {number} of {where} cannot be sent in a header: expected a key of "
                f"ASCII letters, digits and signs, without spaces; {MAKE}"
            )
        if len(key) < MIN_LENGTH:
            raise BadInput(
                f"line {number} of {where} has a key of {len(key)} characters: expected at least "
                f"{MIN_LENGTH}, because short keys can be guessed; {MAKE}"
            )
        yield key


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
