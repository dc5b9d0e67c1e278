"""Translation by the service: texts, settings, bad input, queue."""

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serving import ask, error, post, scripted, translate_lines, translated
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel
from transduce.serving.paragraphs import split_lines
from transduce.serving.problems import json_response

TEXT = "a dog sees the tree. the man likes one bird!\n\nevery fish finds a dog today."


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> ServedModel:
    """The small run, on CTranslate2."""
    return ServedModel.load(tiny_run, "tiny", engine="ctranslate2")


@pytest.fixture(scope="module")
def app(served: ServedModel) -> Iterator[FastAPI]:
    """The service of one model."""
    created = create_app([served], limits=Limits(characters=20_000))
    yield created
    assert created.state.service.close()


def test_a_text_is_translated_line_by_line_and_sentence_by_sentence(
    app: FastAPI, served: ServedModel
) -> None:
    answer = translated(app, text=TEXT, nbest=2)
    assert answer["model"] == "tiny"
    assert answer["milliseconds"] > 0
    assert answer["text"].split("\n") == translate_lines(served.translator, TEXT, nbest=2)
    first, blank, last = (item["segments"] for item in answer["paragraphs"])
    assert [item["source"] for item in first] == ["a dog sees the tree.", "the man likes one bird!"]
    assert [item["gap"] for item in first] == ["", " "]
    assert blank == []
    assert len(last[0]["candidates"]) == 2
    (alone,) = served.translator.translate([last[0]["source"]], nbest=2)
    assert last[0]["candidates"] == [item.to_json() for item in alone.candidates]
    joined = "".join(item["gap"] + item["candidates"][0]["text"] for item in first)
    assert answer["text"].split("\n")[0] == joined


def test_search_settings_are_used(app: FastAPI, served: ServedModel) -> None:
    changes: list[dict[str, Any]] = [
        {"beam": 1},
        {"alpha": 0.0},
        {"split": False},
        {"beam": 6, "alpha": 2, "nbest": 6.0},
    ]
    for fields in changes:
        answer = translated(app, text=TEXT, **fields)
        wanted = {"split": True, **fields}
        wanted |= {"nbest": int(wanted["nbest"])} if "nbest" in wanted else {}
        expected = served.translator.translate(TEXT.split("\n"), **wanted)
        assert answer["text"].split("\n") == [item.text for item in expected]


LETTERS = st.sampled_from(
    [*"ab .!?\n\r\t\v\f\x1c\x85\u2028\u2029\ufeff\u200b\u00a0", "\r\n", "é", "🐕", "ש", "中。"]
)


@settings(max_examples=40)
@given(text=st.lists(LETTERS, max_size=30).map("".join))
@example(text="")
@example(text="\n")
@example(text="\ufeffa dog.\r\n\r\nA man.\r")
@example(text="a\r\r")
@example(text="a dog sees. " * 12)
@example(text="word " * 400)
def test_any_text_is_translated_as_translate_does(
    app: FastAPI, served: ServedModel, text: str
) -> None:
    answer = translated(app, text=text, beam=1)
    expected = translate_lines(served.translator, text, beam=1)
    lines = answer["text"].split("\n")
    assert len(lines) == len(answer["paragraphs"]) == text.count("\n") + 1
    if not text.removeprefix("\ufeff") or text.endswith("\n"):
        assert lines.pop() == ""  # a file has no line there
    assert [line.removesuffix("\r") for line in lines] == expected
    _, ends = split_lines(text)
    assert re.findall("\r?\n", answer["text"]) == ends[:-1]


