"""Labelled brackets as EVALB counts them; all numbers here are EVALB's own (COLLINS.prm).

They were computed by the program of Sekine and Collins, compiled from its C source, on trees that
`treebank` makes. On CRAFT's 2,540 validation trees and on its own samples it agreed too, line by
line and in the summary, for ten kinds of changes to the trees.
"""

import random
from pathlib import Path

import pytest

from transduce.parsing.evaluation import CUTOFF, TreeScore, score_files, score_tree
from transduce.parsing.trees import Tree, parse_trees
from treebank import joined, parseval, perturbed, trees


def parse_one(text: str) -> Tree:
    (tree,) = parse_trees([text], "FILE")
    return tree


def perturbed_trees() -> tuple[list[Tree], list[Tree]]:
    gold = trees(400, seed=5)
    gold += [joined(gold[begin : begin + 5]) for begin in range(0, 100, 5)]
    chance = random.Random(6)
    return gold, [perturbed(tree, chance, words=place < 200) for place, tree in enumerate(gold)]


def test_four_hundred_perturbed_trees_get_the_summary_that_evalb_gives() -> None:
    gold, guesses = perturbed_trees()
    every, short = parseval(gold, guesses), parseval(gold, guesses, CUTOFF)
    assert (every.sentences, every.errors, every.skipped) == (420, 39, 0)
    assert (short.sentences, short.errors, short.skipped) == (408, 39, 0)
    evalb = [
        (every, (69.51, 61.76, 65.40, 3.41, 0.46, 63.52, 97.90, 99.53)),
        (short, (69.64, 61.90, 65.54, 3.52, 0.38, 65.58, 99.73, 99.45)),
    ]
    for found, expected in evalb:
        assert (
            *(found.recall, found.precision, found.f1, found.exact),
            *(found.crossing, found.no_crossing, found.few_crossing, found.tagging),
        ) == pytest.approx(expected, abs=0.005)


def test_each_sentence_gets_the_line_that_evalb_gives() -> None:
    gold, guesses = perturbed_trees()
    marks = [score_tree(*pair) for pair in zip(gold, guesses, strict=True)]
    # Length, status, matched, gold, test, crossing, words, correct tags.
    assert marks[0] == TreeScore(14, 1)
    assert marks[1] == TreeScore(17, 0, 10, 14, 15, 1, 16, 16)
    assert marks[2] == TreeScore(13, 0, 4, 10, 11, 0, 12, 11)
    assert marks[417] == TreeScore(52, 0, 29, 38, 43, 2, 47, 47)
    assert marks[418] == TreeScore(51, 0, 23, 36, 42, 5, 46, 46)
    assert marks[419] == TreeScore(49, 0, 19, 34, 37, 3, 44, 44)


GOLD = "(TOP (S (NP (PRP We)) (VP (VBD gave) (PRT (RP up))) (. .)))"


@pytest.mark.parametrize(
    ("guess", "expected"),
    [
        # PRT equals ADVP; function tags and punctuation are ignored.
        ("(S (NP-SBJ (PRP We)) (VP (VBD gave) (ADVP (RP up)) (. .)))", (4, 0, 4, 4, 4, 0, 3, 3)),
        # TOP is not counted, but any other root is, even without a label.
        ("(ROOT (S (NP (PRP We)) (VP (VBD gave) (PRT (RP up))) (. .)))", (4, 0, 4, 4, 5, 0, 3, 3)),
        ("( (S (NP (PRP We)) (VP (VBD gave) (PRT (RP up))) (. .)))", (4, 0, 4, 4, 5, 0, 3, 3)),
        # Words tagged as punctuation are removed.
        ("(S (NP (PRP We)) (VP (VBD gave) (PRT (, up))) (. .))", (4, 1)),
        ("(S (. We) (, gave) (: up) (. .))", (4, 2)),
        ("(S (NP (PRP We)) (VP (VBD Gave) (PRT (RP up))) (. .))", (4, 1)),
        # Traces are removed, and constituents that are empty without them.
        ("(S (NP (PRP We)) (VP (VBD gave) (RP up) (NP (-NONE- *))))", (4, 0, 3, 4, 3, 0, 3, 3)),
        # Each bracket matches at most one other.
        ("(S (NP (NP (PRP We))) (VP (VBD gave) (PRT (RP up))) (. .))", (4, 0, 4, 4, 5, 0, 3, 3)),
        ("(S (X (PRP We) (VBD gave)) (RB up) (. .))", (4, 0, 1, 4, 2, 1, 3, 2)),
    ],
)
def test_the_rules_of_evalb(guess: str, expected: tuple[int, ...]) -> None:
    """Length, status, matched, gold, test, crossing, words, correct tags."""
    assert score_tree(parse_one(GOLD), parse_one(guess)) == TreeScore(*expected)


def test_a_sentence_without_a_tree_is_skipped() -> None:
    assert score_tree(parse_one(GOLD), None) == TreeScore(4, 2)


def test_errors_and_skipped_sentences_do_not_affect_the_scores() -> None:
    found = parseval([parse_one(GOLD)] * 3, [parse_one(GOLD), parse_one("(NP (NN cell))"), None])
    assert (found.sentences, found.errors, found.skipped) == (3, 1, 1)
    assert found.f1 == found.exact == 100


def test_f1_is_zero_if_nothing_matches() -> None:
    assert parseval([parse_one(GOLD)], [parse_one("(NP (NN cell))")]).f1 == 0
    assert parseval([parse_one(GOLD)], [parse_one("(X (PRP We) (VBD gave) (RP up) (. .))")]).f1 == 0


@pytest.mark.parametrize("nothing", ["", "(())", "( )"])
def test_files_of_trees_are_compared_tree_by_tree(nothing: str, tmp_path: Path) -> None:
    gold, guesses = perturbed_trees()
    (tmp_path / "gold").write_text("\n".join(tree.indented() for tree in gold), encoding="utf-8")
    lines = [str(tree) for tree in guesses]
    (tmp_path / "guess").write_text("\n".join(lines), encoding="utf-8")
    marks = [score_tree(*pair) for pair in zip(gold, guesses, strict=True)]
    assert score_files(tmp_path / "guess", tmp_path / "gold") == marks
    lines[7] = nothing
    (tmp_path / "guess").write_text("\n".join(lines), encoding="utf-8")
    marks[7] = score_tree(gold[7], None)
    assert score_files(tmp_path / "guess", tmp_path / "gold") == marks
