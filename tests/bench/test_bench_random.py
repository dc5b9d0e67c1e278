"""Random text for `transduce bench`: a real corpus with the documented lengths."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandLine, options

from transduce.bench import hardware
from transduce.bench.random_text import BATCHES, random_corpus
from transduce.corpus.token_files import Corpus
from transduce.errors import BadSetting


def make_corpus(
    folder: Path,
    kind: str,
    *,
    vocabulary: int = 1000,
    joint: bool = True,
    batch_tokens: int = 2000,
    max_len: int = 256,
) -> Corpus:
    return random_corpus(
        folder / "corpus",
        kind,
        vocabulary=vocabulary,
        joint=joint,
        batch_tokens=batch_tokens,
        max_len=max_len,
        seed=1,
    )


def test_mixed_lengths_vary_and_those_of_a_pair_are_similar(tmp_path: Path) -> None:
    """A log-normal distribution with the median exp(3.25), which is 26."""
    part = make_corpus(tmp_path, "mixed").train
    source, target = part.source.lengths, part.target.lengths
    assert 24 <= np.median(source) <= 28
    assert source.min() >= 4 <= target.min()
    assert 100 < source.max() <= 150 >= target.max()
    assert np.corrcoef(source, target)[0, 1] > 0.9
    assert np.any(source != target)


def test_equal_lengths_are_thirty(tmp_path: Path) -> None:
    part = make_corpus(tmp_path, "equal").train
    assert set(part.source.lengths) == set(part.target.lengths) == {30}


@pytest.mark.parametrize("kind", ["mixed", "equal"])
def test_the_text_suffices_for_the_batches_and_is_not_much_longer(
    tmp_path: Path, kind: str
) -> None:
    part = make_corpus(tmp_path, kind).train
    tokens = len(part.source.tokens), len(part.target.tokens)
    assert min(tokens) >= BATCHES * 2000
    assert max(tokens) < 1.1 * BATCHES * 2000


def test_words_are_drawn_from_the_vocabulary_without_special_tokens(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, "mixed")
    for side in (corpus.train.source, corpus.train.target):
        assert np.array_equal(np.unique(side.tokens), [2, *range(4, 1000)])  # 2 is </s>
    assert corpus.manifest.vocabulary == (1000, 1000)
    assert corpus.codec.joint
    assert corpus.manifest.train.pairs == len(corpus.train)


def test_no_sentence_is_longer_than_max_len(tmp_path: Path) -> None:
    for kind in ("mixed", "equal"):
        (tmp_path / kind).mkdir()
        part = make_corpus(tmp_path / kind, kind, max_len=20).train
        assert max(part.source.lengths.max(), part.target.lengths.max()) == 20


def test_the_two_sides_may_have_separate_vocabularies(tmp_path: Path) -> None:
    assert not make_corpus(tmp_path, "equal", joint=False).codec.joint


def test_a_vocabulary_can_be_larger_than_65536(tmp_path: Path) -> None:
    assert len(make_corpus(tmp_path, "equal", vocabulary=70_000).codec.target) == 70_000


def test_a_vocabulary_without_all_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="vocabulary = 100: expected at least 260"):
        make_corpus(tmp_path, "equal", vocabulary=100)


def test_random_text_is_measured_with_each_preset_in_turn(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(256, "float32", 1, 3))
    small = {"N": "1", "d_model": "16", "d_ff": "32", "vocabulary": "300", "threads": "1"}
    arguments = [*options(small), "--batch-tokens", "300", "--steps", "1", "--rounds", "1"]
    presets = ["--preset", "tiny", "--preset", "B-dk16", "--peer", "none"]
    result = cli("bench", "train", "--random", "equal", *presets, *arguments, "--json")
    assert result.status == 0, result.stderr
    first, second = json.loads(result.stdout)
    assert (first["preset"], second["preset"]) == ("tiny", "B-dk16")
    assert (first["model"]["h"], second["model"]["h"]) == (4, 8)
    for report in (first, second):
        assert report["text"] == "random words in sentences of equal length"
        assert report["peers"] == []
        assert report["ours"]["rounds"][0]["target_tokens"] == 300
        assert report["model"]["target_vocabulary"] == 300


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "there is no text to train on: give a SOURCE, or --random mixed"),
        (
            ["a.en", "a.de", "--random", "mixed"],
            "--random mixed replaces the text: give either it or a SOURCE",
        ),
        (
            ["--random", "mixt"],
            "there is no random text mixt. Did you mean mixed? The kinds are: mixed, equal",
        ),
        (
            ["--random", "equal", "--corpus", "kept"],
            "--corpus cannot be used with --random: random text is not kept",
        ),
    ],
)
def test_missing_or_conflicting_texts_are_one_sentence(
    cli: CommandLine, arguments: list[str], expected: str
) -> None:
    assert cli("bench", "train", *arguments).error == expected
