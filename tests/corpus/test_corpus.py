"""The corpus: every pair is stored or counted, and a folder is whole, absent or refused."""

import contextlib
import dataclasses
import io
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transduce.config import TrainConfig
from transduce.corpus import encoding
from transduce.corpus import preparation as module
from transduce.corpus.inputs import InputText
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import (
    MANIFEST,
    SUBWORDS,
    TOKEN_FILES,
    Corpus,
    Side,
    Split,
    open_corpus,
)
from transduce.errors import BadInput, BadRun
from transduce.subwords import EOS, Codec, Subwords
from transduce.system.files import read_checksummed, sha256, write_checksummed
from transduce.system.progress import Advance, Silent

Pair = tuple[str, str]
TRAIN = TrainConfig(vocabulary=400)


class Listener(Silent):
    """Remembers what was said, and how much was done of what."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.done: dict[str, int] = {}

    def say(self, text: str) -> None:
        self.said.append(text)

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        assert unit == "pairs"
        self.done[what] = 0

        def advance(units: int) -> None:
            self.done[what] += units

        yield advance
        assert total in (None, self.done[what])


def some_pairs(number: int, seed: int = 0) -> list[Pair]:
    """Make different pairs of short sentences."""
    chance = random.Random(seed)
    words = ["der", "die", "das", "Hund", "Katze", "Straße", "läuft", "sieht", "漢字", "grün"]
    return [
        (
            f"{n} " + " ".join(chance.choices(words, k=5)),
            " ".join(chance.choices(words, k=6)) + f" {n}",
        )
        for n in range(number)
    ]


def write_tsv(path: Path, pairs: list[Pair]) -> Path:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8", newline="\n")
    return path


def make(text: Path | str, folder: Path, **changes: Any) -> Corpus:
    """Prepare a corpus of one TSV with settings that suit small texts."""
    arguments = {"languages": ("en", "de"), "train": TRAIN, "max_len": 100, **changes}
    return prepare(text, arguments.pop("target", None), folder, **arguments)


def decoded(part: Split, codec: Codec) -> list[Pair]:
    pairs = [part.pair(index) for index in range(len(part))]
    for sentences in pairs:
        for ids in sentences:
            assert ids[-1] == EOS
            assert EOS not in ids[:-1]
    return [(codec.source.decode(source), codec.target.decode(target)) for source, target in pairs]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Pair], Path]:
    """Return pairs, and the folder of a corpus of them that nobody may change."""
    folder = tmp_path_factory.mktemp("made")
    pairs = some_pairs(300)
    make(write_tsv(folder / "text.tsv", pairs), folder / "corpus")
    return pairs, folder / "corpus"


@pytest.fixture
def own(made: tuple[list[Pair], Path], tmp_path: Path) -> Path:
    """Return a copy of the corpus to damage."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for path in made[1].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_every_pair_is_stored_in_its_order_with_its_end(made: tuple[list[Pair], Path]) -> None:
    pairs, folder = made
    corpus = open_corpus(folder)
    held_out = decoded(corpus.valid, corpus.codec)
    assert decoded(corpus.train, corpus.codec) == [pair for pair in pairs if pair not in held_out]
    assert len(held_out) == 3
    assert {*held_out} < {*pairs}


def test_the_manifest_counts_what_is_there(made: tuple[list[Pair], Path]) -> None:
    corpus = open_corpus(made[1])
    assert corpus.languages == corpus.manifest.languages == ("en", "de")
    assert corpus.manifest.vocabulary == (len(corpus.codec.source), len(corpus.codec.target))
    for part, counts in (
        (corpus.train, corpus.manifest.train),
        (corpus.valid, corpus.manifest.valid),
    ):
        assert len(part) == len(part.source) == len(part.target) == counts.pairs == counts.read
        assert counts.source_tokens == len(part.source.tokens) == part.source.lengths.sum()
        assert counts.target_tokens == len(part.target.tokens) == part.target.lengths.sum()
        assert counts.source_longest == max(len(part.pair(i)[0]) for i in range(len(part)))
        assert counts.target_longest == max(len(part.pair(i)[1]) for i in range(len(part)))
        assert not any(counts.dropped.values())


def test_a_sentence_that_is_not_there_is_an_error() -> None:
    side = Side(np.array([5, EOS, EOS], "<u2"), np.array([0, 2, 3]))
    assert side[1].tolist() == [EOS]
    for index in (-1, 2):
        with pytest.raises(IndexError):
            side[index]


