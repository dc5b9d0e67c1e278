"""The service: what it answers, to good requests and to bad ones."""

import asyncio
import io
import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serving import ask, error, post, scripted
from transduce import Translator
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel, examples_of
from transduce.serving.paragraphs import split_lines
from transduce.serving.problems import json_response
from transduce.text.reading import read_lines

TEXT = "a dog sees the tree. the man likes one bird!\n\nevery fish finds a dog today."


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> ServedModel:
    """The small run, on CTranslate2."""
    return ServedModel.load(tiny_run, "tiny", engine="ctranslate2")


@pytest.fixture(scope="module")
def app(served: ServedModel) -> Iterator[FastAPI]:
    """The service of one model."""
    made = create_app([served], limits=Limits(characters=20_000))
    yield made
    assert made.state.service.close()


def translated(app: FastAPI, **fields: Any) -> Any:
    response = post(app, "/api/translate", fields)
    assert response.status_code == 200, response.text
    return response.json()


def split(translator: Translator, text: str, **options: Any) -> list[str]:
    """Return what `transduce translate --split` writes for a file that holds this text."""
    lines = [*open_lines_of(text)]
    return [one.text for one in translator.translate(lines, split=True, **options)]


def open_lines_of(text: str) -> Iterator[str]:
    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(text.encode()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", Stdin)
        yield from read_lines("-")


def test_a_text_is_translated_line_by_line_and_sentence_by_sentence(
    app: FastAPI, served: ServedModel
) -> None:
    answer = translated(app, text=TEXT, nbest=2)
    assert answer["model"] == "tiny"
    assert answer["milliseconds"] > 0
    assert answer["text"].split("\n") == split(served.translator, TEXT, nbest=2)
    first, blank, last = (one["segments"] for one in answer["paragraphs"])
    assert [one["source"] for one in first] == ["a dog sees the tree.", "the man likes one bird!"]
    assert [one["gap"] for one in first] == ["", " "]
    assert blank == []
    assert len(last[0]["candidates"]) == 2
    (alone,) = served.translator.translate([last[0]["source"]], nbest=2)
    assert last[0]["candidates"] == [one.to_json() for one in alone.candidates]
    joined = "".join(one["gap"] + one["candidates"][0]["text"] for one in first)
    assert answer["text"].split("\n")[0] == joined


def test_settings_of_the_search_are_heard(app: FastAPI, served: ServedModel) -> None:
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
        assert answer["text"].split("\n") == [one.text for one in expected]


# Letters that break lines, that are blank, that lie beyond 16 bits or stand on their own.
LETTERS = st.sampled_from(
    [*"ab .!?\n\r\t\v\f\x1c\x85\u2028\u2029\ufeff\u200b\u00a0", "\r\n", "é", "🐕", "ש", "中。"]
)


@settings(max_examples=40)
@given(text=st.lists(LETTERS, max_size=30).map("".join))
@example(text="")
@example(text="\n")
@example(text="\ufeffa dog.\r\n\r\nA man.\r")
@example(text="a dog sees. " * 12)
@example(text="word " * 400)
def test_a_text_of_any_shape_comes_out_as_translate_split_writes_it(
    app: FastAPI, served: ServedModel, text: str
) -> None:
    answer = translated(app, text=text, beam=1)
    expected = split(served.translator, text, beam=1)
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
    assert lines[: text.count("\n") or 1] == (split(served.translator, text, beam=1) or [""])
    sources = [one["source"] for line in answer["paragraphs"] for one in line["segments"]]
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


def test_every_answer_has_the_headers_that_keep_browsers_safe(app: FastAPI) -> None:
    for response in (
        ask(app, "GET", "/health"),
        ask(app, "GET", "/nowhere"),
        ask(app, "GET", "/base.css"),
        post(app, "/api/translate", b"{"),
    ):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cross-origin-opener-policy"] == "same-origin"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"


def test_only_names_of_this_machine_are_answered_on_it(served: ServedModel) -> None:
    app = create_app([served], access=Access(names={"localhost", "127.0.0.1", "[::1]"}))
    for host in ("localhost", "127.0.0.1:8000", "[::1]:80", "LOCALHOST:1", "[::1]"):
        assert ask(app, "GET", "/health", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "[::2]"):
        assert "does not answer to" in error(
            ask(app, "GET", "/health", headers={"Host": host}), 400
        )


def test_files_are_told_apart_by_their_tags(app: FastAPI) -> None:
    first = ask(app, "GET", "/base.css")
    assert first.headers["content-type"].startswith("text/css")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    again = ask(app, "GET", "/base.css", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    other = ask(app, "GET", "/base.css", headers={"If-None-Match": '"other"'})
    assert other.content == first.content
    assert ask(app, "HEAD", "/base.css").headers["etag"] == tag
    for path, kind in {"/docs": "text/html", "/explorer.js": "text/javascript"}.items():
        assert ask(app, "GET", path).headers["content-type"].startswith(kind)


def test_models_are_listed_with_what_may_be_asked_of_them(
    app: FastAPI, served: ServedModel
) -> None:
    answer = ask(app, "GET", "/api/models").json()
    (model,) = answer["models"]
    assert model["name"] == "tiny"
    assert (model["source"], model["target"]) == ("en", "de")
    assert (model["source_name"], model["target_name"]) == ("English", "German")
    assert model["engine"] == "ctranslate2 on cpu, float32"
    assert model["settings"] == served.translator.config.model.to_json()
    assert model["search"] == {"beam": 4, "alpha": 0.6, "nbest": 1}
    assert model["parameters"] > 10_000
    assert answer["limits"] == {"characters": 20_000, "texts": 1_000, "beam": 16, "nbest": 16}


def libre(app: FastAPI, **fields: Any) -> httpx.Response:
    return post(app, "/translate", {"source": "en", "target": "de", **fields})


def test_libretranslate_is_answered_as_it_answers(app: FastAPI, served: ServedModel) -> None:
    best = "\n".join(split(served.translator, TEXT))
    assert libre(app, q=TEXT, format="text", api_key="x").json() == {"translatedText": best}
    form = ask(app, "POST", "/translate", data={"q": TEXT, "source": "en", "target": "de"})
    assert form.json() == {"translatedText": best}
    several = libre(app, q=[TEXT, "", "a dog."], alternatives=2).json()
    wide = served.translator.translate(["a dog."], nbest=3)[0].candidates
    assert [len(several[name]) for name in ("translatedText", "alternatives")] == [3, 3]
    assert several["translatedText"][1:] == ["", wide[0].text]
    assert several["alternatives"][1:] == [[], [one.text for one in wide[1:]]]
    assert isinstance(libre(app, q="a dog.", alternatives=1).json()["alternatives"][0], str)
    auto = libre(app, q="a dog.", source="auto").json()
    assert auto["detectedLanguage"] == {"language": "en", "confidence": 0}
    assert libre(app, q=[]).json() == {"translatedText": []}
    assert ask(app, "GET", "/languages").json() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]


def test_alternatives_of_a_long_text_are_written_once_and_keep_nobody_waiting(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, _ = scripted(tiny_run)
    segments, seen = Translator.sentences, []

    def watched(translator: Translator, work: Any) -> Any:
        seen.append(threading.current_thread())
        return segments(translator, work)

    monkeypatch.setattr(Translator, "sentences", watched)
    app = create_app([served])
    lines = "\n".join(f"a dog {n}." for n in range(300))
    answer = libre(app, q=lines, alternatives=15)
    assert answer.json()["translatedText"] == lines
    assert app.state.service.close()
    assert len(seen) == 300
    assert threading.current_thread() not in seen


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "q is missing"),
        ({"q": "a", "target": "fr"}, "no model from en to fr. The models are: en to de"),
        (
            {"q": "a", "source": "de", "target": "en"},
            "no model from de to en. The models are: en to de",
        ),
        ({"q": "a", "format": "html"}, 'format = "html": expected text; HTML is not supported'),
        ({"q": "a", "alternatives": 99}, "alternatives = 99: expected at most 15"),
        ({"q": "a", "alternatives": "x"}, 'alternatives = "x": expected a whole number'),
        ({"q": [1]}, "q"),
        ({"q": {"a": 1}}, "q"),
    ],
)
def test_what_libretranslate_would_refuse_is_refused_in_both_forms(
    app: FastAPI, fields: dict[str, Any], words: str
) -> None:
    assert words in error(libre(app, **fields), 400)
    if not isinstance(fields.get("q"), list | dict):
        form = urlencode({"source": "en", "target": "de", **fields})
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        sent = ask(app, "POST", "/translate", content=form.encode(), headers=headers)
        assert words in error(sent, 400)


