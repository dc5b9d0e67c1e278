"""Choose among the trees that parsers made of raw text (paper 6.3).

The paper's semi-supervised parser learned from trees in which other parsers were confident, or
on which two of them agreed. Here, both are required: the parsers must agree on a sentence, and of
those sentences the most confident ones are kept.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from transduce.parsing.evaluation import score_tree
from transduce.parsing.sequences import replace_tags
from transduce.parsing.trees import Tree

Floats = npt.NDArray[np.float64]


def agreement(trees: Sequence[Tree]) -> float:
    """Return the lowest labelled F1 between two of the parsers' trees, from 0 to 1.

    The tags of the first tree are used for both, because EVALB excludes punctuation by tag. Trees
    without brackets to compare agree.
    """
    return min((_f1(a, b) for a, b in itertools.combinations(trees, 2)), default=1.0)


def _f1(a: Tree, b: Tree) -> float:
    if a == b:
        return 1.0
    score = score_tree(a, replace_tags(b, [leaf.label for leaf in a.leaves()]))
    brackets = score.gold + score.guessed
    return 2 * score.matched / brackets if brackets else 1.0


def select(
    confidence: Floats, agreed: Floats, *, keep: float, agreement: float
) -> npt.NDArray[np.bool_]:
    """Return which trees to keep: of those that agree, the most confident share `keep`.

    At least one is kept if any agree. Of equally confident trees, the earlier ones are kept.
    """
    eligible = np.flatnonzero(agreed >= agreement)
    count = min(len(eligible), max(1, math.floor(len(eligible) * keep + 0.5)))
    best_first = eligible[np.argsort(-confidence[eligible], kind="stable")]
    kept = np.zeros(len(confidence), dtype=np.bool_)
    kept[best_first[:count]] = True
    return kept
