"""Documents in the service: uploads, downloads, limits and other requests meanwhile."""

import asyncio
import io
import json
import threading
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from serving import KEY, PATIENCE, QUICK, ask, bearer, error, listening, scripted, until
from transduce.documents import DocumentOptions
from transduce.documents.formats import FORMATS, read_document
from transduce.glossary import Glossary
from transduce.serving import documents
from transduce.serving.access import Access
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel
from transduce.serving.schemas import Remark
from transduce.translation.translation import Candidate, PlacedSpan, Translation

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = ("story.txt", b"a dog.\na bird.\n")
SOURCE = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> ServedModel:
    """The small run with a glossary."""
    glossaries = {"animals": Glossary.of({"dog": "Dackel"})}
    return ServedModel.load(tiny_run, "tiny", engine="torch", device="cpu", glossaries=glossaries)


@pytest.fixture(scope="module")
def app(served: ServedModel) -> Iterator[FastAPI]:
    """The service of this model."""
    created = create_app([served], limits=Limits(characters=5_000))
    yield created
    assert created.state.service.close()


def echoing(run: Path, limits: Limits = QUICK, *, held: bool = False, **access: Any) -> FastAPI:
    """Return the service of an engine that returns its source."""
    return create_app([scripted(run, held=held)[0]], limits=limits, access=Access(**access))


def send(
    app: FastAPI, file: Any, path: str = "/api/documents", headers: Any = None, **fields: Any
) -> httpx.Response:
    return ask(app, "POST", path, files={"file": file}, data=fields, headers=headers)


def both(app: FastAPI, file: Any, **fields: Any) -> tuple[Any, httpx.Response]:
    """Upload a document and download its translation, in one event loop."""

    async def asking() -> tuple[Any, httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            sent = await client.post("/api/documents", files={"file": file}, data=fields)
            assert sent.status_code == 200, sent.text
            return sent.json(), await client.get(sent.json()["url"])

    return asyncio.run(asking())


def translated_by_the_library(model: ServedModel, name: str, **options: Any) -> bytes:
    """Return what `transduce translate` writes for an example."""
    from transduce.documents import DocumentOptions
    from transduce.documents.formats import find_format
    from transduce.documents.translating import DocumentTranslator

    def translate(texts: Any) -> Any:
        return (t.content for t in model.translator.stream(texts, **options))

    data = (EXAMPLES / name).read_bytes()
    chosen = find_format(name, data)
    assert chosen is not None
    reading = DocumentOptions(languages=model.languages, columns=("text",), keys=("title",))
    return DocumentTranslator(translate, reading).convert(data, name, chosen)[0]


@pytest.mark.parametrize(
    ("name", "result", "media_type"),
    [
        ("hotel.docx", "hotel.de.docx", FORMATS["docx"].media_type),
        ("site/hotel.html", "hotel.de.html", "text/html"),
        ("shop.csv", "shop.de.csv", "text/csv"),
    ],
)
def test_a_document_is_translated_as_on_the_command_line(
    app: FastAPI, served: ServedModel, name: str, result: str, media_type: str
) -> None:
    file = (Path(name).name, (EXAMPLES / name).read_bytes())
    answer, download = both(app, file, columns="text", keys="title", guard="flag")
    expected = translated_by_the_library(served, name, guard="flag")
    assert (answer["name"], answer["bytes"]) == (result, len(expected))
    if name.endswith(".docx"):
        texts = [
            zipfile.ZipFile(io.BytesIO(each)).read("word/document.xml")
            for each in (download.content, expected)
        ]
        assert texts[0] == texts[1]
    else:
        assert download.content == expected
    assert download.headers["content-type"] == media_type
    named = f"attachment; filename=\"{result}\"; filename*=UTF-8''{result}"
    assert download.headers["content-disposition"] == named


def test_a_download_is_never_a_page_of_the_service(app: FastAPI) -> None:
    page = ('ä"b.html', b"<script>alert(1)</script><p>a dog</p>")
    answer, download = both(app, page)
    assert answer["name"] == 'ä"b.de.html'
    assert download.headers["content-disposition"] == (
        "attachment; filename=\"__b.de.html\"; filename*=UTF-8''%C3%A4%22b.de.html"
    )
    assert "sandbox" in download.headers["content-security-policy"]
    assert download.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('filename="a.txt"', "a.de.txt"),
        ('filename="guide.en.txt"', "guide.de.txt"),
        ('filename="../../etc/a.txt"', "a.de.txt"),
        ('filename="C:\\\\x\\\\a.txt"', "a.de.txt"),
        ('filename="a\\"b%22c.txt"', 'a"b"c.de.txt'),
        ("filename=\"x.txt\"; filename*=UTF-8''%C3%BC.txt", "ü.de.txt"),
        ("filename=a.txt", "a.de.txt"),
        ('filename="ü\x07.txt"', "ü.de.txt"),
        (f'filename="{"a" * 500}.txt"', f"{'a' * 96}.de.txt"),
    ],
)
def test_names_of_files_are_read_as_clients_write_them(
    tiny_run: Path, disposition: str, name: str
) -> None:
    head = f'--b\r\nContent-Disposition: form-data; name="file"; {disposition}\r\n\r\n'
    body = head.encode() + b"a dog.\r\n--b--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = ask(echoing(tiny_run), "POST", "/api/documents", content=body, headers=headers)
    assert answer.json().get("name") == name, answer.text


