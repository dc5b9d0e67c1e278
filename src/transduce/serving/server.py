"""The app on a socket: uvicorn with documented settings, and a sweep of idle connections."""

import asyncio
import contextlib
import math
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from transduce.errors import BadInput
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.connections import Idle
from transduce.serving.limits import Limits
from transduce.serving.logs import of_loop, to_stderr
from transduce.serving.models import ServedModel

SWEEP = 1.0  # seconds between two looks at the idle connections
RECEIVED = 32_768  # bytes of a connection to parse at once: others wait meanwhile
SPARE = 100  # files that the process needs besides its connections
FILES = 8192  # the file limit that the process asks for


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
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
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
    served: Sequence[ServedModel],
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
    server = Server(app, limits, lambda: ready(address_of(listening)))
    with contextlib.suppress(KeyboardInterrupt):  # as uvicorn passes the signal on
        server.run([listening])
    ended()
    if not app.state.ended:  # Python would wait for threads that are deep in other libraries
        sys.stderr.flush()
        os._exit(0)


class Server(uvicorn.Server):
    """uvicorn that reports when it listens, closes idle connections, and stops at once."""

    def __init__(self, app: FastAPI, limits: Limits, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http="h11",  # limits the size of headers and trailers; httptools does not
            h11_max_incomplete_event_size=limits.head,
            limit_concurrency=file_limit() - SPARE,  # far more than the sweep keeps open
            timeout_keep_alive=math.ceil(limits.receiving),
            timeout_graceful_shutdown=1,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # it would trust every program on this machine
        )
        super().__init__(config)
        self.app, self.limits, self.ready = app, limits, ready
        self._sweeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and call `ready`."""
        asyncio.get_running_loop().set_exception_handler(of_loop)
        await super().startup(sockets)
        if self.started:
            self._sweeping = asyncio.create_task(self._sweep())
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer all waiting requests with an error, and stop."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.app.state.service.stop()
        await super().shutdown(sockets)

    async def _sweep(self) -> None:
        """Close connections that are idle for too long: uvicorn sets no time for a request's head.

        A client that reads its answer slowly has as long as an answer may take.
        """
        idle: Idle = self.app.state.idle
        while True:
            await asyncio.sleep(min(SWEEP, self.limits.receiving / 2))
            transports = [one.transport for one in self.server_state.connections]
            peers = [(one.get_extra_info("peername"), one) for one in transports]
            found = {peer[:2]: one for peer, one in peers if peer}
            patience = {
                address: self.limits.timeout
                if transport.get_write_buffer_size()
                else self.limits.receiving
                for address, transport in found.items()
            }
            for address in idle.expired(patience, self.limits.connections):
                found[address].abort()


def file_limit() -> int:
    """Return how many files this process may open, after raising the limit where it can."""
    try:
        import resource
    except ImportError:  # Windows
        return FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(2 * SPARE, FILES if soft == resource.RLIM_INFINITY else soft)
