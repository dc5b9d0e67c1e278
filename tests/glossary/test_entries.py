"""Glossaries are read from TSV files and made from Python."""

import gzip
from pathlib import Path

import pytest

from transduce.errors import BadInput
from transduce.glossary import Entry, Glossary, entries


def load(folder: Path, text: str) -> Glossary:
    path = folder / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    return Glossary.load(path)


def test_a_file_has_terms_and_flags(tmp_path: Path) -> None:
    glossary = load(
        tmp_path,
        "\ufeff# terms of the manual\nSource\tTarget\tflags\n\nfile\tDatei\n"
        "IT\tEDV\tcase\r\n open \t Öffne  das \tstart, CASE\nfile\tDatei\t\nOK\tOK\twhole",
    )
    assert glossary.entries == (
        Entry("file", "Datei"),
        Entry("IT", "EDV", case=True),
        Entry("open", "Öffne das", case=True, where="start"),
        Entry("OK", "OK", where="whole"),
    )
    assert glossary.name == str(tmp_path / "terms.tsv")
    assert len(glossary) == 4


def test_a_term_may_be_called_source_after_the_first_line(tmp_path: Path) -> None:
    assert len(load(tmp_path, "file\tDatei\nsource\ttarget\n")) == 2


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv.gz").write_bytes(gzip.compress(b"file\tDatei\n"))
    assert len(Glossary.load(tmp_path / "terms.tsv.gz")) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file\n", "line 1 has 1 column: expected a source term"),
        ("# x\nfile\tDatei\tcase\tx\n", "line 2 has 4 columns"),
        ("file\t \n", "line 1 has an empty target term"),
        ("\tDatei\n", "line 1 has an empty source term"),
        ("file\tDatei\tcse\n", "line 1 has an unknown flag 'cse'.* Did you mean case"),
        ("file\tDatei\tstart inside\n", "line 1 has the flags inside and start"),
        ("file\tDatei\nFile\tAkte\n", "line 2 translates 'File' with 'Akte', but .*line 1 with"),
        ("a\U000f0000\tb\n", "line 1 has a private-use character"),
        (f"{'x' * 1001}\ty\n", "line 1 has a source term of 1,001 characters"),
        ("# nothing\nsource\ttarget\n", "has no entries"),
        ("", "has no entries"),
    ],
)
def test_a_wrong_line_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        load(tmp_path, text)


def test_the_same_term_may_differ_by_flags(tmp_path: Path) -> None:
    assert len(load(tmp_path, "May\tMai\tcase\nmay\tdürfen\tcase\nmay\tkann\n")) == 3


def test_too_large_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_ENTRIES", 2)
    with pytest.raises(BadInput, match="more than 2 entries"):
        load(tmp_path, "a\tb\nc\td\ne\tf\n")
    monkeypatch.setattr(entries, "MAX_CHARACTERS", 1 << 20)
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        load(tmp_path, "#" * (1 << 20) + "\na\tb\n")


def test_files_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_bytes(b"caf\xe9\tx\n")
    with pytest.raises(BadInput, match="line 1 is not UTF-8"):
        Glossary.load(tmp_path / "terms.tsv")
    with pytest.raises(BadInput, match="does not exist"):
        Glossary.load(tmp_path / "missing.tsv")


def test_a_table_with_commas_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "terms.csv"
    path.write_text("file,Datei\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"terms\.csv is no text with tabs: expected a source term"):
        Glossary.load(path)


def test_a_glossary_is_made_from_pairs_or_a_dict() -> None:
    assert Glossary.of({"a": "b"}).entries == Glossary.of([("a", "b")]).entries
    assert Glossary.of([Entry("a", "b", case=True)]).entries == (Entry("a", "b", case=True),)
    with pytest.raises(BadInput, match="entry 2 of the glossary translates 'A' with 'c', but"):
        Glossary.of([("a", "b"), ("A", "c")])
    with pytest.raises(BadInput, match="has no entries"):
        Glossary.of({})


def test_the_hash_depends_on_the_entries_only() -> None:
    first, same = Glossary.of([("a", "b"), ("c", "d")]), Glossary.of([("c", "d"), ("a", "b")])
    others = [Glossary.of([("a", "b")]), Glossary.of([("a", "b"), Entry("c", "d", case=True)])]
    assert first.sha256 == same.sha256
    assert len({first.sha256, *(other.sha256 for other in others)}) == 3
