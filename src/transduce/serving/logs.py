"""What is logged: never a key, and no text of clients unless that is asked for."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import h11

LONGEST = 200  # characters of a path that a line shows
FORMAT = "%(asctime)s %(message)s"

logger = logging.getLogger("transduce.serving")


def to_stderr() -> None:
    """Write what is logged of requests to stderr, a line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def printable(text: str) -> str:
    """Write what could move a terminal's cursor or begin another line as an escape."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """Log that a request was answered; what stands behind the ? of its address is left out."""
    shown = printable(path[:LONGEST])
    logger.info("%s %s %d %.1f ms", printable(method[:20]), shown, status, 1000 * seconds)


def log_text(what: str, text: str) -> None:
    """Log a text of a client, whole, on one line."""
    logger.info("%s: %s", what, printable(text))


def log_defect(what: str, error: BaseException, *, in_full: bool = False) -> None:
    """Log where something went wrong; what an error says may hold a text, so only if `in_full`."""
    if in_full:
        logger.error("%s", what, exc_info=error)
    else:
        logger.error("%s: %s", what, without_words(error))


def without_words(error: BaseException) -> str:
    """Return the kinds of an error and of those behind it, with the lines of code: no values."""
    parts: list[str] = []
    one: BaseException | None = error
    while one is not None and len(parts) < 10:
        where = "".join(traceback.format_tb(one.__traceback__)).rstrip()
        parts.append(f"{type(one).__name__}, raised in\n{where}")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\nafter ".join(parts)


def of_loop(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log what the event loop reports, without the values that its own handler would show."""
    error = context.get("exception")
    if isinstance(error, h11.ProtocolError):  # bad HTTP from a client that already has its answer
        return
    if isinstance(error, Exception):
        log_defect("work that nobody waits for has failed", error)
    else:
        logger.error("the event loop: %s", printable(str(context.get("message", ""))))
