"""Ranks and bootstrap samples, compared with values computed by hand and by numpy."""

import math
import random

import numpy as np
import pytest

from transduce.evaluation.bootstrap import bootstrap_samples, percentile_interval
from transduce.evaluation.scores import bleu, score
from transduce.experiments.statistics import (
    Estimate,
    Resampled,
    ResampledF1,
    mean_over_seeds,
    ranks,
    spearman,
)
from transduce.parsing.evaluation import score_tree, summarize
from transduce.parsing.trees import Tree
from treebank import perturbed, trees

REFERENCES = [f"the {animal} sees the {thing} today ." for animal in "abcdefgh" for thing in "xyz"]
GOOD = [
    line if number % 4 else line.replace("sees", "saw") for number, line in enumerate(REFERENCES)
]
BAD = [line.replace("the", "a") if number % 3 else line for number, line in enumerate(REFERENCES)]


def test_equal_values_share_their_mean_rank() -> None:
    assert ranks([10.0, 30.0, 20.0, 20.0]).tolist() == [1, 4, 2.5, 2.5]


def test_the_rank_correlation_is_spearmans() -> None:
    """Without ties it is 1 - 6 sum d^2 / (n (n^2 - 1)); here d = 0, 1, -1, 1, -1."""
    assert spearman([1, 2, 3, 4, 5], [10, 30, 20, 50, 40]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert spearman([1, 2, 3], [6, 5, 4]) == pytest.approx(-1)


def test_the_rank_correlation_with_ties_is_pearsons_of_the_ranks() -> None:
    a, b = [3, 1, 3, 2, 5, 5], [2, 2, 4, 1, 6, 3]
    expected = np.corrcoef(ranks(a), ranks(b))[0, 1]
    assert spearman(a, b) == pytest.approx(expected)


def test_a_constant_column_has_no_rank_correlation() -> None:
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


def test_intervals_are_those_of_score() -> None:
    (scored,) = score(GOOD, REFERENCES, metrics=("bleu",), confidence=200)
    found = Resampled({"good": GOOD}, REFERENCES, samples=200)
    estimate = found.estimate("good")
    assert (estimate.low, estimate.high) == (scored.low, scored.high)
    assert found.whole["good"] == pytest.approx(bleu(GOOD, REFERENCES))


def test_a_difference_is_taken_on_the_same_samples() -> None:
    found = Resampled({"good": GOOD, "bad": BAD, "same": GOOD}, REFERENCES, samples=200)
    assert found.difference("same", "good") == (0, 0)
    low, high = found.difference("bad", "good")
    assert low < high < 0
    by_hand = []
    for times in bootstrap_samples(len(REFERENCES), 200):
        lines = np.repeat(np.arange(len(REFERENCES)), times).tolist()
        references = [REFERENCES[i] for i in lines]
        pair = [bleu([side[i] for i in lines], references) for side in (BAD, GOOD)]
        by_hand.append(pair[0] - pair[1])
    assert (low, high) == pytest.approx(percentile_interval(by_hand), abs=0.005)


def test_a_difference_that_rounds_to_0_is_0() -> None:
    found = Resampled({"good": GOOD, "same": GOOD}, REFERENCES, samples=200)
    found.samples["same"] = found.samples["good"] - 0.004
    assert [f"{end:+}" for end in found.difference("same", "good")] == ["+0.0", "+0.0"]


def test_a_rank_correlation_has_an_interval_from_the_samples() -> None:
    found = Resampled({"good": GOOD, "bad": BAD, "best": REFERENCES}, REFERENCES, samples=200)
    paper = {"best": 3.0, "good": 2.0, "bad": 1.0}
    correlation = found.correlation(paper)
    assert correlation is not None
    assert correlation.value == 1.0
    assert -1 <= correlation.low <= correlation.high <= 1
    upside_down = found.correlation({name: -value for name, value in paper.items()})
    assert upside_down is not None
    assert upside_down.value == -1


def test_two_rows_are_too_few_to_rank() -> None:
    found = Resampled({"good": GOOD, "bad": BAD}, REFERENCES, samples=50)
    assert found.correlation({"good": 1.0, "bad": 2.0}) is None


def runs_of_two_systems(**bleu: float) -> Resampled:
    """Return four runs with these scores on the whole test set; samples differ by nothing else."""
    found = Resampled(dict.fromkeys(bleu, GOOD), REFERENCES, samples=1000)
    found.samples = {name: np.full(1000, value) for name, value in bleu.items()}
    found.whole = dict(bleu)
    return found


SEEDS = {"a": ["a", "a-seed2"], "b": ["b", "b-seed2"]}


def test_the_score_of_several_seeds_is_their_mean() -> None:
    found = runs_of_two_systems(**{"a": 20, "a-seed2": 21, "b": 30, "b-seed2": 30})
    means = found.over_seeds(SEEDS)
    assert means.whole == {"a": 20.5, "b": 30}


def test_the_variation_between_seeds_is_estimated_from_all_systems() -> None:
    """Squared deviations 0.5 and 0 over 2 degrees of freedom."""
    found = runs_of_two_systems(**{"a": 20, "a-seed2": 21, "b": 30, "b-seed2": 30})
    assert found.over_seeds(SEEDS).seed_deviation == pytest.approx(0.5)


def test_intervals_of_several_seeds_include_their_variation() -> None:
    """The half width is that of Student's t: 4.303 * 0.5 / sqrt(2) for 2 degrees of freedom."""
    found = runs_of_two_systems(**{"a": 20, "a-seed2": 21, "b": 30, "b-seed2": 30})
    estimate = found.over_seeds(SEEDS).estimate("b")
    half = 4.303 * 0.5 / math.sqrt(2)
    assert estimate.high - 30 == pytest.approx(half, rel=0.15)
    assert 30 - estimate.low == pytest.approx(half, rel=0.15)
    low, high = found.over_seeds(SEEDS).difference("a", "b")
    assert high - low == pytest.approx(2 * math.sqrt(2) * half, rel=0.15)  # both sides vary


def test_one_seed_each_changes_nothing() -> None:
    found = Resampled({"good": GOOD, "bad": BAD}, REFERENCES, samples=100)
    means = found.over_seeds({"good": ["good"], "bad": ["bad"]})
    assert means.seed_deviation is None
    assert means.estimate("good") == found.estimate("good")
    assert means.difference("good", "bad") == found.difference("good", "bad")


def test_the_interval_over_seeds_is_students() -> None:
    """Values 1, 2, 3: deviation 1, error 1 / sqrt(3), t with two degrees of freedom 4.303."""
    estimate = mean_over_seeds([1, 2, 3])
    assert estimate.value == 2
    assert estimate.high - 2 == pytest.approx(4.303 / math.sqrt(3))
    assert 2 - estimate.low == pytest.approx(4.303 / math.sqrt(3))
    assert mean_over_seeds([5.0]) == Estimate(5, 5, 5)


def changed(tree: Tree, seed: int) -> Tree:
    return perturbed(tree, random.Random(seed))


def test_the_f1_of_samples_is_evalbs() -> None:
    """Samples are scored tree by tree; some guesses have other words and are errors."""
    gold = trees(30)
    guesses = {
        "a": [changed(tree, number) for number, tree in enumerate(gold)],
        "b": [changed(changed(tree, number), 99 - number) for number, tree in enumerate(gold)],
    }
    scores = {
        name: [score_tree(*pair) for pair in zip(gold, found, strict=True)]
        for name, found in guesses.items()
    }
    assert any(score.status for each in scores.values() for score in each)
    found = ResampledF1(scores, samples=60)
    by_hand: dict[str, list[float]] = {"a": [], "b": []}
    for times in bootstrap_samples(len(gold), 60):
        chosen = np.repeat(np.arange(len(gold)), times).tolist()
        for name, each in by_hand.items():
            each.append(summarize(scores[name][i] for i in chosen).f1)
    for name, each in by_hand.items():
        estimate = found.estimate(name)
        assert estimate.value == pytest.approx(summarize(scores[name]).f1)
        assert (estimate.low, estimate.high) == pytest.approx(percentile_interval(each))
    differences = [b - a for a, b in zip(*by_hand.values(), strict=True)]
    expected = percentile_interval(differences)
    assert found.difference("b", "a") == pytest.approx(expected, abs=0.005)
    assert found.difference("a", "a") == (0, 0)


def test_the_f1_without_brackets_is_zero() -> None:
    (score,) = [score_tree(tree, None) for tree in trees(1)]
    found = ResampledF1({"none": [score, score]}, samples=40)
    assert found.estimate("none").show() == "0.00 (0.00 to 0.00)"
