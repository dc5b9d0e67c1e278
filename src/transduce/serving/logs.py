"""The log of the service. It never contains keys, and contains clients' texts only on request."""

import asyncio
import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Any

import h11

MAX_PATH = 200  # characters of a path that are logged
FORMAT = "%(asctime)s %(message)s"

logger = logging.getLogger("transduce.serving")


def log_to_stderr() -> None:
    """Write the log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def printable(text: str) -> str:
    """Escape control characters and line breaks."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """Log an answered request, without its query string."""
    path = printable(path[:MAX_PATH])
    logger.info("%s %s %d %.1f ms", printable(method[:20]), path, status, 1000 * seconds)


def log_text(text: str) -> None:
    """Log a client's text in full, on one line."""
    logger.info("text: %s", printable(text))


def log_error(what: str, error: BaseException, *, in_full: bool = False) -> None:
    """Log an error; its message may quote a text, so it is logged only if `in_full`."""
    if in_full:
        logger.error("%s", what, exc_info=error)
    else:
        logger.error("%s: %s", what, traceback_without_values(error))


def traceback_without_values(error: BaseException) -> str:
    """Return the classes of an error and its causes with their tracebacks, without messages."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 10:
        lines = "".join(traceback.format_tb(cause.__traceback__)).rstrip()
        parts.append(f"{type(cause).__name__}, raised in\n{lines}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\nafter ".join(parts)


def log_loop_error(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log an error in the event loop, without the values that asyncio's handler would show."""
    error = context.get("exception")
    if isinstance(error, h11.ProtocolError):  # bad HTTP from a client that already has its answer
        return
    if isinstance(error, Exception):
        log_error("background task failed", error)
    else:
        logger.error("event loop: %s", printable(str(context.get("message", ""))))
