"""BPE with dropout on arrays: without dropout it is the tokenizer's, with dropout the paper's."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.subwords import Subwords, extend_subwords
from transduce.subwords.merging import Merges

TEXT = [
    "The paper is the default everywhere, in 2017 and 2020.",
    "Das Papier ist überall die Vorgabe; it's what you'll need.",
    "Zwei Hunde laufen über die Straße, aaaa aaa aa banana.",
    "हिन्दी में लिखा हुआ वाक्य",
] * 5
LEARNED = Subwords.learn(TEXT, 500)
EXTENDED = extend_subwords(LEARNED, ["paperwork everywhere bananas"] * 3, 10)
VOCABULARIES = {"learned": LEARNED, "extended": EXTENDED}
MERGES = {name: Merges(subwords) for name, subwords in VOCABULARIES.items()}
WORDS = st.sampled_from([*" ".join(TEXT[:4]).split(), "paperworks", "bananas"])
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cn"])) | st.lists(WORDS).map(" ".join)


def segment(merges: Merges, word: list[int], p: float, random: np.random.Generator) -> list[int]:
    symbols = merges.decompose(np.array(word))[None]
    ranks = merges.ranks(symbols[:, :-1], symbols[:, 1:])
    ((rows, tokens),) = merges.segment(symbols, ranks, p, random)
    assert rows.tolist() == [0]
    return [int(token) for token in tokens[0]]


def plain_bpe_dropout(
    subwords: Subwords, word: list[int], p: float, random: np.random.Generator
) -> list[int]:
    """Provilkov et al. 2020, Algorithm 1, with one random number for each pair of neighbours."""
    ranks = {(a, b): rank for rank, (a, b) in enumerate(subwords.to_json()["model"]["merges"])}
    symbols = [letter for token in word for letter in subwords.names[token]]
    while len(symbols) > 1:
        pairs = list(itertools.pairwise(symbols))
        kept = random.random(len(pairs), np.float32) >= p
        possible = [(ranks[pair], i) for i, pair in enumerate(pairs) if pair in ranks and kept[i]]
        if not possible:
            break
        _, i = min(possible)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
    return [subwords.names.index(symbol) for symbol in symbols]


@pytest.mark.parametrize("name", VOCABULARIES)
@given(text=TEXTS)
@example("aaaaa banana it's 'stand paperworks 2017")
def test_without_dropout_each_word_is_encoded_as_by_the_tokenizer(name: str, text: str) -> None:
    (words,) = VOCABULARIES[name].encode_words([text])
    for word in words:
        assert segment(MERGES[name], word, 0.0, np.random.default_rng(0)) == word


@given(
    word=WORDS, p=st.sampled_from([0.1, 0.5, 0.9]), seed=st.integers(0, 100), extended=st.booleans()
)
def test_against_the_algorithm_of_the_publication(
    word: str, p: float, seed: int, extended: bool
) -> None:
    name = "extended" if extended else "learned"
    subwords = VOCABULARIES[name]
    ids = subwords.encode_words([word])[0][0]
    ours = segment(MERGES[name], ids, p, np.random.default_rng(seed))
    assert ours == plain_bpe_dropout(subwords, ids, p, np.random.default_rng(seed))
    assert subwords.decode(ours) == subwords.decode(ids)


@given(text=TEXTS)
def test_words_are_those_of_the_tokenizer_or_parts_of_them_in_ordinary_text(text: str) -> None:
    (words,) = LEARNED.encode_words([text])
    tokens = np.array([token for word in words for token in word], np.int64)
    joined = MERGES["learned"].joined(tokens)
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)[:-1] - 1
    ordinary = text.isascii() and "'" not in text
    assert not (ordinary and joined[ends].any())


def test_the_tokens_of_an_ordinary_word_are_joined() -> None:
    for text in ("everywhereabouts", "Straßenbahnen", "1234567", "हिन्दीमेंलिखा", "!?!?!#+"):
        tokens = np.array(LEARNED.encode(text))
        assert len(tokens) > 1
        assert MERGES["learned"].joined(tokens).all()
