"""Who may use the service: keys, names, other sites' pages; and how much each client may take."""

import asyncio
import logging
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from conftest import COMMAND, CommandLine, environment
from fastapi import FastAPI

from serving import PATIENCE, ask, error, post, scripted
from transduce.errors import BadInput
from transduce.serving import clients as clients_module
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.clients import (
    ATTEMPTS,
    UNKNOWN,
    Clients,
    TokenBucket,
    group,
    is_local,
    proxy_addresses,
)
from transduce.serving.keys import Keys, key_in, read_keys
from transduce.serving.limits import PER_CLIENT, RATE, Limits
from transduce.serving.origins import parse_origins
from transduce.serving.problems import Problem

KEY, OTHER, WRONG = (
    "one-key-of-20-letters",
    "another-key-of-more-letters",
    "wrong-key-of-20-letters",
)
WORKING = ("/api/models", "/api/runs", "/api/runs/data", "/metrics")
ASKING = {
    "/api/translate": {"text": "a dog."},
    "/api/inspect": {"source": "a dog."},
    "/api/explorer.html": {"source": "a dog."},
    "/translate": {"q": "a dog.", "source": "en", "target": "de"},
    "/detect": {"q": "a dog."},
}


def served(run: Path, limits: Limits | None = None, **access: Any) -> FastAPI:
    return create_app([scripted(run)[0]], limits=limits, access=Access(**access))


@pytest.fixture(scope="module")
def locked(tiny_run: Path) -> Iterator[FastAPI]:
    """A service that needs one of two keys."""
    app = served(tiny_run, keys=Keys([KEY, OTHER]))
    yield app
    assert app.state.service.close()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


# --- Keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*WORKING, *ASKING, "/nowhere"])
def test_nothing_that_works_is_done_without_a_key(locked: FastAPI, path: str) -> None:
    answer = post(locked, path, ASKING[path]) if path in ASKING else ask(locked, "GET", path)
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


def test_a_client_of_libretranslate_may_have_its_key_in_the_body(locked: FastAPI) -> None:
    asked = ASKING["/translate"]
    for key, status in ((KEY, 200), (WRONG, 401), ("", 401)):
        assert post(locked, "/translate", {**asked, "api_key": key}).status_code == status
        form = urlencode({**asked, "api_key": key}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = ask(locked, "POST", "/translate", content=form, headers=kind)
        assert answer.status_code == status
    header = ask(locked, "POST", "/translate", json=asked, headers=bearer(KEY))
    assert header.json() == {"translatedText": "a dog."}
    body = {**asked, "api_key": KEY}
    error(ask(locked, "POST", "/translate", json=body, headers=bearer(WRONG)), 401)


def test_wrong_keys_are_refused_and_soon_not_even_compared(tiny_run: Path) -> None:
    app = served(tiny_run, keys=Keys([KEY]))
    for _ in range(ATTEMPTS):
        assert "unknown" in error(ask(app, "GET", "/api/models", headers=bearer(WRONG)), 401)
    for key in (WRONG, KEY):  # or guessing would go on
        answer = ask(app, "GET", "/api/models", headers=bearer(key))
        assert "too many wrong keys" in error(answer, 429)
        assert 1 <= int(answer.headers["retry-after"]) <= 60 / ATTEMPTS
    error(ask(app, "GET", "/api/models"), 401)


def test_every_key_is_compared_whole_and_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    seen: list[tuple[int, int]] = []

    def watched(one: bytes, other: bytes) -> bool:
        seen.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", watched)
    keys = Keys([KEY, OTHER, KEY + "x"])
    assert [keys.find(one.encode()) for one in (KEY, OTHER, WRONG, "")] == [0, 1, None, None]
    assert seen == [(32, 32)] * 12  # digests: not even the length of a key shows
    assert KEY.encode() not in repr(vars(keys)).encode()


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], None),
        ([(b"authorization", b"Basic abc")], None),
        ([(b"authorization", b"Bearer  x ")], b"x"),
        ([(b"x-api-key", b" y ")], b"y"),
        ([(b"x-api-key", b"y"), (b"authorization", b"bearer x")], b"x"),
        ([(b"authorization", b"Bearer \xff")], b"\xff"),
    ],
)
def test_a_header_shows_a_key(headers: list[tuple[bytes, bytes]], found: bytes | None) -> None:
    assert key_in(headers) == found


