"""Answers to LibreTranslate's requests."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI

from serving import ask, error, post, scripted
from transduce import Translator
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel
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


def libre(app: FastAPI, **fields: Any) -> httpx.Response:
    return post(app, "/translate", {"source": "en", "target": "de", **fields})


def test_answers_have_the_fields_of_libretranslate(app: FastAPI, served: ServedModel) -> None:
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
        ({"q": "a", "format": "html"}, 'format = "html": expected text; HTML is not supported'),
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
