"""What every request passes: the host it asks for, and every answer: its headers, its count."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.web.measures import Measures
from transduce.web.problems import Problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

Endpoint = Callable[[Request], Awaitable[Response]]

logger = logging.getLogger("transduce.web")


class Guard:
    """Stands around the whole app."""

    def __init__(
        self,
        app: ASGIApp,
        measures: Measures,
        known: Collection[str],
        posts: Mapping[str, Endpoint],
        hosts: Collection[str],
    ) -> None:
        """Count `known` paths by name; answer to `hosts` alone, or to all where there are none.

        A page of another site, whose name its owner has led to this machine, asks for that name.
        What is posted goes to its function at once: that reads and checks it by itself, and the
        layers between would take a third of the time that a request costs beside its search.
        """
        self.app, self.measures, self.known, self.hosts = app, measures, known, hosts
        self.posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server knows what it was, and sends the head
        begin = time.perf_counter()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            self._refuse(scope)
            if scope["method"] == "POST" and (post := self.posts.get(scope["path"])):
                response = await post(Request(scope, receive))
                await response(scope, receive, sent)
            else:
                await self.app(scope, receive, sent)
        except Exception as error:
            if status:  # the answer has begun
                raise
            if not isinstance(error, Problem):
                logger.exception("a request to %s has failed", self._name(scope))
                error = Problem(500, "this is a defect of the service: its log tells more")
            await error.response()(scope, receive, sent)
        finally:
            self.measures.answered(self._name(scope), status, time.perf_counter() - begin)

    def _refuse(self, scope: Scope) -> None:
        """Refuse what asks for another host, and a query that the layers below take for text."""
        if self.hosts and (host := _host(scope)) not in self.hosts:
            raise Problem(
                400,
                f"this service does not answer to {host[:60]}: ask for "
                f"{' or '.join(sorted(self.hosts))}, or start it with --host",
            )
        if not scope["query_string"].isascii():
            raise Problem(400, "the query holds bytes that are not ASCII: write é as %C3%A9")

    def _name(self, scope: Scope) -> str:
        return scope["path"] if scope["path"] in self.known else "other"


def _host(scope: Scope) -> str:
    """Return the host that a request names, without its port."""
    given = next((value for name, value in scope["headers"] if name == b"host"), b"localhost")
    host = given.decode("latin-1").lower()
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) else host
