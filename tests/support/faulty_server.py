"""A file server on 127.0.0.1 with injected faults."""

import contextlib
import hashlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[["Handler", bytes], None]


@dataclass
class Faulty:
    """The files that are served, their faults, and the requests so far."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[Answer]] = field(default_factory=dict)  # for the next requests, in order
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range

    def serve(self, name: str, content: bytes, *faults: Answer) -> str:
        """Serve a file; the first requests meet the faults, later ones succeed."""
        self.files[name], self.faults[name] = content, list(faults)
        return f"{self.address}/{name}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        faulty = self.server.faulty
        faulty.requests.append((name, self.headers.get("Range")))
        self.close_connection = True
        if name not in faulty.files:
            say(404)(self, b"")
            return
        faults = faulty.faults[name]
        (faults.pop(0) if faults else succeed)(self, faulty.files[name])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


class Server(ThreadingHTTPServer):
    """The server; `faulty` has its files."""

    daemon_threads = True
    faulty: Faulty

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


@contextlib.contextmanager
def running() -> Iterator[Faulty]:
    """Run a server."""
    server = Server(("127.0.0.1", 0), Handler)
    server.faulty = Faulty(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.faulty
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def begin(handler: Handler, content: bytes, status: int, length: int | None, **more: str) -> None:
    """Send the status line and headers."""
    handler.send_response(status)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    handler.send_header("ETag", more.pop("etag", f'"{hashlib.md5(content).hexdigest()}"'))
    for name, value in more.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Connection", "close")
    handler.end_headers()


def succeed(handler: Handler, content: bytes, **more: str) -> None:
    """Answer correctly, with a part if a range is requested and the file is unchanged."""
    requested = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
    same = handler.headers.get("If-Range") in (None, f'"{hashlib.md5(content).hexdigest()}"')
    if requested and same:
        start = int(requested[1])
        if start >= len(content):
            begin(handler, content, 416, 0, Content_Range=f"bytes */{len(content)}")
            return
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        begin(handler, content, 206, len(content) - start, Content_Range=span, **more)
        handler.wfile.write(content[start:])
        return
    begin(handler, content, 200, len(content), **more)
    handler.wfile.write(content)


def say(status: int, **more: str) -> Answer:
    """Answer with a status."""

    def answer(handler: Handler, content: bytes) -> None:
        begin(handler, content, status, 0, **more)

    return answer


def cut(after: int) -> Answer:
    """Announce the full length, and close the connection after some bytes."""

    def answer(handler: Handler, content: bytes) -> None:
        begin(handler, content, 200, len(content))
        handler.wfile.write(content[:after])

    return answer


def reset(handler: Handler, content: bytes) -> None:
    """Reset the connection before any answer."""
    linger = b"\x01\0\0\0\0\0\0\0"
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()


def stall(after: int, seconds: float) -> Answer:
    """Send some bytes, then nothing for a while."""

    def answer(handler: Handler, content: bytes) -> None:
        begin(handler, content, 200, len(content))
        handler.wfile.write(content[:after])
        handler.wfile.flush()
        time.sleep(seconds)

    return answer


def trickle(step: float, times: int) -> Answer:
    """Send a byte at a time, too often for a time-out."""

    def answer(handler: Handler, content: bytes) -> None:
        begin(handler, content, 200, len(content))
        with contextlib.suppress(OSError):
            for byte in content[:times]:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(step)

    return answer


def claim(length: int | None) -> Answer:
    """Announce a wrong length, or none."""

    def answer(handler: Handler, content: bytes) -> None:
        begin(handler, content, 200, length)
        with contextlib.suppress(OSError):
            handler.wfile.write(content)

    return answer


def endless(handler: Handler, content: bytes) -> None:
    """Announce no length, and never end."""
    begin(handler, content, 200, None)
    with contextlib.suppress(OSError):
        for _ in range(10_000):
            handler.wfile.write(b"x" * 10_000)


def whole(handler: Handler, content: bytes) -> None:
    """Send the whole file, ignoring the range."""
    begin(handler, content, 200, len(content))
    handler.wfile.write(content)


def other_part(handler: Handler, content: bytes) -> None:
    """Send another range than requested."""
    begin(handler, content, 206, 5, Content_Range=f"bytes 0-4/{len(content)}")
    handler.wfile.write(content[:5])


def wrong_bytes(handler: Handler, content: bytes) -> None:
    """Send the right number of wrong bytes."""
    succeed(handler, bytes(len(content)))


def redirect(to: str) -> Answer:
    """Redirect to another address."""
    return say(302, Location=to)
