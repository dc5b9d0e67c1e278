"""Whatever a model prefers, its output is a tree over exactly the words that were given."""

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
ROOM = 41  # words of the longest sentence, and one more


def rows(*sentences: list[int]) -> Tensor:
    """Return the classes of the words of sentences."""
    return torch.tensor([own + [NONE] * (ROOM - len(own)) for own in sentences])


def steps(seed: int, sizes: list[int], limits: list[int], k: int) -> list[list[list[str]]]:
    """Follow random choices, k hypotheses of each sentence, until all have ended."""
    chance = torch.Generator().manual_seed(seed)
    constraint = CONSTRAIN(len(sizes), k, ROOM, CPU)
    classes = rows(*([0] * size for size in sizes))
    constraint.begin(torch.arange(len(sizes)), classes, torch.tensor(limits))
    outputs: list[list[list[int]]] = [[[] for _ in range(k)] for _ in sizes]
    bias = torch.randn(len(IDS), generator=chance) * 3  # some symbols are much liked
    for _ in range(max(limits)):
        logits = torch.randn(len(sizes) * k, len(IDS), generator=chance) + bias
        allowed = constraint.allowed()
        assert allowed.shape == logits.shape
        words = logits.masked_fill(~allowed, -torch.inf).argmax(-1).view(-1, k)
        parents = torch.randint(k, (len(sizes), k), generator=chance)
        # Hypotheses that have ended stay as they are; the others may be carried on twice.
        over = torch.tensor([[bool(one) and one[-1] == EOS for one in own] for own in outputs])
        anyone = over.gather(1, parents) | over
        parents = torch.where(anyone, torch.arange(k).expand_as(parents), parents)
        words = words.gather(1, parents)
        constraint.follow(words, parents)
        outputs = [
            [
                own[parent] if over[place, rank] else [*own[parent], int(word)]
                for rank, (parent, word) in enumerate(
                    zip(parents[place].tolist(), words[place].tolist(), strict=True)
                )
            ]
            for place, own in enumerate(outputs)
        ]
    return [[[SYMBOLS.names[one] for one in output] for output in own] for own in outputs]


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
    """Return how many constituents there are at most over the same words."""
    longest = chain = 0
    for node, entered in tree.visits():
        if entered:
            chain = chain + 1 if len(node.children) == 1 else 0
            longest = max(longest, chain)
    return longest


def after(text: str, size: int, limit: int) -> set[str]:
    """Return what may follow some symbols."""
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
        ("(S", 2, 99, OPENINGS | WORDS),  # nothing is in it yet
        ("(S DT", 2, 99, OPENINGS | WORDS | {")"}),
        ("(S DT NN", 2, 99, {")"}),  # no words are left
        ("(S DT NN )", 2, 99, {"</s>"}),
        ("(S DT )", 2, 99, OPENINGS | WORDS),  # a word is left
        ("", 2, 3, WORDS),  # no room for brackets
        ("", 2, 5, OPENINGS | WORDS),  # room for one
        ("(S", 2, 5, WORDS),
        ("(S DT", 2, 6, WORDS | {")"}),
        ("(NP " * IN_A_ROW, 2, 99, WORDS),
    ],
)
def test_what_may_come_next(text: str, size: int, limit: int, may: set[str]) -> None:
    assert after(text, size, limit) == may


def test_a_slot_that_gets_another_sentence_forgets_the_one_before() -> None:
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
def test_a_search_with_an_untrained_model_finds_nothing_but_trees(
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
        for one in hypotheses:
            symbols = [SYMBOLS.names[token] for token in one.tokens]
            assert len(symbols) < len(jobs[place].source) + extra
            assert len(to_tree(symbols, ["word"] * sizes[place]).words()) == sizes[place]


LEXICON = Lexicon.learn(
    ["a dog"] * FREQUENT + ["a cat", "rare"], ["DT NN"] * FREQUENT + ["(NP DT NN )", "NN"]
)


def test_a_word_takes_a_tag_that_it_was_seen_with() -> None:
    tagged = well_formed(SYMBOLS, LEXICON)(1, 1, ROOM, CPU)
    words = ["a", "unseen", "dog"]
    tagged.begin(torch.tensor([0]), rows([LEXICON.of(w) for w in words]), torch.tensor([50]))
    for tag, others in (("DT", {"NN"}), ("NN", {"DT"}), ("NN", {"DT"})):
        may = {name for name, one in zip(IDS, tagged.allowed()[0].tolist(), strict=True) if one}
        assert tag in may
        assert not may & others
        tagged.follow(torch.tensor([[IDS[tag]]]), torch.tensor([[0]]))


def test_trees_without_tags_leave_all_words_free() -> None:
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


def test_a_word_of_the_lexicon_may_hold_a_space_that_is_not_ascii() -> None:
    word = "Xpd\N{THIN SPACE}TTD"
    lexicon = Lexicon.learn([f"a {word}"] * FREQUENT, ["(NP DT NN )"] * FREQUENT)
    assert lexicon.classes[lexicon.of(word)] == ("NN",)
