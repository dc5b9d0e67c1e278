"""Paragraphs fall into sentences, and nothing is lost between them."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import MissingExtra
from transduce.sentences import sentences

MARKS = st.sampled_from(
    [*".!?。！？… \t\u00a0\u3000\u2028\"'“”«»「」()AaÄ我é1", "Dr. ", "z. B. ", "...", "😀"]
)


def texts(paragraph: str, language: str) -> list[str]:
    return [sentence for _, sentence in sentences(paragraph, language)]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["Dr. Smith paid $3.50 to Mr. Jones.", "Then he left."]),
        ("en", ['He said: "Stop. Now." and left.', "Nobody answered."]),
        ("en_GB", ["Is it so?", "Yes!", "No…"]),
        ("src", ["A dog runs.", "A man sleeps."]),
        ("de", ["Am 3. Oktober war z. B. alles gut.", "Danach nicht."]),
    ],
)
def test_sentences_end_where_people_end_them(language: str, expected: list[str]) -> None:
    assert texts(" ".join(expected), language) == expected


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh_Hans"])
def test_sentences_without_spaces_are_found(language: str) -> None:
    assert sentences("我爱你。你呢？好！", language) == [
        ("", "我爱你。"),
        ("", "你呢？"),
        ("", "好！"),
    ]


def test_white_space_comes_with_the_sentence_behind_it() -> None:
    found = sentences("  One dog.   Two dogs.\tThree dogs. ", "en")
    assert found == [("  ", "One dog."), ("   ", "Two dogs."), ("\t", "Three dogs.")]
    assert sentences("   ", "en") == sentences("", "en") == []


@given(st.lists(MARKS | st.characters(codec="utf-8")).map("".join), st.sampled_from(["en", "zh"]))
def test_nothing_is_lost(text: str, language: str) -> None:
    found = sentences(text, language)
    assert "".join(gap + sentence for gap, sentence in found) == text.rstrip()
    assert all(sentence == sentence.strip() != "" for _, sentence in found)
    assert all(not gap.strip() for gap, _ in found)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(MissingExtra, match=r"needs sentencex, .* 'transduce\[split\]'"):
        sentences("One. Two.", "en")