def test_keys_come_from_a_file_and_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{KEY}\n\n  {OTHER}\t\n", encoding="utf-8")
    file.chmod(0o600)
    keys, warning = read_keys(file, {})
    assert keys is not None
    assert warning == ""
    assert [keys.find(one.encode()) for one in (KEY, OTHER, "# ours")] == [0, 1, None]
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
def test_a_key_that_cannot_serve_is_refused_without_being_shown(
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


def test_a_key_file_that_is_not_there_is_one_sentence(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    for command in ("serve", "watch"):
        found = cli(command, tiny_run, "--port", "0", "--key-file", tmp_path / "none").error
        assert "cannot be read: No such file" in found
    (tmp_path / "keys").write_bytes(b"\xff\xfe")
    found = cli("serve", tiny_run, "--port", "0", "--key-file", tmp_path / "keys").error
    assert "is not UTF-8" in found


# --- Names and sites ---------------------------------------------------------------------------


FOREIGN = {
    "another site": {"Origin": "https://evil.example"},
    "a sandboxed page": {"Origin": "null"},
    "another port": {"Origin": "http://localhost:3000"},
    "a name that begins alike": {"Origin": "http://localhost.evil.example"},
    "a browser's word": {"Sec-Fetch-Site": "cross-site"},
    "a neighbour": {"Sec-Fetch-Site": "same-site"},
    "a form that is sent": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_pages_of_other_sites_cannot_make_it_work(tiny_run: Path, name: str, kind: str) -> None:
    served, engine = scripted(tiny_run)
    app = create_app([served])
    form = urlencode(ASKING["/translate"]).encode()
    answer = ask(
        app, "POST", "/translate", content=form, headers={"Content-Type": kind, **FOREIGN[name]}
    )
    assert "another site" in error(answer, 403)
    assert engine.batches == []
    assert not [one for one in answer.headers if one.startswith("access-control")]


def test_programs_own_pages_and_links_from_elsewhere_pass(tiny_run: Path) -> None:
    app = served(tiny_run)
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    for headers in ({}, own, {"Origin": "http://localhost"}, {"Sec-Fetch-Site": "none"}):
        sent = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=headers)
        assert sent.status_code == 200
    proxied = {"Origin": "https://translate.example", "Sec-Fetch-Site": "same-origin"}
    sent = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=proxied)
    assert sent.status_code == 200  # behind a proxy, the host has another name
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(app, "GET", "/", headers=link).status_code == 200
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    error(ask(app, "GET", "/api/runs", headers=image), 403)
    assert app.state.service.close()


def test_sites_that_are_allowed_are_answered_as_browsers_ask(tiny_run: Path) -> None:
    origin = "https://app.example"
    app = served(tiny_run, origins=parse_origins([origin + "/"]), keys=Keys([KEY]))
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}
    leave = ask(app, "OPTIONS", "/api/translate", headers={"Origin": origin, **asks})
    assert leave.status_code == 200
    assert leave.headers["access-control-allow-origin"] == origin
    assert "POST" in leave.headers["access-control-allow-methods"]
    assert "x-api-key" in leave.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in leave.headers
    site = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
    sent = ask(
        app, "POST", "/api/translate", json={"text": "a dog."}, headers={**site, **bearer(KEY)}
    )
    assert sent.headers["access-control-allow-origin"] == origin
    assert sent.headers["vary"] == "Origin"
    assert sent.headers["access-control-expose-headers"] == "Retry-After"
    refused = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=site)
    error(refused, 401)
    assert refused.headers["access-control-allow-origin"] == origin  # its page can tell why
    for other in ("https://evil.example", "http://app.example", "https://app.example.evil"):
        for method, status in (("OPTIONS", 400), ("POST", 403)):
            sent = ask(app, method, "/api/translate", headers={"Origin": other, **asks})
            assert sent.status_code == status
            assert "access-control-allow-origin" not in sent.headers
    assert app.state.service.close()


