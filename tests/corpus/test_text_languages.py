"""Text in other languages than stated is reported when a corpus is made, and nothing changes."""

import itertools
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from small_corpora import TRAIN, Listener, make, write_tsv

from transduce.corpus.languages import language_warnings
from transduce.corpus.preparation import prepare
from transduce.text import identification
from transduce.text.corpora import CorpusText

# Parts of a sentence in each language; all combinations are sentences.
PARTS = {
    "en": (
        ["the man and the woman", "they that have not been here", "we and all of you"],
        ["would also like to go to", "have been waiting for", "should not speak of"],
        ["the old house by the river", "this book that is from {}", "their friends in {}"],
    ),
    "de": (
        ["der Mann und die Frau", "sie, die nicht hier sind,", "wir und ihr alle"],
        ["wollen auch nicht zu", "haben lange gewartet auf", "sollten nicht sprechen von"],
        ["dem alten Haus an dem Fluss", "dem Buch, das aus {} ist", "ihren Freunden in {}"],
    ),
    "et": (
        ["mees ja naine", "need, keda siin veel ei ole", "meie ja teie kõik"],
        ["tahaksid samuti minna", "on kaua oodanud seda", "ei peaks rääkima sellest"],
        ["vana maja juurde jõe ääres", "raamatust, mis on pärit {}", "sõpradest, kes elavad {}"],
    ),
    "ja": (
        ["その男と女は", "ここにいない人たちは", "私たちとあなたたちは"],
        ["川のそばにある古い家へ", "{}から来たこの本を", "{}に住んでいる友だちに"],
        ["行きたいと思っています。", "長い間待っていました。", "話すべきではありません。"],
    ),
}
TOWNS = ["Rom", "Wien", "Oslo", "Paris", "Berlin"]


def pairs_in(source: str, target: str) -> list[tuple[str, str]]:
    """Return different pairs of sentences in random order."""
    sides = [
        [
            " ".join(parts).format(town)
            for town in TOWNS
            for parts in itertools.product(*PARTS[code])
        ]
        for code in (source, target)
    ]
    pairs = [*dict.fromkeys(zip(*sides, strict=True))]
    random.Random(1).shuffle(pairs)
    return pairs


def swapped(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(target, source) for source, target in pairs]


def warning_of(pairs: list[tuple[str, str]], source: str, target: str) -> str:
    return "".join(language_warnings([("text", (source, target), pairs)]))


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    identification._identifier.cache_clear()


@pytest.mark.parametrize("pair", [*itertools.permutations(PARTS, 2)])
def test_swapped_sides_are_reported_and_right_ones_are_not(pair: tuple[str, str]) -> None:
    pairs = pairs_in(*pair)
    assert warning_of(pairs, *pair) == ""
    source, target = pair
    assert warning_of(swapped(pairs), *pair) == (
        f"warning: text: the languages seem to be {target}-{source}, not {source}-{target}: swap "
        f"the sides, or state the languages (--languages {target}-{source}, or "
        f"FILE:{target}-{source} in --corpus)"
    )


def test_another_language_on_one_side_is_named() -> None:
    warning = warning_of(pairs_in("en", "de"), "en", "fr")
    assert warning.startswith(
        "warning: text: the languages seem to be en-de, not en-fr: check the text"
    )
    assert "seem to be en-ja, not en-de" in warning_of(pairs_in("en", "ja"), "en", "de")
    assert warning_of(pairs_in("en", "de"), "en_GB", "de-AT") == ""
    assert "de-en_GB, not en_GB-de: swap" in warning_of(pairs_in("de", "en"), "en_GB", "de")


@pytest.mark.parametrize(("share", "warned"), [(0.1, False), (0.4, True)])
def test_a_part_in_the_other_direction_is_reported(share: float, *, warned: bool) -> None:
    pairs = pairs_in("en", "de")
    some = int(share * len(pairs))
    warning = warning_of(swapped(pairs[:some]) + pairs[some:], "en", "de")
    assert warned == (" of the pairs seem to be de-en, and the rest en-de: correct" in warning)
    assert warned == bool(warning)


def test_texts_in_unknown_languages_are_compared_with_the_first() -> None:
    pairs, unknown = pairs_in("en", "de"), ("src", "tgt")
    assert language_warnings([("a", unknown, pairs), ("b", unknown, pairs)]) == []
    (warning,) = language_warnings([("a", unknown, pairs), ("b", unknown, swapped(pairs))])
    assert "b: the languages seem to be de-en, not en-de" in warning
    numbers = [(f"{number} 1 2 3", f"{number} 3 2 1") for number in range(100)]
    assert language_warnings([("a", unknown, numbers), ("b", unknown, pairs)]) == []


@pytest.mark.parametrize("pair", [("en", "de"), ("words", "trees"), ("xx", "yy"), ("no", "da")])
def test_text_that_is_no_language_gives_no_warning(pair: tuple[str, str]) -> None:
    rng = random.Random(1)
    texts = [" ".join(rng.choices("abcdefghij", k=30)) for _ in range(400)]
    assert warning_of([*zip(texts[:200], texts[200:], strict=True)], *pair) == ""


@pytest.mark.usefixtures("without_library")
def test_without_the_library_frequent_words_tell() -> None:
    assert "de-en, not en-de" in warning_of(pairs_in("de", "en"), "en", "de")
    assert warning_of(pairs_in("en", "ja"), "en", "ja") == ""
    assert warning_of(pairs_in("et", "ja"), "et", "ja") == ""


def test_a_swapped_text_is_prepared_as_it_is(tmp_path: Path) -> None:
    """The warning names each text once, and the token files are those of the given sides."""
    pairs = swapped(pairs_in("en", "de"))
    text = write_tsv(tmp_path / "train.en-de.tsv", pairs)
    valid = write_tsv(tmp_path / "valid.tsv", pairs[:50])
    listener = Listener()
    corpora = [
        make(
            text,
            tmp_path / f"{source}-{target}",
            languages=(source, target),
            valid=(valid, None),
            progress=listener,
        )
        for source, target in (("en", "de"), ("de", "en"))
    ]
    found = [line for line in listener.lines if "seem to be" in line]
    assert [line.split(": the")[0] for line in found] == [f"warning: {text}", f"warning: {valid}"]
    tokens = [
        [np.asarray(side.tokens) for side in (c.train.source, c.train.target)] for c in corpora
    ]
    assert all(map(np.array_equal, *tokens))


def test_every_pair_of_a_file_with_several_is_checked(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", pairs_in("en", "de"))
    corpora = [CorpusText(text, languages=pair) for pair in ("en-de", "en-ja", "et-de")]
    listener = Listener()
    languages = ("en", "de")
    prepare(
        *(corpora, tmp_path / "corpus"),
        languages=languages,
        train=TRAIN,
        max_len=100,
        progress=listener,
    )
    found = [line.split(": ")[2] for line in listener.lines if "seem to be" in line]
    assert found == [
        f"the languages seem to be en-de, not {stated}" for stated in ("en-ja", "et-de")
    ]