def test_two_files_and_one_tsv_give_the_same_corpus(
    made: tuple[list[Pair], Path], tmp_path: Path
) -> None:
    pairs, folder = made
    for side, ending in enumerate(("en", "de.xz")):
        data = "".join(pair[side] + "\r\n" for pair in pairs).encode()
        (tmp_path / f"a.{ending}").write_bytes(lzma.compress(data) if "xz" in ending else data)
    make(tmp_path / "a.en", tmp_path / "corpus", target=tmp_path / "a.de.xz")
    for name in (SUBWORDS, *TOKEN_FILES):
        assert (tmp_path / "corpus" / name).read_bytes() == (folder / name).read_bytes()


def test_where_batches_end_does_not_matter(
    made: tuple[list[Pair], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, folder = made
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
        (held_out,) = decoded(corpus.valid, corpus.codec)
        trained = decoded(corpus.train, corpus.codec)
        assert held_out in expected
        assert held_out not in trained
        rest = iter(expected)
        assert all(pair in rest for pair in trained), "in the order of the text"


@pytest.mark.parametrize(("number", "held_out"), [(2, 1), (199, 1), (250, 2), (450, 4)])
def test_one_percent_is_held_out_and_at_least_one(
    tmp_path: Path, number: int, held_out: int
) -> None:
    corpus = make(write_tsv(tmp_path / "text.tsv", some_pairs(number)), tmp_path / "corpus")
    assert len(corpus.valid) == held_out
    assert len(corpus.train) == number - held_out
    trained = {*decoded(corpus.train, corpus.codec)}
    assert trained.isdisjoint(decoded(corpus.valid, corpus.codec))


def test_no_more_than_the_most_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MAX_HELD_OUT == 2000
    monkeypatch.setattr(module, "MAX_HELD_OUT", 3)
    pairs = some_pairs(900)
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus")
    held_out = decoded(corpus.valid, corpus.codec)
    assert len(held_out) == 3
    assert len(corpus.train) == 897
    assert {*pairs} == {*held_out, *decoded(corpus.train, corpus.codec)}
    places = {seed: [] for seed in range(20)}  # type: dict[int, list[int]]
    for seed in places:
        scan = module._scan(InputText(tmp_path / "text.tsv", None, [], ""), seed, Silent())
        places[seed] = [pairs.index(pair) for pair in scan.candidates]
    assert len({tuple(found) for found in places.values()}) == 20
    assert 300 < np.mean(list(places.values())) < 600, "drawn from all of the text"


def test_the_seed_decides_what_is_held_out(made: tuple[list[Pair], Path], tmp_path: Path) -> None:
    pairs, folder = made
    text = write_tsv(tmp_path / "text.tsv", pairs)
    same = make(text, tmp_path / "same")
    other = make(text, tmp_path / "other", train=TRAIN.replace(seed=2))
    first = open_corpus(folder)
    assert decoded(same.valid, same.codec) == decoded(first.valid, first.codec)
    assert decoded(other.valid, other.codec) != decoded(first.valid, first.codec)


def test_twins_of_held_out_pairs_are_dropped_and_counted(tmp_path: Path) -> None:
    pairs = some_pairs(10)
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
    (held_out,) = decoded(corpus.valid, corpus.codec)
    key = encoding.pair_key(*held_out)
    assert all(encoding.pair_key(*pair) != key for pair in decoded(corpus.train, corpus.codec))


def test_subwords_are_not_learned_from_what_is_held_out(tmp_path: Path) -> None:
    pairs = [(f"{word} {word}", "ja") for word in ("qqqq", "xxxx", "jjjj", "zzzz")]
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus")
    (held_out,) = decoded(corpus.valid, corpus.codec)
    for source, _ in pairs:
        assert (len(corpus.codec.source.encode(source)) == 2) == (source != held_out[0])


def test_what_is_held_out_is_never_what_the_rules_drop(tmp_path: Path) -> None:
    pairs = [("wort " * 200, "kurz"), ("w " * 40, "k"), ("gut eins", "good"), ("gut zwei", "two")]
    for seed in range(8):
        text = write_tsv(tmp_path / "text.tsv", pairs)
        corpus = make(text, tmp_path / f"{seed}", train=TRAIN.replace(seed=seed))
        (held_out,) = decoded(corpus.valid, corpus.codec)
        assert held_out in pairs[2:]
        assert len(corpus.train) == 1
        assert corpus.manifest.train.dropped["over-long"] == 1
        assert corpus.manifest.train.dropped["skewed"] == 1


def test_each_rule_drops_what_it_says_and_no_more(tmp_path: Path) -> None:
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
    assert decoded(corpus.train, corpus.codec) == [pairs[2], pairs[5]]
    counts = corpus.manifest.train
    assert (counts.read, counts.pairs) == (8, 2)
    assert list(counts.dropped.values()) == [2, 0, 2, 2]
    assert "dropped 6 pairs: 2 empty, 2 over-long, 2 skewed" in " ".join(listener.said)
    assert decoded(corpus.valid, corpus.codec) == [("ja", "yes")]
    assert corpus.manifest.valid.dropped["empty"] == 1


def test_a_line_of_a_hundred_thousand_words_is_only_dropped(tmp_path: Path) -> None:
    pairs = [*some_pairs(20), ("wort " * 100_000, "x" * 300_000), *some_pairs(20, seed=1)]
    for kind in ("bpe", "wordpiece"):
        text = write_tsv(tmp_path / "text.tsv", pairs)
        corpus = make(text, tmp_path / kind, train=TrainConfig(vocabulary=600, subwords=kind))
        assert corpus.manifest.train.dropped["over-long"] == 1
        assert len(corpus.train) == 39


def test_given_validation_text_is_taken_as_it_is(tmp_path: Path) -> None:
    pairs = some_pairs(10)
    text = write_tsv(tmp_path / "text.tsv", pairs)
    for side, name in enumerate(("v.en", "v.de")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs[:4]), "utf-8")
    corpus = make(text, tmp_path / "corpus", valid=(tmp_path / "v.en", tmp_path / "v.de"))
    assert decoded(corpus.train, corpus.codec) == pairs
    assert decoded(corpus.valid, corpus.codec) == pairs[:4]


def test_separate_vocabularies_are_learned_each_from_its_side(tmp_path: Path) -> None:
    pairs = [(f"links {n}", f"rechts {n}") for n in range(20)]
    text = write_tsv(tmp_path / "text.tsv", pairs)
    corpus = make(text, tmp_path / "corpus", train=TRAIN.replace(joint=False))
    assert not corpus.codec.joint
    assert len(corpus.codec.source.encode("links")) == 1 < len(corpus.codec.target.encode("links"))
    assert len(corpus.codec.target.encode("rechts")) == 1
    assert {*decoded(corpus.train, corpus.codec)} <= {*pairs}


def test_wordpiece_subwords_are_used_if_asked_for(tmp_path: Path) -> None:
    pairs = some_pairs(50)
    train = TrainConfig(vocabulary=600, subwords="wordpiece")
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus", train=train)
    assert corpus.codec.kind == "wordpiece"
    assert {*decoded(corpus.train, corpus.codec)} < {*pairs}


def test_a_given_codec_is_used_as_it_is(tmp_path: Path) -> None:
    subwords = Subwords.learn(["ganz andere Wörter"] * 3, 300)
    codec = Codec(subwords, subwords)
    pairs = some_pairs(30)
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus", codec=codec)
    assert corpus.codec.sha256 == codec.sha256
    assert {*decoded(corpus.train, corpus.codec)} < {*pairs}


def test_subwords_are_learned_on_a_sample_of_much_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300)]
    text = write_tsv(tmp_path / "text.tsv", [(f"{word} {word}", word) for word in words])
    train = TrainConfig(vocabulary=5000)
    monkeypatch.setattr(module, "LEARN_CHARACTERS", 1000)
    sampled = make(text, tmp_path / "sampled", train=train)
    again = make(text, tmp_path / "again", train=train)
    monkeypatch.undo()
    whole = make(text, tmp_path / "whole", train=train)
    assert sampled.codec.sha256 == again.codec.sha256
    assert 260 < len(sampled.codec.source) < len(whole.codec.source) - 150


