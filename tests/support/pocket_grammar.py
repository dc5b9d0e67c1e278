"""Phrases and clauses of the pocket grammar, for its tests."""

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.phrases import (
    HER,
    PEOPLE,
    POSSESSIVES,
    PRONOUNS,
    Determiner,
    Pair,
    Phrase,
    noun_phrase,
)
from transduce.datasets.pocket.sentences import plain, question
from transduce.datasets.pocket.words import (
    ADJECTIVES,
    ADVERBS,
    MODALS,
    NOUNS,
    VERBS,
    Verb,
)

NOUN = {noun.en[0]: noun for noun in NOUNS}


ADJECTIVE = {adjective.en: adjective for adjective in ADJECTIVES}


ADVERB = {adverb.en: adverb for adverb in ADVERBS}


MODAL = {modal.de[2]: modal for modal in MODALS}


ME, YOU, HE, SHE, WE, THEY = PRONOUNS


ANNA, PETER = PEOPLE[0], PEOPLE[6]


HIS_, HER_ = POSSESSIVES[2], POSSESSIVES[HER]


def find_verb(key: str, frame: str = "", base: str = "") -> Verb:
    """Find a verb by its German lemma."""
    return next(
        verb
        for verb in VERBS
        if verb.key == key
        and (not frame or verb.frame == frame)
        and (not base or verb.base == base)
    )


def phrase(which: Determiner, words: str, *, plural: bool = False) -> Phrase:
    """Build a phrase from an English noun, perhaps with an adjective before it."""
    *adjective, noun = words.split()
    chosen = ADJECTIVE[adjective[0]] if adjective else None
    return noun_phrase(which, NOUN[noun], chosen, plural=plural)


def as_statement(clause: Clause) -> Pair:
    return plain(clause).write()


def as_question(clause: Clause) -> Pair:
    return question(clause).write()
