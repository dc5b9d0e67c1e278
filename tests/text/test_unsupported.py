"""Documents in other formats are refused by name, and plain text never is."""

import gzip
import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import CommandLine
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import UnsupportedFormat
from transduce.text.reading import LineReader, read_lines, read_pairs
from transduce.text.unsupported import BY_SUFFIX, format_of_content, format_of_name

SRT = "1\r\n00:00:01,000 --> 00:00:02,500\r\nTwo dogs run.\r\n"
XLIFF = '<?xml version="1.0"?>\n<xliff version="1.2">\n</xliff>\n'


def zipped(*names: str, mimetype: str = "") -> bytes:
    """Write an archive as Office and LibreOffice do: the type, if any, first and uncompressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        if mimetype:
            archive.writestr("mimetype", mimetype)
        for name in names:
            archive.writestr(name, "content")
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("text.en"))
    return out.getvalue()


CONTENTS = [
    (SRT.encode(), "SubRip subtitles"),
    (b"\xef\xbb\xbf" + SRT.encode(), "SubRip subtitles"),
    (b"WEBVTT\n\n00:01.000 --> 00:02.000\nTwo dogs run.\n", "WebVTT subtitles"),
    (b"<!DOCTYPE html>\n<html><body>Two dogs run.</body></html>\n", "HTML"),
    (b'\n<html lang="en">\n', "HTML"),
    (XLIFF.encode(), "XLIFF"),
    (b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n', "TMX"),
    (b'<?xml version="1.0"?>\n<book/>\n', "XML"),
    (b'# German\nmsgid ""\nmsgstr ""\n', "gettext PO"),
    (b"{\\rtf1\\ansi Two dogs run.}", "RTF"),
    (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "PDF"),
    (zipped("[Content_Types].xml", "word/document.xml"), "a Word document"),
    (zipped("[Content_Types].xml", "xl/workbook.xml"), "a spreadsheet"),
    (
        zipped("content.xml", mimetype="application/vnd.oasis.opendocument.text"),
        "an OpenDocument file",
    ),
    (zipped("OEBPS/1.xhtml", mimetype="application/epub+zip"), "an EPUB book"),
    (zipped("text.en"), "an archive"),
    (tarred(), "an archive"),
    (b"BZh91AY&SY\x00\x00", "compressed with bzip2"),
]


@pytest.mark.parametrize(("content", "name"), CONTENTS)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_document_is_recognised_by_its_first_bytes(
    content: bytes,
    name: str,
    compress: type[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(compress(content))
    with pytest.raises(UnsupportedFormat, match=f"text.en is {name}, which "):
        list(read_lines(path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(compress(content))))
    with pytest.raises(UnsupportedFormat, match=f"standard input is {name}, which"):
        next(LineReader("-"))


@pytest.mark.parametrize("ending", [*BY_SUFFIX, "SRT", "tmx.gz", "csv.xz"])
def test_a_document_is_recognised_by_its_suffix(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"text.{ending.partition('.')[0]}"
    path.write_text("Two dogs run.\n", encoding="utf-8")
    expected = r"is .*, which (transduce does not read yet|is not read as lines): "
    with pytest.raises(UnsupportedFormat, match=expected):
        list(read_lines(path))
    assert list(read_lines(path, as_text=True)) == ["Two dogs run."]
    assert format_of_name(f"folder.d/text.{ending}") is not None


@pytest.mark.parametrize(
    "name",
    [*("test.en", "test.de.gz", "train.tsv", "text.txt", "text", "a.html.en", "srt", ".json")],
)
def test_other_suffixes_are_not_documents(name: str) -> None:
    assert format_of_name(name) is None


@pytest.mark.parametrize(
    "prose",
    [
        *("1", "1\n2\n", "12:30:00 --> noon", "1\nAt 00:00:01,000 it began --> then\n"),
        *("<b>Bold</b> text", "<3", "The <html> tag", "msgid is a word", "WEBVTTs", "PK", "BZh9"),
        *("# a heading\nand text", "{curly}", '{"a": 1}', "a,b,c", "%PDF is a format", "xl/"),
        *("```\ncode", "a: 1", "Rar!", "<!-- note --> text"),
    ],
)
def test_prose_is_not_taken_for_a_document(prose: str, tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_text(prose, encoding="utf-8")
    assert list(read_lines(path)) == prose.removesuffix("\n").split("\n")


@given(st.text())
def test_arbitrary_text_is_not_taken_for_a_document(text: str) -> None:
    assert format_of_content(text.encode()) is None


@pytest.mark.parametrize("head", [b"\n" * 65536, b"1" * 65536, b"<!>" * 21845, b"#\n" * 32768])
def test_recognition_takes_little_time_for_any_text(head: bytes) -> None:
    """Each takes milliseconds; a pattern that tries every split of these would take hours."""
    assert format_of_content(head) is None


def test_pairs_are_refused_on_either_side(tmp_path: Path) -> None:
    text, other = tmp_path / "a.en", tmp_path / "a.tmx"
    text.write_text("Two dogs run.\n", encoding="utf-8")
    other.write_text("Two dogs run.\tZwei Hunde rennen.\n", encoding="utf-8")
    for files in ((text, other), (other, text)):
        with pytest.raises(UnsupportedFormat, match=r"a\.tmx is TMX.*, give it alone, without"):
            list(read_pairs(*files))
    alone = tmp_path / "a.srt"
    alone.write_text(SRT, encoding="utf-8")
    with pytest.raises(UnsupportedFormat, match=r"a\.srt is SubRip subtitles"):
        list(read_pairs(alone, None))
    assert list(read_pairs(other, None, as_text=True))


# The commands.


def test_commands_refuse_documents_and_say_what_to_do(
    cli: CommandLine, tiny_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    tmx, csv = tmp_path / "train.tmx", tmp_path / "train.csv"
    for path in (tmx, csv):
        path.write_text("a,b\n", encoding="utf-8")
    source, target = map(str, tiny_files)
    out = str(tmp_path / "run")
    for command in (
        ["train", str(tmx), target, "--out", out],
        ["train", str(csv), target, "--out", out],
        ["train", source, target, "--valid", str(csv), target, "--out", out],
        ["score", str(csv), target],
        ["look", str(tiny_run), "--find", str(csv)],
        ["distill", str(tiny_run), str(csv), "--out", out],
        ["bench", "translate", str(tiny_run), str(csv)],
    ):
        error = cli(*command).error
        assert "which is not read as lines: as parallel text, give it alone" in error
        assert "--as-text" not in error


def test_documents_can_be_translated_as_text(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "film.srt"
    path.write_text(SRT, encoding="utf-8")
    piped = cli("translate", tiny_run, input=SRT)
    assert piped.error == (
        "standard input is SubRip subtitles, which is not read as lines: --format srt translates "
        "it as a document, --as-text its lines"
    )
    assert piped.stdout == ""
    result = cli("translate", tiny_run, path, "--as-text", "--json")
    assert result.stdout.count("\n") == 3
    assert cli("translate", tiny_run, "--as-text", "--json", input=SRT).stdout == result.stdout
    yaml = tmp_path / "menu.yaml"
    yaml.write_text("title: Open\n", encoding="utf-8")
    refused = cli("translate", tiny_run, yaml)
    assert refused.error.startswith(f"{yaml} is YAML, which transduce does not read yet: write")
    assert refused.error.endswith("; --as-text translates its lines as they are")
    assert "engine" not in refused.stderr


def test_a_binary_document_is_never_translated_as_text(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "letter.odt"
    path.write_bytes(zipped("content.xml", mimetype="application/vnd.oasis.opendocument.text"))
    error = cli("translate", tiny_run, path).error
    assert error.startswith(
        f"{path} is an OpenDocument file, which transduce does not read yet: extract"
    )
    assert "--as-text" not in error
    assert "has a NUL byte" in cli("translate", tiny_run, path, "--as-text").error