@pytest.mark.parametrize("wide", [False, True])
def test_tokens_are_as_wide_as_the_vocabulary_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

        def __len__(self) -> int:
            return self.size

    few, many = Sized(1 << 16), Sized((1 << 16) + 1)
    assert encoding.token_type_of(Codec(few, few)) == "<u2"  # type: ignore[arg-type]
    assert encoding.token_type_of(Codec(few, many)) == "<u4"  # type: ignore[arg-type]
    token_type = "<u4" if wide else "<u2"
    for one in (encoding, module):
        monkeypatch.setattr(one, "token_type_of", lambda _: token_type)
    pairs = some_pairs(20)
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus")
    assert corpus.train.source.tokens.dtype == np.dtype(token_type)
    assert {*decoded(corpus.train, corpus.codec)} < {*pairs}


def test_the_same_text_and_settings_are_not_prepared_again(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", some_pairs(30))
    folder = tmp_path / "corpus"
    make(text, folder)
    before = (folder / MANIFEST).stat().st_mtime_ns

    def kept(**changes: Any) -> bool:
        nonlocal before
        listener = Listener()
        make(text, folder, progress=listener, **changes)
        same = (folder / MANIFEST).stat().st_mtime_ns == before
        before = (folder / MANIFEST).stat().st_mtime_ns
        assert same == any("using the corpus in" in said for said in listener.said)
        assert same == (not listener.done)
        return same

    assert kept()
    os.utime(text, ns=(1, 1))  # another time, the same text
    assert kept()
    write_tsv(text, some_pairs(29))
    assert not kept()
    assert kept()
    same_size = text.read_bytes().replace(b"Hund", b"Bund")
    text.write_bytes(same_size)
    assert not kept()
    then = text.stat().st_mtime_ns
    write_tsv(text, some_pairs(28))
    os.utime(text, ns=(then, then))  # the same time, another text
    assert not kept()
    for change in (
        {"train": TRAIN.replace(vocabulary=300)},
        {"train": TRAIN.replace(max_skew=5)},
        {"train": TRAIN.replace(seed=9)},
        {"train": TRAIN.replace(joint=False)},
        {"max_len": 99},
        {"languages": ("en", "fr")},
    ):
        assert not kept(**change)
        assert kept(**change)
        assert not kept()
    assert kept(train=TRAIN.replace(steps=5, batch_tokens=77)), "has no part in the corpus"


def test_with_validation_text_the_seed_has_no_part_in_the_corpus(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", some_pairs(30))
    valid = (write_tsv(tmp_path / "valid.tsv", some_pairs(3, seed=5)), None)
    make(text, tmp_path / "corpus", valid=valid)
    listener = Listener()
    make(text, tmp_path / "corpus", valid=valid, train=TRAIN.replace(seed=7), progress=listener)
    assert "using the corpus" in listener.said[0]
    write_tsv(tmp_path / "valid.tsv", some_pairs(4, seed=5))
    assert len(make(text, tmp_path / "corpus", valid=valid).valid) == 4


@pytest.mark.parametrize("name", [MANIFEST, SUBWORDS, *TOKEN_FILES])
@pytest.mark.parametrize("damage", ["flip", "cut", "more", "missing"])
def test_a_damaged_file_is_named_and_refused(own: Path, name: str, damage: str) -> None:
    path = own / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[data.rfind(b"1") if name.endswith("json") else len(data) // 2] ^= 2
    if damage == "cut":
        del data[-3:]
    if damage == "more":
        data += b"x"
    path.write_bytes(data)
    if damage == "missing":
        path.unlink()
    with pytest.raises(BadRun) as caught:
        open_corpus(own)
    if (name, damage) == (MANIFEST, "missing"):
        assert f"{own}is not a corpus" in str(caught.value)
    else:
        assert str(path) in str(caught.value)
        assert str(caught.value).endswith(f"delete {own} to prepare it again")
    if damage in ("cut", "more") and name != MANIFEST:
        size = len(data) + {"cut": 3, "more": -1}[damage]
        assert f"it has {len(data):,} bytes, expected {size:,}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("train.source.offsets", 0, 1, "do not increase"),
        ("train.source.offsets", 3, 0, "do not increase"),
        ("train.target.offsets", -1, 5, "do not increase"),
    ],
)
def test_contents_that_make_no_sense_are_refused(
    own: Path, name: str, place: int, value: int, words: str
) -> None:
    """Even if the hashes match: no sentence may reach beyond the end of the tokens."""
    data = np.fromfile(own / name, "<u2" if "tokens" in name else "<i8")
    data[place] = value
    data.tofile(own / name)
    reseal(own)
    with pytest.raises(BadRun, match=words) as caught:
        open_corpus(own)
    assert str(own / name.replace("offsets", "")) in str(caught.value)


def test_offsets_whose_differences_wrap_around_are_refused(own: Path) -> None:
    data = np.fromfile(own / "train.source.offsets", "<i8")
    data[1:5] = [2**62, 2**63 - 1, -(2**63), -(2**62)]
    assert np.all(np.diff(data) > 0)
    data.tofile(own / "train.source.offsets")
    reseal(own)
    with pytest.raises(BadRun, match="do not increase"):
        open_corpus(own)


@pytest.mark.parametrize("name", ["train.source.tokens", "valid.target.offsets"])
@pytest.mark.parametrize("size", [0, 1, 8])
def test_tokens_and_offsets_that_are_none_are_refused(own: Path, name: str, size: int) -> None:
    (own / name).write_bytes(bytes(size))
    reseal(own)
    with pytest.raises(BadRun, match=r"is damaged"):
        open_corpus(own)


def reseal(folder: Path, **changes: Any) -> None:
    """Make a manifest agree with files that were changed."""
    manifest = read_checksummed(folder / MANIFEST, 1, "corpora")
    for name in manifest["files"]:
        path = folder / name
        manifest["files"][name] = {"size": path.stat().st_size, "sha256": sha256(path)}
    write_checksummed(folder / MANIFEST, {**manifest, **changes})


def test_a_manifest_that_does_not_fit_its_files_is_refused(
    own: Path, made: tuple[list[Pair], Path]
) -> None:
    manifest = open_corpus(made[1]).manifest
    counts = dataclasses.asdict(manifest.train)
    for changes, words in (
        ({"train": {**counts, "pairs": counts["pairs"] - 1}}, "do not all have 296 sentences"),
        ({"vocabulary": [399, 400]}, "has other subwords than the manifest says"),
        ({"train": {}}, "manifest.json is damaged"),
        ({"train": {**counts, "pairs": "296"}}, "manifest.json is damaged"),
        ({"train": {**counts, "dropped": 0.5}}, "manifest.json is damaged"),
        ({"vocabulary": [400]}, "manifest.json is damaged"),
        ({"token_type": "O"}, "manifest.json is damaged"),
        ({"files": {}}, "manifest.json is damaged"),
        ({"files": {**manifest.files, "subwords.json": 1}}, "manifest.json is damaged"),
        ({"format": 2}, "has format 2: expected 1"),
    ):
        reseal(own, **changes)
        with pytest.raises(BadRun, match=words):
            open_corpus(own)
        (own / MANIFEST).write_bytes((made[1] / MANIFEST).read_bytes())


def test_preparing_over_a_damaged_corpus_says_what_to_do(own: Path, tmp_path: Path) -> None:
    (own / TOKEN_FILES[0]).write_bytes(b"rubbish")
    text = write_tsv(tmp_path / "text.tsv", some_pairs(30))
    with pytest.raises(BadRun, match="delete"):
        make(text, own)


def test_a_folder_of_something_else_is_never_replaced(own: Path, tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", some_pairs(30))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInput, match="file is a file: expected a folder"):
        make(text, tmp_path / "file")
    with pytest.raises(BadInput, match="is not part of a corpus"):
        make(text, tmp_path)
    (own / "thesis.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"holds thesis\.txt, which is not part of a corpus"):
        make(text, own)
    assert text.exists()
    assert (own / "thesis.txt").read_text() == "mine"
    (own / "thesis.txt").unlink()
    (own / MANIFEST).unlink()
    with pytest.raises(BadInput, match="is not part of a corpus"):
        make(text, own)
    (tmp_path / "empty").mkdir()
    assert len(make(text, tmp_path / "empty").train) == 29


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"one\teins\ntwo\n", "line 2 has no tab"),
        (b"one\teins\ntwo\tzwei\n\xff\tdrei\n", "line 3 is not UTF-8"),
        (b"one\teins\n", "has 1 pair with text on both sides: expected at least 2"),
        (b"\t\n \t \n", "has 0 pairs with text on both sides"),
        (b"one\teins\none\teins\n", "no pair of .* can be used for training: .*1 equal to a held-out"),
        (b"x\t" + b"one " * 500 + b"\ny\t" + b"one " * 500, "can be held out"),
    ],
)
def test_a_text_that_cannot_be_used_leaves_nothing_behind(
    tmp_path: Path, data: bytes, words: str
) -> None:
    text = tmp_path / "text.tsv"
    text.write_bytes(data)
    with pytest.raises(BadInput, match=words):
        make(text, tmp_path / "corpus")
    assert [path.name for path in tmp_path.iterdir()] == ["text.tsv"]


