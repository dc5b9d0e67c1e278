"""`transduce serve`: its address, host names and refusals."""

import socket
import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND, CommandLine, environment

from serving import PATIENCE, connected, parse_answer, received, text_body, written
from transduce.errors import BadInput
from transduce.serving.origins import LOOPBACK, host_names
from transduce.serving.server import bind


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
        with connected((host, int(port)), written(text_body("a dog."))) as client:
            assert parse_answer(received(client))[0] == 200
        process.send_signal(2)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == "stopped\n"


@pytest.mark.parametrize(
    ("host", "answers"),
    [("127.0.0.1", {"127.0.0.1"}), ("127.0.1.1", {"127.0.1.1"}), ("LocalHost", {"localhost"})],
)
def test_a_local_service_answers_to_its_host_name(host: str, answers: set[str]) -> None:
    with bind(host, 0) as listening:
        result = host_names(listening, host)
    assert LOOPBACK | answers <= result.names
    for name in ("10.0.0.1", "[2001:db8::1]", "evil.example", socket.gethostname() + "x"):
        assert name not in result


def test_a_public_service_answers_to_addresses_and_allowed_names() -> None:
    with bind("0.0.0.0", 0) as listening:
        result = host_names(listening, "0.0.0.0", ["https://Translate.example.org:8443/", "inner"])
        every = host_names(listening, "0.0.0.0", ["*"])
        with pytest.raises(BadInput, match="--allow-host a/b: expected a name such as"):
            host_names(listening, "0.0.0.0", ["a/b"])
    for name in ("10.0.0.1", "[2001:db8::1]", "localhost", socket.gethostname().lower()):
        assert name in result
    assert {"translate.example.org", "inner"} <= result.names
    for name in ("evil.example", "10.0.0.1.evil.example", "0x7f000001", ""):
        assert name not in result
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
