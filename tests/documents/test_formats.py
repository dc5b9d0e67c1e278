"""Formats are recognised; documents and folders are translated and written."""

import contextlib
import dataclasses
import importlib.util
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from text_documents import with_texts

from transduce.documents import DocumentOptions, formats
from transduce.documents.formats import FORMATS, find_format, read_document
from transduce.documents.translating import (
    DocumentTranslator,
    plan,
    translate_documents,
    translated_name,
)
from transduce.errors import BadInput, MissingExtra, UnsupportedFormat
from transduce.markup import Inline
from transduce.text import unsupported

OPTIONS = DocumentOptions(languages=("en", "de"))
SRT = b"1\n00:00:01,000 --> 00:00:02,500\nTwo dogs run.\n"


class Upper:
    """Translates texts to capitals, and counts them."""

    def __init__(self) -> None:
        self.seen: list[Inline] = []

    def __call__(self, contents: Iterable[Inline]) -> Iterator[Inline]:
        for content in contents:
            self.seen.append(content)
            yield with_texts(content, str.upper)


@pytest.mark.parametrize(
    ("name", "head", "given", "expected"),
    [
        ("a.srt", b"", None, "srt"),
        ("A.HTML", b"", None, "html"),
        ("a.en.docx", b"", None, "docx"),
        ("a.tsv", b"", None, "tsv"),
        ("text", SRT, None, "srt"),
        ("a.xml", b'<?xml version="1.0"?><tmx version="1.4">', None, "tmx"),
        ("a.srt", SRT, "text", "text"),
        ("text", b"Two dogs run.", None, None),
        ("test.en", b"Two dogs run.", None, None),
    ],
)
def test_a_format_is_given_or_found(
    name: str, head: bytes, given: str | None, expected: str | None
) -> None:
    found = find_format(name, head, given)
    assert (found and found.name) == expected


def test_other_formats_are_refused() -> None:
    with pytest.raises(UnsupportedFormat, match=r"a\.yaml is YAML, which transduce does not read"):
        find_format("a.yaml", b"")
    with pytest.raises(UnsupportedFormat, match=r"a is PDF, .* pdftotext"):
        find_format("a", b"%PDF-1.7")
    with pytest.raises(BadInput, match=r"a\.srt\.gz is compressed SubRip subtitles: unpack it"):
        find_format("a.srt.gz", b"")
    with pytest.raises(BadInput, match=r"no format 'htmll': expected docx, html, .*mean html\?"):
        find_format("a", b"", "htmll")


def test_the_tables_of_formats_agree() -> None:
    known = [*unsupported.BY_SUFFIX.values(), *(row for _, row in unsupported.BY_CONTENT)]
    assert {row.document for row in known} - {""} == set(FORMATS) - {"tsv", "text"}
    for suffix, row in unsupported.BY_SUFFIX.items():
        if suffix in formats.BY_SUFFIX:
            assert formats.BY_SUFFIX[suffix].name == row.document


def test_a_missing_library_and_large_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = dataclasses.replace(FORMATS["markdown"], library="no_such_library")
    with pytest.raises(MissingExtra, match=r"translating Markdown files needs no_such_library"):
        read_document(b"", "a.md", missing, OPTIONS)
    assert importlib.util.find_spec("markdown_it")
    monkeypatch.setattr(formats, "MAX_BYTES", 1 << 20)
    with pytest.raises(BadInput, match=r"a\.txt is larger than 1 MiB"):
        read_document(b"a" * (1 << 21), "a.txt", FORMATS["text"], OPTIONS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("messages.en.html", "messages.de.html"),
        ("en.json", "de.json"),
        ("guide_en.md", "guide_de.md"),
        ("open.md", "open.md"),
        ("token.en", "token.en"),
        ("a.en.en.po", "a.en.de.po"),
        ("plain.docx", "plain.docx"),
    ],
)
def test_the_name_has_the_language(name: str, expected: str) -> None:
    assert translated_name(name, ("en", "de")) == expected


