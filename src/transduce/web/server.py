"""The app on a socket: uvicorn, with limits on clients that are slow."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from transduce.errors import BadInput
from transduce.web.access import Access
from transduce.web.app import create_app
from transduce.web.doors import Doors
from transduce.web.guard import HEADERS, PRIVATE
from transduce.web.limits import Limits
from transduce.web.logs import of_loop, to_stderr
from transduce.web.served import Served

KEEP_ALIVE = 15  # seconds that a connection may be idle between requests
CROWDED = 1.0  # seconds for a request to arrive on one connection too many
LINGER = 2.0  # seconds in which a client may read why its body was refused


def bound(host: str, port: int) -> socket.socket:
    """Return a socket with this address, which nobody can connect to yet."""
    try:
        kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(kind, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise BadInput(
            f"--host {host}: no such address here; 127.0.0.1 is this machine alone, "
            "0.0.0.0 all its networks"
        ) from None
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
    except PermissionError:
        found.close()
        raise BadInput(f"--port {port}: ports below 1024 need a permission; choose 8000") from None
    except OSError as error:
        found.close()
        raise BadInput(
            f"port {port} of {host} cannot be had ({error.strerror}): choose another with --port; "
            "--port 0 takes any that is free"
        ) from None
    return found


def address_of(listening: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_on(
    listening: socket.socket,
    served: Sequence[Served],
    watched: Sequence[Path],
    limits: Limits,
    access: Access,
    ready: Callable[[str], None],
    ended: Callable[[], None],
) -> None:
    """Serve until somebody ends it; `ready` hears the address as soon as it can be opened."""
    app = create_app(served, watched, limits, access)
    if access.log_requests or access.log_texts:
        to_stderr()
    server = Server(app, limits, lambda: ready(address_of(listening)), proxies=access.proxies)
    with contextlib.suppress(KeyboardInterrupt):  # as uvicorn passes the signal on
        server.run([listening])
    ended()
    if not app.state.ended:  # Python would wait for threads that are deep in other libraries
        sys.stderr.flush()
        os._exit(0)


class Server(uvicorn.Server):
    """A server that tells when it listens, and that ends at once."""

    def __init__(
        self,
        app: FastAPI,
        limits: Limits,
        ready: Callable[[], None],
        *,
        proxies: Collection[str] = (),
    ) -> None:
        class Limited(Protocol):
            within = limits
            doors = Doors(limits.connections, proxies)

        config = uvicorn.Config(
            app,
            http=Limited,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # or a client of this machine could give itself any address
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self.app, self.ready = app, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and tell."""
        asyncio.get_running_loop().set_exception_handler(of_loop)
        await super().startup(sockets)
        if self.started:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody wait any longer, and end."""
        self.app.state.service.stop()
        await super().shutdown(sockets)


class Protocol(HttpToolsProtocol):
    """HTTP by httptools; a request's head has a size and a time, and an unread body an end."""

    within: Limits
    doors: Doors

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._full = ""  # why it may not stay
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._unwanted: asyncio.TimerHandle | None = None
        self._head = 0  # bytes received of it; -1: it is whole

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever, and less where there are too many."""
        super().connection_made(transport)
        self._full = self.doors.enter(self._address)
        if self.doors.open > self.doors.ceiling:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes, unless the head of a request has no end."""
        if self._head >= 0:
            self._head += len(data)
        super().data_received(data)
        if self._head > self.within.head and not self.transport.is_closing():
            self._refuse(431, f"the headers are too large: at most {self.within.head:,} bytes")

    def on_message_begin(self) -> None:
        """Begin with another request."""
        super().on_message_begin()
        if self._head < 0:
            self._head = 0
            self._await_head()

    def on_headers_complete(self) -> None:
        """End the wait for a head."""
        self._head = -1
        self._forget()
        if self._full:
            self._refuse(503, f"{self._full}: try again in a second", (b"retry-after", b"1"))
            return
        self._unset_keepalive_if_required()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, unless its request was refused."""
        if not self._full:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Keep a connection after all whose body has come though it was not wanted."""
        if self._full:
            return
        super().on_message_complete()
        if self._unwanted is not None:
            self._forget_unwanted()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Close a connection whose body was not wanted, after a moment to read the answer."""
        super().on_response_complete()
        if (
            self.cycle.more_body
            and self.cycle.response_complete
            and not self.transport.is_closing()
        ):
            self._unwanted = self.loop.call_later(LINGER, self.transport.close)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.within.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._forget_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        self.doors.leave(self._address)
        self._forget()
        self._forget_stall()
        self._forget_unwanted()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(400, "this is no HTTP request that can be read")

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _await_head(self) -> None:
        seconds = min(CROWDED, self.within.receiving) if self._full else self.within.receiving
        self._deadline = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if not self.transport.is_closing():
            seconds = self.within.receiving
            self._refuse(408, f"the request did not arrive within {seconds:g} seconds")

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _forget_unwanted(self) -> None:
        if self._unwanted is not None:
            self._unwanted.cancel()
            self._unwanted = None

    def _refuse(self, status: int, sentence: str, *more: tuple[bytes, bytes]) -> None:
        content = json.dumps({"error": sentence}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *more,
            PRIVATE,
            *HEADERS,
        ]
        head = b"".join(b"%s: %s\r\n" % one for one in headers)
        self.transport.write(b"HTTP/1.1 %d \r\n%s\r\n%s" % (status, head, content))
        self.transport.close()
