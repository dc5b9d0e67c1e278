"""The output of a constrained search is always a tree over exactly the given words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from models import sentence, small_model
from transduce.config import SearchConfig
from transduce.decoding.scheduler import Decoder
from transduce.decoding.search import NONE
from transduce.errors import BadRun
from transduce.parsing.constraint import IN_A_ROW, well_formed
from transduce.parsing.lexicon import FREQUENT, Lexicon
from transduce.parsing.sequences import to_tree
from transduce.parsing.trees import Tree
from transduce.subwords import EOS, SPECIAL, Symbols
from transduce.system.files import write_checksummed
from transduce.translation.types import Job

SYMBOLS = Symbols(["(NP", "(S", "(VP", ")", "NN", "DT"])
IDS = {name: number for number, name in enumerate(SYMBOLS.names)}
ANY = Lexicon(((),), {})
CONSTRAIN = well_formed(SYMBOLS, ANY)
CPU = torch.device("cpu")
ROOM = 41  # one more than the words of the longest sentence


def rows(*sentences: list[int]) -> Tensor:
    """Return the word classes of sentences, padded."""
    return torch.tensor([classes + [NONE] * (ROOM - len(classes)) for classes in sentences])


def steps(seed: int, sizes: list[int], limits: list[int], k: int) -> list[list[list[str]]]:
    """Follow random choices, k hypotheses of each sentence, until all have ended."""
    chance = torch.Generator().manual_seed(seed)
    constraint = CONSTRAIN(len(sizes), k, ROOM, CPU)
    classes = rows(*([0] * size for size in sizes))
    constraint.begin(torch.arange(len(sizes)), classes, torch.tensor(limits))
    outputs: list[list[list[int]]] = [[[] for _ in range(k)] for _ in sizes]
    bias = torch.randn(len(IDS), generator=chance) * 3  # some symbols are far more likely
    for _ in range(max(limits)):
        logits = torch.randn(len(sizes) * k, len(IDS), generator=chance) + bias
        allowed = constraint.allowed()
        assert allowed.shape == logits.shape
        words = logits.masked_fill(~allowed, -torch.inf).argmax(-1).view(-1, k)
        parents = torch.randint(k, (len(sizes), k), generator=chance)
        # Hypotheses that have ended stay unchanged; others may be continued twice.
        ended = torch.tensor(
            [[bool(output) and output[-1] == EOS for output in beam] for beam in outputs]
        )
        fixed = ended.gather(1, parents) | ended
        parents = torch.where(fixed, torch.arange(k).expand_as(parents), parents)
        words = words.gather(1, parents)
        constraint.follow(words, parents)
        outputs = [
            [
                beam[parent] if ended[row, rank] else [*beam[parent], int(word)]
                for rank, (parent, word) in enumerate(
                    zip(parents[row].tolist(), words[row].tolist(), strict=True)
                )
            ]
            for row, beam in enumerate(outputs)
        ]
    return [[[SYMBOLS.names[token] for token in output] for output in beam] for beam in outputs]


@given(
    st.integers(0, 10_000),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=4),
    st.integers(1, 4),
)
def test_random_choices_always_make_a_tree_within_the_limit(
    seed: int, sentences: list[tuple[int, int]], k: int
) -> None:
    sizes = [size for size, _ in sentences]
    limits = [size + extra + 1 for size, extra in sentences]  # </s> included
    for size, limit, found in zip(sizes, limits, steps(seed, sizes, limits, k), strict=True):
        for *symbols, end in found:
            assert end == SPECIAL[EOS]
            assert len(symbols) + 1 <= limit
            tree = to_tree(symbols, ["word"] * size)
            assert len(tree.words()) == size
            assert longest_chain(tree) <= IN_A_ROW + 1  # TOP


def longest_chain(tree: Tree) -> int:
    """Return the length of the longest chain of constituents over the same words."""
    longest = chain = 0
    for node, entered in tree.visits():
        if entered:
            chain = chain + 1 if len(node.children) == 1 else 0
            longest = max(longest, chain)
    return longest


def after(text: str, size: int, limit: int) -> set[str]:
    """Return the symbols that may follow some symbols."""
    constraint = CONSTRAIN(1, 1, ROOM, CPU)
    constraint.begin(torch.tensor([0]), rows([0] * size), torch.tensor([limit]))
    for symbol in text.split():
        assert constraint.allowed()[0, IDS[symbol]], symbol
        constraint.follow(torch.tensor([[IDS[symbol]]]), torch.tensor([[0]]))
    return {name for name, may in zip(IDS, constraint.allowed()[0].tolist(), strict=True) if may}


OPENINGS, WORDS = {"(NP", "(S", "(VP"}, {"NN", "DT"}


@pytest.mark.parametrize(
    ("text", "size", "limit", "may"),
    [
        ("", 2, 99, OPENINGS | WORDS),
        ("(S", 2, 99, OPENINGS | WORDS),  # still empty
        ("(S DT", 2, 99, OPENINGS | WORDS | {")"}),
        ("(S DT NN", 2, 99, {")"}),  # no words are left
        ("(S DT NN )", 2, 99, {"</s>"}),
        ("(S DT )", 2, 99, OPENINGS | WORDS),  # a word is left
        ("", 2, 3, WORDS),  # the limit allows no brackets
        ("", 2, 5, OPENINGS | WORDS),  # the limit allows one pair
        ("(S", 2, 5, WORDS),
        ("(S DT", 2, 6, WORDS | {")"}),
        ("(NP " * IN_A_ROW, 2, 99, WORDS),
    ],
)
def test_the_allowed_symbols_depend_on_words_brackets_and_limit(
    text: str, size: int, limit: int, may: set[str]
) -> None:
    assert after(text, size, limit) == may


def test_a_slot_with_a_new_sentence_starts_from_scratch() -> None:
    constraint = CONSTRAIN(2, 1, ROOM, CPU)
    constraint.begin(torch.tensor([0, 1]), rows([0] * 3, [0] * 3), torch.tensor([50, 50]))
    word = torch.tensor([[IDS["(NP"]], [IDS["NN"]]])
    for _ in range(IN_A_ROW):
        constraint.follow(word, torch.zeros(2, 1, dtype=torch.int64))
    constraint.begin(torch.tensor([0]), rows([0]), torch.tensor([4]))
    constraint.keep(torch.tensor([0]))
    assert constraint.allowed().shape == (1, len(IDS))
    assert not constraint.allowed()[0, IDS[")"]]
    assert constraint.allowed()[0, IDS["(NP"]]


@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 5}, {"sample": True, "nbest": 3}])
@hypothesis_settings(max_examples=5)
@given(seed=st.integers(0, 1000), extra=st.integers(1, 30))
def test_a_search_with_an_untrained_model_finds_only_trees(
    settings: dict[str, Any], seed: int, extra: int
) -> None:
    model = small_model(
        seed, N=1, source_vocabulary=50, target_vocabulary=len(SYMBOLS), tie="decoder"
    )
    config = SearchConfig(**settings, alpha=0.3, extra=extra)
    random = np.random.default_rng(seed)
    sizes = sorted(random.integers(1, 15, 6).tolist(), reverse=True)
    jobs = [
        Job(sentence(size + 1, seed + size), number=(place,), classes=[0] * size)
        for place, size in enumerate(sizes)
    ]
    decoder = Decoder([model], SYMBOLS.forbidden_ids(), constrain=CONSTRAIN)
    found = dict(decoder.search(jobs, config, 4))
    assert sorted(found) == list(range(len(jobs)))
    for place, hypotheses in found.items():
        for hypothesis in hypotheses:
            symbols = [SYMBOLS.names[token] for token in hypothesis.tokens]
            assert len(symbols) < len(jobs[place].source) + extra
            assert len(to_tree(symbols, ["word"] * sizes[place]).words()) == sizes[place]


LEXICON = Lexicon.learn(
    ["a dog"] * FREQUENT + ["a cat", "rare"], ["DT NN"] * FREQUENT + ["(NP DT NN )", "NN"]
)


def test_a_word_gets_only_tags_that_it_had_in_training() -> None:
    tagged = well_formed(SYMBOLS, LEXICON)(1, 1, ROOM, CPU)
    words = ["a", "unseen", "dog"]
    tagged.begin(torch.tensor([0]), rows([LEXICON.of(w) for w in words]), torch.tensor([50]))
    for tag, forbidden in (("DT", {"NN"}), ("NN", {"DT"}), ("NN", {"DT"})):
        allowed = {name for name, ok in zip(IDS, tagged.allowed()[0].tolist(), strict=True) if ok}
        assert tag in allowed
        assert not allowed & forbidden
        tagged.follow(torch.tensor([[IDS[tag]]]), torch.tensor([[0]]))


def test_masked_trees_do_not_restrict_tags() -> None:
    masked = Lexicon.learn(["a dog"] * FREQUENT, ["XX XX"] * FREQUENT)
    assert masked == ANY


def test_a_lexicon_is_read_as_it_was_written(tmp_path: Path) -> None:
    LEXICON.save(tmp_path / "lexicon.json")
    assert Lexicon.load(tmp_path / "lexicon.json") == LEXICON


@pytest.mark.parametrize("words", [{"a": "x"}, ["a"], {"a": float("inf")}])
def test_a_lexicon_with_values_of_the_wrong_type_is_refused(words: Any, tmp_path: Path) -> None:
    path = tmp_path / "lexicon.json"
    write_checksummed(path, {"format": 1, "classes": [["NN"]], "words": words})
    with pytest.raises(BadRun, match="damaged"):
        Lexicon.load(path)


def test_a_word_of_the_lexicon_may_contain_a_non_ascii_space() -> None:
    word = "Xpd\N{THIN SPACE}TTD"
    lexicon = Lexicon.learn([f"a {word}"] * FREQUENT, ["(NP DT NN )"] * FREQUENT)
    assert lexicon.classes[lexicon.of(word)] == ("NN",)
