"""BPE dropout: each epoch has other subwords of the same text, by the seed alone."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.corpus.bpe_dropout import BPEDropout, Words
from transduce.corpus.token_files import Side, Split
from transduce.errors import BadSetting
from transduce.subwords import EOS, Codec, Coder, Subwords, Symbols
from transduce.subwords.merging import Merges

TEXT = [
    "The paper is the default everywhere, in 2017 and 2020.",
    "Das Papier ist überall die Vorgabe; it's what you'll need.",
    "Zwei Hunde laufen über die Straße, 'stand ('s aaaa aaa aa banana.",
    "हिन्दी में लिखा हुआ वाक्य",
    "中文句子没有空格所以一个词很长很长很长很长很长很长很长",
    "a\tb  c   d  e   ",
] * 5
BPE = Subwords.learn(TEXT, 450)
MERGES = Merges(BPE)
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cn"])) | st.sampled_from(TEXT),
    min_size=1,
    max_size=8,
)


def side_of(texts: list[str], coder: Coder = BPE) -> Side:
    ids = [[*coder.encode(text), EOS] for text in texts]
    flat = np.array([token for sentence in ids for token in sentence], "<u2")
    return Side(flat, np.cumsum([0, *map(len, ids)]))


def split_of(texts: list[str]) -> Split:
    return Split(side_of(texts), side_of(texts[::-1]))


def dropout(
    split: Split,
    p: float = 0.3,
    *,
    longest: int = 200,
    seed: int = 1,
    ahead_from: int | None = None,
) -> BPEDropout:
    codec = Codec(BPE, BPE)
    return BPEDropout(split, codec, p, seed=seed, longest=longest, ahead_from=ahead_from)


def arrays(split: Split) -> list[list[int]]:
    sides = split.source, split.target
    return [array.tolist() for side in sides for array in (side.tokens, side.offsets)]


@given(TEXTS, st.sampled_from([0.1, 0.5, 0.99]))
def test_every_sentence_keeps_its_text(texts: list[str], p: float) -> None:
    split = split_of(texts)
    encoded = dropout(split, p)(0)
    assert len(encoded) == len(split)
    for before, after in ((split.source, encoded.source), (split.target, encoded.target)):
        assert after.tokens.dtype == before.tokens.dtype
        for index in range(len(split)):
            assert after[index][-1] == EOS
            assert EOS not in after[index][:-1]
            assert BPE.decode(after[index]) == BPE.decode(before[index])


@given(TEXTS)
def test_without_dropout_the_tokens_are_unchanged(texts: list[str]) -> None:
    side = side_of(texts)
    words = Words(side, MERGES)
    encoded = words.encode(0.0, np.random.default_rng(0), 10_000)
    assert encoded.tokens.tolist() == side.tokens.tolist()
    assert encoded.offsets.tolist() == side.offsets.tolist()


def test_a_merge_across_the_end_of_a_contraction_does_not_change_the_standard_tokens() -> None:
    """The tokenizer splits 'stand into 's and tand, which two tokens alone do not tell."""
    subwords = Subwords.learn(["ast est ist ost"] * 9 + ["it's he's she's"] * 3, 300)
    merges, side = Merges(subwords), side_of(["x'stand x'stand"], subwords)
    assert b"'s" in subwords.piece_bytes(side[0])
    (words,) = subwords.encode_words(["x'stand"])
    assert merges.joined(np.array([token for word in words for token in word]))[-2:].all()
    encoded = Words(side, merges).encode(0.0, np.random.default_rng(0), 100)
    assert encoded.tokens.tolist() == side.tokens.tolist()


def test_an_epoch_depends_on_its_number_and_the_seed_alone() -> None:
    split = split_of(TEXT)
    for ahead_from in (None, 0):
        stream = dropout(split, ahead_from=ahead_from)
        epochs = [arrays(stream(epoch)) for epoch in (0, 0, 1, 2)]
        assert epochs[0] == epochs[1]
        assert epochs[1] != epochs[2] != epochs[3]
        for start in (None, 2):  # a resumed run
            assert arrays(dropout(split, ahead_from=start)(2)) == epochs[3]
        assert arrays(dropout(split, seed=2)(0)) != epochs[0]


def test_a_thread_encodes_the_next_epoch_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[tuple[int, bool]] = []
    original = BPEDropout._encode

    def encode(self: BPEDropout, epoch: int) -> Split:
        encoded.append((epoch, threading.current_thread() is threading.main_thread()))
        return original(self, epoch)

    monkeypatch.setattr(BPEDropout, "_encode", encode)
    stream = dropout(split_of(TEXT), ahead_from=3)
    for epoch in (3, 3, 4):
        stream(epoch)
    assert stream.thread is not None
    stream.thread.join()
    assert encoded == [(3, False), (4, False), (5, False)]


def test_an_error_of_the_thread_is_raised_when_the_epoch_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Words, "encode", lambda *_: 1 / 0)
    stream = dropout(split_of(TEXT), ahead_from=0)
    with pytest.raises(ZeroDivisionError):
        stream(0)


def test_occurrences_of_a_word_and_the_two_sides_are_drawn_separately() -> None:
    same = side_of(["everywhere"] * 200)
    encoded = dropout(Split(same, same), 0.3)(0)
    ways = {tuple(encoded.source[index]) for index in range(200)}
    assert len(ways) > 3
    assert encoded.source.tokens.tolist() != encoded.target.tokens.tolist()


def test_the_more_merges_are_dropped_the_more_tokens() -> None:
    split = split_of(TEXT * 20)
    counts = [len(dropout(split, p)(0).source.tokens) for p in (0.0, 0.1, 0.3, 0.6, 0.99)]
    assert counts[0] == len(split.source.tokens)
    assert counts == sorted(set(counts))
    letters = sum(len(text.encode()) + 2 for text in TEXT * 20)
    assert 0.9 * letters < counts[-1] <= letters


def test_a_sentence_that_would_be_too_long_keeps_its_segmentation() -> None:
    split = split_of(TEXT)
    longest = int(split.source.lengths.max())
    before, after = split.source, dropout(split, 0.9, longest=longest)(0).source
    assert after.lengths.max() <= longest
    kept = [before[i].tolist() == after[i].tolist() for i in range(len(before))]
    assert any(kept)
    assert not all(kept)


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    split = split_of(TEXT)
    whole = arrays(dropout(split, longest=40)(0))
    monkeypatch.setattr("transduce.corpus.bpe_dropout.CHUNK", 7)
    assert arrays(dropout(split, longest=40)(0)) == whole


def test_only_the_bpe_side_changes() -> None:
    symbols = Symbols(["(S", ")"])
    part = Split(side_of(TEXT), side_of(["(S )"] * len(TEXT), symbols))
    encoded = BPEDropout(part, Codec(BPE, symbols), 0.5, seed=1, longest=200)(0)
    assert encoded.target is part.target
    assert len(encoded.source.tokens) > len(part.source.tokens)


def test_subwords_without_merges_are_refused() -> None:
    wordpiece = Subwords.learn(TEXT, 700, "wordpiece")
    with pytest.raises(BadSetting, match=r"bpe_dropout = 0.1: .* but these are wordpiece"):
        BPEDropout(split_of(TEXT), Codec(wordpiece, wordpiece), 0.1, seed=1, longest=50)
