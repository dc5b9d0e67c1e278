"""Which pair of languages a model translates, and how pairs are listed in messages."""

import pytest

from transduce.errors import BadInput
from transduce.text.languages import Pair, choose_pair, list_pairs

ONE: list[Pair] = [("en", "de")]
FOUR: list[Pair] = [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")]


@pytest.mark.parametrize(
    ("pairs", "source", "target", "chosen"),
    [
        (ONE, None, None, ("en", "de")),
        (ONE, "en", None, ("en", "de")),
        (FOUR, None, "fr", ("en", "fr")),
        (FOUR, None, "en", ("src", "en")),  # from de or fr
        (FOUR, "de", None, ("de", "en")),
        (FOUR, "de", "fr", ("de", "fr")),  # not trained
    ],
)
def test_a_language_that_is_not_given_is_the_only_one_that_fits(
    pairs: list[Pair], source: str | None, target: str | None, chosen: Pair
) -> None:
    assert choose_pair(pairs, source, target) == chosen


@pytest.mark.parametrize(
    ("pairs", "source", "target", "message"),
    [
        (FOUR, None, None, "the model translates to de, en, fr: choose one of them"),
        (FOUR, "en", None, "the model translates to de, fr: choose one of them"),
        (FOUR, "it", None, "does not translate from it: it translates en to de, de to en, en to"),
        (FOUR, "it", "de", "does not translate from it to de: it translates en to de"),
        (FOUR, "de", "de", "does not translate from de to de: it translates en to de"),
        (FOUR, None, "it", "does not translate to it: it translates en to de"),
        (FOUR, "en", "it", "does not translate to it: it translates en to de"),
        (ONE, "de", None, "does not translate from de: it translates en to de"),
        (ONE, "de", "en", "does not translate to en: it translates en to de"),
    ],
)
def test_languages_that_the_model_lacks_are_refused(
    pairs: list[Pair], source: str | None, target: str | None, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        choose_pair(pairs, source, target)


def test_many_pairs_are_not_all_listed() -> None:
    codes = [f"{first}{second}" for first in "abcdefgh" for second in "abc"]
    pairs = [(left, right) for left in codes for right in codes if left != right]
    listed = list_pairs([*pairs, *pairs])
    assert listed.startswith("aa to ab, aa to ac, ")
    assert listed.endswith(" and 532 more")
    assert len(listed) < 300
    assert list_pairs(ONE) == "en to de"