def test_terms_flags_and_kept_words_apply_to_documents(app: FastAPI) -> None:
    file = ("a.txt", b"a dog sees 17 birds.\nthe man likes fish.")
    entries = json.dumps({"dog": "Dackel", "man": "a man " * 15})
    answer, download = both(app, file, glossary=entries, guard="flag", keep=["likes", "fish"])
    assert b"Dackel" in download.content
    assert b"likes" in download.content
    assert b"fish" in download.content
    assert {remark["where"] for remark in answer["remarks"]} <= {"line 1", "line 2"}
    assert any(remark["flags"] for remark in answer["remarks"])
    assert (answer["texts"], answer["model"]) == (2, "tiny")
    _, by_name = both(app, file, glossary="animals")
    assert b"Dackel" in by_name.content


def test_texts_with_doubtful_spans_are_remarks() -> None:
    options = DocumentOptions(languages=("en", "de"))
    document = read_document(b"%s has %d\nok {a}\n", "a.txt", FORMATS["text"], options)
    moved = PlacedSpan("%s", "reordered"), PlacedSpan("%d", "reordered")
    best = Candidate("b", 0.0, 0.0, ())
    translations = [
        Translation("a", (best,), spans=spans) for spans in (moved, (PlacedSpan("{a}", "aligned"),))
    ]
    download: Any = None
    (remark,) = documents.Translated(download, document, translations).remarks()
    assert remark["where"] == "line 1"
    assert remark["spans"] == [{"text": text, "placed": "reordered"} for text in ("%s", "%d")]
    assert Remark(**remark).spans


