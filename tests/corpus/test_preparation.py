"""Every pair is stored, held out, or dropped and counted."""

import lzma
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_corpora import (
    TRAIN,
    Listener,
    Pair,
    decode_pairs,
    make,
    make_pairs,
    write_tsv,
)

from transduce.config import TrainConfig
from transduce.corpus import encoding, learning, scanning
from transduce.corpus.inputs import InputText
from transduce.corpus.token_files import SUBWORDS, TOKEN_FILES, open_corpus
from transduce.errors import BadInput
from transduce.subwords import Codec, Subwords
from transduce.system.progress import Silent


def test_two_files_and_one_tsv_give_the_same_corpus(
    prepared_corpus: tuple[list[Pair], Path], tmp_path: Path
) -> None:
    pairs, folder = prepared_corpus
    for side, ending in enumerate(("en", "de.xz")):
        data = "".join(pair[side] + "\r\n" for pair in pairs).encode()
        (tmp_path / f"a.{ending}").write_bytes(lzma.compress(data) if "xz" in ending else data)
    make(tmp_path / "a.en", tmp_path / "corpus", target=tmp_path / "a.de.xz")
    for name in (SUBWORDS, *TOKEN_FILES):
        assert (tmp_path / "corpus" / name).read_bytes() == (folder / name).read_bytes()


