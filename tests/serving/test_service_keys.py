"""API keys of the service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from conftest import CommandLine
from fastapi import FastAPI

from serving import GETS, KEY, OTHER, POSTS, WRONG, ask, bearer, error, post, scripted_app
from transduce.errors import BadInput
from transduce.serving.clients import (
    ATTEMPTS,
)
from transduce.serving.keys import Keys, key_in, read_keys


@pytest.fixture(scope="module")
def locked(tiny_run: Path) -> Iterator[FastAPI]:
    """A service that needs one of two keys."""
    app = scripted_app(tiny_run, keys=Keys([KEY, OTHER]))
    yield app
    assert app.state.service.close()


@pytest.mark.parametrize("path", [*GETS, *POSTS, "/nowhere"])
def test_requests_without_a_key_are_refused(locked: FastAPI, path: str) -> None:
    answer = post(locked, path, POSTS[path]) if path in POSTS else ask(locked, "GET", path)
    sentence = error(answer, 401)
    assert answer.headers["www-authenticate"] == 'Bearer realm="transduce"'
    assert "key" in sentence


def test_pages_and_health_need_no_key(locked: FastAPI) -> None:
    free = ("/languages", "/frontend/settings", "/openapi.json", "/health")
    for path in ("/", "/runs", "/docs", "/key.js", "/base.css", *free):
        assert ask(locked, "GET", path).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [bearer(KEY), bearer(OTHER), {"Authorization": f"bearer  {KEY} "}, {"X-API-Key": KEY}],
)
def test_a_key_is_taken_from_either_header(locked: FastAPI, headers: dict[str, str]) -> None:
    answer = ask(locked, "POST", "/api/translate", json={"text": "a dog."}, headers=headers)
    assert answer.json()["text"] == "a dog."
    assert ask(locked, "GET", "/api/models", headers=headers).status_code == 200


def test_libretranslate_clients_may_send_the_key_in_the_body(locked: FastAPI) -> None:
    calls = POSTS["/translate"]
    for key, status in ((KEY, 200), (WRONG, 401), ("", 401)):
        assert post(locked, "/translate", {**calls, "api_key": key}).status_code == status
        form = urlencode({**calls, "api_key": key}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = ask(locked, "POST", "/translate", content=form, headers=kind)
        assert answer.status_code == status
    header = ask(locked, "POST", "/translate", json=calls, headers=bearer(KEY))
    assert header.json() == {"translatedText": "a dog."}
    body = {**calls, "api_key": KEY}
    error(ask(locked, "POST", "/translate", json=body, headers=bearer(WRONG)), 401)


def test_wrong_keys_are_refused_and_rate_limited(tiny_run: Path) -> None:
    app = scripted_app(tiny_run, keys=Keys([KEY]))
    for _ in range(ATTEMPTS):
        assert "unknown" in error(ask(app, "GET", "/api/models", headers=bearer(WRONG)), 401)
    for key in (WRONG, KEY):  # even the right one, or guessing would continue
        answer = ask(app, "GET", "/api/models", headers=bearer(key))
        assert "too many wrong keys" in error(answer, 429)
        assert 1 <= int(answer.headers["retry-after"]) <= 60 / ATTEMPTS
    error(ask(app, "GET", "/api/models"), 401)


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    lengths: list[tuple[int, int]] = []

    def compare(left: bytes, right: bytes) -> bool:
        lengths.append((len(left), len(right)))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    keys = Keys([KEY, OTHER, KEY + "x"])
    assert [keys.find(key.encode()) for key in (KEY, OTHER, WRONG, "")] == [0, 1, None, None]
    assert lengths == [(32, 32)] * 12  # digests: even the length of a key stays secret
    assert KEY.encode() not in repr(vars(keys)).encode()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        ([(b"authorization", b"Basic abc")], None),
        ([(b"authorization", b"Bearer  x ")], b"x"),
        ([(b"x-api-key", b" y ")], b"y"),
        ([(b"x-api-key", b"y"), (b"authorization", b"bearer x")], b"x"),
        ([(b"authorization", b"Bearer \xff")], b"\xff"),
    ],
)
def test_the_key_is_read_from_headers(
    headers: list[tuple[bytes, bytes]], expected: bytes | None
) -> None:
    assert key_in(headers) == expected


def test_keys_come_from_a_file_and_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{KEY}\n\n  {OTHER}\t\n", encoding="utf-8")
    file.chmod(0o600)
    keys, warning = read_keys(file, {})
    assert keys is not None
    assert warning == ""
    assert [keys.find(key.encode()) for key in (KEY, OTHER, "# ours")] == [0, 1, None]
    file.chmod(0o644)
    assert "chmod 600" in read_keys(file, {})[1]
    both, _ = read_keys(file, {"TRANSDUCE_KEY": f"{WRONG}\n{KEY}"})
    assert both is not None
    assert both.find(WRONG.encode()) == 2
    assert read_keys(None, {"TRANSDUCE_KEY": " \n"}) == (None, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no key"),
        ("# nothing\n\n", "holds no key"),
        (f"{KEY}\nshort-secret\n", "line 2"),
        ("fifteen-letters", "a key of 15 characters: expected at least 16"),
        ("a secret with several words", "without spaces"),
        ("schlüssel-schlüssel", "ASCII"),
        ("tab\tinside-of-a-long-key", "ASCII"),
    ],
)
def test_an_invalid_key_is_refused_without_being_shown(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "keys"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        read_keys(file, {})
    sentence = str(caught.value)
    assert words in sentence
    assert "secrets.token_urlsafe" in sentence
    for secret in ("short-secret", "fifteen", "several", "schl", "inside", KEY):
        assert secret not in sentence


def test_an_unreadable_key_file_is_one_sentence(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    for command in ("serve", "watch"):
        found = cli(command, tiny_run, "--port", "0", "--key-file", tmp_path / "none").error
        assert "cannot be read: No such file" in found
    (tmp_path / "keys").write_bytes(b"\xff\xfe")
    found = cli("serve", tiny_run, "--port", "0", "--key-file", tmp_path / "keys").error
    assert "is not UTF-8" in found


def scope(address: str, *forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", address.encode()) for address in forwarded]
    return {"client": (address, 1234), "headers": headers}
