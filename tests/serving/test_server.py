"""The service on a real socket: clients that disconnect, are slow, or send too much."""

import asyncio
import contextlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from serving import (
    PATIENCE,
    QUICK,
    connected,
    listening,
    parse_answer,
    received,
    scripted,
    scripted_service,
    text_body,
    until,
    written,
)
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.keys import Keys
from transduce.serving.limits import Limits
from transduce.serving.static_files import files


def test_the_work_of_a_disconnected_client_is_cancelled(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted_service(tiny_run, held=True) as (address, engine, service):
        with connected(
            address, written(text_body("a dog.\n" + "a man. " * 50 + "\n" + "x y " * 500))
        ):
            until(lambda: engine.batches)
        until(lambda: service.sentences == 0)
        with connected(address, written(text_body("a fish."))) as client:
            until(lambda: service.sentences == 1)
            engine.go.set()
            assert parse_answer(received(client))[1]["text"] == "a fish."
    assert sum(map(len, engine.batches)) <= engine.batch + 1
    assert caplog.text == ""


def test_a_half_closed_connection_does_not_hang(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted_service(tiny_run, held=True) as (address, _, service):
        for request in (
            written(text_body("a dog.")),
            b"POST /api/transl",
            b"",
            written(b"{", "/", "X: y"),
        ):
            with connected(address, request) as client:
                client.shutdown(socket.SHUT_WR)
                received(client)
        until(lambda: service.sentences == 0)
    assert caplog.text == ""


CHUNKED = "Transfer-Encoding: chunked"


NEVER_ENDING = b"X-Padding: " + b"a" * 1000 + b"\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        written(b'{"text":', "/api/translate", "Content-Length: 100"),
        written(b"5\r\nabcde\r\n", "/api/translate", CHUNKED),
    ],
)
def test_a_slow_body_is_answered_408(
    tiny_run: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted_service(tiny_run) as (address, _, _), connected(address, sent) as client:
        result, value = parse_answer(received(client))
    assert result == 408
    assert list(value) == ["error"]
    assert caplog.text == ""


def is_refused_or_closed(raw: bytes) -> bool:
    """Return whether a connection was closed, perhaps after 400."""
    return raw == b"" or (raw.startswith(b"HTTP/1.1 400 ") and b"Invalid HTTP request" in raw)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 this is no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + NEVER_ENDING * 70,
        written(b"zz\r\n", "/api/translate", CHUNKED),
    ],
    ids=["not HTTP", "large headers", "a bad chunk"],
)
def test_what_is_not_http_is_refused(
    tiny_run: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted_service(tiny_run) as (address, _, _), connected(address) as client:
        with contextlib.suppress(OSError):
            client.sendall(sent)
        assert is_refused_or_closed(received(client))  # a reset may overtake the answer
    assert caplog.text == ""


def memory() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read memory from")
@pytest.mark.parametrize("keys", [None, Keys(["a-key-of-many-letters"])], ids=["open", "keyed"])
def test_endless_trailers_take_no_memory(tiny_run: Path, keys: Keys | None) -> None:
    """A parser that stores trailers, such as httptools, would keep all of them."""
    served, _ = scripted(tiny_run)
    app = create_app([served], limits=QUICK, access=Access(keys=keys))
    before = memory()
    with listening(app, QUICK) as address:
        for _ in range(4):
            with connected(address) as client, contextlib.suppress(OSError):
                client.sendall(written(b"0\r\n", "/api/translate", CHUNKED))
                for _ in range(200):
                    client.sendall(NEVER_ENDING * 64)  # 13 MB in all
        assert memory() - before < 8 * 2**20


def test_a_trailer_is_not_a_header(tiny_run: Path) -> None:
    """Neither a key nor an address is taken from one."""
    key = "a-key-of-many-letters"
    text = text_body("a dog.")
    served, _ = scripted(tiny_run)
    limits = Limits(rate=2)
    access = Access(keys=Keys([key]), proxies=["127.0.0.1"])
    statuses = []
    with listening(create_app([served], limits=limits, access=access), limits) as address:
        for trailer in (f"X-API-Key: {key}", f"Authorization: Bearer {key}"):
            sent = b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(text), text, trailer.encode())
            with connected(address, written(sent, "/api/translate", CHUNKED)) as client:
                statuses.append(parse_answer(received(client))[0])
        for number in range(3):
            sent = b"%x\r\n%s\r\n0\r\nX-Forwarded-For: 1.2.3.%d\r\n\r\n" % (
                len(text), text, number,
            )  # fmt: skip
            headers = (CHUNKED, f"X-API-Key: {key}", "X-Forwarded-For: 1.2.3.4")
            with connected(address, written(sent, "/api/translate", *headers)) as client:
                statuses.append(parse_answer(received(client))[0])
    assert statuses == [401, 401, 200, 200, 429]