def spoiled_docx(**parts: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name.replace("__", "/") + ".xml", content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("file", "status", "expected"),
    [
        (("a.docx", b"PK\x03\x04 spoiled"), 400, "a.docx: the docx document is damaged"),
        (("a.docx", spoiled_docx(x=b"")), 400, "word/document.xml is missing"),
        (("a.docx", spoiled_docx(word__document=b"<a")), 400, "a.docx: "),
        (("a.docx", spoiled_docx(word__document=b" " * 300_000)), 400, "of text and formatting"),
        (("a.json", b'{"a": '), 400, "a.json: "),
        (("a.html", b"\xff\xfe\x00"), 400, "a.html: line 1 of the HTML document is not utf-16"),
        (("a.pdf", b"%PDF-1.4"), 400, "a.pdf is PDF, which transduce does not read yet"),
        (("a.xyz", b"a dog"), 400, "a.xyz has no known format: expected .docx, .html"),
        (("a.csv", b"id,text\n1,a dog\n"), 400, "say which to translate"),
        (("a.txt", b"a \0 dog"), 400, "NUL"),
        (("a.txt", b"a" * 5_001), 413, "5,001 characters: at most 5,000"),
        (("a.txt", b"a" * 130_000), 413, "130,000 bytes: at most 125,536 are accepted"),
        (("a.txt", b""), 200, ""),
    ],
)
def test_spoiled_and_large_documents_are_refused_with_a_sentence(
    app: FastAPI, file: Any, status: int, expected: str
) -> None:
    answer = send(app, file)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert expected in error(answer, status)
    libre = send(app, file, "/translate_file", **SOURCE)
    assert (libre.status_code, libre.json().get("error")) == (status, answer.json().get("error"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "x"}, "there is no model x"),
        ({"guard": "yes"}, "guard = \"yes\": expected 'off', 'flag' or 'retry'"),
        ({"glossary": "x"}, "there is no glossary x"),
        ({"glossary": "{"}, "glossary is not JSON"),
        ({"colums": "a"}, "there is no field colums. Did you mean columns?"),
    ],
)
def test_bad_fields_are_refused(app: FastAPI, fields: Any, expected: str) -> None:
    answer = send(app, TEXT, **fields)
    assert expected in error(answer, 404 if "model" in fields else 400)


def test_a_form_needs_one_document(app: FastAPI) -> None:
    two = [("file", TEXT), ("file", TEXT)]
    assert "is there 2 times" in error(ask(app, "POST", "/api/documents", files=two), 400)
    none = [("model", (None, "tiny"))]
    assert "file is missing" in error(ask(app, "POST", "/api/documents", files=none), 400)
    assert "expected multipart" in error(ask(app, "POST", "/api/documents", json={}), 415)


def test_libretranslate_file_translation(tiny_run: Path) -> None:
    app = echoing(tiny_run)
    with listening(app) as (host, port):
        base = f"http://{host}:{port}"
        for fields, expected in (
            ({"source": "en", "target": "fr"}, "there is no model from en to fr"),
            ({"target": "de"}, "source is missing: expected source language"),
        ):
            answer = httpx.post(f"{base}/translate_file", files={"file": TEXT}, data=fields)
            assert expected in error(answer, 400)
        sent = httpx.post(f"{base}/translate_file", files={"file": TEXT}, data=SOURCE)
        url = sent.json()["translatedFileUrl"]
        assert url.startswith(f"{base}/download_file/")
        assert httpx.get(url).content == TEXT[1]
        assert httpx.head(url).headers["content-length"] == str(len(TEXT[1]))
        metrics = httpx.get(f"{base}/metrics").text
    assert 'transduce_requests_total{endpoint="/translate_file",status="200"} 1.0' in metrics
    assert 'endpoint="/download_file/",status="200"} 2.0' in metrics
    settings = ask(app, "GET", "/frontend/settings").json()
    assert settings["filesTranslation"]
    assert {".docx", ".txt"} <= {*settings["supportedFilesFormat"]}


def test_documents_are_listed_or_refused(tiny_run: Path) -> None:
    (model,) = ask(echoing(tiny_run), "GET", "/api/models").json()["models"]
    assert model["documents"]["max_bytes"] == 10 * 2**20
    assert ".docx" in model["documents"]["extensions"]
    without = echoing(tiny_run, Limits(document_bytes=0))
    assert ask(without, "GET", "/api/models").json()["models"][0]["documents"] is None
    assert not ask(without, "GET", "/frontend/settings").json()["filesTranslation"]
    assert "translates no documents" in error(send(without, TEXT), 403)


def test_documents_need_a_key_and_downloads_do_not(tiny_run: Path) -> None:
    from transduce.serving.keys import Keys

    app = echoing(tiny_run, keys=Keys([KEY]))
    error(send(app, TEXT), 401)
    error(send(app, TEXT, "/translate_file", **SOURCE), 401)
    error(send(app, TEXT, "/translate_file", **SOURCE, api_key="wrong-key-of-20-letters"), 401)
    assert send(app, TEXT, headers=bearer(KEY)).status_code == 200
    url = send(app, TEXT, "/translate_file", **SOURCE, api_key=KEY).json()["translatedFileUrl"]
    assert ask(app, "GET", httpx.URL(url).path).content == TEXT[1]
    assert "30 minutes" in error(ask(app, "GET", "/download_file/x"), 404)


