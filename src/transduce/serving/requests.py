"""Reading requests: bodies within limits, disconnected clients, timeouts."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from transduce.serving.limits import Limits
from transduce.serving.problems import SHOWN, Problem, describe

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CLIENT_CLOSED = 499  # nginx's status for a client that disconnected before the answer

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def media_type(request: Request) -> str:
    """Return the type of a request's body without parameters; empty if it has none."""
    content_type: str = request.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


def require_type(request: Request, *expected: str) -> None:
    """Refuse a body whose type is not one of those expected."""
    actual = media_type(request)
    if actual not in expected:
        name = actual[:SHOWN] or "nothing"
        raise Problem(415, f"Content-Type = {name}: expected {' or '.join(expected)}")


async def read_body(
    request: Request, limits: Limits, *, size: int | None = None, seconds: float | None = None
) -> bytes:
    """Receive a body within the limits on size and time, or within other ones."""
    size = limits.body if size is None else size
    seconds = limits.receiving if seconds is None else seconds
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > size:
        raise _too_large(size)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem(CLIENT_CLOSED, "the client has disconnected")
                body += message.get("body", b"")
                if len(body) > size:
                    raise _too_large(size)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Problem(
            408, f"the body did not arrive within {seconds:g} seconds: send it again"
        ) from None


async def read_json(request: Request, limits: Limits, model: type[M]) -> M:
    """Receive JSON and parse it as a model, or describe the error."""
    require_type(request, JSON)
    body = await read_body(request, limits)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Problem(400, describe(error, model)) from None


async def run_while_connected(request: Request, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Do the work of a request; cancel it if the client disconnects or the time runs out."""
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_disconnect(request))
    try:
        tasks = (task, disconnect)
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if disconnect.done():
            raise Problem(CLIENT_CLOSED, "the client has disconnected")
        raise Problem(
            504, f"the answer took longer than {seconds:g} seconds: send less text at once"
        )
    finally:
        task.add_done_callback(_discard_error)
        task.cancel()
        disconnect.cancel()


def _discard_error(task: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a cancelled task; otherwise asyncio logs it, texts included."""
    if not task.cancelled():
        task.exception()


async def _disconnect(request: Request) -> None:
    """Return when the client closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(size: int) -> Problem:
    return Problem(413, f"the body is too large: at most {size:,} bytes are accepted")
