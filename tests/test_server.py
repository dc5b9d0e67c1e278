"""The service on a real socket: clients that leave, that are slow, that send too much."""

import asyncio
import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import COMMAND, CommandLine, environment

from serving import PATIENCE, Scripted, connected, listening, received, scripted, until, written
from transduce.errors import BadInput
from transduce.web import server
from transduce.web.app import create_app
from transduce.web.doors import Doors
from transduce.web.limits import Limits
from transduce.web.logs import of_loop
from transduce.web.server import bound
from transduce.web.service import Service
from transduce.web.sites import LOOPBACK, names_of

QUICK = Limits(characters=5_000, receiving=0.2, timeout=PATIENCE)


@contextlib.contextmanager
def serving(
    run: Path, *, held: bool = False, limits: Limits = QUICK
) -> Iterator[tuple[tuple[str, int], Scripted, Service]]:
    served, engine = scripted(run, held=held)
    app = create_app([served], limits=limits)
    try:
        with listening(app, limits) as address:
            yield address, engine, app.state.service
    finally:
        engine.go.set()


def answer(raw: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and the JSON of an answer, the only one on its connection."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"content-security-policy" in head
    return int(head.split()[1]), json.loads(body)


def body(text: str) -> bytes:
    return json.dumps({"text": text}).encode()


def test_a_client_that_leaves_stops_costing(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tiny_run, held=True) as (address, engine, service):
        with connected(address, written(body("a dog.\n" + "a man. " * 50 + "\n" + "x y " * 500))):
            until(lambda: engine.batches)
        until(lambda: service.held == 0)
        with connected(address, written(body("a fish."))) as client:
            until(lambda: service.held == 1)
            engine.go.set()
            assert answer(received(client))[1]["text"] == "a fish."
    assert sum(map(len, engine.batches)) <= engine.batch + 1
    assert caplog.text == ""


def test_a_client_that_closes_its_half_does_not_hang(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tiny_run, held=True) as (address, _, service):
        for request in (
            written(body("a dog.")),
            b"POST /api/transl",
            b"",
            written(b"{", "/", "X: y"),
        ):
            with connected(address, request) as client:
                client.shutdown(socket.SHUT_WR)
                received(client)
        until(lambda: service.held == 0)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 408),
        (b"POST /api/translate HTTP/1.1\r\nHost: loc", 408),
        (written(b'{"text":', "/api/translate", "Content-Length: 100"), 408),
        (written(b"5\r\nabcde\r\n", "/api/translate", "Transfer-Encoding: chunked"), 408),
        (b"\x16\x03\x01 this is no HTTP\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, 431),
    ],
)
def test_a_slow_or_foreign_client_is_told_and_let_go(
    tiny_run: Path, sent: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tiny_run) as (address, _, _), connected(address, sent) as client:
        found, value = answer(received(client))
    assert found == status
    assert list(value) == ["error"]
    assert caplog.text == ""


def test_an_idle_connection_may_be_used_again(tiny_run: Path) -> None:
    request = written(body("a dog.")).replace(b"Connection: close\r\n", b"")
    with serving(tiny_run) as (address, _, _), connected(address) as client:
        for _ in range(3):
            client.sendall(request)
            assert b"200 OK" in client.recv(65_536)
            time.sleep(0.3)  # longer than a request may take to arrive
        client.sendall(b"GET /hea")
        assert answer(received(client))[0] == 408


def test_a_body_without_an_end_is_refused_before_it_has_come(tiny_run: Path) -> None:
    chunk = b"%x\r\n%s\r\n" % (65_536, b"a" * 65_536)
    limits = Limits(characters=5_000)
    with serving(tiny_run, limits=limits) as (address, _, _), connected(address) as client:
        client.sendall(written(b"", "/api/translate", "Transfer-Encoding: chunked"))
        with contextlib.suppress(OSError):
            for _ in range(1_000):  # 64 MB, of which few can have been taken
                client.sendall(chunk)
        assert answer(received(client))[0] == 413
        with connected(address, written(b"", "/translate", "Content-Length: 99999999")) as other:
            status, value = answer(received(other))
    assert status == 413
    assert value["error"] == "the body is too large: at most 125,536 bytes are taken"


