"""`transduce serve`: its address, its host names, and what it refuses."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import COMMAND, CommandLine, environment

from serving import PATIENCE, Scripted, connected, listening, received, scripted, written
from transduce.errors import BadInput
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.origins import LOOPBACK, host_names
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


def test_serve_prints_its_address_and_ctrl_c_stops_it(tiny_run: Path) -> None:
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
def test_a_local_service_answers_to_its_host_name(host: str, answers: set[str]) -> None:
    with bind(host, 0) as listening:
        found = host_names(listening, host)
    assert LOOPBACK | answers <= found.names
    for name in ("10.0.0.1", "[2001:db8::1]", "evil.example", socket.gethostname() + "x"):
        assert name not in found


def test_a_public_service_answers_to_addresses_and_allowed_names() -> None:
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


def test_invalid_arguments_of_serve_are_one_sentence(
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


def test_a_missing_extra_is_named(
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
