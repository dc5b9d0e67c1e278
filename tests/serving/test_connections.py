"""Limits of connections, idle and slow clients, and errors on a real socket."""

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import Any, cast

import pytest

from serving import (
    PATIENCE,
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
from transduce.serving.app import create_app
from transduce.serving.connections import IdleConnections
from transduce.serving.limits import Limits
from transduce.serving.logs import log_loop_error


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"POST /api/translate HTTP/1.1\r\nHost: loc"])
def test_a_connection_without_a_whole_request_is_closed(
    tiny_run: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted_service(tiny_run) as (address, _, _), connected(address, sent) as client:
        assert is_refused_or_closed(received(client))
    assert caplog.text == ""


def is_refused_or_closed(raw: bytes) -> bool:
    """Return whether a connection was closed, perhaps after 400."""
    return raw == b"" or (raw.startswith(b"HTTP/1.1 400 ") and b"Invalid HTTP request" in raw)


def test_an_idle_connection_may_be_used_again(tiny_run: Path) -> None:
    limits = Limits(receiving=1.0)
    request = written(text_body("a dog.")).replace(b"Connection: close\r\n", b"")
    with scripted_service(tiny_run, limits=limits) as (address, _, _), connected(address) as client:
        for _ in range(3):
            client.sendall(request)
            assert b"200 OK" in client.recv(65_536)
            time.sleep(0.4)  # 1.2 seconds in total, longer than the idle limit
        client.sendall(b"GET /hea")
        assert received(client) == b""


IDLE = b"GET /hea"  # the rest is never sent


def test_silent_connections_do_not_lock_others_out(tiny_run: Path) -> None:
    limits = Limits(connections=8, receiving=PATIENCE)
    served, _ = scripted(tiny_run)
    with (
        listening(create_app([served], limits=limits), limits) as address,
        contextlib.ExitStack() as taken,
    ):
        unused = [taken.enter_context(connected(address, IDLE)) for _ in range(20)]
        with connected(address, written(text_body("a dog."))) as client:
            assert parse_answer(received(client))[0] == 200
        until(lambda: sum(map(is_closed, unused)) >= 12)
        assert sum(map(is_closed, unused)) == 12  # 8 are left


def test_too_many_requests_are_answered_503_with_retry_after(tiny_run: Path) -> None:
    limits = Limits(connections=2)
    with (
        scripted_service(tiny_run, held=True, limits=limits) as (address, engine, service),
        connected(address, written(text_body("a dog."))) as first,
        connected(address, written(text_body("a cat."))) as second,
    ):
        until(lambda: service.requests == 2)
        with connected(address, written(text_body("a man."))) as third:
            raw = received(third)
        assert parse_answer(raw) == (
            503,
            {"error": "2 requests are in progress: try again in 1 second"},
        )
        assert b"\r\nretry-after: 1\r\n" in raw
        engine.go.set()
        assert [parse_answer(received(item))[0] for item in (first, second)] == [200, 200]


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed a connection without an answer."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def scope(host: str, port: int) -> dict[str, Any]:
    return {"client": (host, port)}


def test_connections_expire_by_the_time_since_their_last_request() -> None:
    clock = Clock()
    idle = IdleConnections(clock)
    patience = {("10.0.0.1", port): 10.0 for port in range(4)}
    assert idle.expired(patience, 100) == []
    idle.begin(scope("10.0.0.1", 0))
    clock.now = 8.0
    idle.begin(scope("10.0.0.1", 1))
    idle.end(scope("10.0.0.1", 1))
    patience["10.0.0.1", 2] = 60.0  # it reads a long answer
    clock.now = 11.0
    assert idle.expired(patience, 100) == [("10.0.0.1", 3)]
    clock.now = 19.0
    del patience["10.0.0.1", 3]
    assert idle.expired(patience, 100) == [("10.0.0.1", 1)]
    clock.now = 1000.0
    assert idle.expired({("10.0.0.1", 0): 10.0}, 100) == []  # its request is still in progress
    idle.end(scope("10.0.0.1", 0))
    assert idle.expired({}, 100) == []
    assert idle._idle_since == {}


def test_the_client_with_the_most_connections_loses_them_first() -> None:
    clock = Clock()
    idle = IdleConnections(clock)
    few = [("10.0.0.1", port) for port in range(2)]
    busy = [("10.0.0.2", port) for port in range(3)]
    many = [("10.0.0.2", port) for port in range(3, 20)]
    everything = dict.fromkeys([*few, *busy, *many], 10.0)
    idle.expired(dict.fromkeys(few, 10.0), 100)
    clock.now = 1.0
    for item in busy:
        idle.begin(scope(*item))
    assert idle.expired(everything, 22) == []
    assert idle.expired(everything, 12) == many[:10]
    assert idle.expired(everything, 1) == [*many, *few]  # never one with a request in progress


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b"POST /api/translate HTTP/1.1\r\nX: ", b""),
        (written(b"", "/api/translate", "Content-Length: 999"), b"HTTP/1.1 408 "),
    ],
)
def test_slowloris_clients_are_disconnected(tiny_run: Path, start: bytes, end: bytes) -> None:
    """Slowloris: a byte now and then does not extend the timeout."""
    raw = b""
    with scripted_service(tiny_run) as (address, _, _), connected(address, start) as client:
        client.settimeout(0.02)
        until_then = time.monotonic() + PATIENCE
        while time.monotonic() < until_then:
            try:
                client.sendall(b"a")
                block = client.recv(65_536)
            except TimeoutError:
                continue
            except OSError:
                break
            if not block:
                break
            raw += block
        assert time.monotonic() < until_then
    assert raw.startswith(end)


def test_a_client_cannot_forge_its_address(tiny_run: Path) -> None:
    """uvicorn would trust X-Forwarded-For of every client on this machine."""
    served, _ = scripted(tiny_run)
    limits = Limits(rate=3)
    statuses = []
    with listening(create_app([served], limits=limits), limits) as address:
        for number in range(4):
            more = (f"X-Forwarded-For: 1.2.3.{number}", "Content-Length: 0")
            with connected(address, written(b"", "/api/translate", *more)) as client:
                statuses.append(parse_answer(received(client))[0])
    assert statuses == [400, 400, 400, 429]


def test_an_aborted_answer_is_logged_without_values(
    tiny_run: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.responses import Response

    words = "my secret"

    async def breaks(self: Response, scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError(words)  # not part of the line of code in the log

    with (
        caplog.at_level("DEBUG"),
        scripted_service(tiny_run) as (address, _, _),
        monkeypatch.context() as patch,
    ):
        patch.setattr(Response, "__call__", breaks)
        with connected(address, written(text_body("a dog."))) as client:
            received(client)
    assert "ValueError, raised in" in caplog.text
    assert "AnswerAborted" in caplog.text
    assert "secret" not in caplog.text


def test_background_errors_are_logged_without_values(caplog: pytest.LogCaptureFixture) -> None:
    loop = cast("asyncio.AbstractEventLoop", None)
    log_loop_error(loop, {"message": "Task exception", "exception": ValueError("my secret")})
    log_loop_error(loop, {"message": "a handle\nis lost", "task": "my secret"})
    assert "ValueError" in caplog.text
    assert "a handle\\nis lost" in caplog.text
    assert "secret" not in caplog.text


def test_uvicorn_still_has_the_connections_that_the_sweep_reads() -> None:
    """`server_state.connections` is not documented: this test fails if it disappears."""
    from uvicorn.server import ServerState

    assert ServerState().connections == set(), "uvicorn has changed: see Server._sweep"