def test_downloads_expire_and_the_oldest_give_way(tiny_run: Path) -> None:
    size = len(TEXT[1])
    app = echoing(tiny_run, Limits(downloads=2 * size, keeping=3.0))

    async def story(client: httpx.AsyncClient) -> list[int]:
        urls = []
        for _ in range(3):
            sent = await client.post("/api/documents", files={"file": TEXT})
            urls.append(sent.json()["url"])
        assert len({*urls}) == 3
        assert min(map(len, urls)) >= len("/download_file/") + 43
        early = [(await client.get(url)).status_code for url in urls]
        end = time.monotonic() + PATIENCE
        while (await client.get(urls[2])).status_code == 200:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        return early

    assert together(app, story) == [404, 200, 200]


def together(app: FastAPI, story: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    """Run requests in one event loop."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app=app, client=("192.0.2.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await story(client)

    return asyncio.run(run())


def test_texts_are_translated_while_a_document_is_read(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place stays taken until the thread ends, even if the client has left."""
    release, reading = threading.Event(), read_document

    def slow(*arguments: Any) -> Any:
        assert release.wait(PATIENCE)
        return reading(*arguments)

    monkeypatch.setattr(documents, "read_document", slow)
    app = echoing(tiny_run, Limits(documents=2, per_client=16, timeout=1.0))

    async def story(client: httpx.AsyncClient) -> list[httpx.Response]:
        begin = time.perf_counter()
        sent = [
            asyncio.ensure_future(client.post("/api/documents", files={"file": TEXT}))
            for _ in range(2)
        ]
        text = await client.post("/api/translate", json={"text": "a dog."})
        assert text.status_code == 200
        assert time.perf_counter() - begin < 0.9
        refused = await sent[1]
        assert "1 of your documents are in progress" in error(refused, 429)
        assert int(refused.headers["retry-after"]) > 0
        assert "took longer than 1 seconds" in error(await sent[0], 504)
        still = await client.post("/api/documents", files={"file": TEXT})
        assert still.status_code == 429
        release.set()
        for _ in range(500):
            await asyncio.sleep(0.01)
            again = await client.post("/api/documents", files={"file": TEXT})
            if again.status_code == 200:
                return [again]
        raise AssertionError(again.text)

    assert together(app, story)


def test_all_clients_share_the_places(tiny_run: Path) -> None:
    model, engine = scripted(tiny_run, held=True)
    app = create_app([model], limits=Limits(documents=1))
    with listening(app) as (host, port):
        url = f"http://{host}:{port}/api/documents"
        answers: list[httpx.Response] = []

        def upload() -> None:
            answers.append(httpx.post(url, files={"file": TEXT}, timeout=PATIENCE))

        thread = threading.Thread(target=upload)
        thread.start()
        until(lambda: engine.batches)
        refused = httpx.post(url, files={"file": TEXT})
        assert "1 documents are in progress" in error(refused, 503)
        assert int(refused.headers["retry-after"]) > 0
        engine.go.set()
        thread.join(PATIENCE)
    assert answers[0].status_code == 200


def test_a_client_that_disconnects_frees_its_place(tiny_run: Path) -> None:
    model, engine = scripted(tiny_run, held=True)
    app = create_app([model], limits=Limits(documents=1))
    with listening(app) as (host, port):
        url = f"http://{host}:{port}/api/documents"
        with pytest.raises(httpx.TimeoutException):
            httpx.post(url, files={"file": TEXT}, timeout=httpx.Timeout(PATIENCE, read=0.3))
        until(lambda: app.state.service.sentences == 0)
        engine.go.set()
        until(lambda: httpx.post(url, files={"file": TEXT}).status_code == 200)
