"""The gaps between segments, and the word indices of their tokens."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from opus import names_of, spm
from transduce.config import ModelConfig, TrainConfig
from transduce.glossary import Glossary
from transduce.runs.folder import RunConfig
from transduce.subwords import SPECIAL, UNK, Codec, Coder, SentencePiece, Subwords
from transduce.translation.alignment import NO_WORD
from transduce.translation.joining import gaps, source_words
from transduce.translation.segments import Preparation, Segment, SegmentedText, Segmenter

SUBWORDS = Subwords.learn(["Two dogs run over the wet grass. A man sleeps."] * 20, 300)


def prepared(text: str, coder: Coder = SUBWORDS, *, max_len: int = 64, **how: Any) -> SegmentedText:
    config = RunConfig(
        model=ModelConfig(max_len=max_len), train=TrainConfig(), languages=("en", "de")
    )
    segmenter = Segmenter(Codec(coder, coder), config, [])
    return segmenter.prepare([text], [None], 0, Preparation(**how))[0]


def spelled(text: str, coder: Coder = SUBWORDS, **how: Any) -> list[str]:
    """Return the tokens of each word, without white space."""
    found = prepared(text, coder, **how)
    words = list(itertools.chain.from_iterable(source_words(found, coder)))
    tokens = list(itertools.chain.from_iterable(segment.ids for segment in found.segments))
    pieces = [
        coder.names[token].encode() if token >= coder.first_tag else piece
        for token, piece in zip(tokens, coder.piece_bytes(tokens), strict=True)
    ]
    return [
        "".join(
            b"".join(p for p, w in zip(pieces, words, strict=True) if w == word).decode().split()
        )
        for word in range(max(words) + 1)
    ]


def test_the_gap_is_that_of_the_text_or_of_the_language() -> None:
    segments = [
        Segment([4], "  "),
        Segment([5], "\t"),
        Segment([6], ""),
        Segment([7], "", begins=False),
    ]
    assert gaps(segments, "de") == ["", "\t", " ", " "]
    assert gaps(segments, "zh_Hans") == ["", "\t", "", ""]
    assert gaps([], "de") == []


@pytest.mark.parametrize("max_len", [6, 8, 64])
def test_words_are_numbered_across_sentences_and_cuts(max_len: int) -> None:
    text = "Two dogs run.  A man\u00a0sleeps."
    assert spelled(text, max_len=max_len) == text.split()
    assert spelled("你好。dogs run", split=True) == ["你好。dogs", "run"]


def test_words_of_a_source_with_shown_terms_are_those_of_the_text() -> None:
    coder = SUBWORDS.with_markers(spans=False, terms=True)
    glossary = Glossary.of({"wet grass": "nasses Gras", "dogs": "zwei große Hunde"})
    found = spelled("Two dogs run over the wet grass. A man sleeps.", coder, glossary=glossary)
    dogs, grass = "<|term|>dogs<|is|>zweigroßeHunde<|end|>", "grass<|is|>nassesGras<|end|>."
    assert found == [
        "Two",
        dogs,
        *["run", "over", "the", "<|term|>wet"],
        grass,
        *["A", "man", "sleeps."],
    ]


def test_words_of_decomposed_text_are_those_of_the_text() -> None:
    text = "re\u0301e\u0301crit un e\u0301le\u0300ve run"
    assert spelled(text) == ["réécrit", "un", "élève", "run"]


def test_words_that_subwords_normalise_or_do_not_know_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    pytest.importorskip("transformers")
    names = [*SPECIAL, *(n for n in names_of(spm(0), spm(0)) if n not in SPECIAL)]
    (tmp_path / "source.spm").write_bytes(spm(0))
    coder = SentencePiece.read(tmp_path / "source.spm", names)
    text = "The ﬁne  dogs … \U0001f415 run ½ way"
    found = prepared(text, coder)
    (ids,), (words,) = [segment.ids for segment in found.segments], source_words(found, coder)
    assert {word for token, word in zip(ids, words, strict=True) if token == UNK} == {4}
    assert {word for word in words if word != NO_WORD} == set(range(len(text.split())))
    texts = coder.piece_bytes(ids)
    last = [piece for piece, word in zip(texts, words, strict=True) if word == 7]
    assert b"".join(last).strip() == b"way"