def test_a_connection_whose_unwanted_body_has_come_is_kept(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LINGER", 0.1)
    late = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    with serving(tiny_run, held=True) as (address, engine, service):
        with connected(address, late) as client:
            assert b"415 " in client.recv(65_536)
            client.sendall(b"hello" + written(body("a dog.")))
            until(lambda: service.held == 1)
            time.sleep(0.3)  # longer than a body that is not wanted may take
            engine.go.set()
            assert answer(received(client))[1]["text"] == "a dog."
        with connected(address, late) as client:
            assert b"415 " in received(client)  # which ends though the body never comes


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/api/models", "/openapi.json"])
def test_of_all_that_can_be_got_the_head_can_be_asked_for(tiny_run: Path, path: str) -> None:
    request = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    with serving(tiny_run) as (address, _, _), connected(address, request) as client:
        head, _, rest = received(client).partition(b"\r\n\r\n")
    assert b" 200 " in head
    assert b"content-length: 0" not in head
    assert rest == b""


def test_whoever_waits_when_the_service_ends_is_told(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served])
    with listening(app) as address:
        client = socket.create_connection(address, PATIENCE)
        client.sendall(written(body("a dog.")))
        until(lambda: engine.batches)
    engine.go.set()
    with client:
        assert answer(received(client)) == (503, {"error": "the service is being ended"})


def test_serve_tells_its_address_and_ctrl_c_ends_it(tiny_run: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "serve", str(tiny_run), "--port", "0", "--name", "mine"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"DISPLAY": ""}),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "mine: en to de, ctranslate2 on cpu, float32\n"
        address = process.stderr.readline().split()[0]
        host, port = address.removeprefix("http://").split(":")
        with connected((host, int(port)), written(body("a dog."))) as client:
            assert answer(received(client))[0] == 200
        process.send_signal(2)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == "ended\n"


@pytest.mark.parametrize(
    ("host", "answers"),
    [("127.0.0.1", {"127.0.0.1"}), ("127.0.1.1", {"127.0.1.1"}), ("LocalHost", {"localhost"})],
)
def test_a_service_of_this_machine_answers_to_the_name_it_was_given(
    host: str, answers: set[str]
) -> None:
    with bound(host, 0) as listening:
        found = names_of(listening, host)
    assert LOOPBACK | answers <= found.names
    for name in ("10.0.0.1", "[2001:db8::1]", "evil.example", socket.gethostname() + "x"):
        assert name not in found


def test_a_service_of_a_network_answers_to_addresses_and_to_names_that_are_allowed() -> None:
    with bound("0.0.0.0", 0) as listening:
        found = names_of(listening, "0.0.0.0", ["https://Translate.example.org:8443/", "inner"])
        every = names_of(listening, "0.0.0.0", ["*"])
        with pytest.raises(BadInput, match="--allow-host a/b: expected a name such as"):
            names_of(listening, "0.0.0.0", ["a/b"])
    for name in ("10.0.0.1", "[2001:db8::1]", "localhost", socket.gethostname().lower()):
        assert name in found
    assert {"translate.example.org", "inner"} <= found.names
    for name in ("evil.example", "10.0.0.1.evil.example", "0x7f000001", ""):
        assert name not in found
        assert name in every


