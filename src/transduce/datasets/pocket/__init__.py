"""The built-in corpus: a small synchronous grammar of English and German.

It needs no download, and its translations are correct by construction, so that a model can be
scored by exact match. German is the harder side: three genders, three cases, three declensions of
the adjective, and verbs that come second or last and may be split. The grammar has more than four
hundred English words and gives well over a million different pairs.

words          nouns, verbs and adjectives with all their forms, from `lexicon.toml`
phrases        noun phrases that agree in gender, number and case
clauses        clauses: word order and verb forms
dice           reproducible random choices
describing     random noun phrases and places
sampling       random clauses
sentences      whole sentences before they are written
statements, relatives, subordinates   the constructions
splits         which sentences are for training, and which are held out
files          the corpus as text files
"""

from collections.abc import Iterator
from itertools import islice

from transduce.datasets.pocket import relatives, statements, subordinates
from transduce.datasets.pocket.dice import Dice, weighted
from transduce.datasets.pocket.sentences import Construction, echoes, repeats_itself
from transduce.datasets.pocket.splits import SPLITS, SplitName, belongs_to, held_out_split
from transduce.errors import BadInput, BadSetting, did_you_mean

__all__ = ["LANGUAGES", "SPLITS", "SplitName", "pairs", "stream"]

LANGUAGES = ("en", "de")
CONSTRUCTIONS: dict[Construction, int] = {  # with relative frequencies
    statements.statement: 220,
    statements.fronted: 80,
    statements.yes_or_no: 60,
    statements.liking: 25,
    statements.described: 55,
    statements.compared: 20,
    statements.numbered: 30,
    statements.there_is: 20,
    statements.passive: 30,
    statements.request: 25,
    statements.two_statements: 25,
    statements.who_does: 20,
    statements.what_or_whom: 30,
    statements.where: 20,
    statements.when_or_why: 25,
    statements.how_much: 10,
    relatives.about_the_subject: 60,
    relatives.about_the_object: 60,
    subordinates.because_or_although: 55,
    subordinates.because_it: 25,
    subordinates.if_it: 20,
    subordinates.if_or_when: 45,
    subordinates.when_it_happened: 20,
    subordinates.while_it_lasts: 13,
    subordinates.before_it_begins: 13,
    subordinates.that: 45,
    subordinates.whether: 35,
    subordinates.to_do: 30,
    subordinates.in_order_to: 25,
}
MENU = weighted(CONSTRUCTIONS)
MAX_REPEATS = 100_000  # consecutive sentences without a new one


def pairs(count: int, split: SplitName = "train", seed: int = 1) -> list[tuple[str, str]]:
    """Return `count` different pairs of one split, English first; deterministic in the seed.

    For all seeds and counts, the splits share no English and no German sentence, and each English
    sentence has one German translation. The held-out splits test more than memory: 5% of all
    combinations of an adjective and a noun, of a verb and a noun, and of a verb and a construction
    (a modal verb, a conjunction, a relative clause, the passive) are reserved. They never occur in
    "train", and each sentence of "valid" and "test" has one; each word alone is common in training.
    """
    if count < 0:
        raise BadInput(f"count = {count}: expected 0 pairs or more")
    if split not in SPLITS:
        raise BadSetting(
            f"there is no split {split}.{did_you_mean(split, SPLITS)} "
            f"The splits are: {', '.join(SPLITS)}"
        )
    drawn = list(islice(stream(split, seed), count))
    if len(drawn) < count:
        raise BadInput(
            f"the pocket corpus has only {len(drawn):,} {split} pairs: expected {count:,}"
        )
    return drawn


def stream(split: SplitName, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield different pairs of one split until there are no new ones."""
    dice = Dice(f"{split} {seed}")
    seen: set[str] = set()
    repeats = 0
    while repeats < MAX_REPEATS:
        construction = dice.pick(MENU)
        sentence = construction(dice)
        while repeats_itself(sentence) or not belongs_to(sentence, split):
            # Retry with the same construction, so that all splits have the same mixture.
            sentence = construction(dice)
        pair = sentence.write()
        repeats += 1
        in_other_split = split != "train" and held_out_split(pair.de) != split
        if pair.en in seen or in_other_split or echoes(pair.en):
            continue
        seen.add(pair.en)
        repeats = 0
        yield pair.en, pair.de
