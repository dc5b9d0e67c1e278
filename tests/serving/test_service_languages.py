"""The service with a model of several pairs of languages."""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from three_languages import FRENCH, GERMAN, SENTENCES, words_of

from serving import ask, error, post, scripted
from transduce.serving.app import create_app
from transduce.serving.directions import find_model
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem
from transduce.translation.translator import Translator

ONE_PAIR = "a dog sees the tree."


@pytest.fixture(scope="module")
def app(two_target_run: Path, tiny_run: Path) -> Iterator[FastAPI]:
    models = [
        ServedModel.load(run, name, device="cpu", engine="torch")
        for run, name in ((two_target_run, "both"), (tiny_run, "tiny"))
    ]
    created = create_app(models)
    yield created
    assert created.state.service.close()


def test_every_pair_of_a_model_is_listed(app: FastAPI) -> None:
    models = ask(app, "GET", "/api/models").json()["models"]
    listed = [(model["name"], model["source"], model["target_name"]) for model in models]
    assert listed == [
        ("both:en-de", "en", "German"),
        ("both:en-fr", "en", "French"),
        ("tiny", "en", "German"),
    ]
    assert ask(app, "GET", "/languages").json() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "fr", "name": "French", "targets": []},
    ]


def test_a_request_names_the_direction(app: FastAPI) -> None:
    for target, words in (("de", GERMAN), ("fr", {*FRENCH.values()})):
        bodies = [
            {"model": "both", "target": target},
            {"model": f"both:en-{target}"},
            {"source": "en", "target": target},
        ]
        answers = [post(app, "/api/translate", {"text": SENTENCES[0], **body}) for body in bodies]
        assert {answer.json()["model"] for answer in answers} == {f"both:en-{target}"}
        (text,) = {answer.json()["text"] for answer in answers}
        assert words_of(text) <= words
        libre = {"q": SENTENCES[0], "source": "en", "target": target}
        assert post(app, "/translate", libre).json() == {"translatedText": text}
        shown = {"source": SENTENCES[0], "model": f"both:en-{target}"}
        assert post(app, "/api/inspect", shown).json()["sentences"][1] == text
    assert post(app, "/api/translate", {"text": ONE_PAIR, "model": "tiny"}).status_code == 200
    zero_shot = {"text": SENTENCES[0], "model": "both", "source": "de", "target": "fr"}
    assert post(app, "/api/translate", zero_shot).json()["model"] == "both:de-fr"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "both"}, 400, "both translates to de, fr: give the target language, or a model"),
        ({"target": "it"}, 400, "there is no model to it. The models are: en to de, en to fr"),
        ({"source": "de"}, 400, "there is no model from de. The models are: en to de, en to fr"),
        ({"source": "de", "target": "fr"}, 400, "there is no model from de to fr. The models are"),
        ({"model": "tiny", "target": "fr"}, 400, "does not translate to fr: it translates en to"),
        ({"model": "both:en-it"}, 404, "there is no model both:en-it"),
        (
            {"model": "both:en-fr", "target": "de"},
            400,
            "target = de: the model both:en-fr translates from en to fr; leave out the target, or",
        ),
        ({"model": "both:en-fr", "source": "de", "target": "fr"}, 400, "source = de: the model"),
        ({"model": "tiny:en-de", "target": "fr"}, 400, "target = fr: the model tiny:en-de"),
        ({"model": "both", "source": "it", "target": "de"}, 400, "does not translate from it to"),
    ],
)
def test_a_direction_that_the_model_lacks_is_refused(
    app: FastAPI, body: dict[str, str], status: int, message: str
) -> None:
    answer = post(app, "/api/translate", {"text": ONE_PAIR, **body})
    assert message in error(answer, status)
    file = {"file": ("page.md", ONE_PAIR.encode())}
    answer = ask(app, "POST", "/api/documents", data=body, files=file)
    assert message in error(answer, status)


def test_a_document_names_the_direction(app: FastAPI) -> None:
    file = {"file": ("page.md", SENTENCES[0].encode())}
    bodies = {"model": "both", "target": "fr"}, {"model": "both:en-fr"}, {"target": "fr"}
    for body in bodies:
        answer = ask(app, "POST", "/api/documents", data=body, files=file).json()
        assert (answer["model"], answer["name"]) == ("both:en-fr", "page.fr.md")
        written = ask(app, "GET", answer["url"]).text
        assert words_of(written) <= {*FRENCH.values()}
    libre = {"source": "en", "target": "fr"}
    url = ask(app, "POST", "/translate_file", data=libre, files=file).json()["translatedFileUrl"]
    assert ask(app, "GET", httpx.URL(url).path).text == written


def test_a_direction_never_contradicts_the_request(two_target_run: Path, tiny_run: Path) -> None:
    """Every combination of name, source and target is refused or answered as it says."""
    loaded = [scripted(run, name)[0] for run, name in ((two_target_run, "a"), (tiny_run, "b"))]
    translator = loaded[0].translator
    pairs = (("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en"), ("fr", "de"))
    config = dataclasses.replace(translator.config, pairs=pairs)
    several = Translator(translator.engine, translator.codec, config)
    models = {"a": dataclasses.replace(loaded[0], translator=several), "b": loaded[1]}
    codes = (None, "en", "de", "fr", "it", "")
    names = (None, "a", "b", "b:en-de", "a:fr-de", "a:de-fr", "c")
    chosen, refused = 0, []
    for name, source, target in itertools.product(names, codes, codes):
        try:
            model = find_model(models, name, source, target)
        except Problem as problem:
            refused.append(problem)
            continue
        left, right = model.languages
        chosen += 1
        assert right == (target or right)
        assert source is None or left == source
        assert name is None or name.split(":")[0] == model.name.split(":")[0]
        assert name is None or ":" not in name or name.endswith(f":{left}-{right}")
        if name is None:
            assert (left, right) in model.pairs or left == "src"
    assert chosen > 30
    assert {problem.status for problem in refused} == {400, 404}
    assert all(10 < len(problem.message) < 200 for problem in refused)