def test_an_endless_body_is_refused_early(tiny_run: Path) -> None:
    chunk = b"%x\r\n%s\r\n" % (65_536, b"a" * 65_536)
    limits = Limits(characters=5_000)
    with scripted_service(tiny_run, limits=limits) as (address, _, _), connected(address) as client:
        client.sendall(written(b"", "/api/translate", "Transfer-Encoding: chunked"))
        with contextlib.suppress(OSError):
            for _ in range(1_000):  # 64 MB, of which few are read
                client.sendall(chunk)
        assert parse_answer(received(client))[0] == 413
        with connected(address, written(b"", "/translate", "Content-Length: 99999999")) as other:
            status, value = parse_answer(received(other))
    assert status == 413
    assert value["error"] == "the body is too large: at most 125,536 bytes are accepted"


def test_a_connection_survives_a_refused_body(tiny_run: Path) -> None:
    late = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    with scripted_service(tiny_run) as (address, _, _):
        with connected(address, late) as client:
            assert b"415 " in client.recv(65_536)
            client.sendall(b"hello" + written(text_body("a dog.")))
            assert parse_answer(received(client))[1]["text"] == "a dog."
        with connected(address, late) as client:
            assert b"415 " in received(client)  # it ends although the body never arrives


@pytest.mark.parametrize("size", [100, 6_000_000])  # more than the kernel buffers
def test_a_client_that_is_still_sending_gets_the_error(tiny_run: Path, size: int) -> None:
    """urllib sends the whole body before it reads the answer."""
    limits = Limits(characters=500, receiving=PATIENCE)
    with scripted_service(tiny_run, limits=limits) as ((host, port), _, _):
        request = Request(f"http://{host}:{port}/api/inspec", b"a" * size)
        for path, status in (("/api/translate", 415), ("/nowhere", 404)):
            request.selector = path
            with pytest.raises(HTTPError) as caught:
                urlopen(request, timeout=PATIENCE)
            assert caught.value.code == status
            assert "error" in json.loads(caught.value.read())


def test_chunks_of_a_refused_body_are_not_read(tiny_run: Path) -> None:
    """Parsing small chunks is slow, and blocks other requests."""
    limits = Limits(receiving=PATIENCE)
    late = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        scripted_service(tiny_run, limits=limits) as (address, _, _),
        connected(address, late) as client,
    ):
        raw = received(client)  # ends at once
    assert b"415 " in raw
    assert b"connection: close" in raw


def test_an_unread_answer_is_dropped(tiny_run: Path) -> None:
    limits = Limits(receiving=0.1, timeout=0.4)
    size = len(files()["/explorer.js"].content)
    count = 20_000_000 // size
    many = b"GET /explorer.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * count
    with (
        scripted_service(tiny_run, limits=limits) as (address, _, _),
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE)
        client.connect(address)
        client.sendall(many)
        time.sleep(2)
        assert len(received(client)) < 10_000_000  # half of it: what the kernel held


def test_an_unread_error_is_dropped_without_a_traceback(tiny_run: Path) -> None:
    async def never(message: object) -> None:
        await asyncio.sleep(PATIENCE)

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    app = create_app([scripted(tiny_run)[0]], limits=Limits(timeout=0.05))
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "scheme": "http",
        "query_string": b"\xff",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asyncio.run(app(scope, gone, never))
    assert app.state.connections.requests == 0


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/api/models", "/openapi.json"])
def test_head_works_wherever_get_works(tiny_run: Path, path: str) -> None:
    request = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    with scripted_service(tiny_run) as (address, _, _), connected(address, request) as client:
        head, _, rest = received(client).partition(b"\r\n\r\n")
    assert b" 200 " in head
    assert b"content-length: 0" not in head
    assert rest == b""


def test_waiting_requests_are_answered_503_at_shutdown(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served])
    with listening(app) as address:
        client = socket.create_connection(address, PATIENCE)
        client.sendall(written(text_body("a dog.")))
        until(lambda: engine.batches)
    engine.go.set()
    with client:
        assert parse_answer(received(client)) == (503, {"error": "the service is shutting down"})


def scope(host: str, port: int) -> dict[str, Any]:
    return {"client": (host, port)}
