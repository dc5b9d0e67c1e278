"""The source language of a request is detected among the languages of the models."""

import dataclasses
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI

from serving import Scripted, ask, error, post, scripted
from transduce.serving.app import create_app
from transduce.serving.models import ServedModel
from transduce.text import identification
from transduce.translation.translator import Translator

ENGLISH, GERMAN, FRENCH = (
    "Two dogs run over the grass.",
    "Zwei Hunde laufen über die Wiese.",
    "Deux chiens courent dans l'herbe.",
)


def model_of(run: Path, source: str, target: str) -> ServedModel:
    served, _ = scripted(run, f"{source}-{target}")
    loaded = served.translator
    config = dataclasses.replace(loaded.config, languages=(source, target))
    translator = Translator(loaded.engine, loaded.codec, config)
    return dataclasses.replace(served, translator=translator)


@pytest.fixture(scope="module")
def app(tiny_run: Path) -> FastAPI:
    """A service from English to German and French, and from German and French to English."""
    pairs = [("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")]
    return create_app([model_of(tiny_run, *pair) for pair in pairs])


def engines(app: FastAPI) -> dict[str, Scripted]:
    models = app.state.service.models
    return {name: model.translator.engine for name, model in models.items()}


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    identification._identifier.cache_clear()


@pytest.mark.parametrize(("text", "code"), [(ENGLISH, "en"), (GERMAN, "de"), (FRENCH, "fr")])
def test_detect_returns_probable_languages_best_first(app: FastAPI, text: str, code: str) -> None:
    answer = post(app, "/detect", {"q": text}).json()
    assert answer[0]["language"] == code
    confidences = [guess["confidence"] for guess in answer]
    assert confidences == sorted(confidences, reverse=True)
    assert 50 < confidences[0] <= 100
    assert sum(confidences) <= 100.5
    assert post(app, "/detect", {"q": [text, text]}).json()[0]["language"] == code


