"""Two columns of a CSV or TSV file are read as pairs."""

from pathlib import Path

import pytest

from transduce.errors import BadInput
from transduce.text.reading import find_languages, read_pairs
from transduce.translation.memory import Memory

TWO = [("Two dogs.", "Zwei Hunde."), ("A cat", "Eine Katze")]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "Two dogs.,Zwei Hunde.\nA cat,Eine Katze\n"),
        ("t.csv", "en,de\nTwo dogs.,Zwei Hunde.\nA cat,Eine Katze\n"),
        ("t.csv", 'id;target;source\n1;"Zwei\r\nHunde.";Two dogs.\n2;Eine Katze;"A cat"\n'),
        ("t.csv", "sep=;\r\nTwo dogs.;Zwei Hunde.\r\nA cat;Eine Katze\r\n"),
        ("t.en-de.csv", "de,en-GB,fr\nZwei Hunde.,Two dogs.,x\nEine Katze,A cat,y\n"),
        ("t.tsv", "id\tsource\ttarget\n1\tTwo dogs.\tZwei Hunde.\n2\tA cat\tEine Katze\n"),
        ("t.en-de.tsv", "de\ten\tid\nZwei Hunde.\tTwo dogs.\t1\nEine Katze\tA cat\t2\n"),
        ("t.tsv", "Two dogs.\tZwei Hunde.\nA cat\tEine Katze\n"),
    ],
)
def test_the_columns_are_found_by_their_names(name: str, text: str, tmp_path: Path) -> None:
    assert list(read_pairs(write(tmp_path / name, text), None)) == TWO


@pytest.mark.parametrize("columns", [("English", "German"), ("2", "3")])
def test_columns_can_be_named(columns: tuple[str, str], tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id,English,German\n1,Two dogs.,Zwei Hunde.\n")
    pairs = list(read_pairs(path, None, columns=columns))
    assert pairs[-1] == TWO[0]
    assert len(pairs) == (1 if columns[0] == "English" else 2)


def test_quotation_marks_mean_nothing_in_tsv(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", 'source\ttarget\tid\n"Two\tZwei"\t1\n')
    assert list(read_pairs(path, None)) == [('"Two', 'Zwei"')]


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("t.csv", "", None, "t.csv is empty: expected a table"),
        ("t.csv", "a,b,c\n1,2,3\n", None, r"has 3 columns \(1 'a', 2 'b', 3 'c'\): expected two"),
        ("t.csv", "source,target\n", None, "has no rows after the names of its columns"),
        ("t.csv", "id,English,German\n", ("Englisch", "German"), "Did you mean English"),
        ("t.csv", "id,source,target\n1,a\n", None, "row 2 has 2 columns: expected 3"),
        ("t.tsv", "a\tb\tc\n", None, r"t.tsv has 3 columns"),
        ("t.csv", "a,b\n", ("0", "2"), "has no column '0'"),
    ],
)
def test_a_table_without_two_such_columns_is_refused(
    name: str, text: str, columns: tuple[str, str] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        list(read_pairs(write(tmp_path / name, text), None, columns=columns))


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("en,de\nOne,Eins\n", ("en", "de")),
        ("sep=;\r\nEN;de-DE\r\nOne;Eins\r\n", ("en", "de")),
        ("en-GB,en-US\ncolour,color\n", ("src", "tgt")),
        ("en,de,note\nOne,Eins,x\n", ("src", "tgt")),
        ("One thing,Eine Sache\n", ("src", "tgt")),
        ("", ("src", "tgt")),
    ],
)
def test_the_codes_of_two_columns_are_the_languages(
    text: str, languages: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1"))
    assert find_languages(path, None) == languages
    assert find_languages(path, None, "fr-it") == ("fr", "it")


def test_columns_in_other_languages_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "en,de\nTwo dogs.,Zwei Hunde.\nA cat,Eine Katze\n")
    for languages in (None, ("en", "de"), ("en_GB", "de"), ("src", "tgt")):
        assert list(read_pairs(path, None, languages=languages)) == TWO
    with pytest.raises(BadInput, match="has the columns en and de: expected en and fr"):
        list(read_pairs(path, None, languages=("en", "fr")))
    with pytest.raises(BadInput, match="has the columns en and de"):
        Memory.load(path, ("en", "fr"))