def test_files_that_do_not_exist_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent does not exist"):
        make(tmp_path / "absent", tmp_path / "corpus")
    text = write_tsv(tmp_path / "text.tsv", some_pairs(9))
    with pytest.raises(BadInput, match="nowhere does not exist"):
        make(text, tmp_path / "corpus", valid=(tmp_path / "nowhere", None))


def test_validation_text_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", some_pairs(9))
    valid = write_tsv(tmp_path / "valid.tsv", [("", ""), ("ja " * 300, "ja " * 300)])
    with pytest.raises(BadInput, match=r"can be used for validation: .*1 empty, 1 over-long"):
        make(text, tmp_path / "corpus", valid=(valid, None))


def test_a_corpus_that_fails_leaves_the_old_one_alone(own: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_bytes(b"one\teins\n\xff\n")
    with pytest.raises(BadInput):
        make(text, own)
    assert len(open_corpus(own).train) == 297


@pytest.mark.parametrize("when", ["encoding", "learning subwords"])
def test_a_text_that_changes_meanwhile_is_refused(tmp_path: Path, when: str) -> None:
    text = write_tsv(tmp_path / "text.tsv", some_pairs(30))

    class Meddler(Listener):
        @contextlib.contextmanager
        def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
            if what == when:
                write_tsv(text, some_pairs(30, seed=4))
            yield lambda units: None

    with pytest.raises(BadInput, match="changed while it was being read"):
        make(text, tmp_path / "corpus", progress=Meddler())
    assert not (tmp_path / "corpus").exists()


def test_standard_input_can_be_prepared(
    made: tuple[list[Pair], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, folder = made
    data = write_tsv(tmp_path / "text.tsv", pairs).read_bytes()

    def piped(data: bytes) -> Listener:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        listener = Listener()
        make("-", tmp_path / "runs" / "corpus", progress=listener)
        return listener

    piped(data)
    for name in TOKEN_FILES:
        assert (tmp_path / "runs" / "corpus" / name).read_bytes() == (folder / name).read_bytes()
    assert "using the corpus" in piped(data).said[0]
    assert "the texts have changed" in piped(lzma.compress(data.replace(b"Hund", b"Bund"))).said[0]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["corpus"]
    with pytest.raises(BadInput, match="standard input, line 2 has no tab"):
        piped(b"one\teins\ntwo\n")


def test_pipes_can_be_prepared(tmp_path: Path) -> None:
    pairs = some_pairs(30)
    pipes = [tmp_path / "pipe.en", tmp_path / "pipe.de"]
    writers = []
    for side, pipe in enumerate(pipes):
        os.mkfifo(pipe)
        text = "".join(pair[side] + "\n" for pair in pairs)
        writers.append(threading.Thread(target=pipe.write_text, args=(text, "utf-8"), daemon=True))
        writers[-1].start()
    corpus = make(pipes[0], tmp_path / "corpus", target=pipes[1])
    for writer in writers:
        writer.join()
    assert len(corpus.train) == 29
    assert {*decoded(corpus.train, corpus.codec)} < {*pairs}


def test_progress_reaches_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BATCH_PAIRS", 7)
    text = write_tsv(tmp_path / "text.tsv", some_pairs(30))
    listener = Listener()
    make(text, tmp_path / "corpus", progress=listener)
    assert [*listener.done] == [f"reading {text}", "learning subwords", "encoding"]
    assert {*listener.done.values()} == {30}
    assert listener.said[0].startswith("learned ")


def test_the_manifest_is_json_that_tells_the_inputs(made: tuple[list[Pair], Path]) -> None:
    folder = made[1]
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    (text,) = manifest["inputs"]
    assert text["path"] == str((folder.parent / "text.tsv").resolve())
    assert text["size"] == (folder.parent / "text.tsv").stat().st_size
    assert text["sha256"] == sha256(folder.parent / "text.tsv")


def test_preparing_needs_no_torch() -> None:
    code = "import sys, transduce.corpus.token_files; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
