"""Sentences are tokenised as in the Penn Treebank."""

import pytest

from transduce.parsing.words import split_words, tokenize


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("The cell binds calcium.", "The cell binds calcium ."),
        ("He doesn't, she won't.", "He does n't , she wo n't ."),
        ("It's John's; they're ours.", "It 's John 's ; they 're ours ."),
        ("I cannot go!", "I can not go !"),
        ("the boys' toys", "the boys ' toys"),
        ('He said "yes" (twice).', "He said `` yes '' -LRB- twice -RRB- ."),
        ("“Now”, he said", "`` Now '' , he said"),
        ("Dr. Smith paid $1,000.50 at 5:30.", "Dr. Smith paid $ 1,000.50 at 5:30 ."),
        ("50% of it, 20-30 in all", "50 % of it , 20-30 in all"),
        ("see http://a.org/b-c, please", "see http://a.org/b-c , please"),
        ("(It ended.)", "-LRB- It ended . -RRB-"),
        ("  spaces   do\tnot matter ", "spaces do not matter"),
        ("", ""),
    ],
)
def test_a_sentence_is_cut_into_words(sentence: str, words: str) -> None:
    assert tokenize(sentence) == words.split()


def test_compounds_are_cut_at_hyphens_where_the_treebank_does_so() -> None:
    sentence = "Ca2+-dependent, red/blue non-toxic X-ray"
    cut = " ".join(tokenize(sentence, hyphens=True))
    assert cut == "Ca2+ - dependent , red / blue non-toxic X-ray"
    assert " ".join(tokenize(sentence)) == "Ca2+-dependent , red/blue non-toxic X-ray"


def test_tokenised_words_are_unchanged_except_brackets() -> None:
    assert " ".join(split_words("It does n't ( 5:30. ) ")) == "It does n't -LRB- 5:30. -RRB-"
    assert split_words("Xpd\N{THIN SPACE}TTD") == ["Xpd\N{THIN SPACE}TTD"]