@pytest.mark.parametrize("origin", ["*", "null", "example.org", "https://a.org/path", "https://*"])
def test_an_origin_is_a_site_and_never_all(origin: str) -> None:
    with pytest.raises(BadInput, match="--allow-origin"):
        parse_origins([origin])


# --- Clients -----------------------------------------------------------------------------------


def scope(address: str, *forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", one.encode()) for one in forwarded]
    return {"client": (address, 1234), "headers": headers}


class Clock:
    """A clock by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_client_may_ask_so_often_in_a_minute() -> None:
    clock = Clock()
    clients = Clients(Limits(rate=30), clock=clock)

    def asks(address: str = "10.0.0.1") -> int:
        try:
            admission = clients.admission(scope(address))
            admission.admit(None, free=True)
            admission.end()
        except Problem as problem:
            return int((problem.headers or {})["Retry-After"])
        return 0

    assert [asks() for _ in range(30)] == [0] * 30
    assert asks() == 2
    assert asks("10.0.0.2") == 0
    clock.now = 1.0
    assert asks() == 1
    clock.now = 2.0
    assert [asks(), asks()] == [0, 2]
    clock.now = 1_000.0
    assert [asks() for _ in range(31)] == [0] * 30 + [2]


def test_what_is_not_said_holds_for_other_machines_alone() -> None:
    assert Limits().for_client(local=True) == (0, 0)
    assert Limits().for_client(local=False) == (RATE, PER_CLIENT)
    for local in (True, False):
        assert Limits(rate=5, per_client=0).for_client(local=local) == (5, 0)
    assert all(map(is_local, map(group, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"))))
    assert not any(map(is_local, map(group, ("10.0.0.1", "2001:db8::1", "", "unknown"))))


def test_addresses_of_one_network_are_one_client() -> None:
    assert group("2001:db8:1:2::1") == group("2001:db8:1:2:ffff::9") != group("2001:db8:1:3::1")
    assert group("::ffff:10.0.0.1") == group("10.0.0.1") != group("10.0.0.2")
    assert group("fe80::1%eth0")
    assert group("no address") == "no address"


@pytest.mark.parametrize(
    ("address", "forwarded", "found"),
    [
        ("10.0.0.9", ["1.2.3.4"], "10.0.0.9"),  # whoever asks may say anything
        ("127.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("127.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),  # the last is what the proxy saw
        ("127.0.0.1", ["6.6.6.6", "1.2.3.4, 10.0.0.1"], "1.2.3.4"),  # behind two proxies
        ("::ffff:127.0.0.1", ["2001:db8::5"], "2001:db8::/64"),
        ("127.0.0.1", ["1.2.3.4, no address"], UNKNOWN),  # never as one of this machine
        ("127.0.0.1", [], UNKNOWN),
        ("127.0.0.1", ["10.0.0.1"], UNKNOWN),
    ],
)
def test_a_trusted_proxy_tells_whose_a_request_is(
    address: str, forwarded: list[str], found: str
) -> None:
    clients = Clients(Limits(), proxies=proxy_addresses(["127.0.0.1", "10.0.0.1"]))
    assert clients.address(scope(address, *forwarded)) == found


def test_a_proxy_is_an_address() -> None:
    with pytest.raises(BadInput, match="--trusted-proxy nginx: expected an address"):
        proxy_addresses(["nginx"])


def test_what_is_known_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "MAX_CLIENTS", 50)
    clients = Clients(Limits(), Keys([KEY]))
    for number in range(500):
        admission = clients.admission(scope(f"10.0.{number // 250}.{number % 250}"))
        with pytest.raises(Problem):
            admission.admit(WRONG.encode(), free=False)
    assert len(clients._recent) == 50


def test_a_bucket_never_holds_more_than_a_minute() -> None:
    bucket = TokenBucket(60, now=0.0)
    assert bucket.wait(1e9) == 0
    for _ in range(60):
        assert bucket.wait(1e9) == 0
        bucket.take()
    assert bucket.wait(1e9) == 1


async def together(app: FastAPI, *sent: tuple[str, str]) -> list[httpx.Response]:
    """Send texts of some addresses one after another, though none is answered before the last."""
    service = app.state.service
    waiting = []
    for address, text in sent:
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        held = service.sentences
        task = asyncio.ensure_future(client.post("/api/translate", json={"text": text}))
        waiting.append((client, task))
        while not task.done() and service.sentences == held:
            await asyncio.sleep(0.001)
    (one,) = service.models.values()
    one.translator.engine.go.set()
    answers = [await task for _, task in waiting]
    for client, _ in waiting:
        await client.aclose()
    return answers


def statuses(run: Path, limits: Limits, *sent: tuple[str, str]) -> list[int]:
    app = create_app([scripted(run, held=True)[0]], limits=limits)
    answers = asyncio.run(together(app, *sent))
    assert app.state.service.close()
    for one in answers:
        if one.status_code == 429:
            assert int(one.headers["retry-after"]) >= 1
            assert "of your" in error(one, 429)
    return [one.status_code for one in answers]


def test_one_client_cannot_take_all_of_the_work_or_of_the_queue(tiny_run: Path) -> None:
    one, other, here = "10.0.0.1", "10.0.0.2", "127.0.0.1"
    several = [(one, "a dog."), (one, "a man."), (one, "a fish."), (other, "a tree.")]
    assert statuses(tiny_run, Limits(per_client=2), *several) == [200, 200, 429, 200]
    three, five = "a dog. a man. a fish.", "a dog. a man. a fish. a tree. a bird."
    half = [(one, three), (one, "a bird. a tree."), (other, three), (one, "a bird.")]
    assert statuses(tiny_run, Limits(queue=8), *half) == [200, 429, 200, 200]
    assert statuses(tiny_run, Limits(queue=8), (one, five), (here, five)) == [413, 200]


def test_whose_turn_is_too_far_away_is_told_so(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served], limits=Limits(wait=1.0))
    service = app.state.service
    service._speed.add(100, 100.0)  # one in a second
    sent = [("127.0.0.1", f"number {n}.") for n in range(engine.batch + 1)]
    *fine, late = asyncio.run(together(app, *sent))
    assert app.state.service.close()
    assert {one.status_code for one in fine} == {200}  # they fit into the next batch
    assert f"{engine.batch} requests are waiting" in error(late, 503)
    assert int(late.headers["retry-after"]) >= 1


def test_a_client_is_forgotten_when_its_requests_end(tiny_run: Path) -> None:
    app = served(tiny_run, Limits(per_client=1), keys=Keys([KEY]))
    for _ in range(3):
        for body in ({"text": "a dog."}, {"tetx": ""}):
            ask(app, "POST", "/api/translate", json=body, headers=bearer(KEY))
        asked = {**ASKING["/translate"], "api_key": KEY}
        assert post(app, "/translate", asked).status_code == 200
    assert app.state.service.close()


# --- Headers and logs --------------------------------------------------------------------------


def test_every_page_file_answer_and_error_has_the_headers(tiny_run: Path) -> None:
    from transduce.serving import pages
    from transduce.serving.middleware import HEADERS

    app = served(tiny_run, names={"localhost"}, keys=Keys([KEY]))
    files = [path for path, _ in pages.files()]
    answers = {path: ask(app, "GET", path) for path in files}
    answers |= {path: ask(app, "GET", path, headers=bearer(KEY)) for path in WORKING}
    for path, body in ASKING.items():
        answers[path] = ask(app, "POST", path, json=body, headers=bearer(KEY))
    answers["401"] = ask(app, "GET", "/api/models")
    answers["404"] = ask(app, "GET", "/<script>", headers=bearer(KEY))
    answers["405"] = ask(app, "PUT", "/api/models", headers=bearer(KEY))
    answers["400"] = ask(app, "GET", "/", headers={"Host": "evil.example"})
    answers["403"] = ask(app, "GET", "/api/models", headers={"Origin": "null"})
    for name, answer in answers.items():
        for header, value in HEADERS:
            assert answer.headers[header.decode()] == value.decode(), (name, header)
        kept = "no-cache" if name in files else "no-store"
        assert answer.headers["cache-control"] == kept, name
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
        if name.isdecimal():
            assert answer.status_code == int(name)
            assert answer.headers["content-type"] == "application/json"
    assert "unsafe" not in answers["/"].headers["content-security-policy"]
    assert app.state.service.close()


@pytest.mark.parametrize(
    "path",
    ["/../keys.py", "/..%2fkeys.py", "/%2e%2e/%2e%2e/app.py", "//etc/passwd", "/base.css/..",
     "/base.css%00.js", "/page/../base.css", "/....//base.css", "/C:/x", "/./base.css"],
)  # fmt: skip
def test_no_path_leads_out_of_the_files(tiny_run: Path, path: str) -> None:
    from transduce.serving import pages

    sent = ask(served(tiny_run), "GET", path)
    known = {file.content for _, file in pages.files()}  # clients follow dots by themselves
    assert sent.status_code == 404 or sent.content in known


CLIENTS = {"httpx", "httpcore"}
SECRET = "quite secret words"


class Careless(Exception):
    """An error that tells what it was given."""


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged, but for what the clients of these tests say."""
    return [logging.Formatter().format(one) for one in caplog.records if one.name not in CLIENTS]


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
        asked = {"q": SECRET, "source": "en", "target": "de", "api_key": KEY}
        assert post(app, "/translate", asked).status_code == 500
        ask(app, "GET", f"/api/runs/data?run={SECRET}", headers=bearer(KEY))
    said = "\n".join(logged(caplog))
    assert "Careless, raised in" in said
    assert "after Careless" in said
    assert "batching.py" in said
    assert "POST /api/translate 500" in said
    for secret in (SECRET, SECRET.split()[1], KEY, WRONG):
        assert secret not in said
    assert app.state.service.close()


def test_texts_are_logged_where_that_is_asked_for(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = served(tiny_run, log_texts=True)
    with caplog.at_level(logging.INFO):
        post(app, "/api/translate", {"text": "ein Hörer.\n\x1b[31mrot\u202e"})
    assert logged(caplog) == [r"text: ein Hörer.\n\x1b[31mrot\u202e"]
    assert app.state.service.close()


def test_a_logged_path_cannot_write_lines_of_its_own(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = served(tiny_run, log_requests=True)
    with caplog.at_level(logging.INFO):
        ask(app, "GET", "/a%0Ab%1B[2J%E2%80%AE" + "x" * 500 + "?text=hidden")
    (line,) = logged(caplog)
    assert re.fullmatch(r"GET /a\\nb\\x1b\[2J\\u202ex+ 404 [\d.]+ ms", line)
    assert len(line) < 300


def test_a_process_keeps_texts_and_keys_to_itself(tiny_run: Path, tmp_path: Path) -> None:
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
        said = ""
        while "http://" not in said:
            said += process.stderr.readline()
        port = re.search(r"http://127.0.0.1:(\d+)", said)
        assert port is not None
        with httpx.Client(base_url=f"http://127.0.0.1:{port[1]}", timeout=PATIENCE) as client:
            for key, status in ((KEY, 200), (OTHER, 200), (WRONG, 401)):
                sent = client.post(f"/api/translate?x={SECRET}", json={"text": SECRET},
                                   headers=bearer(key))  # fmt: skip
                assert sent.status_code == status
        with socket.create_connection(("127.0.0.1", int(port[1]))) as half:
            half.sendall(f"GET /{SECRET} HTTP/1.1\r\nX: {KEY}".encode())
        process.terminate()
        said += process.stderr.read()
        process.wait(PATIENCE)
    assert "chmod 600" in said
    assert said.count("POST /api/translate 200") == 2
    assert said.count("POST /api/translate 401") == 1
    for secret in (SECRET, "secret", KEY, OTHER, WRONG):
        assert secret not in said


def test_who_lets_others_in_without_a_key_is_warned(tmp_path: Path) -> None:
    from transduce.serving.server import bind

    said: list[str] = []
    with bind("0.0.0.0", 0) as listening:
        Access.from_options(listening, "0.0.0.0", said.append, log_texts=True)
    with bind("127.0.0.1", 0) as listening:
        Access.from_options(listening, "127.0.0.1", said.append)
    assert [one.partition(":")[0] for one in said] == ["warning"] * 2
    assert "--key-file" in said[0]
    assert "texts of all clients" in said[1]
    assert "TRANSDUCE_KEY" not in os.environ