def test_what_cannot_be_served_is_refused_in_one_sentence(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    assert "there is no run folder" in cli("serve", tmp_path / "none").error
    assert "is not a run folder" in cli("serve", tmp_path).error
    assert (
        "2 names for 1 runs"
        in cli(*("serve", tiny_run, "--port", "0", "--name", "a", "--name", "b")).error
    )
    assert "no such address here" in cli("serve", tiny_run, "--host", "no host").error
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = cli("serve", tiny_run, "--port", str(port)).error
    assert sentence.startswith(f"port {port} of 127.0.0.1 cannot be had (Address already in use)")
    assert "--port 0 takes any that is free" in sentence


def test_without_the_extra_serve_names_it(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("transduce.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    sentence = cli("serve", tiny_run).error
    assert sentence == (
        "serving needs uvicorn, which is not installed: pip install 'transduce[web]'"
    )


# --- Connections, and clients that are hostile ---------------------------------------------------

IDLE = b"GET /hea"  # of which more never comes


def test_one_connection_too_many_is_told_when_to_come_again(tiny_run: Path) -> None:
    limits = Limits(connections=3)
    served, _ = scripted(tiny_run)
    with listening(create_app([served], limits=limits), limits) as address:
        with contextlib.ExitStack() as taken:
            for _ in range(3):
                taken.enter_context(connected(address, IDLE))
            with connected(address, written(body("a dog."))) as client:
                raw = received(client)
        assert answer(raw) == (
            503,
            {"error": "3 connections are open already: try again in a second"},
        )
        assert b"\r\nretry-after: 1\r\n" in raw

        def fits() -> bool:
            with connected(address, written(body("a dog."))) as client:
                return answer(received(client))[0] == 200

        until(fits)


def test_of_many_more_connections_most_are_not_even_told(tiny_run: Path) -> None:
    limits = Limits(connections=2)
    served, _ = scripted(tiny_run)
    with (
        listening(create_app([served], limits=limits), limits) as address,
        contextlib.ExitStack() as all_of_them,
    ):
        clients = [all_of_them.enter_context(connected(address, IDLE)) for _ in range(20)]
        found = [received(client) for client in clients[12:]]
    assert found == [b""] * 8


def test_an_address_has_its_part_of_the_connections_and_proxies_and_this_machine_all() -> None:
    doors = Doors(40, proxies=["10.0.0.9"])
    assert [doors.enter("10.0.0.1") for _ in range(10)] == [""] * 10
    assert "10 connections of yours" in doors.enter("10.0.0.1")
    assert doors.enter("10.0.0.2") == ""
    doors.leave("10.0.0.1")
    doors.leave("10.0.0.1")
    assert doors.enter("10.0.0.1") == ""
    assert [doors.enter(one) for one in ("127.0.0.1", "10.0.0.9") for _ in range(14)] == [""] * 28
    assert doors.enter("10.0.0.3") == ""
    assert "40 connections are open" in doors.enter("10.0.0.3")
    for _ in range(10):
        doors.leave("10.0.0.1")
    assert "10.0.0.1" not in doors._of


@pytest.mark.parametrize(
    "start",
    [b"POST /api/translate HTTP/1.1\r\nX: ", written(b"", "/api/translate", "Content-Length: 999")],
)
def test_a_client_that_drips_is_let_go_all_the_same(tiny_run: Path, start: bytes) -> None:
    """A byte now and then, as slowloris sends them, buys no time."""
    with serving(tiny_run) as (address, _, _), connected(address, start) as client:
        client.settimeout(0.02)
        raw = b""
        end = time.monotonic() + PATIENCE
        while b"\r\n\r\n" not in raw and time.monotonic() < end:
            with contextlib.suppress(OSError):
                client.sendall(b"a")
            with contextlib.suppress(TimeoutError):
                raw += client.recv(65_536)
    assert raw.startswith(b"HTTP/1.1 408 ")


def test_nobody_gives_itself_another_address(tiny_run: Path) -> None:
    """uvicorn would believe whoever connects from this machine."""
    served, _ = scripted(tiny_run)
    limits = Limits(rate=3)
    statuses = []
    with listening(create_app([served], limits=limits), limits) as address:
        for number in range(4):
            more = (f"X-Forwarded-For: 1.2.3.{number}", "Content-Length: 0")
            with connected(address, written(b"", "/api/translate", *more)) as client:
                statuses.append(answer(received(client))[0])
    assert statuses == [400, 400, 400, 429]


def test_an_answer_that_breaks_off_is_logged_without_words(
    tiny_run: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.responses import Response

    words = "my secret"

    async def breaks(self: Response, scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError(words)  # which are not in the line of code that the log shows

    with (
        caplog.at_level("DEBUG"),
        serving(tiny_run) as (address, _, _),
        monkeypatch.context() as patch,
    ):
        patch.setattr(Response, "__call__", breaks)
        with connected(address, written(body("a dog."))) as client:
            received(client)
    assert "ValueError, raised in" in caplog.text
    assert "BrokenOff" in caplog.text
    assert "secret" not in caplog.text


def test_what_nobody_waits_for_is_logged_without_words(caplog: pytest.LogCaptureFixture) -> None:
    loop = cast("asyncio.AbstractEventLoop", None)
    of_loop(loop, {"message": "Task exception", "exception": ValueError("my secret")})
    of_loop(loop, {"message": "a handle\nis lost", "task": "my secret"})
    assert "ValueError" in caplog.text
    assert "a handle\\nis lost" in caplog.text
    assert "secret" not in caplog.text
