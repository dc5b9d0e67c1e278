"""Corpora in several languages and in both directions: tokens, held-out pairs, sampling."""

import dataclasses
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpora import TRAIN, Listener, Pair, make_pairs, write_tsv

from transduce.config import SearchConfig, TrainConfig, apply_settings
from transduce.config.model import ModelConfig
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus, Split, open_corpus
from transduce.corpus.updates import Mixture, temperature_factors
from transduce.errors import BadInput, BadSetting
from transduce.subwords import TO
from transduce.text.corpora import CorpusText

TEXTS = st.text("abcdeäß 漢.", min_size=1, max_size=12).filter(str.strip)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=4, max_size=12, unique=True)


def make(corpora: list[CorpusText], folder: Path, train: TrainConfig = TRAIN) -> Corpus:
    return prepare(corpora, folder, languages=("en", "de"), train=train, max_len=100)


def in_both_directions(*corpora: CorpusText) -> list[CorpusText]:
    return [each for corpus in corpora for each in (corpus, corpus.reversed())]


def sentences(corpus: Corpus, split: Split) -> list[tuple[list[str], Pair]]:
    """Return the tags before each source, and the pair of texts."""
    coder = corpus.codec.source
    found = []
    for index in range(len(split)):
        source, target = (ids.tolist() for ids in split.pair(index))
        tags = [coder.names[piece] for piece in source if piece >= coder.first_tag]
        assert source[: len(tags)] == [coder.names.index(tag) for tag in tags]
        assert not any(piece >= coder.first_tag for piece in target)
        found.append((tags, (coder.decode(source), corpus.codec.target.decode(target))))
    return found


