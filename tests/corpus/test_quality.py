"""Suspicious pairs are reported with their number, and do not change the corpus."""

import random
from pathlib import Path

import pytest
from small_corpora import Listener, make, make_pairs, write_tsv

from transduce.corpus import quality
from transduce.corpus.quality import PairStatistics, ValidationPairs
from transduce.errors import BadInput
from transduce.text.languages import UNKNOWN


def warnings_of(pairs: list[tuple[str, str]], valid: list[tuple[str, str]] | None = None) -> str:
    """Return all warnings about a text, and about its validation text."""
    of_valid = None if valid is None else ValidationPairs({"dev": counts_of(valid)})
    return "\n".join(counts_of(pairs, of_valid).warnings("text"))


def counts_of(pairs: list[tuple[str, str]], valid: ValidationPairs | None = None) -> PairStatistics:
    counts = PairStatistics(valid)
    for pair in pairs:
        counts.add(*pair)
    return counts


def test_good_text_gives_no_warning() -> None:
    assert warnings_of(make_pairs(1000), make_pairs(100, seed=7)) == ""


@pytest.mark.parametrize("how", ["shifted", "shuffled", "fixed lengths", "few pairs"])
def test_sides_that_do_not_belong_together_are_reported(how: str) -> None:
    count = 499 if how == "few pairs" else 1000
    lengths = random.Random(2).choices(range(1, 30), k=count)
    sources = [f"{number} " + "word " * length for number, length in enumerate(lengths)]
    targets = [f"{number} " + "langes Wort " * length for number, length in enumerate(lengths)]
    assert warnings_of(list(zip(sources, targets, strict=True))) == ""
    if how == "shuffled":
        random.Random(1).shuffle(targets)
    else:
        targets = targets[1:] + targets[:1]
    if how == "fixed lengths":
        sources, targets = ([text.ljust(400, "x") for text in side] for side in (sources, targets))
    warnings = warnings_of(list(zip(sources, targets, strict=True)))
    assert ("are unrelated (correlation" in warnings) == (how in ("shifted", "shuffled"))


@pytest.mark.parametrize(("copies", "warned"), [(49, False), (50, True), (1000, True)])
def test_copies_are_reported_from_five_percent(copies: int, warned: bool) -> None:
    pairs = make_pairs(1000)
    pairs[:copies] = [(source, source) for source, _ in pairs[:copies]]
    warnings = warnings_of(pairs)
    assert ("have the same text on both sides" in warnings) == warned
    if warned:
        many = "all 1,000 pairs" if copies == 1000 else f"{copies} of 1,000 pairs (5.0%)"
        assert f"warning: {many} of text" in warnings


@pytest.mark.parametrize(("repeats", "warned"), [(199, False), (200, True)])
def test_repeats_are_reported_from_twenty_percent(repeats: int, warned: bool) -> None:
    pairs = make_pairs(1000 - repeats)
    pairs += pairs[:repeats]
    warnings = warnings_of(pairs)
    assert ("200 of 1,000 pairs (20.0%) of text repeat an earlier pair" in warnings) == warned


def test_repeats_in_a_large_text_are_estimated_in_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quality, "MAX_KEYS", 1_000)
    once = make_pairs(20_000)
    pairs = once + random.Random(1).sample(once, 10_000)
    counts = counts_of(pairs)
    assert len(counts.counts) <= 1_000
    (warning,) = counts.warnings("text")
    share = float(warning.partition("(")[2].partition("%")[0])
    assert "warning: about " in warning
    assert share == pytest.approx(100 / 3, abs=4)
    assert counts_of(pairs).warnings("text") == [warning]


@pytest.mark.parametrize(("leaked", "warned"), [(1, False), (2, True)])
def test_validation_pairs_in_the_training_text_are_reported_from_one_percent(
    leaked: int, warned: bool
) -> None:
    pairs, valid = make_pairs(1000), make_pairs(200, seed=7)
    valid[:leaked] = pairs[:leaked]
    warnings = warnings_of(pairs, valid)
    assert ("2 of 200 validation pairs (1.0%) also occur in text" in warnings) == warned


def test_each_of_several_validation_texts_is_compared() -> None:
    pairs, small, large = make_pairs(1000), make_pairs(50, seed=7), make_pairs(5000, seed=8)
    small[:10] = pairs[:10]
    texts = {name: counts_of(text) for name, text in (("small", small), ("large", large))}
    (warning,) = counts_of(pairs, ValidationPairs(texts)).warnings("text")
    assert "warning: 10 of 50 validation pairs (20.0%) of small also occur in text" in warning


def test_warnings_come_before_subwords_are_learned_and_drop_nothing(tmp_path: Path) -> None:
    pairs = make_pairs(300)
    pairs[:100] = [(source, source) for source, _ in pairs[:100]]
    text = write_tsv(tmp_path / "text.tsv", pairs)
    listener = Listener()
    given = {"languages": UNKNOWN, "valid": (text, None)}
    corpus = make(text, tmp_path / "corpus", **given, progress=listener)
    assert listener.lines[2] == "learned 400 subwords"
    assert f"100 of 300 pairs (33.3%) of {text}" in listener.lines[0]
    assert "all 300 validation pairs" in listener.lines[1]
    assert len(corpus.train) == 300


@pytest.mark.parametrize("how", ["one file", "two files", "validation text"])
def test_the_same_text_on_both_sides_is_refused(how: str, tmp_path: Path) -> None:
    pairs = make_pairs(50)
    paths = [tmp_path / name for name in ("a.en", "a.de", "copy.de")]
    for path, side in zip(paths, (0, 1, 0), strict=True):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    source, target, copy = paths
    words = "are the same file" if how == "one file" else "have the same content"
    other = {"one file": source, "two files": copy, "validation text": target}[how]
    valid = (source, copy) if how == "validation text" else None
    with pytest.raises(BadInput, match=f"{words}: expected a text and its translation"):
        make(source, tmp_path / "corpus", target=other, valid=valid)
    assert not (tmp_path / "corpus").exists()


def test_a_model_that_copies_can_be_trained_on_a_tsv(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "copies.tsv", [(source, source) for source, _ in make_pairs(50)])
    assert len(make(text, tmp_path / "corpus").train) == 49