def test_equal_texts_are_translated_once_and_keep_their_own_links() -> None:
    upper = Upper()
    translator = DocumentTranslator(upper, OPTIONS)
    text = b"See [this](one).\n\nSee [this](two).\n\nOther.\n"
    result, _ = translator.convert(text, "a.md", FORMATS["markdown"])
    assert result == b"SEE [THIS](one).\n\nSEE [THIS](two).\n\nOTHER.\n"
    assert len(upper.seen) == 2
    translator.convert(b"Other.\n", "b.md", FORMATS["markdown"])
    assert len(upper.seen) == 2


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub" / ".hidden").mkdir(parents=True)
    (folder / "a.en.md").write_text("# Title\n", encoding="utf-8")
    (folder / "bad.json").write_text("{", encoding="utf-8")
    (folder / "notes.txt").write_text("Text\n", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "sub" / "film.srt").write_bytes(SRT)
    (folder / "sub" / ".hidden" / "x.md").write_text("x\n", encoding="utf-8")
    (folder / "sub" / "link.md").symlink_to(folder / "a.en.md")
    return folder


def test_a_folder_is_translated_with_its_subfolders(tree: Path) -> None:
    out = tree / "german"  # inside: it is not translated itself
    said: list[str] = []
    for attempt in range(2):
        planned = plan([tree], str(out), ("en", "de"), overwrite=attempt > 0)
        failures = translate_documents(
            planned, Upper(), OPTIONS, write=lambda _: None, say=said.append
        )
        expected = "line 1 is not JSON: expected a value or a bracket, found the end"
        assert failures == [f"{tree / 'bad.json'}: {expected}"]
        files = {str(p.relative_to(out)): p.read_text() for p in out.rglob("*") if p.is_file()}
        assert files == {
            "a.de.md": "# TITLE\n",
            "notes.txt": "TEXT\n",
            "sub/film.srt": SRT.decode().replace("Two dogs run.", "TWO DOGS RUN."),
        }
    assert any(line.startswith("skipped 1 file of other kinds: ") for line in said)
    with pytest.raises(BadInput, match=r"a\.de\.md exists: choose another name"):
        plan([tree], str(out), ("en", "de"))


def test_names_that_cannot_be_written_are_refused(tree: Path, tmp_path: Path) -> None:
    md, srt = tree / "a.en.md", tree / "sub" / "film.srt"
    languages = ("en", "de")
    with pytest.raises(
        BadInput, match=r"is a folder: expected .* with a folder for the translations"
    ):
        plan([tree], None, languages)
    with pytest.raises(BadInput, match="is the folder to translate"):
        plan([tree], str(tree), languages)
    with pytest.raises(BadInput, match="is a document to translate: write to another file"):
        plan([srt], str(srt), languages, overwrite=True)
    with pytest.raises(BadInput, match="is a file: several documents need a folder"):
        plan([md, srt], str(md), languages)
    with pytest.raises(BadInput, match="two documents would be written to"):
        plan([md, md], str(tmp_path / "out"), languages)
    with pytest.raises(BadInput, match="does not exist: expected a document"):
        plan([tree / "none.md"], None, languages)
    docx = tmp_path / "letter.docx"
    docx.write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"standard output: .* such as --out letter\.de\.docx"):
        plan([docx], None, languages)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="has no document that can be translated"):
        plan([tmp_path / "empty"], str(tmp_path / "out"), languages)


def test_nothing_is_written_when_a_document_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("text\n", encoding="utf-8")
    out = tmp_path / "b.md"

    def fail(contents: Iterable[Inline]) -> Iterator[Inline]:
        raise BadInput("no translation")

    with pytest.raises(BadInput, match="no translation"):
        translate_documents(
            plan([path], str(out), ("en", "de")), fail, OPTIONS, write=print, say=print
        )
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("po", 'msgid "a"\nmsgstr ""\n', "x"),
        ("tmx", '<tmx><body><tu><tuv xml:lang="en"><seg>a', "b</seg></tuv></tu></body></tmx>"),
        ("html", "<p>a", "b</p>"),
        ("html", "<p>", "b</p>"),
    ],
)
def test_long_white_space_is_read_in_linear_time(name: str, begin: str, end: str) -> None:
    """A quadratic expression would take hours for a million spaces."""
    started = time.process_time()
    with contextlib.suppress(BadInput):
        read_document(f"{begin}{' ' * 1_000_000}{end}".encode(), "it", FORMATS[name], OPTIONS)
    assert time.process_time() - started < 5


def test_a_format_may_be_named_by_a_suffix() -> None:
    assert find_format("x", b"", "md") is FORMATS["markdown"]
    with pytest.raises(BadInput, match=r"there is no format 'docs'.* Did you mean docx"):
        find_format("x", b"", "docs")