@settings(max_examples=12, deadline=None)
@given(first=PAIRS, second=PAIRS, joint=st.booleans())
def test_every_sentence_has_the_token_of_its_target_language_and_its_direction(
    first: list[Pair], second: list[Pair], *, joint: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            write_tsv(Path(folder, f"{n}.tsv"), pairs) for n, pairs in enumerate((first, second))
        ]
        corpora = in_both_directions(
            CorpusText(paths[0], languages="en-de"),
            CorpusText(paths[1], tag="web", languages="en-fr"),
        )
        train = dataclasses.replace(TRAIN, joint=joint, vocabulary=300, max_skew=50.0)
        corpus = make(corpora, Path(folder) / "corpus", train)
        assert corpus.pairs == (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
        assert corpus.codec.languages == ("de", "en", "fr")
        assert corpus.codec.source.tag_ids(f"{TO}de") == [corpus.codec.source.first_tag]
        expected = Counter[tuple[str, Pair]]()
        for pairs, tags in ((first, ("<2de>", "<2en>")), (second, ("<2fr>", "<2en>"))):
            for source, target in pairs:
                extra = "<web>" if pairs is second else ""
                expected[tags[0] + extra, (source, target)] += 1
                expected[tags[1] + extra, (target, source)] += 1
        found = Counter[tuple[str, Pair]]()
        for split in (corpus.train, corpus.valid):
            found += Counter(("".join(tags), pair) for tags, pair in sentences(corpus, split))
        # A pair that is equal to one held out of the other corpus is dropped.
        assert {*found} <= {*expected}
        dropped = sum(c.train.dropped["equal to a held-out pair"] for c in corpus.manifest.corpora)
        assert found.total() == expected.total() - dropped


def test_both_directions_hold_out_the_same_pairs(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", make_pairs(300))
    corpus = make(in_both_directions(CorpusText(path, languages="en-de")), tmp_path / "corpus")
    forward, backward = ("a", "a-2")
    held = {pair for _, pair in sentences(corpus, corpus.valid_parts[forward])}
    assert held == {pair[::-1] for _, pair in sentences(corpus, corpus.valid_parts[backward])}
    assert len(held) == 3
    trained = {pair for _, pair in sentences(corpus, corpus.train)}
    assert trained.isdisjoint(held | {pair[::-1] for pair in held})
    assert [counts.train.pairs for counts in corpus.manifest.corpora] == [297, 297]
    assert not any(counts.train.dropped["empty"] for counts in corpus.manifest.corpora)
    assert len(corpus.manifest.inputs) == 1, "the text is one file"


def test_validation_text_is_used_in_both_directions(tmp_path: Path) -> None:
    path, valid = (write_tsv(tmp_path / f"{n}.tsv", make_pairs(20, n)) for n in (1, 2))
    corpora = in_both_directions(CorpusText(path, valid=(valid, None), languages="en-de"))
    corpus = make(corpora, tmp_path / "corpus")
    found = sentences(corpus, corpus.valid)
    assert [pair for _, pair in found[:20]] == [pair[::-1] for _, pair in found[20:]]
    assert [tags for tags, _ in found] == [["<2de>"]] * 20 + [["<2en>"]] * 20


def test_several_sources_of_one_target_need_no_token(tmp_path: Path) -> None:
    paths = [write_tsv(tmp_path / f"{n}.tsv", make_pairs(30, n)) for n in (1, 2)]
    corpora = [
        CorpusText(path, languages=pair)
        for path, pair in zip(paths, ("de-en", "fr-en"), strict=True)
    ]
    corpus = make(corpora, tmp_path / "corpus")
    assert corpus.codec.languages == ()
    assert corpus.pairs == (("de", "en"), ("fr", "en"))


def test_the_same_corpora_are_reused_and_other_languages_are_not(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", make_pairs(60))
    corpora = in_both_directions(CorpusText(path, languages="en-de"))
    before = make(corpora, tmp_path / "corpus").manifest
    progress = Listener()
    options = {"languages": ("en", "de"), "train": TRAIN, "max_len": 100, "progress": progress}
    prepare(corpora, tmp_path / "corpus", **options)  # type: ignore[arg-type]
    assert "using the corpus in" in progress.lines[0]
    assert open_corpus(tmp_path / "corpus").manifest == before
    other = in_both_directions(CorpusText(path, languages="en-fr"))
    prepare(other, tmp_path / "corpus", **options)  # type: ignore[arg-type]
    assert "the settings have changed" in progress.lines[1]


def test_subwords_without_the_token_of_a_target_are_refused(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "a.tsv", make_pairs(60))
    codec = make([CorpusText(path)], tmp_path / "one").codec
    corpora = in_both_directions(CorpusText(path, languages="en-de"))
    with pytest.raises(BadInput, match=r"no token of the target language 'de': .* one target lang"):
        prepare(
            *(corpora, tmp_path / "two"),
            languages=("en", "de"),
            train=TRAIN,
            max_len=100,
            codec=codec,
        )


COUNTS = st.lists(st.tuples(st.integers(1, 50), st.sampled_from("abc")), min_size=1, max_size=6)


@given(COUNTS, st.sampled_from([1, 2, 5]))
def test_pairs_are_sampled_in_proportion_to_a_power_of_their_size(
    corpora: list[tuple[int, str]], temperature: int
) -> None:
    """The share of pair i, to the power T, is proportional to n_i: exact in rational numbers."""
    counts, pairs = [count for count, _ in corpora], [pair for _, pair in corpora]
    factors = temperature_factors(counts, pairs, temperature)
    sampled, sizes = Counter[str](), Counter[str]()
    for count, pair, factor in zip(counts, pairs, factors, strict=True):
        sampled[pair] += count * factor  # type: ignore[assignment]
        sizes[pair] += count
    assert sum(sampled.values()) == pytest.approx(sum(counts)), "an epoch keeps its length"
    first = pairs[0]
    for pair in sizes:
        ratio = (sampled[pair] / sampled[first]) ** temperature
        assert ratio == pytest.approx(float(Fraction(sizes[pair], sizes[first])))
        own = {factor for factor, other in zip(factors, pairs, strict=True) if other == pair}
        assert len(own) == 1, "corpora of a pair keep their proportions"
    if temperature == 1 or len(sizes) == 1:
        assert factors == [1.0] * len(counts)


def test_a_mixture_draws_in_these_proportions(tmp_path: Path) -> None:
    """With T = 2, 400 and 100 sentences become 500 * 2/3 and 500 * 1/3."""
    paths = [
        write_tsv(tmp_path / f"{n}.tsv", make_pairs(size, n)) for n, size in ((1, 404), (2, 101))
    ]
    corpora = [
        CorpusText(path, languages=pair)
        for path, pair in zip(paths, ("en-de", "en-fr"), strict=True)
    ]
    manifest = make(corpora, tmp_path / "corpus").manifest
    assert [counts.train.pairs for counts in manifest.corpora] == [400, 100]
    drawn = Mixture.of(manifest, (), 2.0).draw(np.random.default_rng(1))
    assert drawn is not None
    first, second = (drawn < 400).sum(), (drawn >= 400).sum()
    assert (first, second) in ((333, 166), (333, 167), (334, 166), (334, 167))
    assert Mixture.of(manifest, (), 1.0).draw(np.random.default_rng(1)) is None
    assert Mixture.of(manifest, (1.0, 4.0), 2.0).weights == (1.0, 4.0), "equal counts per epoch"


def test_subwords_are_learned_in_these_proportions(tmp_path: Path) -> None:
    """A word that only the small pair has becomes one piece when that pair is read more often."""
    large = [(f"ab{'cd' * (n % 5)} {n}", f"xy{'zw' * (n % 7)} {n}") for n in range(300)]
    paths = (
        write_tsv(tmp_path / "a.tsv", large),
        write_tsv(tmp_path / "b.tsv", [(f"quark {n}", f"QUARK {n}") for n in range(4)]),
    )
    corpora = [
        CorpusText(path, languages=pair)
        for path, pair in zip(paths, ("en-de", "en-fr"), strict=True)
    ]
    lengths = []
    for temperature in (1.0, 100.0):
        train = dataclasses.replace(TRAIN, vocabulary=290, data_temperature=temperature)
        coder = make(corpora, tmp_path / f"t{temperature:g}", train).codec.source
        lengths.append(len(coder.encode("quark")))
    assert lengths[1] < lengths[0]


def test_temperature_in_training_is_that_of_the_data() -> None:
    train = apply_settings({"temperature": "5"}, ModelConfig(), TrainConfig())[1]
    assert train.data_temperature == 5
    assert SearchConfig().temperature == 1
    with pytest.raises(BadSetting, match=r"data_temperature = 0\.5: expected at least 1"):
        apply_settings({"temperature": 0.5}, ModelConfig(), TrainConfig())
