"""The service for tests: called directly, or on a real socket."""

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from transduce.config import SearchConfig
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel
from transduce.serving.server import Server, bind
from transduce.serving.service import Service
from transduce.text.reading import read_lines
from transduce.translation.translator import Translator
from transduce.translation.types import Hypothesis, Job

PATIENCE = 60.0  # seconds after which a waiting test fails
QUICK = Limits(characters=5_000, receiving=0.2, timeout=PATIENCE)
KEY, OTHER, WRONG = (
    "one-key-of-20-letters",
    "another-key-of-more-letters",
    "wrong-key-of-20-letters",
)
GETS = ("/api/models", "/api/runs", "/api/runs/data", "/metrics")  # that need a key
POSTS = {
    "/api/translate": {"text": "a dog."},
    "/api/inspect": {"source": "a dog."},
    "/api/explorer.html": {"source": "a dog."},
    "/translate": {"q": "a dog.", "source": "en", "target": "de"},
    "/detect": {"q": "a dog."},
}


class Scripted:
    """An engine that returns its source when `go` is set."""

    name, batch = "scripted", 8

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[list[int]]] = []  # sources, in the order of the search
        self.settings: list[SearchConfig] = []
        self.go = threading.Event()
        self.failure: Exception | None = None
        if not held:
            self.go.set()

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the index and the tokens of each job."""
        assert len(jobs) <= batch
        self.batches.append([job.source.tolist() for job in jobs])
        self.settings.append(config)
        assert self.go.wait(PATIENCE)
        for index, job in enumerate(jobs):
            if self.failure is not None:
                raise self.failure
            yield index, [Hypothesis.of(job.source[:-1].tolist(), -1.0, config)] * config.nbest

    def lanes(self) -> "list[Scripted]":
        """Return this engine."""
        return [self]

    def score(self, pairs: object) -> Any:
        """Not used."""
        raise NotImplementedError

    align = score


def scripted(run: Path, name: str = "tiny", *, held: bool = False) -> tuple[ServedModel, Scripted]:
    """Serve a run's settings and subwords with a scripted engine."""
    loaded = Translator.load(run, engine="ctranslate2")
    engine = Scripted(held=held)
    translator = Translator(engine, loaded.codec, loaded.config, loaded.weights)
    return ServedModel(name, run, translator, 1), engine


def ask(app: FastAPI, method: str, path: str, **options: Any) -> httpx.Response:
    """Send one request to an app, without a socket."""

    async def asking() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return asyncio.run(asking())


def post(app: FastAPI, path: str, body: Any) -> httpx.Response:
    """Send JSON; bytes are sent unchanged."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(app, "POST", path, content=content, headers={"Content-Type": "application/json"})


def error(response: httpx.Response, status: int) -> str:
    """Return the message of an error answer with this status."""
    assert response.status_code == status, response.text
    value = response.json()
    assert list(value) == ["error"]
    assert "Traceback" not in value["error"]
    return str(value["error"])


@contextmanager
def listening(app: FastAPI, limits: Limits | None = None) -> Iterator[tuple[str, int]]:
    """Serve an app on a real socket, in a thread."""
    with bind("127.0.0.1", 0) as listening_socket:
        ready = threading.Event()
        server = Server(app, limits or Limits(), ready.set)
        thread = threading.Thread(target=server.run, args=([listening_socket],))
        thread.start()
        assert ready.wait(PATIENCE)
        address = listening_socket.getsockname()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextmanager
def connected(address: tuple[str, int], request: bytes = b"") -> Iterator[socket.socket]:
    """Connect to a server and send it some bytes."""
    with socket.create_connection(address, PATIENCE) as client:
        client.sendall(request)
        yield client


def received(client: socket.socket) -> bytes:
    """Return everything received until the server closes the connection."""
    result = b""
    try:
        while block := client.recv(65_536):
            result += block
    except ConnectionResetError:
        pass
    return result


def written(body: bytes, path: str = "/api/translate", *headers: str) -> bytes:
    """Return the bytes of a request with Connection: close."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Connection: close",
        *(headers or (f"Content-Length: {len(body)}",)),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def until(condition: Any) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def scripted_app(run: Path, limits: Limits | None = None, **access: Any) -> FastAPI:
    """Return an app with a scripted engine and these access rules."""
    return create_app([scripted(run)[0]], limits=limits, access=Access(**access))


def bearer(key: str) -> dict[str, str]:
    """Return the header with a key."""
    return {"Authorization": f"Bearer {key}"}


@contextmanager
def scripted_service(
    run: Path, *, held: bool = False, limits: Limits = QUICK
) -> Iterator[tuple[tuple[str, int], Scripted, Service]]:
    """Serve a scripted engine on a real socket; yield address, engine and service."""
    model, engine = scripted(run, held=held)
    app = create_app([model], limits=limits)
    try:
        with listening(app, limits) as address:
            yield address, engine, app.state.service
    finally:
        engine.go.set()


def parse_answer(raw: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and the JSON of the only answer on a connection."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"content-security-policy" in head
    return int(head.split()[1]), json.loads(body)


def text_body(text: str) -> bytes:
    """Return the body of a request to /api/translate."""
    return json.dumps({"text": text}).encode()


def translated(app: FastAPI, **fields: Any) -> Any:
    """Return the answer of /api/translate."""
    response = post(app, "/api/translate", fields)
    assert response.status_code == 200, response.text
    return response.json()


def translate_lines(translator: Translator, text: str, **options: Any) -> list[str]:
    """Return what `transduce translate --split` writes for a file with this text."""

    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(text.encode()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", Stdin)
        lines = [*read_lines("-")]
    return [item.text for item in translator.translate(lines, split=True, **options)]