def test_the_batch_size_of_encoding_does_not_change_the_corpus(
    prepared_corpus: tuple[list[Pair], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, folder = prepared_corpus
    text = write_tsv(tmp_path / "text.tsv", pairs)
    for name, value in (("BATCH_PAIRS", 7), ("BATCH_CHARACTERS", 100)):
        monkeypatch.setattr(encoding, name, value)
        make(text, tmp_path / name)
        for file in (SUBWORDS, *TOKEN_FILES):
            assert (tmp_path / name / file).read_bytes() == (folder / file).read_bytes()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pairs=st.lists(
        st.tuples(
            *[st.text(st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\n\0\t"))]
            * 2
        ),
        min_size=1,
        max_size=12,
    ),
    seed=st.integers(0, 9),
)
def test_every_pair_of_any_text_is_stored_or_counted(pairs: list[Pair], seed: int) -> None:
    pairs = [(a.lstrip("\ufeff"), b.rstrip("\r")) for a, b in pairs]
    usable = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    expected = [tuple(unicodedata.normalize("NFC", side) for side in pair) for pair in usable]
    with tempfile.TemporaryDirectory() as folder:
        text = write_tsv(Path(folder, "text.tsv"), pairs)
        try:
            corpus = make(text, Path(folder, "corpus"), train=TRAIN.replace(seed=seed), max_len=60)
        except BadInput:
            # Too few can be used: all but one blank, alike, over-long or skewed.
            assert not Path(folder, "corpus").exists()
            return
        counts = corpus.manifest.train
        assert counts.read + corpus.manifest.valid.read == len(pairs)
        assert counts.read == counts.pairs + sum(counts.dropped.values())
        assert counts.dropped["empty"] == len(pairs) - len(usable)
        (held_out,) = decode_pairs(corpus.valid, corpus.codec)
        trained = decode_pairs(corpus.train, corpus.codec)
        assert held_out in expected
        assert held_out not in trained
        rest = iter(expected)
        assert all(pair in rest for pair in trained), "in the order of the text"


@pytest.mark.parametrize(("number", "held_out"), [(2, 1), (199, 1), (250, 2), (450, 4)])
def test_one_percent_but_at_least_one_pair_is_held_out(
    tmp_path: Path, number: int, held_out: int
) -> None:
    corpus = make(write_tsv(tmp_path / "text.tsv", make_pairs(number)), tmp_path / "corpus")
    assert len(corpus.valid) == held_out
    assert len(corpus.train) == number - held_out
    trained = {*decode_pairs(corpus.train, corpus.codec)}
    assert trained.isdisjoint(decode_pairs(corpus.valid, corpus.codec))


def test_the_number_of_held_out_pairs_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scanning.MAX_HELD_OUT == 2000
    monkeypatch.setattr(scanning, "MAX_HELD_OUT", 3)
    pairs = make_pairs(900)
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus")
    held_out = decode_pairs(corpus.valid, corpus.codec)
    assert len(held_out) == 3
    assert len(corpus.train) == 897
    assert {*pairs} == {*held_out, *decode_pairs(corpus.train, corpus.codec)}
    indices = {seed: [] for seed in range(20)}  # type: dict[int, list[int]]
    for seed in indices:
        scan = scanning.scan_text(
            InputText(tmp_path / "text.tsv", None, [], "", tsv=True), seed, Silent()
        )
        indices[seed] = [pairs.index(pair) for pair in scan.candidates]
    assert len({tuple(found) for found in indices.values()}) == 20
    assert 300 < np.mean(list(indices.values())) < 600, "drawn from all of the text"


def test_the_seed_decides_what_is_held_out(
    prepared_corpus: tuple[list[Pair], Path], tmp_path: Path
) -> None:
    pairs, folder = prepared_corpus
    text = write_tsv(tmp_path / "text.tsv", pairs)
    same = make(text, tmp_path / "same")
    other = make(text, tmp_path / "other", train=TRAIN.replace(seed=2))
    first = open_corpus(folder)
    assert decode_pairs(same.valid, same.codec) == decode_pairs(first.valid, first.codec)
    assert decode_pairs(other.valid, other.codec) != decode_pairs(first.valid, first.codec)


def test_duplicates_of_held_out_pairs_are_dropped_and_counted(tmp_path: Path) -> None:
    pairs = make_pairs(10)
    spaced = [(f" {a} ", unicodedata.normalize("NFD", b)) for a, b in pairs]
    text = write_tsv(tmp_path / "text.tsv", pairs + spaced + pairs)
    corpus = make(text, tmp_path / "corpus")
    counts = corpus.manifest.train
    assert counts.dropped == {
        "empty": 0,
        "equal to a held-out pair": 2,
        "over-long": 0,
        "skewed": 0,
    }
    assert (len(corpus.valid), len(corpus.train), counts.read) == (1, 27, 29)
    (held_out,) = decode_pairs(corpus.valid, corpus.codec)
    key = encoding.pair_key(*held_out)
    assert all(encoding.pair_key(*pair) != key for pair in decode_pairs(corpus.train, corpus.codec))


def test_a_shared_corpus_keeps_its_held_out_pairs_for_any_seed(tmp_path: Path) -> None:
    """Runs with different seeds can share a corpus; the corpus of one run depends on its seed."""
    text, folder = write_tsv(tmp_path / "text.tsv", make_pairs(40)), tmp_path / "corpus"
    before = decode_pairs(make(text, folder).valid, open_corpus(folder).codec)
    other = TRAIN.replace(seed=TRAIN.seed + 1)
    shared = make(text, folder, train=other, shared=True)
    assert decode_pairs(shared.valid, shared.codec) == before
    own = make(text, folder, train=other)
    assert decode_pairs(own.valid, own.codec) != before


def test_subwords_are_not_learned_from_held_out_pairs(tmp_path: Path) -> None:
    pairs = [(f"{word} {word}", "ja") for word in ("qqqq", "xxxx", "jjjj", "zzzz")]
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus")
    (held_out,) = decode_pairs(corpus.valid, corpus.codec)
    for source, _ in pairs:
        assert (len(corpus.codec.source.encode(source)) == 2) == (source != held_out[0])


def test_pairs_that_a_rule_drops_are_never_held_out(tmp_path: Path) -> None:
    pairs = [("wort " * 200, "kurz"), ("w " * 40, "k"), ("gut eins", "good"), ("gut zwei", "two")]
    for seed in range(8):
        text = write_tsv(tmp_path / "text.tsv", pairs)
        corpus = make(text, tmp_path / f"{seed}", train=TRAIN.replace(seed=seed))
        (held_out,) = decode_pairs(corpus.valid, corpus.codec)
        assert held_out in pairs[2:]
        assert len(corpus.train) == 1
        assert corpus.manifest.train.dropped["over-long"] == 1
        assert corpus.manifest.train.dropped["skewed"] == 1


def test_each_rule_drops_exactly_the_pairs_it_describes(tmp_path: Path) -> None:
    """With no merges a byte is a subword; a text has one more in front, and one for its end."""
    train = TrainConfig(vocabulary=260, max_skew=2)
    pairs = [
        ("", "b"),
        ("a", " \u3000 "),
        ("a" * 98, "b" * 98),  # 100 tokens
        ("a" * 99, "b" * 98),
        ("a" * 90, "b" * 99),
        ("a" * 8, "b" * 28),  # 10 and 30: as skewed as allowed
        ("a" * 8, "b" * 29),
        ("a" * 29, "b" * 8),
    ]
    text = write_tsv(tmp_path / "text.tsv", pairs)
    listener = Listener()
    corpus = make(
        text,
        tmp_path / "corpus",
        valid=(write_tsv(tmp_path / "valid.tsv", [("ja", "yes"), ("", "")]), None),
        train=train,
        progress=listener,
    )
    assert decode_pairs(corpus.train, corpus.codec) == [pairs[2], pairs[5]]
    counts = corpus.manifest.train
    assert (counts.read, counts.pairs) == (8, 2)
    assert list(counts.dropped.values()) == [2, 0, 2, 2]
    assert "dropped 6 pairs: 2 empty, 2 over-long, 2 skewed" in " ".join(listener.lines)
    assert decode_pairs(corpus.valid, corpus.codec) == [("ja", "yes")]
    assert corpus.manifest.valid.dropped["empty"] == 1


def test_a_line_of_a_hundred_thousand_words_is_dropped(tmp_path: Path) -> None:
    pairs = [*make_pairs(20), ("wort " * 100_000, "x" * 300_000), *make_pairs(20, seed=1)]
    for kind in ("bpe", "wordpiece"):
        text = write_tsv(tmp_path / "text.tsv", pairs)
        corpus = make(text, tmp_path / kind, train=TrainConfig(vocabulary=600, subwords=kind))
        assert corpus.manifest.train.dropped["over-long"] == 1
        assert len(corpus.train) == 39


def test_validation_text_is_kept_even_if_it_is_in_the_training_text(tmp_path: Path) -> None:
    pairs = make_pairs(10)
    text = write_tsv(tmp_path / "text.tsv", pairs)
    for side, name in enumerate(("v.en", "v.de")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs[:4]), "utf-8")
    corpus = make(text, tmp_path / "corpus", valid=(tmp_path / "v.en", tmp_path / "v.de"))
    assert decode_pairs(corpus.train, corpus.codec) == pairs
    assert decode_pairs(corpus.valid, corpus.codec) == pairs[:4]


def test_separate_vocabularies_are_learned_each_from_its_side(tmp_path: Path) -> None:
    pairs = [(f"links {n}", f"rechts {n}") for n in range(20)]
    text = write_tsv(tmp_path / "text.tsv", pairs)
    corpus = make(text, tmp_path / "corpus", train=TRAIN.replace(joint=False))
    assert not corpus.codec.joint
    assert len(corpus.codec.source.encode("links")) == 1 < len(corpus.codec.target.encode("links"))
    assert len(corpus.codec.target.encode("rechts")) == 1
    assert {*decode_pairs(corpus.train, corpus.codec)} <= {*pairs}


def test_wordpiece_subwords_are_used_if_asked_for(tmp_path: Path) -> None:
    pairs = make_pairs(50)
    train = TrainConfig(vocabulary=600, subwords="wordpiece")
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus", train=train)
    assert corpus.codec.kind == "wordpiece"
    assert {*decode_pairs(corpus.train, corpus.codec)} < {*pairs}


def test_a_given_codec_is_used_unchanged(tmp_path: Path) -> None:
    subwords = Subwords.learn(["ganz andere Wörter"] * 3, 300)
    codec = Codec(subwords, subwords)
    pairs = make_pairs(30)
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus", codec=codec)
    assert corpus.codec.sha256 == codec.sha256
    assert {*decode_pairs(corpus.train, corpus.codec)} < {*pairs}


def test_subwords_of_a_large_text_are_learned_from_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300)]
    text = write_tsv(tmp_path / "text.tsv", [(f"{word} {word}", word) for word in words])
    train = TrainConfig(vocabulary=5000)
    monkeypatch.setattr(learning, "LEARN_CHARACTERS", 1000)
    sampled = make(text, tmp_path / "sampled", train=train)
    again = make(text, tmp_path / "again", train=train)
    monkeypatch.undo()
    whole = make(text, tmp_path / "whole", train=train)
    assert sampled.codec.sha256 == again.codec.sha256
    assert 260 < len(sampled.codec.source) < len(whole.codec.source) - 150
