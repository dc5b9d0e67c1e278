"""Paragraphs are split into sentences without losing a character."""

import random
import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import MissingExtra
from transduce.text.splitting import WINDOW, check_installed, split_line, split_text

MARKS = st.sampled_from(
    [*".!?。！？… \t\u00a0\u3000\u2028\"'“”«»「」()AaÄ我é1", "Dr. ", "z. B. ", "...", "😀"]
)


def texts(paragraph: str, language: str) -> list[str]:
    return [sentence for _, sentence in split_text(paragraph, language)]


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
def test_text_is_split_at_the_ends_of_sentences(language: str, expected: list[str]) -> None:
    assert texts(" ".join(expected), language) == expected


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh_Hans"])
def test_sentences_without_spaces_are_split(language: str) -> None:
    assert split_text("我爱你。你呢？好！", language) == [
        ("", "我爱你。"),
        ("", "你呢？"),
        ("", "好！"),
    ]


def test_white_space_belongs_to_the_sentence_after_it() -> None:
    found = split_text("  One dog.   Two dogs.\tThree dogs. ", "en")
    assert found == [("  ", "One dog."), ("   ", "Two dogs."), ("\t", "Three dogs.")]
    assert split_text("   ", "en") == split_text("", "en") == []


@given(st.lists(MARKS | st.characters(codec="utf-8")).map("".join), st.sampled_from(["en", "zh"]))
def test_no_character_is_lost(text: str, language: str) -> None:
    found = split_text(text, language)
    assert "".join(gap + sentence for gap, sentence in found) == text.rstrip()
    assert all(sentence == sentence.strip() != "" for _, sentence in found)
    assert all(not gap.strip() for gap, _ in found)


ORDINARY = (
    "The dog runs fast today.",
    'He said: "Stop. Now." and left.',
    "Dr. Smith paid $3.50 to Mr. Jones.",
    "Is it so?",
    "“One. Two.” he said.",
)


def test_a_long_paragraph_is_split_like_short_ones() -> None:
    chosen = random.Random(1).choices(ORDINARY, k=2_000)
    assert texts(" ".join(chosen), "en") == chosen


@pytest.mark.parametrize("pattern", ["«", "“ ", 'a. "b 「', "a. «b ", "x"])
def test_the_time_is_linear_in_the_length(pattern: str) -> None:
    """Sentencex alone takes 12 seconds for 100,000 quotation marks that nothing closes."""
    text = pattern * (100_000 // len(pattern))
    begin = time.perf_counter()
    found = split_text(text, "en")
    assert time.perf_counter() - begin < 4
    assert "".join(gap + sentence for gap, sentence in found) == text.rstrip()
    assert max(len(sentence) for _, sentence in found) <= WINDOW


def test_an_endless_sentence_is_cut_between_words() -> None:
    found = texts("word " * 2_000, "en")
    assert len(found) > 1
    assert {word for part in found for word in part.split()} == {"word"}


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(MissingExtra, match=r"needs sentencex, .* 'transduce\[split\]'"):
        split_text("One. Two.", "en")


@pytest.mark.parametrize(
    "line", ["A dog runs.", "  A dog runs. ", "3.5 dogs: run; now", "Dr. Smith left.", "No end"]
)
def test_a_line_of_one_sentence_is_unchanged(line: str) -> None:
    assert split_line(line, "en") == [("", line)]


def test_a_line_of_several_sentences_is_split_and_a_blank_one_has_none() -> None:
    assert split_line(" A dog.  A man! ", "en") == [(" ", "A dog."), ("  ", "A man!")]
    assert split_line("我爱你。你呢？", "zh") == [("", "我爱你。"), ("", "你呢？")]
    assert split_line("", "en") == split_line(" \t", "en") == []


TERMINATORS = st.sampled_from("!.?;:…։՜؟۔।॥၏။።។。！？｡‼⁇¡¿·\u037e\u0387")
SCRIPTS = st.sampled_from(["en", "de", "el", "hy", "my", "zh", "ru", "hi", "am", "ar", "src"])


@given(st.lists(TERMINATORS | MARKS | st.characters(codec="utf-8")).map("".join), SCRIPTS)
def test_the_quick_check_misses_no_sentence(text: str, language: str) -> None:
    """The splitter would not have split the lines that are not passed to it."""
    line = " ".join(text.splitlines())
    expected = [sentence for _, sentence in split_text(line, language)]
    assert [sentence.strip() for _, sentence in split_line(line, language)] == expected


def test_every_sentence_end_is_passed_to_the_splitter() -> None:
    for language in ("en", "el", "hy"):
        for code in (*range(0x20, 0x0600), *range(0x2000, 0x3100)):
            line = f"Aaa bbb{chr(code)} Ccc ddd"
            if line.isprintable():
                found = [sentence for _, sentence in split_text(line, language)]
                assert len(split_line(line, language)) == len(found), line


def test_a_warning_says_that_lines_are_not_split_without_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check_installed()
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.warns(UserWarning, match=r"sentencex is not installed: .*translated as one"):
        assert not check_installed()


@pytest.mark.parametrize("space", ["\xa0", "\u202f", "\u3000", "\x85", "\u2028"])
@pytest.mark.parametrize("language", ["en", "fr", "zh"])
def test_a_wide_space_before_a_full_stop_is_split_like_a_plain_one(
    space: str, language: str
) -> None:
    """Sentencex 1.0.32 panics at a capital letter, such a space and a full stop."""
    text = "We take plan A{}. Then we go home. Nobody waits."
    plain = split_text(text.format(" "), language)
    assert len(plain) > 1
    found = split_text(text.format(space), language)
    assert [sentence.replace(space, " ") for _, sentence in found] == [
        sentence for _, sentence in plain
    ]
    assert "".join(gap + sentence for gap, sentence in found) == text.format(space)


def test_a_text_is_not_split_if_the_splitter_panics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic is not an Exception: it would end the command, or a thread of the service."""
    monkeypatch.setattr("transduce.text.splitting.WIDE_SPACE", re.compile("(?!)"))
    found = split_text("Plan A\xa0. Go home. Sleep.", "en")
    assert "".join(gap + sentence for gap, sentence in found) == "Plan A\xa0. Go home. Sleep."
