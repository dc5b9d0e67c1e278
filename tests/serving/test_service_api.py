"""Models, inspections, metrics, pages and the API description of the service."""

import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI

from serving import ask, error, post, scripted, translate_lines, translated
from transduce import Translator
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel, examples_of

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


def test_every_answer_has_security_headers(app: FastAPI) -> None:
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


def test_other_host_names_are_refused(served: ServedModel) -> None:
    app = create_app([served], access=Access(names={"localhost", "127.0.0.1", "[::1]"}))
    for host in ("localhost", "127.0.0.1:8000", "[::1]:80", "LOCALHOST:1", "[::1]"):
        assert ask(app, "GET", "/health", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "[::2]"):
        assert "does not answer to" in error(
            ask(app, "GET", "/health", headers={"Host": host}), 400
        )


def test_files_have_etags(app: FastAPI) -> None:
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


def test_models_are_listed_with_limits(app: FastAPI, served: ServedModel) -> None:
    answer = ask(app, "GET", "/api/models").json()
    (model,) = answer["models"]
    assert model["name"] == "tiny"
    assert (model["source"], model["target"]) == ("en", "de")
    assert (model["source_name"], model["target_name"]) == ("English", "German")
    assert model["engine"] == "ctranslate2 on cpu, float32"
    assert model["settings"] == served.translator.config.model.to_json()
    assert model["search"] == {"beam": 4, "alpha": 0.6, "nbest": 1}
    assert model["parameters"] > 10_000
    search = {"beam": 16, "nbest": 16, "glossary": 1_000, "keep": 100}
    assert answer["limits"] == {"characters": 20_000, "texts": 1_000, **search}


def libre(app: FastAPI, **fields: Any) -> httpx.Response:
    return post(app, "/translate", {"source": "en", "target": "de", **fields})


def test_models_with_equal_folder_names_are_numbered(served: ServedModel, tmp_path: Path) -> None:
    from transduce.errors import BadInput
    from transduce.serving.models import choose_names

    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c"]
    assert choose_names(runs) == ["run-1", "run-2", "c"]
    assert choose_names(runs, ["x", "y", "z"]) == ["x", "y", "z"]
    for names in (["x"], ["x", "x", "y"], ["x", "y", " "]):
        with pytest.raises(BadInput):
            choose_names(runs, names)


def test_a_model_is_selected_by_name_or_languages(tiny_run: Path) -> None:
    first, one = scripted(tiny_run, "one")
    second, two = scripted(tiny_run, "two")
    app = create_app([first, second])
    assert translated(app, text="a dog.")["model"] == "one"
    assert translated(app, text="a man.", model="two")["text"] == "a man."
    assert libre(app, q="a tree.").json() == {"translatedText": "a tree."}
    assert [len(engine.batches) for engine in (one, two)] == [2, 1]
    sentence = error(post(app, "/api/translate", {"text": "a", "model": "xyz"}), 404)
    assert sentence == "there is no model xyz. The models are: one, two"


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
def test_invalid_inspections_are_refused(
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


def test_inspection_uses_one_core(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_requests_and_sentences_are_counted(tiny_run: Path) -> None:
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


def test_without_a_model_the_runs_page_is_shown() -> None:
    app = create_app([])
    answer = ask(app, "GET", "/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/runs")
    assert ask(app, "GET", "/api/models").json()["models"] == []
    for answer in (
        post(app, "/api/translate", {"text": "a"}),
        post(app, "/api/translate", {"text": "a", "source": "auto"}),
        libre(app, q="a"),
        libre(app, q="a", source="auto"),
    ):
        assert error(answer, 404) == "no model is served: start with `transduce serve RUN`"


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


def test_examples_are_short_validation_sentences_of_the_run(tmp_path: Path) -> None:
    lines = ["short one.", "x" * 101, " ", "short one.", "two.", "three.", "four."]
    samples = {"source": lines, "reference": lines}
    (tmp_path / "samples.jsonl").write_text(json.dumps(samples) + "\n", encoding="utf-8")
    assert examples_of(tmp_path) == ("short one.", "two.", "three.")
    for text in ("", "{", '{"source": 3}\n', '{"source": [{"a": 1}], "reference": "x"}\n'):
        (tmp_path / "samples.jsonl").write_text(text, encoding="utf-8")
        assert examples_of(tmp_path) == ()
    assert examples_of(tmp_path / "none") == ()


def test_validation_sentences_can_be_hidden(learnt_run: Path) -> None:
    served = ServedModel.load(learnt_run, "learnt")
    assert served.examples
    for show in (True, False):
        app = create_app([served], [learnt_run], access=Access(show_examples=show))
        (model,) = ask(app, "GET", "/api/models").json()["models"]
        assert model["examples"] == (list(served.examples) if show else [])
        data = ask(app, "GET", "/api/runs/data", params={"run": learnt_run.name}).json()
        assert bool(data["samples"]["source"]) == bool(data["samples"]["outputs"]) == show


def test_answers_have_the_fields_of_libretranslate(app: FastAPI, served: ServedModel) -> None:
    best = "\n".join(translate_lines(served.translator, TEXT))
    assert libre(app, q=TEXT, format="text", api_key="x").json() == {"translatedText": best}
    form = ask(app, "POST", "/translate", data={"q": TEXT, "source": "en", "target": "de"})
    assert form.json() == {"translatedText": best}
    several = libre(app, q=[TEXT, "", "a dog."], alternatives=2).json()
    wide = served.translator.translate(["a dog."], nbest=3)[0].candidates
    assert [len(several[name]) for name in ("translatedText", "alternatives")] == [3, 3]
    assert several["translatedText"][1:] == ["", wide[0].text]
    assert several["alternatives"][1:] == [[], [item.text for item in wide[1:]]]
    assert isinstance(libre(app, q="a dog.", alternatives=1).json()["alternatives"][0], str)
    auto = libre(app, q="a dog.", source="auto").json()
    assert auto["detectedLanguage"]["language"] == "en"
    assert libre(app, q=[]).json() == {"translatedText": []}
    assert ask(app, "GET", "/languages").json() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]


def test_alternatives_of_a_long_text_do_not_block_other_requests(
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
        ({"q": "a", "format": "pdf"}, "format = \"pdf\": expected 'text' or 'html'"),
        ({"q": "a", "alternatives": 99}, "alternatives = 99: expected at most 15"),
        ({"q": "a", "alternatives": "x"}, 'alternatives = "x": expected a whole number'),
        ({"q": [1]}, "q"),
        ({"q": {"a": 1}}, "q"),
    ],
)
def test_invalid_libretranslate_requests_are_refused_as_json_and_form(
    app: FastAPI, fields: dict[str, Any], words: str
) -> None:
    assert words in error(libre(app, **fields), 400)
    if not isinstance(fields.get("q"), list | dict):
        form = urlencode({"source": "en", "target": "de", **fields})
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        sent = ask(app, "POST", "/translate", content=form.encode(), headers=headers)
        assert words in error(sent, 400)


@pytest.mark.parametrize("form", [b"q=%ff", b"q=\xff", b"q=" + b"&" * 9])
def test_invalid_forms_are_refused(app: FastAPI, form: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error(ask(app, "POST", "/translate", content=form, headers=headers), 400)
