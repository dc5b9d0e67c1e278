"""Encoding word by word returns the ids of `tokenizers`, for any text."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from transduce.subwords import Kind, Subwords, WordEncoder, words
from transduce.subwords.learned import WORDS

TEXT = [
    "The paper's default isn't everywhere; it'll be in section 3.2, we've heard.",
    "Das Papier ist überall die Vorgabe: 12.345 \u201eHunde\u201c\u2026",
    "Zwei Hunde laufen über die Straße \u2013 für 3 €.",
] * 5
KINDS: tuple[Kind, ...] = ("bpe", "wordpiece")
LEARNED = {kind: Subwords.learn(TEXT, 700, kind) for kind in KINDS}
SIMPLE = [character for code in range(0x2100) if words.SIMPLE.fullmatch(character := chr(code))]
TEXTS = [
    "",
    " ",
    "    ",
    "  two  dogs  ",
    "a dog's <s> </s> <pad> <unk> <2de>",
    "we're 'red' 'd d' ''s 's",
    "don't   stop  ",
    "tab\tand\nlines\r\u00a0\u2009",
    "e\u0301 \u0345\u00c5 \u00aa \u00b5 \u00b2 \u0663 \u4e2d\u6587 \U0001f600",
    "x" * 1_000 + " " * 300 + "1" * 300 + "." * 300 + "ß" * 300,
]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_library(kind: Kind) -> None:
    encoder = WordEncoder(LEARNED[kind])
    texts = [*TEXTS, *TEXT, *(f"a{character}b {character}" for character in SIMPLE)]
    assert encoder.encode_batch(texts) == LEARNED[kind].encode_batch(texts)
    assert encoder.words


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.lists(st.sampled_from([*SIMPLE, *" ''  stdmrelv09é"])).map("".join))
def test_ids_of_simple_text_are_those_of_the_library(kind: Kind, text: str) -> None:
    assert WordEncoder(LEARNED[kind]).encode_batch([text]) == [LEARNED[kind].encode(text)]


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_ids_of_any_text_are_those_of_the_library(text: str) -> None:
    assert WordEncoder(LEARNED["bpe"]).encode_batch([text]) == [LEARNED["bpe"].encode(text)]


def test_simple_characters_need_no_composition() -> None:
    assert len(SIMPLE) > 200
    for character in SIMPLE:
        assert unicodedata.is_normalized("NFC", f"a{character}b")
        assert character.isspace() == (character == " ")
        letter = unicodedata.category(character).startswith("L")
        assert letter == bool(re.fullmatch(f"[{words.LETTERS}]", character))
        digit = unicodedata.category(character).startswith("N")
        assert digit == (character in "0123456789")


@given(text=st.lists(st.sampled_from(SIMPLE), min_size=1).map("".join))
def test_words_end_where_those_of_the_library_end(text: str) -> None:
    library = pre_tokenizers.Split(Regex(WORDS), "isolated").pre_tokenize_str(f" {text}")
    assert words.WORD.findall(f" {text}") == [word for word, _ in library]


def test_the_number_of_words_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_WORDS", 10)
    encoder = WordEncoder(LEARNED["bpe"])
    texts = [f"number {number}" for number in range(100)]
    assert encoder.encode_batch(texts) == LEARNED["bpe"].encode_batch(texts)
    assert encoder.words is not None
    assert len(encoder.words) <= 10
