"""Serving the app on a socket: uvicorn, and a sweep that closes idle connections."""

import asyncio
import contextlib
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from transduce.errors import BadInput
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.connections import IdleConnections
from transduce.serving.limits import Limits
from transduce.serving.logs import log_loop_error, log_to_stderr
from transduce.serving.models import ServedModel

SWEEP = 1.0  # seconds between sweeps
RECEIVE_BUFFER = 32_768  # bytes parsed at once: other connections wait meanwhile
SPARE = 100  # open files that the process needs besides its connections
FILES = 8192  # the limit on open files that the process requests


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise BadInput(
            f"--host {host}: this machine has no such address; 127.0.0.1 is for this machine only, "
            "0.0.0.0 for all its networks"
        ) from None
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    try:
        listening.bind(address)
    except PermissionError:
        listening.close()
        raise BadInput(f"--port {port}: ports below 1024 need a permission; choose 8000") from None
    except OSError as error:
        listening.close()
        raise BadInput(
            f"port {port} of {host} is not available ({error.strerror}): choose another with "
            "--port; --port 0 takes a free one"
        ) from None
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(
    listening: socket.socket,
    models: Sequence[ServedModel],
    watched: Sequence[Path],
    limits: Limits,
    access: Access,
    on_ready: Callable[[str], None],
    on_end: Callable[[], None],
) -> None:
    """Serve until a signal; call `on_ready` with the URL when the page can be opened."""
    app = create_app(models, watched, limits, access)
    if access.log_requests or access.log_texts:
        log_to_stderr()
    server = Server(app, limits, lambda: on_ready(url_of(listening)))
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again
        server.run([listening])
    on_end()
    if not app.state.ended:  # Python would wait for threads inside other libraries
        sys.stderr.flush()
        os._exit(0)


class Server(uvicorn.Server):
    """uvicorn that reports when it listens, closes idle connections, and stops at once."""

    def __init__(self, app: FastAPI, limits: Limits, on_ready: Callable[[], None]) -> None:
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
            proxy_headers=False,  # clients.py reads X-Forwarded-For, from --trusted-proxy only
        )
        super().__init__(config)
        self.app, self.limits, self.on_ready = app, limits, on_ready
        self._sweeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and call `on_ready`."""
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        await super().startup(sockets)
        if self.started:
            self._sweeping = asyncio.create_task(self._sweep())
            self._reload_on_hangup()
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer all waiting requests with an error, and stop."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.app.state.service.stop()
        await super().shutdown(sockets)

    def _reload_on_hangup(self) -> None:
        """Reload the models on SIGHUP; stop if the terminal has closed."""
        if not hasattr(signal, "SIGHUP"):  # Windows
            return
        if threading.current_thread() is not threading.main_thread():
            return
        nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        terminals = [] if nohup else [number for number in range(3) if os.isatty(number)]
        tasks = set()  # the event loop has only weak references

        def hang_up() -> None:
            if not all(map(os.isatty, terminals)):
                self.should_exit = True
                return
            task = asyncio.create_task(self.app.state.reloads.reload_all())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)

    async def _sweep(self) -> None:
        """Close connections that have been idle for too long.

        `server_state.connections` is not documented by uvicorn; a test fails if it disappears.
        A client that reads its answer slowly may take as long as the timeout for an answer.
        """
        idle: IdleConnections = self.app.state.connections
        limits = self.limits
        while True:
            await asyncio.sleep(min(SWEEP, limits.receiving / 2))
            transports = {}
            for protocol in self.server_state.connections:
                if peer := protocol.transport.get_extra_info("peername"):
                    transports[peer[:2]] = protocol.transport
            timeouts = {
                address: limits.timeout if transport.get_write_buffer_size() else limits.receiving
                for address, transport in transports.items()
            }
            for address in idle.expired(timeouts, limits.connections):
                transports[address].abort()


def file_limit() -> int:
    """Return how many files this process may open, after raising the limit if possible."""
    try:
        import resource
    except ImportError:  # Windows
        return FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
    return max(2 * SPARE, FILES if soft == resource.RLIM_INFINITY else soft)
