"""Scores of pairs by models in both directions: dual conditional cross-entropy.

Junczys-Dowmunt (2018): with H(y|x) and H(x|y), the cross-entropies per token, a pair has the score
|H(y|x) - H(x|y)| + (H(y|x) + H(x|y)) / 2. Low is good: both models expect the pair, and agree.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transduce.cleaning.checking import Counts, Pair, Settings, Write, blocks_of, check_pairs
from transduce.cleaning.limits import SCORE
from transduce.errors import BadInput
from transduce.system.progress import Progress
from transduce.text.languages import UNKNOWN, language_code
from transduce.text.languages import Pair as Languages

if TYPE_CHECKING:
    from transduce.translation.translator import Translator

Scorer = Callable[[Sequence[Pair]], list[float]]
UNSCORED = float("inf")  # a pair that is too long for a model


def dual_scorer(forward: "Translator", reverse: "Translator", languages: Languages) -> Scorer:
    """Return a function that scores pairs of a text in these languages.

    Of a model of several pairs, the direction of the text is used. Models of other directions are
    refused.
    """
    forward, reverse = _directed(forward, languages), _directed(reverse, languages[::-1])
    if forward.config.languages != reverse.config.languages[::-1]:
        there, back = ("-".join(model.config.languages) for model in (forward, reverse))
        raise BadInput(
            f"--score translates {there}, but --reverse {back}: expected models of both directions"
        )
    if languages != UNKNOWN and _codes(forward.config.languages) != _codes(languages):
        there, text = ("-".join(pair) for pair in (forward.config.languages, languages))
        raise BadInput(
            f"--score translates {there}, but the text is {text}: exchange the models, or state "
            "the languages of the text with --languages"
        )

    def score(pairs: Sequence[Pair]) -> list[float]:
        there = cross_entropies(forward, pairs)
        back = cross_entropies(reverse, [(target, source) for source, target in pairs])
        return [
            UNSCORED if UNSCORED in both else abs(both[0] - both[1]) + sum(both) / 2
            for both in zip(there, back, strict=True)
        ]

    return score


def _directed(translator: "Translator", languages: Languages) -> "Translator":
    if not translator.config.pairs:
        return translator
    if UNKNOWN in (languages, languages[::-1]):
        raise BadInput(
            "the languages of the text are unknown, and a model translates several: give "
            "--languages en-de"
        )
    return translator.directed(to=languages[1], source=languages[0])


def _codes(languages: Languages) -> list[str]:
    return [*map(language_code, languages)]


def cross_entropies(translator: "Translator", pairs: Sequence[Pair]) -> list[float]:
    """Return the cross-entropy per token of each target, in nats."""
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    try:
        candidates = translator.score(stripped)
    except BadInput:  # a pair is too long: score them one by one
        if len(pairs) == 1:
            return [UNSCORED]
        return [value for pair in stripped for value in cross_entropies(translator, [pair])]
    return [-found.log_probability / (len(found.tokens) + 1) for found in candidates]


def check_and_score(
    read: Callable[[], Iterable[Pair]],
    settings: Settings,
    score: Scorer,
    share: float,
    *,
    against: Iterable[str] = (),
    workers: int = 1,
    write: Write | None = None,
    progress: Progress,
) -> Counts:
    """Check a text, then remove the pairs with the worst scores; keep this share of the rest.

    The text is read twice: the limit is known when all pairs have a score.
    """
    if not 0 < share <= 1:
        raise BadInput(f"--keep-best {share}: expected a number above 0, at most 1")
    verdicts: list[str] = []
    scores = array("d")

    def record(block: Sequence[Pair], rules: Sequence[str], _: int) -> None:
        verdicts.extend(rules)
        kept = [pair for pair, rule in zip(block, rules, strict=True) if not rule]
        scores.extend(score(kept) if kept else [])

    with progress.track("checking and scoring", None, "pairs") as advance:
        checked = check_pairs(
            *(read(), settings), against=against, workers=workers, write=record, advance=advance
        )
    order = np.argsort(np.array(scores), kind="stable")  # of equal scores, the first pairs stay
    bad = np.zeros(len(scores), np.bool_)
    bad[order[round(share * len(scores)) :]] = True
    dropped = iter(bad.tolist())
    counts = Counts()
    for block in blocks_of(read()):
        rules = verdicts[counts.pairs : counts.pairs + len(block)]
        if len(rules) < len(block):
            break
        rules = [rule or (SCORE if next(dropped) else "") for rule in rules]
        if write is not None:
            write(block, rules, counts.pairs + 1)
        counts.add(block, rules, np.zeros_like(checked.histograms))
    if counts.pairs != checked.pairs:
        raise BadInput("the text changed while it was being read: run this again")
    counts.histograms = checked.histograms
    return counts
