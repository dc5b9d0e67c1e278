"""LibreTranslate clients work with the service: real ones, and recorded requests of others."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from serving import ask, connected, error, listening, post, received, scripted
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.keys import Keys
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel

KEY = "one-key-of-20-letters"
TEXT = "a dog sees the tree."


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> ServedModel:
    """The small run, on CTranslate2."""
    return ServedModel.load(tiny_run, "tiny", engine="ctranslate2")


@pytest.fixture(scope="module")
def best(served: ServedModel) -> str:
    """The translation of TEXT."""
    return served.translator.translate([TEXT])[0].text


@pytest.fixture(scope="module", params=[None, KEY], ids=["open", "keyed"])
def place(
    served: ServedModel, request: pytest.FixtureRequest
) -> Iterator[tuple[str, int, str | None]]:
    """The address and port of a real service of a real model, and its key."""
    keys = Keys([request.param]) if request.param else None
    with listening(create_app([served], access=Access(keys=keys))) as (host, port):
        yield host, port, request.param


@pytest.fixture(scope="module")
def app(served: ServedModel) -> Iterator[FastAPI]:
    created = create_app([served], limits=Limits(characters=2_000, texts=10))
    yield created
    assert created.state.service.close()


# --- Real clients --------------------------------------------------------------------------------


def test_deep_translator_works(place: tuple[str, int, str | None], best: str) -> None:
    """It sends its parameters in the query string."""
    client = pytest.importorskip("deep_translator").LibreTranslator
    host, port, key = place
    options = {"source": "en", "target": "de", "custom_url": f"http://{host}:{port}/"}
    translator = client(api_key=key or "any", **options)
    assert translator.translate(TEXT) == best
    assert translator.translate_batch([TEXT, TEXT]) == [best, best]
    if key:
        with pytest.raises(Exception, match="ERR_KEY_INVALID"):
            client(api_key="wrong-key-of-20-letters", **options).translate(TEXT)


def test_libretranslatepy_works(place: tuple[str, int, str | None], best: str) -> None:
    """It sends forms, even with GET."""
    host, port, key = place
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(f"http://{host}:{port}", key)
    assert client.translate(TEXT, "en", "de") == best
    assert client.detect(TEXT)[0]["language"] == "en"
    assert client.translate(TEXT, "auto", "de") == best
    assert [language["code"] for language in client.languages()] == ["de", "en"]


# --- Requests of clients for Node, as they were recorded -----------------------------------------

NODE = """\
{method} {path} HTTP/1.1
host: 127.0.0.1
connection: keep-alive
Content-Type: application/json
accept: */*
accept-language: *
sec-fetch-mode: cors
user-agent: node
accept-encoding: gzip, deflate
"""
AXIOS = """\
{method} {path} HTTP/1.1
Accept: application/json
Content-Type: application/json
User-Agent: axios/1.8.3
Accept-Encoding: gzip, compress, deflate, br
Host: 127.0.0.1
Connection: keep-alive
"""
ASKED = '"q":"a dog sees the tree.","source":"en","target":"de","format":"text"'
LANGUAGES = [
    {"code": "de", "name": "German", "targets": []},
    {"code": "en", "name": "English", "targets": ["de"]},
]


def replayed(place: tuple[str, int, str | None], head: str, path: str, body: str = "") -> Any:
    """Send a recorded request, and return the JSON of a good answer."""
    method = "POST" if body else "GET"
    written = head.format(method=method, path=path).replace("keep-alive", "close")
    if body:
        written += f"content-length: {len(body)}\n"
    host, port, _ = place
    request = f"{written}\n".replace("\n", "\r\n") + body
    with connected((host, port), request.encode()) as client:
        answer, _, content = received(client).partition(b"\r\n\r\n")
    assert b" 200 " in answer.partition(b"\r\n")[0], content
    return json.loads(content)


def test_requests_of_npm_libretranslate_1_0_1_are_answered(
    place: tuple[str, int, str | None], best: str
) -> None:
    """It has a field of its own, apiKey, which LibreTranslate ignores."""
    assert replayed(place, NODE, "/languages") == LANGUAGES
    if place[2] is None:  # LibreTranslate does not take its key either
        answer = replayed(place, NODE, "/translate", f'{{{ASKED},"apiKey":""}}')
        assert answer == {"translatedText": best}


def test_requests_of_npm_libretranslate_ts_0_5_12_are_answered(
    place: tuple[str, int, str | None], best: str
) -> None:
    """Its key is null unless it is set."""
    key = json.dumps(place[2])
    assert replayed(place, AXIOS, "/languages") == LANGUAGES
    detected = replayed(
        place, AXIOS, "/detect", f'{{"q":"the dog","format":"text","api_key":{key}}}'
    )
    assert detected[0]["language"] == "en"
    answer = replayed(place, AXIOS, "/translate", f'{{{ASKED},"api_key":{key}}}')
    assert answer == {"translatedText": best}
    several = f'{{{ASKED},"api_key":{key},"alternatives":2}}'
    assert len(replayed(place, AXIOS, "/translate", several)["alternatives"]) == 2


# --- Forms of requests ---------------------------------------------------------------------------

FIELDS = {"q": TEXT, "source": "en", "target": "de"}


def multipart(app: FastAPI, path: str, **fields: Any) -> httpx.Response:
    parts = [(name, (None, value)) for name, value in fields.items()]
    return ask(app, "POST", path, files=parts)


def test_parameters_may_be_in_a_query_a_form_or_json(app: FastAPI, best: str) -> None:
    expected = {"translatedText": best}
    assert ask(app, "POST", "/translate", params=FIELDS).json() == expected
    assert ask(app, "POST", "/translate", data=FIELDS).json() == expected
    assert multipart(app, "/translate", **FIELDS).json() == expected
    query = {"source": "en", "target": "de"}
    assert ask(app, "POST", "/translate", params=query, data={"q": TEXT}).json() == expected
    assert ask(app, "POST", "/translate", params=query, json={"q": TEXT}).json() == expected
    kind = {"Content-Type": "application/problem+json"}
    content = json.dumps(FIELDS).encode()
    assert ask(app, "POST", "/translate", content=content, headers=kind).json() == expected


def test_a_form_may_have_letters_that_are_not_encoded(tiny_run: Path) -> None:
    """As `curl -d` sends them."""
    served, _ = scripted(tiny_run)  # its engine returns the source
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    content = "q=Ein Hund läuft%2C 犬.&source=en&target=de".encode()
    answer = ask(create_app([served]), "POST", "/translate", content=content, headers=headers)
    assert answer.json() == {"translatedText": "Ein Hund läuft, 犬."}


def test_a_multipart_form_keeps_its_text_exactly(tiny_run: Path) -> None:
    served, _ = scripted(tiny_run)  # its engine returns the source
    app = create_app([served])
    text = '--boundary\r\n\r\na "dog" é\r\n--'
    boundary = b"x-y_z"
    body = b"".join(
        b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (boundary, name, value)
        for name, value in ((b"q", text.encode()), (b"source", b"en"), (b"target", b"de"))
    )
    body += (
        b'--%s\r\ncontent-disposition: form-data; name="q"; filename="a.txt"\r\n\r\nfile\r\n--%s--'
        % (boundary, boundary)
    )
    kind = {"Content-Type": 'multipart/form-data; boundary="x-y_z"'}
    answer = ask(app, "POST", "/translate", content=body, headers=kind)
    assert answer.json() == {"translatedText": text}
    for bad in ("multipart/form-data", "multipart/form-data; boundary="):
        sent = ask(app, "POST", "/translate", content=body, headers={"Content-Type": bad})
        assert "no boundary" in error(sent, 400)
    latin = body.replace("é".encode(), b"\xe9")
    assert "UTF-8" in error(ask(app, "POST", "/translate", content=latin, headers=kind), 400)
    assert app.state.service.close()


def test_parsing_the_head_of_a_part_takes_linear_time(served: ServedModel) -> None:
    """Searching for the name of a field from every place in the head would take 10 s."""
    limits = Limits(characters=20_000)
    app = create_app([served], limits=limits)
    head = b"content-disposition:" * (limits.body // 20 - 10)
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    begin = time.process_time()
    answer = ask(app, "POST", "/translate", content=b"--x\r\n" + head, headers=kind)
    assert "q" in error(answer, 400)
    assert time.process_time() - begin < 3


@pytest.mark.parametrize(
    "more",
    [
        {"apiKey": "x", "unknown": {"a": [1]}},
        {"api_key": None, "format": None, "alternatives": None},
        {"alternatives": "0"},
        {"alternatives": 0.0},
        {"alternatives": ""},
    ],
)
def test_unknown_parameters_are_ignored(app: FastAPI, best: str, more: dict[str, Any]) -> None:
    assert post(app, "/translate", {**FIELDS, **more}).json() == {"translatedText": best}


def test_a_number_may_be_text(app: FastAPI) -> None:
    for answer in (
        post(app, "/translate", {**FIELDS, "alternatives": "2"}),
        ask(app, "POST", "/translate", data={**FIELDS, "alternatives": "2"}),
    ):
        assert len(answer.json()["alternatives"]) == 2


@pytest.mark.parametrize("q", [7, None, [7], ["a", None], {"a": 1}, [1] * 10_000])
def test_an_invalid_text_is_one_error(app: FastAPI, q: Any) -> None:
    sentence = error(post(app, "/translate", FIELDS | {"q": q}), 400)
    assert re.fullmatch(r"q = .{1,80}: expected text, or a list of texts", sentence)


def test_the_number_of_texts_is_limited(app: FastAPI) -> None:
    assert post(app, "/translate", {**FIELDS, "q": [""] * 10}).json() == {
        "translatedText": [""] * 10
    }
    for path in ("/translate", "/detect"):
        sentence = error(post(app, path, {**FIELDS, "q": [""] * 11}), 413)
        assert sentence == (
            "the request has 11 texts: at most 10 are accepted at once; send several requests"
        )


def test_frontend_settings_tell_whether_a_key_is_needed(tiny_run: Path) -> None:
    served, _ = scripted(tiny_run)
    for keys in (None, Keys([KEY])):
        app = create_app([served], access=Access(keys=keys))
        settings = ask(app, "GET", "/frontend/settings").json()
        assert settings["keyRequired"] == settings["apiKeys"] == (keys is not None)
        assert settings["charLimit"] == Limits().characters
        assert settings["language"]["target"] == {"code": "de", "name": "German"}


@pytest.mark.parametrize("path", ["/suggest", "/frontend"])
def test_an_unknown_path_gets_no_wrong_hint(app: FastAPI, path: str) -> None:
    assert error(ask(app, "POST", path), 404) == f"there is no {path}. /docs describes the API."