STRANGE = {
    "empty": "",
    "blank": " \t \n \n",
    "long word": "x" * 10_000,
    "emoji": "👩‍👩‍👧‍👦 a dog 🐕‍🦺 sees 🏳️‍🌈.",
    "right to left": "שלום עולם. \u202eabc\u202c مرحبا بالعالم.",
    "html": "<script>alert('a')</script> <b>a dog</b> &amp; &lt;",
    "json": '{"text": "a"}, \\u0041 \\n "quoted"',
    "special tokens": "<s> </s> <pad> <unk>",
    "combining": "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢" * 20,
    "controls": "a\x01b\x07c\x1b[31md\x7f",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "breaks": "a\u2028b\u2029c\x85d\ve\ff",
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_text_is_translated_like_any_other(
    app: FastAPI, served: ServedModel, name: str
) -> None:
    text = STRANGE[name]
    answer = translated(app, text=text, beam=1)
    lines = answer["text"].split("\n")
    assert lines[: text.count("\n") or 1] == (
        translate_lines(served.translator, text, beam=1) or [""]
    )
    sources = [item["source"] for line in answer["paragraphs"] for item in line["segments"]]
    assert "".join("".join(sources).split()) == "".join(text.split())


BAD = {
    "invalid JSON": (b'{"text": "a"', 400, "the body is not JSON"),
    "nothing": (b"", 400, "the body is not JSON"),
    "invalid UTF-8": (b'{"text": "\xff\xfe"}', 400, "the body is not JSON"),
    "a lone surrogate": (rb'{"text": "\ud800"}', 400, "the body is not JSON"),
    "deep nesting": (b'{"text": ' + b"[" * 30_000, 400, "the body is not JSON"),
    "a list": (b'["text"]', 400, "the body is not an object"),
    "null": (b"null", 400, "the body is not an object"),
    "no text": (b"{}", 400, "text is missing: expected the text to translate"),
    "a number as text": (b'{"text": 7}', 400, "text = 7: expected text"),
    "null as text": (b'{"text": null}', 400, "text = null: expected text"),
    "a list as text": (b'{"text": ["a"]}', 400, 'text = ["a"]: expected text'),
    "an unknown field": (b'{"tetx": "a", "text": "a"}', 400, "no field tetx. Did you mean text?"),
    "an unknown model": (b'{"text": "a", "model": "tinny"}', 404, "Did you mean tiny?"),
    "a beam of 0": (b'{"text": "a", "beam": 0}', 400, "beam = 0: expected at least 1"),
    "a huge beam": (b'{"text": "a", "beam": 17}', 400, "beam = 17: expected at most 16"),
    "a beam of text": (b'{"text": "a", "beam": "4"}', 400, 'beam = "4": expected a whole number'),
    "half a beam": (b'{"text": "a", "beam": 1.5}', 400, "beam = 1.5: expected a whole number"),
    "true beams": (b'{"text": "a", "beam": true}', 400, "beam = true: expected a whole number"),
    "NaN": (b'{"text": "a", "alpha": NaN}', 400, "alpha"),
    "Infinity": (b'{"text": "a", "alpha": Infinity}', 400, "alpha"),
    "beyond floats": (b'{"text": "a", "alpha": 1e999}', 400, "alpha"),
    "many digits": (b'{"text": "a", "beam": ' + b"9" * 5000 + b"}", 400, ""),
    "a huge alpha": (b'{"text": "a", "alpha": 1e300}', 400, "alpha = 1e+300: expected at most 10"),
    "more than the beam": (b'{"text": "a", "nbest": 5}', 400, "at most the beam, which is 4"),
    "a NUL": (rb'{"text": "a\u0000b"}', 400, "NUL"),
    "too much text": (b'{"text": "' + b"a" * 20_001 + b'"}', 413, "at most 20,000"),
    "1 MB": (b'{"text": "' + b"a b. " * 200_000 + b'"}', 413, "the body is too large"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(app: FastAPI, name: str) -> None:
    body, status, words = BAD[name]
    sentence = error(post(app, "/api/translate", body), status)
    assert words in sentence
    assert len(sentence) < 250


def test_other_types_methods_and_paths_are_refused_in_one_sentence(app: FastAPI) -> None:
    form = ask(app, "POST", "/api/translate", data={"text": "a"})
    assert "expected application/json" in error(form, 415)
    plain = ask(app, "POST", "/translate", content=b"q=a", headers={"Content-Type": "text/plain"})
    assert "application/x-www-form-urlencoded" in error(plain, 415)
    wrong = ask(app, "GET", "/api/translate")
    assert error(wrong, 405) == "/api/translate does not support GET: use POST"
    assert wrong.headers["allow"] == "POST"
    assert "Did you mean /api/translate?" in error(ask(app, "GET", "/api/translat"), 404)
    for path in ("/../pyproject.toml", "/%2e%2e/app.py", "/page/base.css", "/index.html", "/a%00"):
        error(ask(app, "GET", path), 404)


def test_a_full_queue_is_answered_503_with_retry_after(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served], limits=Limits(queue=3))

    async def story() -> tuple[httpx.Response, ...]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            def sent(text: str) -> "asyncio.Task[httpx.Response]":
                return asyncio.ensure_future(client.post("/api/translate", json={"text": text}))

            waiting = sent("a dog. a man.")
            while app.state.service.sentences < 2:
                await asyncio.sleep(0.001)
            refused = await sent("a fish. a tree.")
            alone = await sent("a dog. a man. a fish. a tree.")
            fits = sent("a bird.")
            while app.state.service.sentences < 3:
                await asyncio.sleep(0.001)
            full = await sent("a")
            engine.go.set()
            return refused, alone, full, await waiting, await fits

    refused, alone, full, *fine = asyncio.run(story())
    error(full, 503)
    assert "2 sentences are waiting, of 3 allowed" in error(refused, 503)
    assert int(refused.headers["retry-after"]) >= 1
    assert "at most 3 are accepted at once" in error(alone, 413)
    assert [item.status_code for item in fine] == [200, 200]
    assert app.state.service.sentences == 0


def test_a_timeout_drops_the_sentences_of_the_request(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served], limits=Limits(timeout=0.05))
    sentence = error(post(app, "/api/translate", {"text": "a dog. " * 20}), 504)
    assert sentence == "the answer took longer than 0.05 seconds: send less text at once"
    engine.go.set()
    assert app.state.service.close()
    assert sum(map(len, engine.batches)) <= engine.batch
    assert app.state.service.sentences == 0


def test_internal_errors_are_logged_without_the_text(
    tiny_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served, engine = scripted(tiny_run)
    engine.failure = ZeroDivisionError("oh")
    app = create_app([served])
    with caplog.at_level(logging.DEBUG):
        sentence = error(post(app, "/api/translate", {"text": "my secret."}), 500)
    assert sentence == "internal error of the service: see its log"
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text
    engine.failure = None
    assert translated(app, text="a dog.")["text"] == "a dog."


def test_a_lone_surrogate_does_not_break_an_answer() -> None:
    assert json_response({"error": "a \ud800"}).body == b'{"error":"a ?"}'


@pytest.mark.parametrize(
    "q", [[""] * 1_000, "«" * 50_000, "\n" * 50_000], ids=["texts", "marks", "lines"]
)
def test_many_texts_do_not_block_other_requests(tiny_run: Path, q: str | list[str]) -> None:
    """The event loop runs while a text is split; sentencex alone would block it for 3 seconds.

    The limit leaves room for a machine on which other tests run at the same time.
    """
    served, _ = scripted(tiny_run)
    app = create_app([served])

    async def story() -> float:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            fields = {"q": q, "source": "en", "target": "de"}
            working = asyncio.ensure_future(client.post("/translate", json=fields))
            longest = 0.0
            while not working.done():
                begin = time.perf_counter()
                await asyncio.sleep(0.001)
                longest = max(longest, time.perf_counter() - begin)
            assert working.result().status_code == 200
        return longest

    assert asyncio.run(story()) < 2.0
    assert app.state.service.close()
