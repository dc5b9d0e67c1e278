"""The clients of the load test count answers, retries and wrong translations correctly."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

import load_clients
from load_clients import NO_ANSWER, Texts, closed_loop, percentiles

SOURCES = ["one", "two\nlines", "drei Wörter hier", "four"]
TEXTS = Texts(SOURCES, [source.upper() for source in SOURCES], {"beam": 2})


class Answer(NamedTuple):
    """An answer of the server below."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False


def uppercase(request: dict[str, Any]) -> Answer:
    return Answer(200, json.dumps({"text": request["text"].upper()}).encode())


@contextmanager
def server(
    answer: Callable[[dict[str, Any]], Answer],
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Serve on a free port; yield the port and the list of requests."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body, headers, closes = answer(requests[-1])
            self.send_response(status)
            for name, value in [*headers, ("Content-Length", str(len(body)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = closes

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield http.server_port, requests
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.mark.parametrize("clients", [1, 9])
def test_every_text_is_sent_once_by_any_number_of_clients(clients: int) -> None:
    with server(uppercase) as (port, requests):
        load = closed_loop(port, TEXTS, iter(range(4)), clients=clients)
    assert Counter(request["text"] for request in requests) == Counter(SOURCES)
    assert all((request["split"], request["beam"]) == (True, 2) for request in requests)
    assert (load.statuses, load.wrong, load.retries) == ({"200": 4}, 0, 0)
    assert 0 < min(load.latencies) <= max(load.latencies) <= load.seconds
    assert load.speed == 4 / load.seconds


def test_wrong_translations_are_counted_and_the_first_is_reported() -> None:
    def misspell(request: dict[str, Any]) -> Answer:
        return Answer(200, json.dumps({"text": request["text"].upper().replace("U", "")}).encode())

    with server(misspell) as (port, _):
        load = closed_loop(port, TEXTS, iter([0, 3, 1, 3]), clients=1)
    assert (load.statuses, load.wrong) == ({"200": 4}, 2)
    assert load.first_wrong == {"source": "four", "expected": "FOUR", "found": "FOR"}


def test_503_is_retried_after_the_pause_and_other_errors_are_not() -> None:
    answers = iter([Answer(503, b"{}", (("Retry-After", "0"),)), Answer(413, b"too long")])
    with server(lambda request: next(answers, uppercase(request))) as (port, requests):
        load = closed_loop(port, TEXTS, iter([0, 1]), clients=1)
    assert [request["text"] for request in requests] == ["one", "one", SOURCES[1]]
    assert (load.statuses, load.retries) == ({"503": 1, "413": 1, "200": 1}, 1)
    assert load.first_error == "413: b'too long'"
    assert len(load.latencies) == 1


@pytest.mark.parametrize("headers", [(("Connection", "close"),), ()])
def test_a_closed_connection_is_opened_again(headers: tuple[tuple[str, str], ...]) -> None:
    closing = uppercase({"text": "one"})._replace(headers=headers, closes=True)
    with server(lambda _: closing) as (port, _):
        assert closed_loop(port, TEXTS, iter([0, 0, 0]), clients=1).statuses == {"200": 3}


def test_requests_without_an_answer_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(uppercase) as (port, _):
        pass
    assert closed_loop(port, TEXTS, iter([0, 1]), clients=2).statuses == {NO_ANSWER: 2}
    monkeypatch.setattr(load_clients, "TIMEOUT", 0.05)
    go = threading.Event()

    def wait(request: dict[str, Any]) -> Answer:
        go.wait()
        return uppercase(request)

    with server(wait) as (port, _):
        load = closed_loop(port, TEXTS, iter([0]), clients=1)
        go.set()
    assert load.statuses == {NO_ANSWER: 1}


def test_percentiles_are_of_sorted_milliseconds() -> None:
    seconds = [number / 1000 for number in range(100, 0, -1)]
    assert percentiles(seconds) == {"median": 51, "95": 96, "99": 100}
    assert percentiles([]) == {}
