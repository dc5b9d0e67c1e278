"""The service for tests: asked directly, or on a real socket."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from transduce.config import SearchConfig
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel
from transduce.serving.server import Server, bind
from transduce.translation.translator import Translator
from transduce.translation.types import Hypothesis, Job

PATIENCE = 60.0  # seconds after which a test that waits has failed


class Scripted:
    """An engine that writes its source again, when it is told to."""

    name, batch = "scripted", 8

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[list[int]]] = []  # sources, in the order they were searched
        self.settings: list[SearchConfig] = []
        self.go = threading.Event()
        self.failure: Exception | None = None
        if not held:
            self.go.set()

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's place and its own tokens."""
        assert len(jobs) <= batch
        self.batches.append([job.source.tolist() for job in jobs])
        self.settings.append(config)
        assert self.go.wait(PATIENCE)
        for place, job in enumerate(jobs):
            if self.failure is not None:
                raise self.failure
            yield place, [Hypothesis.of(job.source[:-1].tolist(), -1.0, config)] * config.nbest

    def lanes(self) -> "list[Scripted]":
        """Return itself alone."""
        return [self]

    def score(self, pairs: object) -> Any:
        """Not asked for."""
        raise NotImplementedError

    align = score


def scripted(run: Path, name: str = "tiny", *, held: bool = False) -> tuple[ServedModel, Scripted]:
    """Serve a run's settings and subwords with an engine that is told when to answer."""
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
    """Send JSON; bytes are sent as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(app, "POST", path, content=content, headers={"Content-Type": "application/json"})


def error(response: httpx.Response, status: int) -> str:
    """Return the sentence of an answer that is an error of this status."""
    assert response.status_code == status, response.text
    value = response.json()
    assert list(value) == ["error"]
    assert "Traceback" not in value["error"]
    return str(value["error"])


@contextmanager
def listening(app: FastAPI, limits: Limits | None = None) -> Iterator[tuple[str, int]]:
    """Serve an app on a real socket, in a thread."""
    with bind("127.0.0.1", 0) as place:
        ready = threading.Event()
        server = Server(app, limits or Limits(), ready.set)
        thread = threading.Thread(target=server.run, args=([place],))
        thread.start()
        assert ready.wait(PATIENCE)
        address = place.getsockname()
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
    """Return all that comes until the server closes the connection."""
    found = b""
    try:
        while block := client.recv(65_536):
            found += block
    except ConnectionResetError:
        pass
    return found


def written(body: bytes, path: str = "/api/translate", *headers: str) -> bytes:
    """Write a request as it goes over the wire, after which the connection is to be closed."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Connection: close",
        *(headers or (f"Content-Length: {len(body)}",)),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def until(condition: Any) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)
