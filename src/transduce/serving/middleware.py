"""Middleware: checks the host, key and rate of every request, and adds headers to answers."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

import h11
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serving.access import Access
from transduce.serving.clients import Clients, Visitor
from transduce.serving.connections import Idle
from transduce.serving.keys import shown_in
from transduce.serving.limits import Limits
from transduce.serving.logs import log_defect, log_request
from transduce.serving.metrics import Metrics
from transduce.serving.origins import PREFLIGHT, Headers, Sites, is_preflight
from transduce.serving.problems import Problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
UNUSED = (
    *("accelerometer", "browsing-topics", "camera", "display-capture", "geolocation", "gyroscope"),
    *("magnetometer", "microphone", "midi", "payment", "usb", "xr-spatial-tracking"),
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"permissions-policy", ", ".join(f"{one}=()" for one in UNUSED).encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
PRIVATE = (b"cache-control", b"no-store")  # for answers that are not files: they may hold a text
HEALTH = "/health"  # monitoring needs no key and has no rate limit
LATE_KEYS = {"/translate", "/detect"}  # LibreTranslate's clients send theirs as a parameter
DRAINED, DRAINING = 16 * 2**20, 2.0  # most bytes and seconds of a refused body that are read
VISITOR = "transduce.visitor"

Endpoint = Callable[[Request], Awaitable[Response]]


class BrokenOff(Exception):
    """An answer that had begun cannot go on; what was wrong has been logged."""


class NotRead(Exception):
    """A client does not read its answer."""


class Exchange:
    """A request and its answer on their way through the guard."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        self._receive, self._send = receive, send
        self._seconds = seconds  # to wait for a client that does not read
        self._chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
        self._closing = (b"connection", b"close") in scope["headers"]
        self._length = max(
            (_length(v) for k, v in scope["headers"] if k == b"content-length"), default=0
        )
        self._whole = False  # the body was received to its end
        self.status = 0  # of the answer; 0 until it begins
        self.more: Headers = []  # further headers of the answer

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        self._whole = self._whole or not message.get("more_body", False)
        return message

    async def _drain(self) -> None:
        """Receive the rest of the body, if the connection is closed after the answer.

        Otherwise the system resets the connection, and a client that still sends misses the answer.
        """
        if self._closing and self._length <= DRAINED:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAINING):
                    while self._length and not self._whole:
                        await self.receive()

    async def send(self, message: Message) -> None:
        """Send a part of the answer, its headers completed."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400 and self.status != 408:  # that has waited for the body already
                await self._drain()
            message["headers"] = _with_ours(message["headers"], self.more)
            if self._chunked and not self._whole:  # the rest is not read: chunks are slow to parse
                message["headers"].append((b"connection", b"close"))
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            raise NotRead from None
        except h11.LocalProtocolError:  # bad HTTP followed the headers: uvicorn has answered 400
            while (await self._receive())["type"] != "http.disconnect":
                pass


class ServiceMiddleware:
    """ASGI middleware around the whole app."""

    def __init__(
        self,
        app: ASGIApp,
        measures: Metrics,
        known: Collection[str],
        free: Collection[str],
        posts: Mapping[str, Endpoint],
        limits: Limits,
        access: Access,
        idle: Idle,
    ) -> None:
        """Count requests to `known` paths by name; those to `free` paths need no key.

        A POST request goes straight to its function, which reads and checks it. The layers of
        FastAPI would take a third of the time that a request costs besides its search.
        """
        self.app, self.measures, self.known, self.free = app, measures, known, free
        self.posts, self.access, self.idle = posts, access, idle
        self.connections, self.timeout = limits.connections, limits.timeout
        self.sites = Sites(access.names, access.origins)
        self.clients = Clients(limits, access.keys, access.proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server knows what it was, and sends the head
        begin = time.perf_counter()
        exchange = Exchange(scope, receive, send, self.timeout)
        visitor = scope[VISITOR] = self.clients.visitor(scope)
        self.idle.begin(scope)
        try:
            await self._answer(scope, exchange, visitor)
        except NotRead:
            pass  # uvicorn closes the connection
        except Exception as error:
            problem = self._told(scope, error)
            if exchange.status:  # the answer has begun
                raise BrokenOff from None
            with contextlib.suppress(NotRead):
                await problem.response()(scope, exchange.receive, exchange.send)
        finally:
            visitor.leave()
            self.idle.end(scope)
            seconds = time.perf_counter() - begin
            self.measures.answered(self._name(scope), exchange.status, seconds)
            if self.access.log_requests:
                log_request(scope["method"], scope["path"], exchange.status, seconds)

    async def _answer(self, scope: Scope, exchange: Exchange, visitor: Visitor) -> None:
        exchange.more += self.sites.check(scope)
        if exchange.more and is_preflight(scope):
            preflight = Response(status_code=204, headers=PREFLIGHT)
            await preflight(scope, exchange.receive, exchange.send)
            return
        self._let_in(scope, visitor)
        if scope["method"] == "POST" and (post := self.posts.get(scope["path"])):
            response = await post(Request(scope, exchange.receive))
            await response(scope, exchange.receive, exchange.send)
        else:
            await self.app(scope, exchange.receive, exchange.send)

    def _let_in(self, scope: Scope, visitor: Visitor) -> None:
        """Refuse clients without a required key, and clients over their limits."""
        if not scope["query_string"].isascii():  # the layers below would decode it
            raise Problem(400, "the query holds bytes that are not ASCII: write é as %C3%A9")
        path = scope["path"]
        if path == HEALTH:
            return
        if self.idle.requests > self.connections:
            raise Problem(
                503,
                f"{self.connections:,} requests are in progress already: try again in a second",
                {"Retry-After": "1"},
            )
        key = None if self.access.keys is None else shown_in(scope["headers"])
        visitor.enter(key, free=path in self.free or (key is None and path in LATE_KEYS))

    def _told(self, scope: Scope, error: Exception) -> Problem:
        """Return the answer to a client for an error; the log has the details."""
        if isinstance(error, Problem):
            return error
        what = f"a request to {self._name(scope)} has failed"
        log_defect(what, error, in_full=self.access.log_texts)
        return Problem(500, "this is a defect of the service: its log tells more")

    def _name(self, scope: Scope) -> str:
        return scope["path"] if scope["path"] in self.known else "other"


def visitor_of(request: Request) -> Visitor:
    """Return the visitor that sent a request."""
    visitor = request.scope[VISITOR]
    assert isinstance(visitor, Visitor)
    return visitor


def _length(value: bytes) -> int:
    return int(value) if value.isdigit() and len(value) < 20 else 0


def _with_ours(headers: Headers, more: Headers) -> Headers:
    """Return the headers of an answer with those that keep browsers safe."""
    if any(name == b"cache-control" for name, _ in headers):
        return [*headers, *HEADERS, *more]
    return [*headers, PRIVATE, *HEADERS, *more]
