"""The service on a real socket: clients that leave, that are slow, that send too much."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from conftest import COMMAND, CommandLine, environment

from serving import PATIENCE, Scripted, connected, listening, received, scripted, until, written
from transduce.errors import BadInput
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.connections import IdleConnections
from transduce.serving.keys import Keys
from transduce.serving.limits import Limits
from transduce.serving.logs import log_loop_error
from transduce.serving.origins import LOOPBACK, host_names
from transduce.serving.pages import files
from transduce.serving.server import bind
from transduce.serving.service import Service

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
        until(lambda: service.sentences == 0)
        with connected(address, written(body("a fish."))) as client:
            until(lambda: service.sentences == 1)
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
def test_a_body_that_comes_too_slowly_is_answered_408(
    tiny_run: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tiny_run) as (address, _, _), connected(address, sent) as client:
        found, value = answer(received(client))
    assert found == 408
    assert list(value) == ["error"]
    assert caplog.text == ""


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"POST /api/translate HTTP/1.1\r\nHost: loc"])
def test_a_connection_without_a_whole_request_is_closed(
    tiny_run: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tiny_run) as (address, _, _), connected(address, sent) as client:
        assert is_refused_or_closed(received(client))
    assert caplog.text == ""


def is_refused_or_closed(raw: bytes) -> bool:
    """Tell whether a connection was closed, perhaps after an answer that what came is not HTTP."""
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
    with serving(tiny_run) as (address, _, _), connected(address) as client:
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
def test_trailers_without_an_end_take_no_memory(tiny_run: Path, keys: Keys | None) -> None:
    """A parser that keeps trailers, such as httptools, would hold all of them."""
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
    text = body("a dog.")
    served, _ = scripted(tiny_run)
    limits = Limits(rate=2)
    access = Access(keys=Keys([key]), proxies=["127.0.0.1"])
    statuses = []
    with listening(create_app([served], limits=limits, access=access), limits) as address:
        for trailer in (f"X-API-Key: {key}", f"Authorization: Bearer {key}"):
            sent = b"%x\r\n%s\r\n0\r\n%s\r\n\r\n" % (len(text), text, trailer.encode())
            with connected(address, written(sent, "/api/translate", CHUNKED)) as client:
                statuses.append(answer(received(client))[0])
        for number in range(3):
            sent = b"%x\r\n%s\r\n0\r\nX-Forwarded-For: 1.2.3.%d\r\n\r\n" % (
                len(text), text, number,
            )  # fmt: skip
            headers = (CHUNKED, f"X-API-Key: {key}", "X-Forwarded-For: 1.2.3.4")
            with connected(address, written(sent, "/api/translate", *headers)) as client:
                statuses.append(answer(received(client))[0])
    assert statuses == [401, 401, 200, 200, 429]


def test_an_idle_connection_may_be_used_again(tiny_run: Path) -> None:
    limits = Limits(receiving=1.0)
    request = written(body("a dog.")).replace(b"Connection: close\r\n", b"")
    with serving(tiny_run, limits=limits) as (address, _, _), connected(address) as client:
        for _ in range(3):
            client.sendall(request)
            assert b"200 OK" in client.recv(65_536)
            time.sleep(0.4)  # 1.2 seconds in all, longer than it may be idle
        client.sendall(b"GET /hea")
        assert received(client) == b""


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
    assert value["error"] == "the body is too large: at most 125,536 bytes are accepted"


def test_a_connection_whose_unwanted_body_has_come_is_kept(tiny_run: Path) -> None:
    late = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
    with serving(tiny_run) as (address, _, _):
        with connected(address, late) as client:
            assert b"415 " in client.recv(65_536)
            client.sendall(b"hello" + written(body("a dog.")))
            assert answer(received(client))[1]["text"] == "a dog."
        with connected(address, late) as client:
            assert b"415 " in received(client)  # which ends though the body never comes


@pytest.mark.parametrize("size", [100, 6_000_000])  # more than the kernel takes off its hands
def test_a_client_that_sends_on_gets_the_answer(tiny_run: Path, size: int) -> None:
    """The standard library's client sends the whole body before it reads why it was refused."""
    limits = Limits(characters=500, receiving=PATIENCE)
    with serving(tiny_run, limits=limits) as ((host, port), _, _):
        request = Request(f"http://{host}:{port}/api/inspec", b"a" * size)
        for path, status in (("/api/translate", 415), ("/nowhere", 404)):
            request.selector = path
            with pytest.raises(HTTPError) as caught:
                urlopen(request, timeout=PATIENCE)
            assert caught.value.code == status
            assert "error" in json.loads(caught.value.read())


def test_the_chunks_of_an_unwanted_body_are_not_read(tiny_run: Path) -> None:
    """To parse small chunks costs much time, in which nobody else is answered."""
    limits = Limits(receiving=PATIENCE)
    late = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(tiny_run, limits=limits) as (address, _, _), connected(address, late) as client:
        raw = received(client)  # ends at once
    assert b"415 " in raw
    assert b"connection: close" in raw


