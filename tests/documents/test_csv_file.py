"""CSV and TSV: chosen columns change in place; dialect and other cells stay."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from text_documents import assert_unchanged, read, spoil_and_read, texts, translated

from transduce.errors import BadInput

TABLE = 'id;text;"note"\r\n1;"Say; ""yes""";"quoted"\r\n2;plain;\r\n3;"two\nlines";x\r\n'


def rows_of(text: str, delimiter: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def test_nothing_changes_without_translations() -> None:
    assert_unchanged("csv", TABLE, columns=("text", "note"))
    assert_unchanged("csv", "\ufeff" + TABLE.rstrip(), columns=("text",))


def test_only_chosen_columns_change() -> None:
    assert texts(read("csv", TABLE, columns=("text",))) == ['Say; "yes"', "plain", "two", "lines"]
    changed = translated("csv", TABLE, columns=("text",))
    assert changed == (
        'id;text;"note"\r\n1;"SAY; ""YES""";"quoted"\r\n2;PLAIN;\r\n3;"TWO\nLINES";x\r\n'
    )
    by_number = translated("csv", TABLE, columns=("3",))
    assert [row[2] for row in rows_of(by_number, ";")] == ["NOTE", "QUOTED", "", "X"]


def test_a_cell_is_quoted_when_its_translation_needs_it() -> None:
    changed = translated("csv", "a,b\nx,one\n", lambda _: 'eins, "zwei"', columns=("b",))
    assert changed == 'a,b\nx,"eins, ""zwei"""\n'
    assert rows_of(changed, ",")[1] == ["x", 'eins, "zwei"']


def test_tsv_needs_no_quotation_marks() -> None:
    text = 'key\ttext\nk\t"Quote" he said\n'
    assert translated("tsv", text, columns=("text",)) == 'key\ttext\nk\t"QUOTE" HE SAID\n'


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    text = delimiter.join(["id", "text"]) + "\n" + delimiter.join(["1", "Two dogs, a cat."]) + "\n"
    text = text.replace("Two dogs, a cat.", '"Two dogs, a cat."')
    assert texts(read("csv", text, columns=("text",))) == ["Two dogs, a cat."]


def test_columns_are_asked_for() -> None:
    with pytest.raises(
        BadInput, match=r"the file: it has 3 columns \(1 'id', 2 'text', 3 'note'\)"
    ):
        read("csv", TABLE)
    with pytest.raises(BadInput, match=r"no column 'txt'.* Did you mean text\?"):
        read("csv", TABLE, columns=("txt",))
    with pytest.raises(BadInput, match="no column '4'"):
        read("csv", TABLE, columns=("4",))
    assert texts(read("csv", "one column\nonly\n")) == ["one column", "only"]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
@hypothesis_settings(max_examples=40)
def test_what_csv_writes_is_read_and_kept(table: list[tuple[str, str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("left", "right"), *table])
    text = out.getvalue()
    assert_unchanged("csv", text, columns=("right",))
    changed = rows_of(translated("csv", text, lambda part: f"({part})", columns=("right",)), ",")
    assert [row[0] for row in changed] == [row[0] for row in rows_of(text, ",")]


def test_spoiled_files_are_refused_or_read() -> None:
    spoil_and_read("csv", TABLE, columns=("1", "2"))
