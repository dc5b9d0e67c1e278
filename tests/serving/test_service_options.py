"""Glossaries, kept words, the guard and HTML in requests for a translation."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from serving import ask, error, post, translated
from transduce.errors import BadInput
from transduce.glossary import Entry, Glossary
from transduce.markup import SpanRules
from transduce.serving.app import create_app
from transduce.serving.glossaries import load_glossaries
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel

TEXT = "a dog sees the tree. the man likes one bird!\n\nevery fish finds a dog today."
PAIRS = {"dog": "Dackel", "bird": "Vogel"}


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> ServedModel:
    """The small run with a glossary."""
    glossaries = {"animals": Glossary.of(PAIRS)}
    return ServedModel.load(tiny_run, "tiny", glossaries=glossaries)


@pytest.fixture(scope="module")
def app(served: ServedModel) -> Iterator[FastAPI]:
    """The service of this model."""
    created = create_app([served], limits=Limits(characters=20_000))
    yield created
    assert created.state.service.close()


def segments(answer: Any) -> list[Any]:
    return [segment for line in answer["paragraphs"] for segment in line["segments"]]


@pytest.mark.parametrize(
    "glossary",
    [
        "animals",
        PAIRS,
        [
            {"source": "dog", "target": "Dackel"},
            {"source": "bird", "target": "Vogel", "flags": ["inside"]},
        ],
    ],
)
def test_terms_are_translated_as_the_library_does(
    app: FastAPI, served: ServedModel, glossary: Any
) -> None:
    answer = translated(app, text=TEXT, glossary=glossary)
    terms = served.glossaries["animals"]
    expected = served.translator.translate(TEXT.split("\n"), glossary=terms)
    assert answer["text"] == "\n".join(line.text for line in expected)
    assert answer["text"] != translated(app, text=TEXT)["text"]
    found = [term for segment in segments(answer) for term in segment["terms"]]
    assert found == [term.to_json() for line in expected for term in line.terms]
    assert [term["source"] for term in found] == ["dog", "bird", "dog"]


def test_a_glossary_applies_to_its_request_only(app: FastAPI) -> None:
    before = translated(app, text="a dog.")
    assert "Dackel" in translated(app, text="a dog.", glossary="animals")["text"]
    after = translated(app, text="a dog.")
    assert (after["text"], segments(after)[0]["terms"]) == (before["text"], [])


def test_glossaries_are_listed(app: FastAPI) -> None:
    (model,) = ask(app, "GET", "/api/models").json()["models"]
    assert model["glossaries"] == ["animals"]


@pytest.mark.parametrize(
    ("glossary", "expected"),
    [
        ("animal", "there is no glossary animal. Did you mean animals?"),
        ("x", "there is no glossary x. The glossaries are: animals"),
        (5, "glossary = 5: expected the name of a glossary, an object with"),
        ({"dog": 5}, 'glossary = {"dog": 5}: expected the name of a glossary, an object with'),
        ([{"source": "dog"}], "expected the name of a glossary, an object with"),
        ({"a" * 101: "b"}, "a term has at most 100 characters"),
        ({str(n): "x" for n in range(1001)}, "expected at most 1,000 entries"),
        ({}, "the glossary has no entries: expected at least one"),
        ({"": "x"}, "entry 1 of the glossary has an empty source term"),
        (
            [{"source": "dog", "target": "x", "flags": ["cse"]}],
            "the entry 'dog' has an unknown flag 'cse': expected case, start, inside, whole. Did",
        ),
    ],
)
def test_bad_glossaries_are_refused_with_a_sentence(
    app: FastAPI, glossary: Any, expected: str
) -> None:
    message = error(post(app, "/api/translate", {"text": "a dog.", "glossary": glossary}), 400)
    assert expected in message
    assert "\n" not in message


def test_glossaries_are_named_by_file_or_option(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tDackel\tcase\n", encoding="utf-8")
    loaded = load_glossaries([str(path), f"legal={path}"])
    assert list(loaded) == ["terms", "legal"]
    assert loaded["legal"].entries == (Entry("dog", "Dackel", case=True),)
    odd = path.rename(tmp_path / "a=b.tsv")
    assert list(load_glossaries([str(odd)])) == ["a=b"]
    for options in ([str(odd), f"a=b={odd}"], [f"={odd}"], [str(odd), str(odd)], ["x=nowhere.tsv"]):
        with pytest.raises(BadInput):
            load_glossaries(options)


def test_words_are_kept_as_the_library_does(app: FastAPI, served: ServedModel) -> None:
    answer = translated(app, text=TEXT, keep=["sees the tree", "fish", "(.*"])
    rules = SpanRules(words=["sees the tree", "fish", "(.*"])
    expected = served.translator.translate(TEXT.split("\n"), keep=rules)
    assert answer["text"] == "\n".join(line.text for line in expected)
    assert "sees the tree" in answer["text"]
    assert "fish" in answer["text"]


def test_spans_are_reported_with_their_sentences(app: FastAPI, served: ServedModel) -> None:
    lines = ["{a} dog sees %s. the man {b}.", "one <b>{c} bird</b>. a fish."]
    answer = translated(app, text="\n".join([*lines, "a dog."]))
    found = [segment["spans"] for segment in segments(answer)]
    assert [[span["text"] for span in spans] for spans in found] == [
        *(["{a}", "%s"], ["{b}"], ["{c}"], [])
    ]
    expected = [span.to_json() for t in served.translator.translate(lines) for span in t.spans]
    assert [span for spans in found for span in spans] == expected
    html = translated(app, text="<p>one {c} bird.</p>", format="html")
    assert [span["text"] for span in segments(html)[0]["spans"]] == ["{c}"]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (["a"] * 101, "expected at most 100 items"),
        (["a" * 101], "keep.0"),
        (["", "a"], "expected text that is not empty"),
        ("dog", "expected a list"),
        ([5], "expected text"),
    ],
)
def test_bad_words_to_keep_are_refused(app: FastAPI, keep: Any, expected: str) -> None:
    assert expected in error(post(app, "/api/translate", {"text": "a dog.", "keep": keep}), 400)


def test_hostile_words_to_keep_take_little_time(app: FastAPI) -> None:
    """Words that begin alike, in a text that has only their beginnings."""
    keep = [("a " * 49)[:97] + f"{n:02}" for n in range(100)]
    start = time.perf_counter()
    SpanRules(words=keep).find("a " * 10_000)
    assert time.perf_counter() - start < 2
    assert translated(app, text="a " * 40, keep=keep)["text"]


def test_the_guard_flags_what_the_library_flags(app: FastAPI, served: ServedModel) -> None:
    text = "a dog sees 17 birds. the man likes one bird! " + "fish " * 30
    for guard in ("flag", "retry"):
        answer = translated(app, text=text, guard=guard)
        (expected,) = served.translator.translate([text], guard=guard)
        assert answer["text"] == expected.text
        flags = [flag for segment in segments(answer) for flag in segment["flags"]]
        assert flags == [flag.to_json() for flag in expected.flags]
    assert translated(app, text=text, guard="flag")["text"] == translated(app, text=text)["text"]
    assert [flag for s in segments(translated(app, text=text)) for flag in s["flags"]] == []
    assert any(segment["flags"] for segment in segments(translated(app, text=text, guard="flag")))


def test_unknown_choices_are_refused_with_the_known_ones(app: FastAPI) -> None:
    for field, expected in (("guard", "'off', 'flag' or 'retry'"), ("format", "'text' or 'html'")):
        message = error(post(app, "/api/translate", {"text": "a dog.", field: "pdf"}), 400)
        assert message == f'{field} = "pdf": expected {expected}'


HTML = (
    "<!-- a dog --><h1 title='a bird'>a <b>dog</b> sees the tree.</h1>\n"
    "<meta charset=latin-1><p>every fish finds a <code>dog()</code> today.</p>"
    "<script>a < b</script>"
)


def test_html_is_translated_as_a_document(app: FastAPI, served: ServedModel) -> None:
    from transduce.documents import DocumentOptions
    from transduce.documents.formats import FORMATS, read_document

    options = DocumentOptions(languages=("en", "de"))
    data = HTML.replace("<meta charset=latin-1>", "").encode()
    document = read_document(data, "x.html", FORMATS["html"], options)
    for unit, translation in zip(
        document.units,
        served.translator.translate([unit.source for unit in document.units], guard="flag"),
        strict=True,
    ):
        unit.target = translation.content
    answer = translated(app, text=HTML, format="html", guard="flag")
    assert answer["text"].replace("<meta charset=latin-1>", "") == document.to_bytes().decode()
    assert "<code>dog()</code>" in answer["text"]
    assert answer["text"].endswith("</p><script>a < b</script>")
    sources = [segment["source"] for segment in segments(answer)]
    assert sources == ["a bird", "a dog sees the tree.", "every fish finds a  today."]
    libre = {"q": [HTML, "<i>a dog"], "source": "en", "target": "de", "format": "html"}
    both = post(app, "/translate", libre | {"alternatives": 2}).json()
    assert both["translatedText"][0] == answer["text"]
    assert both["translatedText"][1].startswith("<i>")
    assert both["alternatives"] == [[], []]


def test_html_keeps_its_characters(app: FastAPI) -> None:
    """A declared encoding and a byte order mark have no meaning in a text."""
    kept = "<meta charset=utf-16><code>ä€😀</code>\r\n"
    for text in ("", kept, f"\ufeff{kept}", f"{kept}<p>a dog.</p>{kept}"):
        answer = translated(app, text=text, format="html")["text"]
        assert answer.count(kept) == text.count(kept)
        assert "\ufeff" not in answer
    surrogate = {"q": "<p>\ud800</p>", "source": "en", "target": "de", "format": "html"}
    assert "surrogate" in error(post(app, "/translate", surrogate), 400)


def test_an_engine_that_cannot_require_terms_says_so(tiny_run: Path) -> None:
    """Other requests in the same batch are answered."""
    glossaries = {"animals": Glossary.of(PAIRS)}
    model = ServedModel.load(tiny_run, "tiny", engine="ctranslate2", glossaries=glossaries)
    app = create_app([model])

    async def both() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            bodies = ({"text": "a dog.", "glossary": "animals"}, {"text": "a dog. a bird."})
            return await asyncio.gather(
                *(client.post("/api/translate", json=body) for body in bodies)
            )

    refused, answered = asyncio.run(both())
    assert "does not search for translations with required terms" in error(refused, 400)
    assert answered.status_code == 200
    assert app.state.service.close()


def test_html_is_limited_by_the_characters_of_its_texts(app: FastAPI) -> None:
    tags = "<b class='a-long-name'></b>" * 2_000
    assert translated(app, text=f"a dog.{tags}", format="html")["text"].count("<b") == 2_000
    body = {"text": "<p>a dog.</p>" * 4_000, "format": "html"}
    assert "24,000 characters: at most 20,000" in error(post(app, "/api/translate", body), 413)
    nul = {"text": "<p>a \0 dog</p>", "format": "html"}
    assert "NUL" in error(post(app, "/api/translate", nul), 400)
