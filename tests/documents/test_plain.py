"""Plain text: lines change; blank lines, indentation and line ends stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_documents import assert_unchanged, read, spoil_and_read, texts, translated

TEXT = "  Two dogs run. \r\n\r\n42\nA man sleeps"


def test_lines_change_in_their_places() -> None:
    assert texts(read("text", TEXT)) == ["Two dogs run.", "A man sleeps"]
    assert [unit.where for unit in read("text", TEXT).units] == ["line 1", "line 4"]
    assert translated("text", TEXT) == TEXT.upper()
    assert translated("text", "a\nb\n", lambda text: f"{text}\nx") == "a x\nb x\n"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff")))
def test_nothing_changes_without_translations(text: str) -> None:
    assert_unchanged("text", text)
    assert_unchanged("text", "\ufeff" + text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\xff", r"the file: line 2 is not UTF-8 \(byte 0xff\)"),
        (b"\xef\xbb\xbfa\nb\xff", r"the file: line 2 is not UTF-8 \(byte 0xff\)"),
        (b"a\0", "the file: line 1 has a NUL byte"),
        (b"\xff\xfea\0", "the file: it is UTF-16"),
    ],
)
def test_other_encodings_are_refused(data: bytes, expected: str) -> None:
    from transduce.errors import BadInput

    with pytest.raises(BadInput, match=expected):
        read("text", data)


def test_spoiled_files_are_refused_or_read() -> None:
    spoil_and_read("text", TEXT)
