"""The calls in LibreTranslate's documentation, sent by curl to `transduce serve`."""

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, environment

from serving import KEY, PATIENCE, WRONG
from transduce.runs.folder import RunConfig
from transduce.translation.translator import Translator

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")

ENGLISH, GERMAN = "the dog sees one tree.", "der Hund sieht jenen Baum, und jeder Mann mag ihn."
Curl = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def runs(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run from English to German, and the same as one from German to English."""
    reverse = tmp_path_factory.mktemp("runs") / "de-en"
    shutil.copytree(tiny_run, reverse)
    dataclasses.replace(RunConfig.load(reverse), languages=("de", "en")).save(reverse)
    return [tiny_run, reverse]


@pytest.fixture(scope="module")
def curl(runs: list[Path]) -> Iterator[Curl]:
    """Call a service that needs a key; return the status and the JSON of the answer."""
    with subprocess.Popen(
        [*COMMAND, "serve", *map(str, runs), "--port", "0", "--no-open"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"TRANSDUCE_KEY": KEY}),
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(line for line in lines if line.startswith("http")).split()[0]

        def call(path: str, *options: str) -> tuple[int, Any]:
            address = path if path.startswith("http") else url + path
            words = ["curl", "--silent", "--write-out", "\n%{http_code}", *options, address]
            done = subprocess.run(words, capture_output=True, check=True, timeout=PATIENCE)
            body, _, status = done.stdout.decode().rpartition("\n")
            return int(status), json.loads(body) if body.startswith(("{", "[")) else body

        try:
            yield call
        finally:
            process.kill()


def sent(**fields: Any) -> tuple[str, ...]:
    """Return curl's options for a JSON body."""
    body = json.dumps({"api_key": KEY, **fields})
    return "-X", "POST", "-H", "Content-Type: application/json", "-d", body


@pytest.fixture(scope="module")
def best(runs: list[Path]) -> str:
    return Translator.load(runs[0])(ENGLISH)


def test_texts_are_translated(curl: Curl, best: str, runs: list[Path]) -> None:
    pair = {"source": "en", "target": "de"}
    assert curl("/translate", *sent(q=ENGLISH, **pair)) == (200, {"translatedText": best})
    status, answer = curl("/translate", *sent(q=[ENGLISH, ""], **pair))
    assert (status, answer) == (200, {"translatedText": [best, ""]})
    status, answer = curl("/translate", *sent(q=ENGLISH, format="text", alternatives=3, **pair))
    assert answer["translatedText"] == best
    assert 1 <= len(answer["alternatives"]) <= 3
    assert best not in answer["alternatives"]
    form = [f"{name}={value}" for name, value in {"q": ENGLISH, "api_key": KEY, **pair}.items()]
    encoded = (word for field in form for word in ("--data-urlencode", field))
    assert curl("/translate", *encoded) == (200, {"translatedText": best})
    multipart = (word for field in form for word in ("--form-string", field))
    assert curl("/translate", *multipart) == (200, {"translatedText": best})


def test_html_keeps_its_tags(curl: Curl) -> None:
    fields = {"source": "en", "target": "de", "format": "html"}
    _, answer = curl("/translate", *sent(q=f'<p class="green">{ENGLISH}</p>', **fields))
    assert answer["translatedText"].startswith('<p class="green">')
    assert answer["translatedText"].endswith("</p>")


def test_the_source_language_is_detected(curl: Curl, runs: list[Path]) -> None:
    status, answer = curl("/translate", *sent(q=GERMAN, source="auto", target="en"))
    assert status == 200
    assert answer["translatedText"] == Translator.load(runs[1])(GERMAN)
    assert answer["detectedLanguage"]["language"] == "de"
    assert 50 < answer["detectedLanguage"]["confidence"] <= 100
    for body in (sent(q=GERMAN), ("-d", f"q={GERMAN}", "-d", f"api_key={KEY}")):
        status, answer = curl("/detect", *body)
        assert (status, answer[0]["language"]) == (200, "de")


@pytest.mark.parametrize("source", ["en", "auto"])
def test_a_document_is_translated_and_downloaded(
    curl: Curl, best: str, tmp_path: Path, source: str
) -> None:
    document = tmp_path / "note.md"
    document.write_text(f"# {ENGLISH}\n", encoding="utf-8")
    fields = {"source": source, "target": "de", "api_key": KEY, "file": f"@{document}"}
    form = (word for name, value in fields.items() for word in ("-F", f"{name}={value}"))
    status, answer = curl("/translate_file", *form)
    assert (status, list(answer)) == (200, ["translatedFileUrl"])
    assert curl(answer["translatedFileUrl"]) == (200, f"# {best.strip()}\n")


def test_languages_and_settings_need_no_key(curl: Curl) -> None:
    assert curl("/languages") == (
        200,
        [
            {"code": "de", "name": "German", "targets": ["en"]},
            {"code": "en", "name": "English", "targets": ["de"]},
        ],
    )
    status, settings = curl("/frontend/settings")
    assert (status, settings["keyRequired"], settings["suggestions"]) == (200, True, False)
    assert {".docx", ".html", ".md"} <= set(settings["supportedFilesFormat"])
    assert curl("/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("path", "fields", "status", "reason"),
    [
        ("/translate", {"source": "en", "target": "de"}, 400, "q is missing"),
        ("/translate", {"q": "a", "target": "de"}, 400, "source is missing"),
        ("/translate", {"q": "a", "source": "en", "target": "pl"}, 400, "no model from en to pl"),
        ("/translate", {"q": "a", "source": "en", "target": "de", "format": "x"}, 400, "format"),
        ("/translate", {"q": "a", "source": "en", "target": "de", "api_key": WRONG}, 401, "key"),
        ("/detect", {"q": "a", "api_key": ""}, 401, "key"),
        ("/detect", {}, 400, "q is missing"),
        ("/suggest", {"q": "a", "s": "b", "source": "en", "target": "de"}, 401, "key"),
    ],
)
def test_errors_are_json_with_one_sentence(
    curl: Curl, path: str, fields: dict[str, Any], status: int, reason: str
) -> None:
    actual, answer = curl(path, *sent(**fields))
    assert (actual, list(answer)) == (status, ["error"])
    assert reason in answer["error"]
