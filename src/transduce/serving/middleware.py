"""ASGI middleware: origin, key and rate of every request; headers, metrics and log of answers."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

import h11
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serving.access import Access
from transduce.serving.clients import Admission, Clients
from transduce.serving.connections import IdleConnections
from transduce.serving.downloads import DOWNLOADS
from transduce.serving.keys import key_in
from transduce.serving.limits import Limits
from transduce.serving.logs import log_error, log_request
from transduce.serving.metrics import Metrics
from transduce.serving.origins import OriginCheck
from transduce.serving.problems import Problem, retry_later

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FORBIDDEN_FEATURES = (
    *("accelerometer", "browsing-topics", "camera", "display-capture", "geolocation", "gyroscope"),
    *("magnetometer", "microphone", "midi", "payment", "usb", "xr-spatial-tracking"),
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"permissions-policy", ", ".join(f"{name}=()" for name in FORBIDDEN_FEATURES).encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
# For answers that are not files: they may contain a text.
NO_STORE = (b"cache-control", b"no-store")
HEALTH = "/health"  # needs no key and has no rate limit
# LibreTranslate's clients send theirs as a parameter.
KEY_IN_BODY = {"/translate", "/detect", "/translate_file"}
DRAINED, DRAINING = 16 * 2**20, 2.0  # at most these bytes and seconds of a refused body are read
ADMISSION = "transduce.admission"  # key in the scope

Endpoint = Callable[[Request], Awaitable[Response]]


class AnswerAborted(Exception):
    """An answer that had begun cannot be finished; the error has been logged."""


class ClientStalled(Exception):
    """A client does not read its answer."""


class Exchange:
    """A request's body and its answer on their way through the middleware.

    It is needed because uvicorn neither limits how long a client may take to read an answer nor
    reads the rest of a refused body.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self._receive, self._send = receive, send
        self._seconds = seconds  # maximum wait for a client that does not read
        self._chunked = b"transfer-encoding" in headers
        self._closing = headers.get(b"connection") == b"close"
        self._length = int(length) if length.isdigit() and len(length) < 20 else 0
        self._complete = False  # the whole body was received
        self.status = 0  # of the answer; 0 until it begins

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        self._complete = self._complete or not message.get("more_body", False)
        return message

    async def _drain(self) -> None:
        """Receive the rest of the body if the connection is closed after the answer.

        Otherwise the system resets the connection, and a client that still sends, such as urllib,
        never sees the answer.
        """
        if self._closing and self._length <= DRAINED:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAINING):
                    while self._length and not self._complete:
                        await self.receive()

    async def send(self, message: Message) -> None:
        """Send a part of the answer, with our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400 and self.status != 408:  # 408: the body was already waited for
                await self._drain()
            headers = message["headers"]
            if not any(name == b"cache-control" for name, _ in headers):
                headers = [*headers, NO_STORE]
            message["headers"] = [*headers, *HEADERS]
            if self._chunked and not self._complete:  # do not read the rest: parsing chunks is slow
                message["headers"].append((b"connection", b"close"))
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            raise ClientStalled from None
        except h11.LocalProtocolError:  # the body was not HTTP: uvicorn has answered 400
            while (await self._receive())["type"] != "http.disconnect":
                pass


class ServiceMiddleware:
    """Wraps the whole app."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        paths: Collection[str],
        free: Collection[str],
        posts: Mapping[str, Endpoint],
        limits: Limits,
        access: Access,
        connections: IdleConnections,
    ) -> None:
        """Count requests to `paths` by name; those to `free` paths need no key.

        A POST request goes directly to its function, which reads and checks it. The layers of
        FastAPI would take a third of the time of a request, not counting the search.
        """
        self.app, self.metrics, self.paths, self.free = app, metrics, paths, free
        self.posts, self.access, self.connections = posts, access, connections
        self.limits = limits
        self.origins = OriginCheck(access.names, access.origins)
        self.clients = Clients(limits, access.keys, access.proxies, admin_keys=access.admin_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn omits the body of the answer
        start = time.perf_counter()
        exchange = Exchange(scope, receive, send, self.limits.timeout)
        admission = scope[ADMISSION] = self.clients.admission(scope)
        self.connections.begin(scope)
        try:
            await self._answer(scope, exchange, admission)
        except ClientStalled:
            pass  # uvicorn closes the connection
        except Exception as error:
            problem = self._problem(scope, error)
            if exchange.status:  # the answer has begun
                raise AnswerAborted from None
            with contextlib.suppress(ClientStalled):
                await problem.response()(scope, exchange.receive, exchange.send)
        finally:
            admission.end()
            self.connections.end(scope)
            seconds = time.perf_counter() - start
            self.metrics.count_request(self._name(scope), exchange.status, seconds)
            if self.access.log_requests:
                log_request(scope["method"], shown_path(scope), exchange.status, seconds)

    async def _answer(self, scope: Scope, exchange: Exchange, admission: Admission) -> None:
        self.origins.check(scope)
        self._admit(scope, admission)
        if scope["method"] == "POST" and (post := self.posts.get(scope["path"])):
            response = await post(Request(scope, exchange.receive))
            await response(scope, exchange.receive, exchange.send)
        else:
            await self.app(scope, exchange.receive, exchange.send)

    def _admit(self, scope: Scope, admission: Admission) -> None:
        """Refuse clients without a required key, and clients over their limits."""
        if not scope["query_string"].isascii():  # Starlette would fail to decode it
            raise Problem(400, "the query has bytes that are not ASCII: write é as %C3%A9")
        path = scope["path"]
        if path == HEALTH:
            return
        if self.connections.requests > self.limits.connections:
            raise retry_later(503, f"{self.limits.connections:,} requests are in progress", 1)
        key = None if self.access.keys is None else key_in(scope["headers"])
        free = path in self.free or path.startswith(DOWNLOADS)
        admission.admit(key, free=free or (key is None and path in KEY_IN_BODY))

    def _problem(self, scope: Scope, error: Exception) -> Problem:
        """Return the answer for an error; the details of an unexpected one are only logged."""
        if isinstance(error, Problem):
            return error
        log_error(f"request to {self._name(scope)} failed", error, in_full=self.access.log_texts)
        return Problem(500, "internal error of the service: see its log")

    def _name(self, scope: Scope) -> str:
        path = shown_path(scope)
        return path if path in self.paths or path == DOWNLOADS else "other"


def shown_path(scope: Scope) -> str:
    """Return the path without the secret id of a file."""
    path: str = scope["path"]
    return DOWNLOADS if path.startswith(DOWNLOADS) else path


def admission_of(request: Request) -> Admission:
    """Return the admission of a request."""
    admission = request.scope[ADMISSION]
    assert isinstance(admission, Admission)
    return admission
