"""The log holds neither texts nor keys."""

import logging
import os
import re
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from conftest import COMMAND, environment

from serving import KEY, OTHER, PATIENCE, WRONG, ask, bearer, post, scripted, scripted_app
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.keys import Keys

CLIENTS = {"httpx", "httpcore"}


SECRET = "quite secret words"


class Careless(Exception):
    """An error whose message quotes the text."""


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log without that of the HTTP client."""
    return [
        logging.Formatter().format(entry) for entry in caplog.records if entry.name not in CLIENTS
    ]


def test_no_text_and_no_key_is_ever_logged(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served, engine = scripted(tiny_run)
    app = create_app([served], access=Access(keys=Keys([KEY]), log_requests=True))
    engine.failure = Careless(f"cannot search {SECRET}")
    engine.failure.__cause__ = Careless(SECRET)
    with caplog.at_level(logging.DEBUG):
        for headers in (bearer(KEY), bearer(WRONG)):
            for body in ({"text": SECRET}, {SECRET: "x"}, {"text": "a", "model": SECRET}):
                ask(app, "POST", "/api/translate", json=body, headers=headers)
        calls = {"q": SECRET, "source": "en", "target": "de", "api_key": KEY}
        assert post(app, "/translate", calls).status_code == 500
        ask(app, "GET", f"/api/runs/data?run={SECRET}", headers=bearer(KEY))
    message = "\n".join(logged(caplog))
    assert "Careless, raised in" in message
    assert "after Careless" in message
    assert "batching.py" in message
    assert "POST /api/translate 500" in message
    for secret in (SECRET, SECRET.split()[1], KEY, WRONG):
        assert secret not in message
    assert app.state.service.close()


def test_log_texts_logs_texts(tiny_run: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = scripted_app(tiny_run, log_texts=True)
    with caplog.at_level(logging.INFO):
        post(app, "/api/translate", {"text": "ein Hörer.\n\x1b[31mrot\u202e"})
    assert logged(caplog) == [r"text: ein Hörer.\n\x1b[31mrot\u202e"]
    assert app.state.service.close()


def test_a_logged_path_cannot_add_lines(tiny_run: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = scripted_app(tiny_run, log_requests=True)
    with caplog.at_level(logging.INFO):
        ask(app, "GET", "/a%0Ab%1B[2J%E2%80%AE" + "x" * 500 + "?text=hidden")
    (line,) = logged(caplog)
    assert re.fullmatch(r"GET /a\\nb\\x1b\[2J\\u202ex+ 404 [\d.]+ ms", line)
    assert len(line) < 300


def test_stderr_of_a_process_has_no_texts_or_keys(tiny_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n", encoding="utf-8")
    file.chmod(0o644)
    options = ["--port", "0", "--key-file", str(file), "--access-log"]
    with subprocess.Popen(
        [*COMMAND, "serve", str(tiny_run), *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"DISPLAY": "", "TRANSDUCE_KEY": OTHER, "PYTHONASYNCIODEBUG": "1"}),
    ) as process:
        assert process.stderr is not None
        message = ""
        while "http://" not in message:
            message += process.stderr.readline()
        port = re.search(r"http://127.0.0.1:(\d+)", message)
        assert port is not None
        with httpx.Client(base_url=f"http://127.0.0.1:{port[1]}", timeout=PATIENCE) as client:
            for key, status in ((KEY, 200), (OTHER, 200), (WRONG, 401)):
                sent = client.post(f"/api/translate?x={SECRET}", json={"text": SECRET},
                                   headers=bearer(key))  # fmt: skip
                assert sent.status_code == status
        with socket.create_connection(("127.0.0.1", int(port[1]))) as half:
            half.sendall(f"GET /{SECRET} HTTP/1.1\r\nX: {KEY}".encode())
        process.terminate()
        message += process.stderr.read()
        process.wait(PATIENCE)
    assert "chmod 600" in message
    assert message.count("POST /api/translate 200") == 2
    assert message.count("POST /api/translate 401") == 1
    for secret in (SECRET, "secret", KEY, OTHER, WRONG):
        assert secret not in message


def test_a_public_service_without_keys_warns(tmp_path: Path) -> None:
    from transduce.serving.server import bind

    messages: list[str] = []
    with bind("0.0.0.0", 0) as listening:
        Access.from_options(listening, "0.0.0.0", messages.append, log_texts=True)
    with bind("127.0.0.1", 0) as listening:
        Access.from_options(listening, "127.0.0.1", messages.append)
    assert [line.partition(":")[0] for line in messages] == ["warning"] * 2
    assert "--key-file" in messages[0]
    assert "texts of all clients" in messages[1]
    assert "TRANSDUCE_KEY" not in os.environ
