"""`transduce translate` with documents and folders."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, snapshot
from text_documents import with_texts

from transduce.markup import Inline, inline_text
from transduce.translation.translation import Candidate, Translation
from transduce.translation.translator import Translator

SRT = "1\n00:00:01,000 --> 00:00:02,500\n<i>Two dogs</i> run.\n"
CSV = "id,name,text\n1,Dog,Two dogs run.\n"


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Translate to capitals instead of with the model; return the options of the last call."""
    last: dict[str, Any] = {}

    def stream(
        translator: Translator, contents: Iterable[Inline], *, advance: Any, **given: Any
    ) -> Iterator[Translation]:
        last.clear()
        last.update(given)
        for content in contents:
            advance(1)
            candidate = Candidate(inline_text(content).upper(), 0.0, 0.0, ())
            upper = with_texts(content, str.upper)
            yield Translation(inline_text(content), (candidate,), content=upper)

    monkeypatch.setattr(Translator, "stream", stream)
    return last


def test_a_document_is_written_to_standard_output_or_a_file(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    path, out = tmp_path / "film.en.srt", tmp_path / "out.srt"
    path.write_text(SRT, encoding="utf-8")
    expected = SRT.replace("Two dogs", "TWO DOGS").replace("run", "RUN")
    result = cli("translate", tiny_run, path, "--beam", "2")
    assert (result.status, result.stdout) == (0, expected), result.stderr
    assert options["beam"] == 2
    assert cli("translate", tiny_run, "--format", "srt", input=SRT).stdout == expected
    written = cli("translate", tiny_run, path, "--out", out)
    assert written.stdout == ""
    assert f"wrote {out} (1 text)" in written.stderr
    assert out.read_text(encoding="utf-8") == expected
    assert "exists: choose another name" in cli("translate", tiny_run, path, "--out", out).error
    assert cli("translate", tiny_run, path, "--out", out, "--overwrite").status == 0


def test_a_name_of_another_format_is_refused(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Documents are not converted: a Word file named .txt would open in no program."""
    film, letter = tmp_path / "film.srt", tmp_path / "letter.docx"
    film.write_text(SRT, encoding="utf-8")
    letter.write_bytes(b"PK")
    for path, name in ((letter, "out.txt"), (letter, "out.pdf"), (film, "out.vtt")):
        result = cli("translate", tiny_run, path, "--out", tmp_path / name)
        assert result.status == 1
        assert result.error.endswith(
            f"ends with {path.suffix}, such as {path.stem}.de{path.suffix}"
        )
        assert not (tmp_path / name).exists()
    assert cli("translate", tiny_run, film, "--out", tmp_path / "film.de").status == 0


def test_a_folder_is_translated_and_failures_are_named(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    folder, out = tmp_path / "docs", tmp_path / "german"
    (folder / "sub").mkdir(parents=True)
    (folder / "bad.json").write_text("{", encoding="utf-8")
    (folder / "sub" / "film.srt").write_text(SRT, encoding="utf-8")
    (folder / "data.bin").write_bytes(b"\0\1")
    before = snapshot(folder)
    result = cli("translate", tiny_run, folder, "--out", out)
    assert result.error.startswith("1 of 2 documents could not be translated; the first: ")
    assert "bad.json: line 1 is not JSON" in result.error
    assert "skipped 1 file of other kinds" in result.stderr
    assert [str(path.relative_to(out)) for path in out.rglob("*")] == ["sub", "sub/film.srt"]
    assert snapshot(folder) == before


def test_columns_and_keys_choose_texts(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    table, menu = tmp_path / "a.csv", tmp_path / "a.json"
    table.write_text(CSV, encoding="utf-8")
    menu.write_text('{"a": "one", "b": "two"}', encoding="utf-8")
    asked = cli("translate", tiny_run, table)
    assert "it has 3 columns (1 'id', 2 'name', 3 'text'): say which" in asked.error
    result = cli("translate", tiny_run, table, "--columns", "text")
    assert result.stdout == CSV.replace("Two dogs run.", "TWO DOGS RUN.")
    result = cli("translate", tiny_run, menu, "--keys", "b")
    assert result.stdout == '{"a": "one", "b": "TWO"}'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--nbest", "2"], "--nbest is for lines of text, and "),
        (["--json"], "--json is for lines of text, and "),
        (["--align"], "--align is for lines of text, and "),
        (["--prefix", "Der"], "--prefix is for lines of text, and "),
        (["--as-text", "--width", "30"], "--as-text translates lines: it excludes --width"),
        (["--width", "3"], "--width 3: expected 10 to 1000 characters"),
        (["--format", "odt"], "there is no format 'odt': expected docx, html"),
        (["Two dogs run."], "documents and text cannot be translated together"),
        (["-"], "standard input and documents cannot be translated together"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    given: list[str], expected: str, cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "film.srt"
    path.write_text(SRT, encoding="utf-8")
    result = cli("translate", tiny_run, path, *given)
    assert expected in result.error
    assert "engine" not in result.stderr  # before a model is loaded


def test_options_of_documents_are_refused_for_lines(cli: CommandLine, tiny_run: Path) -> None:
    error = cli("translate", tiny_run, "Two dogs run.", "--keys", "a").error
    assert error.startswith("--keys is for documents: the input is lines of text")


def test_lines_are_translated_as_before(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a dog\n", encoding="utf-8")
    lines = cli("translate", tiny_run, path).stdout
    assert lines == cli("translate", tiny_run, input="a dog\n").stdout
    assert "prefixes" in options  # read as lines
    assert cli("translate", tiny_run, path, "--format", "text").stdout == "A DOG\n"
