"""The interface of a reader under test, and structured changes of JSON."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import TransduceError
from transduce.system.files import checksum

Read = Callable[[bytes], None]


# Values that often cause errors.
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**12, 10**18, -(10**18), 10**400),
    *(0.5, -0.0, 1e308, 1e400, -1e400, float("nan")),
    *("", "a", "\0", "\ud800", "../../x", "/etc/passwd", "/dev/zero", "é" * 300, "0", "object"),
    *([], {}, [[]], [None], {"": None}, [0, 0], "x" * 5_000),
]


DEEP = b"[" * 5_000


class Wrong(Exception):
    """A result that is neither accepted input nor one of our errors."""


@dataclass(frozen=True)
class Material:
    """Real files, from which inputs are derived."""

    run: Path  # a small trained run
    marian: Path  # a Hugging Face folder


@dataclass(frozen=True)
class Reader:
    """A reader, valid inputs, and whether they are JSON."""

    read: Read
    seeds: list[bytes]
    is_json: bool = False

    def outcome(self, data: bytes) -> str:
        """Read an input; return the outcome, or raise an exception that is a bug."""
        try:
            self.read(data)
        except TransduceError as error:
            sentence = str(error)
            if not sentence.strip() or len(sentence) > 20_000:
                raise Wrong(f"an error of {len(sentence):,} characters") from error
            return "refused"
        return "taken"

    def mutated(self, data: bytes, draw: random.Random) -> bytes | None:
        """Return JSON with a few changed values, or None if the data is not JSON."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            value = changed(value, draw)
        try:
            return json.dumps(value).encode()
        except (ValueError, RecursionError):  # a number of 5,000 digits, or too deep
            return None


def changed(value: Any, draw: random.Random) -> Any:
    """Return a JSON value with one change."""
    places = list(_locations(value))
    odd = copy.deepcopy(draw.choice(ODD))
    if not places:
        return odd
    inside, key = draw.choice(places)
    match draw.randrange(6):
        case 0:
            del inside[key]
        case 1:
            other, of = draw.choice(places)
            if key in inside if isinstance(inside, dict) else key < len(inside):
                inside[key] = json.loads(json.dumps(other[of]))
        case 2 if isinstance(inside, dict):
            inside[draw.choice(["", "x", "format", "model", "../x", "N"])] = odd
        case 3 if isinstance(inside[key], int | float) and abs(inside[key]) < 1e300:
            inside[key] = draw.choice([inside[key] + 1, -inside[key], inside[key] * 10**9, 0])
        case _:
            inside[key] = odd
    return value


def _locations(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) for all values of a JSON value; only some of long lists."""
    pending = [value]
    while pending:
        container = pending.pop()
        keys = list(container)[:64] if isinstance(container, dict) else []
        if isinstance(container, list):
            keys = list(range(min(len(container), 8)))
        for key in keys:
            yield container, key
            if isinstance(container[key], dict | list):
                pending.append(container[key])


def with_checksum(data: bytes, version: int = 1) -> bytes:
    """Return a JSON object with a correct checksum; other data is unchanged."""
    try:
        content = json.loads(data)
        content.pop("sha256", None)
        content.setdefault("format", version)
        return json.dumps({"sha256": checksum(content), **content}).encode()
    except (ValueError, RecursionError, AttributeError, TypeError):
        return data


def check_json(value: Any) -> None:
    """Serialise a value as the service does; raise if it is not valid JSON."""
    from transduce.serving.problems import json_response

    json_response(value)
