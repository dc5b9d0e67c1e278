"""Alignments: one link for each target word; words are separated by white space."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.subwords import Subwords
from transduce.translation.alignment import NO_WORD, link_words, to_pharaoh, word_indices

TEXT = ["Zwei Hunde laufen über das nasse Gras.", "Ein Mann schläft."] * 20
SUBWORDS = Subwords.learn(TEXT, 300)


def test_each_target_word_is_linked_to_the_source_word_it_attended_to_most() -> None:
    weights = np.array([[0.1, 0.7, 0.2], [0.8, 0.1, 0.1]], dtype=np.float32)
    assert link_words(weights, [0, 1, 2], [0, 1]) == [(1, 0), (0, 1)]


def test_weights_received_by_the_pieces_of_a_word_are_added() -> None:
    weights = np.array([[0.4, 0.3, 0.3]], dtype=np.float32)
    assert link_words(weights, [0, 1, 2], [0]) == [(0, 0)]
    assert link_words(weights, [0, 1, 1], [0]) == [(1, 0)]


def test_weights_given_by_the_pieces_of_a_word_are_averaged() -> None:
    weights = np.array([[0.6, 0.4], [0.1, 0.9], [0.9, 0.1]], dtype=np.float32)
    assert link_words(weights, [0, 1], [0, 0, 1]) == [(1, 0), (0, 1)]


def test_the_ends_of_sentences_and_white_space_are_linked_to_nothing() -> None:
    weights = np.full((3, 4), 0.01, dtype=np.float32)
    weights[:, 3] = 0.9  # </s> of the source
    weights[:, 1] = 0.08  # a piece of white space
    weights[0, 2] = 0.02
    assert link_words(weights, [0, NO_WORD, 1], [0, NO_WORD]) == [(1, 0)]
    assert link_words(weights, [NO_WORD], [0]) == []
    assert link_words(weights, [0, 1, 2], []) == []


@given(st.text(st.sampled_from("ab.ä我😀 \t\u00a0\u3000")))
def test_words_are_those_of_str_split(text: str) -> None:
    pieces = SUBWORDS.piece_bytes(SUBWORDS.encode(text))
    (words,) = word_indices([pieces], [""])
    assert len(words) == len(pieces)
    found: dict[int, bytes] = {}
    for word, piece in zip(words, pieces, strict=True):
        if word != NO_WORD:
            found[word] = found.get(word, b"") + piece
    assert sorted(found) == list(range(len(text.split())))
    for number, written in enumerate(text.split()):
        assert found[number].decode(errors="replace").strip() == written


def test_invalid_bytes_belong_to_words() -> None:
    assert word_indices([[b" a", b"\xe2", b" \xff", b"b"]], [""]) == [[0, 0, 1, 1]]


def test_a_word_continues_in_the_next_unit_only_without_a_gap() -> None:
    units = [[b" one", b" two."], [b" three"], [], [b" four", b" five"]]
    assert word_indices(units, ["", " ", " ", "  "]) == [[0, 1], [2], [], [3, 4]]
    assert word_indices(units, ["", "", " ", ""]) == [[0, 1], [1], [], [1, 2]]


@pytest.mark.parametrize(
    ("found", "written"), [((), ""), (((0, 0), (2, 1), (1, 10)), "0-0 2-1 1-10")]
)
def test_links_are_written_as_fast_align_does(
    found: tuple[tuple[int, int], ...], written: str
) -> None:
    assert to_pharaoh(found) == written
