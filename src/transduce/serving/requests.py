"""Requests on their way in: bodies within limits, clients that leave, time that runs out."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from transduce.serving.limits import Limits
from transduce.serving.problems import Problem, in_words

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
GONE = 499  # nginx's number for a client that left before its answer

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


def media_type(request: Request) -> str:
    """Return the type of a request's body, without parameters; nothing if it has no type."""
    given: str = request.headers.get("content-type", "")
    return given.partition(";")[0].strip().lower()


def require_json(request: Request) -> None:
    """Refuse a body of another type."""
    found = media_type(request)
    if found != JSON:
        raise Problem(415, f"Content-Type = {found[:60] or 'nothing'}: expected {JSON}")


async def body_of(request: Request, limits: Limits) -> bytes:
    """Receive a body, no more of it than the limit and no longer than it may take."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > limits.body:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.receiving):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem(GONE, "the client has left")
                body += message.get("body", b"")
                if len(body) > limits.body:
                    raise _too_large(limits)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Problem(
            408, f"the body did not arrive within {limits.receiving:g} seconds: send it again"
        ) from None


def parsed(body: bytes, model: type[M]) -> M:
    """Read JSON as a model, or say what is wrong with it."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Problem(400, in_words(error, model)) from None


async def while_there(request: Request, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Do the work of a request, unless its client leaves or its time runs out."""
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((task, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if left.done():
            raise Problem(GONE, "the client has left")
        raise Problem(
            504, f"the answer took longer than {seconds:g} seconds: send less text at once"
        )
    finally:
        task.add_done_callback(_heard)
        task.cancel()
        left.cancel()


def _heard(task: "asyncio.Future[Any]") -> None:
    """Take note of an error that nobody waits for any longer, or asyncio would log what it says."""
    if not task.cancelled():
        task.exception()


async def _left(request: Request) -> None:
    """Return when the client closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(limits: Limits) -> Problem:
    return Problem(413, f"the body is too large: at most {limits.body:,} bytes are taken")
