"""--corpus FILE[,FILE][=WEIGHT][@TAG]: parsed from the right, and named after the files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.errors import BadInput
from transduce.text.corpora import CorpusText, with_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.tsv", CorpusText("a.tsv")),
        ("a.tsv=0.5", CorpusText("a.tsv", weight=0.5)),
        ("a.en,a.de=8", CorpusText("a.en", "a.de", weight=8)),
        ("a.en,a.de", CorpusText("a.en", "a.de")),
        ("x=1.tsv=2", CorpusText("x=1.tsv", weight=2)),
        ("-=3", CorpusText("-", weight=3)),
        ("a.tsv@docs", CorpusText("a.tsv", tag="docs")),
        ("a.en,a.de=8@x-1_b", CorpusText("a.en", "a.de", weight=8, tag="x-1_b")),
        ("a@b.tsv", CorpusText("a@b.tsv")),
    ],
)
def test_files_and_weight_are_read_from_the_right(text: str, expected: CorpusText) -> None:
    assert CorpusText.parse(text) == expected


def test_a_text_that_is_the_name_of_a_file_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a,b=2@c", "a,b=2", "a,b"):
        Path(name).touch()
        assert CorpusText.parse(name) == CorpusText(name)
    assert CorpusText.parse("a,b=3@c") == CorpusText("a,b", weight=3, tag="c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.en,lang=de.txt", CorpusText("train.en", "lang=de.txt")),
        ("train.en,lang=de.txt=2@x", CorpusText("train.en", "lang=de.txt", weight=2, tag="x")),
        ("train.en,x@de", CorpusText("train.en", "x@de")),
        ("train.en,train.de=2", CorpusText("train.en", "train.de", weight=2)),
    ],
)
def test_two_texts_that_are_names_of_files_are_these_files(
    text: str, expected: CorpusText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.de", "lang=de.txt", "x@de"):
        Path(name).touch()
    assert CorpusText.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.tsv=0", "the weight of a.tsv is 0.0: expected a number above 0, at most 1,000"),
        ("a.tsv=-1", "the weight of a.tsv is -1.0"),
        ("a.tsv=inf", "the weight of a.tsv is inf"),
        ("a.tsv=1e9", "the weight of a.tsv is 1000000000.0"),
        ("a.tsv=nan", "the weight is 'nan': expected a number"),
        ("a.tsv=much", "the weight is 'much': expected a number"),
        ("a.tsv@unk", "the tag of a.tsv is 'unk': expected a letter, then letters"),
        ("a,b,c", "expected FILE"),
        ("a.en,=2", "expected FILE"),
        ("", "expected FILE"),
    ],
)
def test_a_corpus_that_cannot_be_used_is_refused(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").touch()
    with pytest.raises(BadInput) as error:
        CorpusText.parse(text)
    assert problem in str(error.value)


@pytest.mark.parametrize("weight", [np.int64(2), np.float32(2), np.float64(2), 2])
def test_a_weight_may_be_a_number_of_numpy(weight: float) -> None:
    corpus = CorpusText("a.tsv", weight=weight)
    assert (corpus.weight, type(corpus.weight)) == (2.0, float)


@pytest.mark.parametrize("weight", [np.int64(0), np.bool_(True), True, "2", None, 2j])
def test_a_weight_that_is_not_a_positive_number_is_refused(weight: Any) -> None:
    with pytest.raises(BadInput, match=r"the weight of a\.tsv is .*: expected a number above 0"):
        CorpusText("a.tsv", weight=weight)


def test_a_tag_or_name_that_is_not_text_is_refused() -> None:
    wrong: Any = 5
    with pytest.raises(BadInput, match=r"the tag of a\.tsv is 5: expected a letter"):
        CorpusText("a.tsv", tag=wrong)
    with pytest.raises(BadInput, match=r"the name of a\.tsv is 5: expected letters"):
        CorpusText("a.tsv", name=wrong)


def test_names_come_from_the_files_and_are_different() -> None:
    corpora = [
        CorpusText("data/news.en", "data/news.de"),
        CorpusText("other/news.tsv.gz"),
        CorpusText("en.txt", "de.txt"),
        CorpusText("-"),
        CorpusText("docs.tsv", name="manual"),
    ]
    names = [corpus.name for corpus in with_names(corpora)]
    assert names == ["news", "news-2", "en", "stdin", "manual"]


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="two corpora have the name docs"):
        with_names([CorpusText("a.tsv", name="docs"), CorpusText("b.tsv", name="docs")])
    with pytest.raises(BadInput, match=r"the name of a\.tsv is 'a b'"):
        CorpusText("a.tsv", name="a b")