@pytest.mark.parametrize("text", ["", "123", "...", " \n"])
def test_a_text_without_words_gets_the_first_source_language(app: FastAPI, text: str) -> None:
    undetected = {"confidence": 0.0, "language": "en"}
    assert post(app, "/detect", {"q": text}).json() == [undetected]
    answer = post(app, "/translate", {"q": text, "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"] == undetected


def test_a_service_without_models_detects_nothing() -> None:
    assert post(create_app([]), "/detect", {"q": ENGLISH}).json() == []
    assert "q is missing" in error(post(create_app([]), "/detect", {}), 400)


@pytest.mark.parametrize(("text", "code"), [(GERMAN, "de"), (FRENCH, "fr")])
def test_auto_takes_the_model_for_the_detected_language(app: FastAPI, text: str, code: str) -> None:
    fields = {"source": "auto", "target": "en"}
    answer = post(app, "/translate", {"q": text, **fields}).json()
    assert answer["translatedText"] == text  # scripted
    assert answer["detectedLanguage"]["language"] == code
    several = post(app, "/translate", {"q": [text, "123"], **fields}).json()
    assert [each["language"] for each in several["detectedLanguage"]] == [code, code]
    html = f'<p lang="en" title="the dogs and the cats are in the house">{text}</p>'
    answer = post(app, "/translate", {"q": html, "format": "html", **fields}).json()
    assert answer["detectedLanguage"]["language"] == code


def test_scripts_and_entities_of_html_are_not_read(app: FastAPI) -> None:
    code = "<style>p {color: red}</style><script>if (this.is.the.value) { return }</script>\n" * 99
    comment = "<!-- this is the end of the header of the page, and it is not shown -->" * 99
    html = f"<head>{code}</head>{comment}<p>Zwei Hunde laufen &uuml;ber die gr&uuml;ne Wiese.</p>"
    fields = {"format": "html", "source": "auto", "target": "en"}
    answer = post(app, "/translate", {"q": html, **fields}).json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["detectedLanguage"]["confidence"] > 95


@pytest.mark.parametrize(
    ("text", "code"),
    [("Drei Katzen schlafen auf dem Sofa.", "de"), ("Trois chats dorment sur le canapé.", "fr")],
)
def test_the_language_of_a_document_is_detected(app: FastAPI, text: str, code: str) -> None:
    files = {"file": ("story.md", f"# {text}\n\n{text}\n".encode())}
    fields = {"source": "auto", "target": "en"}
    before = {name: len(engine.batches) for name, engine in engines(app).items()}
    assert ask(app, "POST", "/translate_file", data=fields, files=files).status_code == 200
    used = {name for name, engine in engines(app).items() if len(engine.batches) > before[name]}
    assert used == {f"{code}-en"}


@pytest.mark.parametrize(("text", "code"), [(GERMAN, "de"), (FRENCH, "fr")])
def test_a_document_may_state_its_languages(app: FastAPI, text: str, code: str) -> None:
    units = f"<trans-unit id='1'><source>{text}</source></trans-unit>"
    header = f"<file original='a' datatype='x' source-language='{code}' target-language='en'>"
    namespace = "urn:oasis:names:tc:xliff:document:1.2"
    xliff = f"<xliff version='1.2' xmlns='{namespace}'>{header}<body>{units}</body></file></xliff>"
    fields = {"source": "auto", "target": "en"}
    answer = ask(
        app, "POST", "/api/documents", data=fields, files={"file": ("a.xlf", xliff.encode())}
    )
    assert (answer.status_code, answer.json().get("model")) == (200, f"{code}-en"), answer.text


@pytest.mark.parametrize(("text", "code"), [(GERMAN, "de"), (FRENCH, "fr"), (ENGLISH, "en")])
def test_our_api_detects_the_source_language(app: FastAPI, text: str, code: str) -> None:
    answer = post(app, "/api/translate", {"text": text, "source": "auto"}).json()
    assert answer["model"].startswith(f"{code}-")
    page = {"text": f"<p>{text}</p>", "format": "html", "source": "auto"}
    assert post(app, "/api/translate", page).json()["model"].startswith(f"{code}-")


def test_auto_refuses_a_language_without_a_model(app: FastAPI) -> None:
    """All routes that translate refuse it with the same sentence."""
    expected = (
        "source = auto: the text seems to be de, and there is no model from de to de. The models "
        "are: en to de"
    )
    fields = {"source": "auto", "target": "de"}
    answers = [
        post(app, "/api/translate", {"text": GERMAN, **fields}),
        post(app, "/api/translate", {"text": GERMAN, "model": "en-de", "source": "auto"}),
        post(app, "/translate", {"q": GERMAN, **fields}),
        *(
            ask(app, "POST", path, data=fields, files={"file": ("a.txt", GERMAN.encode())})
            for path in ("/translate_file", "/api/documents")
        ),
    ]
    for answer in answers:
        sentence = error(answer, 400)
        assert sentence.replace(" from de. ", " from de to de. ") == expected
    sentence = error(post(app, "/translate", {"q": GERMAN, "source": "auto", "target": "pl"}), 400)
    assert sentence.startswith("there is no model to pl. The models are: en to de, en to fr, de")


@pytest.mark.parametrize("text", ["Hotel", "OK!", "Hund", "WLAN 2"])
def test_auto_takes_the_most_probable_source_for_a_short_text(app: FastAPI, text: str) -> None:
    answer = post(app, "/translate", {"q": text, "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"]["language"] == "en"
    answer = post(app, "/translate", {"q": text, "source": "auto", "target": "en"}).json()
    assert answer["detectedLanguage"]["language"] in ("de", "fr")


def test_auto_takes_a_source_with_another_region(tiny_run: Path) -> None:
    app = create_app([model_of(tiny_run, "pt_BR", "en"), model_of(tiny_run, "en", "pt-PT")])
    text = "Dois cães correm sobre a grama e não param."
    answer = post(app, "/translate", {"q": text, "source": "auto", "target": "en"}).json()
    assert answer["detectedLanguage"]["language"] == "pt_BR"


@pytest.mark.usefixtures("without_library")
def test_without_the_library_auto_needs_one_source_language(app: FastAPI) -> None:
    sentence = error(post(app, "/detect", {"q": ENGLISH}), 501)
    assert sentence == (
        "identifying languages needs py3langid, which is not installed: "
        "pip install 'transduce[language]'"
    )
    answer = post(app, "/translate", {"q": GERMAN, "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"] == {"confidence": 0.0, "language": "en"}
    files, fields = {"file": ("a.txt", GERMAN.encode())}, {"source": "auto", "target": "en"}
    for answer in (
        post(app, "/translate", {"q": GERMAN, **fields}),
        post(app, "/api/translate", {"text": GERMAN, "source": "auto"}),
        ask(app, "POST", "/translate_file", data=fields, files=files),
    ):
        sentence = error(answer, 501)
        assert sentence.endswith("pip install 'transduce[language]', or give the source language")