def test_an_answer_that_nobody_reads_is_dropped(tiny_run: Path) -> None:
    limits = Limits(receiving=0.1, timeout=0.4)
    size = len(dict(files())["/explorer.js"].content)
    count = 20_000_000 // size
    many = b"GET /explorer.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * count
    with (
        serving(tiny_run, limits=limits) as (address, _, _),
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE)
        client.connect(address)
        client.sendall(many)
        time.sleep(2)
        assert len(received(client)) < 10_000_000  # half of it: what the kernel held


def test_an_error_that_nobody_reads_is_dropped_without_a_traceback(tiny_run: Path) -> None:
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
        assert answer(received(client)) == (503, {"error": "the service is shutting down"})


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
        assert process.stderr.read() == "stopped\n"


@pytest.mark.parametrize(
    ("host", "answers"),
    [("127.0.0.1", {"127.0.0.1"}), ("127.0.1.1", {"127.0.1.1"}), ("LocalHost", {"localhost"})],
)
def test_a_service_of_this_machine_answers_to_the_name_it_was_given(
    host: str, answers: set[str]
) -> None:
    with bind(host, 0) as listening:
        found = host_names(listening, host)
    assert LOOPBACK | answers <= found.names
    for name in ("10.0.0.1", "[2001:db8::1]", "evil.example", socket.gethostname() + "x"):
        assert name not in found


def test_a_service_of_a_network_answers_to_addresses_and_to_names_that_are_allowed() -> None:
    with bind("0.0.0.0", 0) as listening:
        found = host_names(listening, "0.0.0.0", ["https://Translate.example.org:8443/", "inner"])
        every = host_names(listening, "0.0.0.0", ["*"])
        with pytest.raises(BadInput, match="--allow-host a/b: expected a name such as"):
            host_names(listening, "0.0.0.0", ["a/b"])
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
    assert "this machine has no such address" in cli("serve", tiny_run, "--host", "no host").error
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = cli("serve", tiny_run, "--port", str(port)).error
    assert sentence.startswith(
        f"port {port} of 127.0.0.1 is not available (Address already in use)"
    )
    assert "--port 0 takes a free one" in sentence


def test_without_the_extra_serve_names_it(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("transduce.serving.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    sentence = cli("serve", tiny_run).error
    assert sentence == (
        "serving needs uvicorn, which is not installed: pip install 'transduce[web]'"
    )


# --- Connections, and clients that are hostile ---------------------------------------------------

IDLE = b"GET /hea"  # of which more never comes


def test_connections_that_are_never_used_do_not_keep_others_out(tiny_run: Path) -> None:
    limits = Limits(connections=8, receiving=PATIENCE)
    served, _ = scripted(tiny_run)
    with (
        listening(create_app([served], limits=limits), limits) as address,
        contextlib.ExitStack() as taken,
    ):
        unused = [taken.enter_context(connected(address, IDLE)) for _ in range(20)]
        with connected(address, written(body("a dog."))) as client:
            assert answer(received(client))[0] == 200
        until(lambda: sum(map(is_closed, unused)) >= 12)
        assert sum(map(is_closed, unused)) == 12  # 8 are left


def test_one_request_too_many_is_told_when_to_come_again(tiny_run: Path) -> None:
    limits = Limits(connections=2)
    with (
        serving(tiny_run, held=True, limits=limits) as (address, engine, service),
        connected(address, written(body("a dog."))) as first,
        connected(address, written(body("a cat."))) as second,
    ):
        until(lambda: service.requests == 2)
        with connected(address, written(body("a man."))) as third:
            raw = received(third)
        assert answer(raw) == (
            503,
            {"error": "2 requests are in progress: try again in 1 second"},
        )
        assert b"\r\nretry-after: 1\r\n" in raw
        engine.go.set()
        assert [answer(received(one))[0] for one in (first, second)] == [200, 200]


def is_closed(client: socket.socket) -> bool:
    """Tell whether the server has closed a connection on which it has sent nothing."""
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
    for one in busy:
        idle.begin(scope(*one))
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
def test_a_client_that_drips_is_let_go_all_the_same(
    tiny_run: Path, start: bytes, end: bytes
) -> None:
    """A byte now and then, as slowloris sends them, buys no time."""
    raw = b""
    with serving(tiny_run) as (address, _, _), connected(address, start) as client:
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
    assert "AnswerAborted" in caplog.text
    assert "secret" not in caplog.text


def test_what_nobody_waits_for_is_logged_without_words(caplog: pytest.LogCaptureFixture) -> None:
    loop = cast("asyncio.AbstractEventLoop", None)
    log_loop_error(loop, {"message": "Task exception", "exception": ValueError("my secret")})
    log_loop_error(loop, {"message": "a handle\nis lost", "task": "my secret"})
    assert "ValueError" in caplog.text
    assert "a handle\\nis lost" in caplog.text
    assert "secret" not in caplog.text
