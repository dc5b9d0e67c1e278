"""HTTP/1.1 for a load test: one keep-alive connection, as little work as can be.

What drives a service shares the machine with it, so the time of the one is taken from the other.
Requests are bytes made beforehand; of an answer's head only what is used is read.
"""

import asyncio
import contextlib
import json
import re
from typing import Any, NamedTuple, Self

HOST = "127.0.0.1"  # a load test is for this machine alone
LARGEST = 1 << 26  # bytes of an answer that are read


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    retry_after: float | None  # seconds, where the service asks for patience


class Broken(Exception):
    """The connection ended, or what came is not HTTP/1.1 as we speak it."""


def get(path: str) -> bytes:
    """Return the bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def post(path: str, content: Any) -> bytes:
    """Return the bytes of a POST request with JSON."""
    body = json.dumps(content, ensure_ascii=False).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """A connection that is opened when it is needed, and again where the service has closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and return the answer; raise Broken where none comes."""
        if self._streams is not None:
            # A service may close a connection that was idle, and that is seen only now.
            with contextlib.suppress(Broken):
                return await self._ask(request)
        return await self._ask(request)

    async def close(self) -> None:
        """Close the connection if it is open."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _ask(self, request: bytes) -> Answer:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(HOST, self.port)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = _header(head, b"content-length")
            if not head.startswith(b"http/1.1 ") or length is None or int(length) > LARGEST:
                raise Broken(f"not an answer with a Content-Length: {head[:60]!r}")
            body = await reader.readexactly(int(length))
            patience = _header(head, b"retry-after")
            answer = Answer(int(head[9:12]), body, float(patience) if patience else None)
        except BaseException as error:
            # An answer may still come, and must not be taken for that of the next request.
            await self.close()
            if isinstance(error, OSError | EOFError | ValueError | asyncio.LimitOverrunError):
                raise Broken(str(error) or type(error).__name__) from None
            raise
        if _header(head, b"connection") == b"close":
            await self.close()
        return answer


def _header(head: bytes, name: bytes) -> bytes | None:
    """Return the value of a header, in a head of lower case."""
    found = re.search(rb"\r\n" + name + rb":[ \t]*([^\r]*)", head)
    return found[1].strip() if found else None
