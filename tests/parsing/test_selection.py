"""Which automatic trees are kept: agreement between parsers, and confidence."""

import numpy as np
import pytest

from transduce.parsing.evaluation import score_tree
from transduce.parsing.selection import agreement, select
from transduce.parsing.trees import Tree, parse_trees
from treebank import trees


def tree(text: str) -> Tree:
    (parsed,) = parse_trees([text], "text")
    return parsed


FLAT = tree("(TOP (S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (PRP it))) (. .)))")
NESTED = tree("(TOP (S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (NP (PRP it)))) (. .)))")
OTHER = tree("(TOP (S (NP (DT a)) (NP (NN dog) (VBZ sees)) (VP (PRP it)) (. .)))")


def test_agreement_is_the_f1_between_two_trees() -> None:
    assert agreement([FLAT, FLAT]) == 1
    assert agreement([FLAT, NESTED]) == pytest.approx(2 * 4 / (4 + 5))
    assert agreement([NESTED, FLAT]) == agreement([FLAT, NESTED])
    assert agreement([FLAT, OTHER]) == pytest.approx(2 * 1 / (4 + 4))


def test_of_several_parsers_the_two_that_differ_most_count() -> None:
    assert agreement([FLAT, NESTED, OTHER]) == agreement([NESTED, OTHER]) < agreement([FLAT, OTHER])
    assert agreement([FLAT]) == 1


def test_other_tags_are_no_disagreement_about_brackets() -> None:
    """EVALB would reject the sentence, because a comma tagged as a noun is a word."""
    comma = tree("(TOP (NP (NN x) (, ,) (NN y)))")
    noun = tree("(TOP (NP (NN x) (NN ,) (NN y)))")
    assert score_tree(comma, noun).status == 1
    assert agreement([comma, noun]) == 1


def test_trees_without_brackets_to_compare_agree() -> None:
    assert agreement([tree("(TOP (. .))"), tree("(TOP (X (. .)))")]) == 1
    assert agreement([tree("(TOP (NN a))"), tree("(TOP (VB a))")]) == 1


def kept(confidence: list[float], agreed: list[float], keep: float, least: float) -> list[int]:
    chosen = select(np.array(confidence), np.array(agreed), keep=keep, agreement=least)
    return np.flatnonzero(chosen).tolist()


def test_the_most_confident_share_of_those_that_agree_is_kept() -> None:
    confidence, agreed = [-0.5, -0.1, -0.4, -0.2, -0.3], [1.0, 0.8, 0.9, 0.95, 1.0]
    assert kept(confidence, agreed, 1.0, 0.9) == [0, 2, 3, 4]
    assert kept(confidence, agreed, 0.5, 0.9) == [3, 4]
    assert kept(confidence, agreed, 0.25, 0.9) == [3]
    assert kept(confidence, agreed, 0.5, 0.0) == [1, 3, 4]  # 2.5 rounds up
    assert kept(confidence, agreed, 1.0, 1.0) == [0, 4]


def test_of_equally_confident_trees_the_earlier_are_kept() -> None:
    assert kept([-0.1, -0.2, -0.2, -0.2], [1.0] * 4, 0.5, 1.0) == [0, 1]
    assert kept([-0.2] * 4, [1.0] * 4, 0.5, 1.0) == [0, 1]


def test_at_least_one_is_kept_if_any_agree() -> None:
    assert kept([-0.3, -0.2], [1.0, 1.0], 0.01, 1.0) == [1]
    assert kept([-0.3, -0.2], [0.5, 0.5], 1.0, 0.9) == []
    assert kept([], [], 0.5, 0.9) == []


def test_agreement_is_symmetric_for_trees_of_the_same_words() -> None:
    for one in trees(20):
        flat = Tree("TOP", (Tree("S", tuple(one.leaves())),))
        assert agreement([one, flat]) == agreement([flat, one]) <= 1