@pytest.mark.parametrize("form", [b"q=%ff", b"q=\xff", b"q=" + b"&" * 9])
def test_forms_that_cannot_be_read_are_refused(app: FastAPI, form: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error(ask(app, "POST", "/translate", content=form, headers=headers), 400)


def test_models_of_one_folder_name_have_names_of_their_own(
    served: ServedModel, tmp_path: Path
) -> None:
    from transduce.errors import BadInput
    from transduce.serving.models import choose_names

    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c"]
    assert choose_names(runs) == ["run-1", "run-2", "c"]
    assert choose_names(runs, ["x", "y", "z"]) == ["x", "y", "z"]
    for names in (["x"], ["x", "x", "y"], ["x", "y", " "]):
        with pytest.raises(BadInput):
            choose_names(runs, names)


def test_several_models_are_asked_for_by_name_or_by_languages(tiny_run: Path) -> None:
    first, one = scripted(tiny_run, "one")
    second, two = scripted(tiny_run, "two")
    app = create_app([first, second])
    assert translated(app, text="a dog.")["model"] == "one"
    assert translated(app, text="a man.", model="two")["text"] == "a man."
    assert libre(app, q="a tree.").json() == {"translatedText": "a tree."}
    assert [len(engine.batches) for engine in (one, two)] == [2, 1]
    sentence = error(post(app, "/api/translate", {"text": "a", "model": "xyz"}), 404)
    assert sentence == "there is no model xyz. The models are: one, two"


def test_a_full_queue_answers_when_to_come_again(tiny_run: Path) -> None:
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
    assert [one.status_code for one in fine] == [200, 200]
    assert app.state.service.sentences == 0


def test_an_answer_that_takes_too_long_is_given_up_with_its_sentences(tiny_run: Path) -> None:
    served, engine = scripted(tiny_run, held=True)
    app = create_app([served], limits=Limits(timeout=0.05))
    sentence = error(post(app, "/api/translate", {"text": "a dog. " * 20}), 504)
    assert sentence == "the answer took longer than 0.05 seconds: send less text at once"
    engine.go.set()
    assert app.state.service.close()
    assert sum(map(len, engine.batches)) <= engine.batch
    assert app.state.service.sentences == 0


def test_a_defect_is_logged_without_the_text_and_told_without_a_traceback(
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


def test_a_served_model_outlives_its_folder(own_run: Path) -> None:
    app = create_app([ServedModel.load(own_run, "own", engine="ctranslate2")])
    shutil.rmtree(own_run)
    assert translated(app, text="a dog.")["text"]
    sentence = error(post(app, "/api/inspect", {"source": "a dog."}), 503)
    assert sentence == "own cannot be inspected: torch could not load it"  # no paths of ours


def test_inspections_are_what_the_model_attends_to(app: FastAPI, tiny_run: Path) -> None:
    from transduce.inspection.inspector import Inspector

    answer = post(app, "/api/inspect", {"source": "a dog sees.", "target": "ein Hund sieht."})
    expected = Inspector.load(tiny_run).inspect("a dog sees.", "ein Hund sieht.").to_json()
    assert answer.json() == json.loads(json.dumps(expected))
    page = post(app, "/api/explorer.html", {"source": "</script><b>", "target": "<i>"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-disposition"].startswith("attachment")
    assert "</script><b>" not in page.text


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({}, 400, "source is missing"),
        ({"source": " "}, 400, "empty"),
        ({"source": "a", "target": 3}, 400, "target = 3: expected text"),
        ({"source": "a\0"}, 400, "NUL"),
        ({"source": "a dog. " * 100}, 400, "at most 128"),
        ({"source": "a", "model": "none"}, 404, "no model none"),
        ({"source": "x" * 20_001}, 413, "characters"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(
    app: FastAPI, fields: dict[str, Any], status: int, words: str
) -> None:
    for path in ("/api/inspect", "/api/explorer.html"):
        assert words in error(post(app, path, fields), status)


def test_inspections_have_limits_of_their_own(served: ServedModel) -> None:
    app = create_app([served], limits=Limits(inspections=0))
    full = post(app, "/api/inspect", {"source": "a dog."})
    error(full, 503)
    assert "retry-after" in full.headers
    small = create_app([served], limits=Limits(weights=10))
    assert "at most 10 are sent" in error(post(small, "/api/inspect", {"source": "a dog."}), 413)


def test_looking_leaves_the_other_cores_to_threads_that_translate(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from transduce.translation.engines import pytorch

    monkeypatch.setattr(pytorch, "cores", lambda: 2)
    before = torch.get_num_threads()
    try:
        app = create_app([scripted(tiny_run, name)[0] for name in ("one", "other")])
        for name in ("one", "other"):
            body = {"source": "a dog.", "target": "ein Hund.", "model": name}
            assert post(app, "/api/inspect", body).status_code == 200
        with ThreadPoolExecutor(1) as later:
            assert later.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_what_is_done_is_counted(tiny_run: Path) -> None:
    served, _ = scripted(tiny_run)
    app = create_app([served])
    translated(app, text="a dog. a man.")
    error(ask(app, "GET", "/secret/path"), 404)
    assert app.state.service.close()
    counted = ask(app, "GET", "/metrics")
    assert counted.headers["content-type"].startswith("text/plain; version=")
    for line in (
        'transduce_requests_total{endpoint="/api/translate",status="200"} 1.0',
        'transduce_requests_total{endpoint="other",status="404"} 1.0',
        'transduce_sentences_total{model="tiny"} 2.0',
        'transduce_batch_sentences_bucket{le="2.0",model="tiny"} 1.0',
        "transduce_queue_sentences 0.0",
    ):
        assert line in counted.text
    assert "secret" not in counted.text


def test_without_a_model_the_page_is_that_of_the_runs() -> None:
    app = create_app([])
    answer = ask(app, "GET", "/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/runs")
    assert ask(app, "GET", "/api/models").json()["models"] == []
    assert "transduce serve RUN" in error(post(app, "/api/translate", {"text": "a"}), 404)
    assert "The models are: none" in error(libre(app, q="a"), 400)


def test_the_description_names_every_path_and_its_errors(app: FastAPI) -> None:
    description = ask(app, "GET", "/openapi.json").json()
    paths = description["paths"]
    assert {"/api/translate", "/api/inspect", "/translate", "/languages", "/health"} <= paths.keys()
    translate = paths["/api/translate"]["post"]
    assert {"200", "400", "404", "413", "415", "503", "504"} <= translate["responses"].keys()
    body = translate["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["text"]
    assert set(paths["/translate"]["post"]["requestBody"]["content"]) == {
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    }
    assert "422" not in json.dumps(list(translate["responses"]))


def test_half_of_a_character_does_not_break_an_answer() -> None:
    assert json_response({"error": "a \ud800"}).body == b'{"error":"a ?"}'


def test_examples_are_short_validation_sentences_of_the_run(tmp_path: Path) -> None:
    lines = ["short one.", "x" * 101, " ", "short one.", "two.", "three.", "four."]
    samples = {"source": lines, "reference": lines}
    (tmp_path / "samples.jsonl").write_text(json.dumps(samples) + "\n", encoding="utf-8")
    assert examples_of(tmp_path) == ("short one.", "two.", "three.")
    for text in ("", "{", '{"source": 3}\n', '{"source": [{"a": 1}], "reference": "x"}\n'):
        (tmp_path / "samples.jsonl").write_text(text, encoding="utf-8")
        assert examples_of(tmp_path) == ()
    assert examples_of(tmp_path / "none") == ()


def test_validation_sentences_can_be_kept_back(learnt_run: Path) -> None:
    served = ServedModel.load(learnt_run, "learnt")
    assert served.examples
    for show in (True, False):
        app = create_app([served], [learnt_run], access=Access(show_examples=show))
        (model,) = ask(app, "GET", "/api/models").json()["models"]
        assert model["examples"] == (list(served.examples) if show else [])
        data = ask(app, "GET", "/api/runs/data", params={"run": learnt_run.name}).json()
        assert bool(data["samples"]["source"]) == bool(data["samples"]["outputs"]) == show


@pytest.mark.parametrize(
    "q", [[""] * 1_000, "«" * 50_000, "\n" * 50_000], ids=["texts", "marks", "lines"]
)
def test_many_texts_do_not_hold_up_other_requests(tiny_run: Path, q: str | list[str]) -> None:
    """The event loop goes on while a text is split; sentencex alone would hold it for 3 seconds.

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
