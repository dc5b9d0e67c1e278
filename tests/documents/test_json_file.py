"""JSON: string values change; keys, numbers, order and escapes stay."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from text_documents import assert_unchanged, read, spoil_and_read, texts, translated

from transduce.errors import BadInput

TEXT = """{
  "title": "Hello",  "n": 1.50e3, "big": 123456789012345678901234567890,
  "menu": {"title": "Open \\"file\\"", "items": ["One", "Two\\nlines", 7, null, true, "42"]},
  "title": "again", "icu": "{count, plural, one {a} other {b}}"
}
"""


def test_nothing_changes_without_translations() -> None:
    assert_unchanged("json", TEXT)
    assert_unchanged("json", "\ufeff" + TEXT.replace("\n", "\r\n"))


def test_values_change_and_nothing_else() -> None:
    document = read("json", TEXT)
    assert texts(document) == ["Hello", 'Open "file"', "One", "Two", "lines", "again"]
    assert document.left_alone == ["1 ICU message with plural or select"]
    expected = TEXT
    for word in ("Hello", 'Open \\"file\\"', "One", "Two", "lines", "again"):
        expected = expected.replace(word, word.upper())
    assert translated("json", TEXT) == expected.replace("\\NLINES", "\\nLINES")


def test_keys_limit_the_values() -> None:
    assert texts(read("json", TEXT, keys=("title",))) == ["Hello", 'Open "file"', "again"]
    assert texts(read("json", TEXT, keys=("menu.title",))) == ['Open "file"']
    assert texts(read("json", TEXT, keys=("items",))) == ["One", "Two", "lines"]
    with pytest.raises(BadInput, match="no text with the keys body"):
        read("json", TEXT, keys=("body",))


def test_identifiers_are_left_alone_unless_their_key_is_named() -> None:
    text = (
        '{"id": "bread", "menuId": "a-1", "type": "Type", "lang": "en", "text": "bread", '
        '"idea": "bread", "items": [{"item_id": "b"}, {"id": "the bread"}]}'
    )
    document = read("json", text)
    assert texts(document) == ["Type", "bread", "bread", "the bread"]
    assert document.left_alone == ["4 identifiers of keys such as id"]
    assert texts(read("json", text, keys=("id", "text"))) == ["bread", "bread", "the bread"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('["caf\\u00e9"]', '["\\u00c4 caf\\u00e9"]'),
        ('["café"]', '["Ä café"]'),
        ('["cafe"]', '["Ä cafe"]'),
        ('["a\\/b"]', '["Ä a\\/b"]'),
        ('["\\u003cb\\u003e a"]', '["Ä \\u003cb\\u003e a"]'),
    ],
)
def test_escapes_are_written_as_the_file_does(source: str, expected: str) -> None:
    assert translated("json", source, lambda text: f"Ä {text}") == expected


def test_each_line_of_json_lines_is_a_value() -> None:
    text = '{"a": "one"}\n{"a": "two"}\n"three"\n'
    assert translated("jsonl", text) == '{"a": "ONE"}\n{"a": "TWO"}\n"THREE"\n'


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
@hypothesis_settings(max_examples=60)
def test_what_json_writes_is_read(value: Any, ascii_only: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if "\0" in text:
        return
    assert_unchanged("json", text.encode("utf-8", "replace"))
    assert json.loads(translated("json", text, str)) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1,]", "{,}", '{"a" 1}', '{"a": 1,}', "[1 2]", '"a', "01", "tru", "nan"),
        *('{1: "a"}', "[}", "]", '["a"]]', '{"a"}', '"\\x"', '["\t"]', ",", "1:2"),
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    with pytest.raises(BadInput, match="line 1 is not JSON: expected"):
        read("json", text)


def test_deep_nesting_is_read() -> None:
    depth = 50_000
    assert texts(read("json", "[" * depth + '"text"' + "]" * depth)) == ["text"]


def test_spoiled_files_are_refused_or_read() -> None:
    spoil_and_read("json", TEXT)
