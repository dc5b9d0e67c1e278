"""Which sentences are for training and which are held out.

A checksum of the German lemmas reserves 5% of all combinations of an adjective and a noun, a verb
and a noun, and a verb and a construction (a modal verb, a conjunction, a relative clause, the
passive, ...). No training sentence has a reserved combination, not even across clauses. A held-out
sentence has one in direct relation: the adjective with its noun, or the verb with a word in its own
clause. Sentences with one only across clauses are in no split. So the split of a sentence depends
only on its words, not on how it was drawn.
"""

import zlib
from typing import Literal

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.sentences import Sentence
from transduce.datasets.pocket.words import ADJECTIVES, MODALS, NOUNS, VERBS

SplitName = Literal["train", "valid", "test"]

SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")
RESERVED_PER_THOUSAND = 50
CONSTRUCTIONS = (
    *dict.fromkeys(modal.key for modal in MODALS),
    *("weil", "obwohl", "wenn", "als", "während", "bevor", "dass", "ob", "wann", "warum"),
    *("relative", "passive", "gern", "um zu"),
)
EVERYWHERE = ("sein",)  # too common to be reserved with any noun


def is_reserved(lemma: str, other: str) -> bool:
    """Return whether a lemma and a lemma or construction never occur together in training."""
    return zlib.crc32(f"{lemma}+{other}".encode()) % 1000 < RESERVED_PER_THOUSAND


def reserved_with(lemma: str, others: tuple[str, ...]) -> frozenset[str]:
    """Return the lemmas and constructions that are reserved with a lemma."""
    return frozenset(other for other in others if is_reserved(lemma, other))


NOUN_KEYS = tuple(noun.key for noun in NOUNS)
RESERVED = {adjective.alone: reserved_with(adjective.alone, NOUN_KEYS) for adjective in ADJECTIVES}
for _verb in VERBS:
    if _verb.key not in EVERYWHERE:
        # Verbs with a clause as object occur only with constructions.
        _others = NOUN_KEYS if _verb.frame == "speech" else (*NOUN_KEYS, *CONSTRUCTIONS)
        RESERVED[_verb.key] = reserved_with(_verb.key, _others)


def nouns_and_constructions(clause: Clause) -> set[str]:
    """Return the nouns and constructions of a clause."""
    keys = {phrase.noun.key for phrase in clause.phrases if phrase.noun}
    keys.update(clause.marks)
    if clause.modal:
        keys.add(clause.modal.key)
    if clause.tense == "passive":
        keys.add("passive")
    elif clause.tense == "like":
        keys.add("gern")
    return keys


def adjectives(clause: Clause) -> list[tuple[str, str]]:
    """Return the adjectives of a clause, each with its noun."""
    pairs = [
        (phrase.adjective.alone, phrase.noun.key)
        for phrase in clause.phrases
        if phrase.adjective and phrase.noun
    ]
    if clause.predicate:
        subject = next((phrase.noun.key for phrase in clause.phrases if phrase.noun), "")
        pairs.append((clause.predicate.alone, subject))
    return pairs


def is_for_training(sentence: Sentence) -> bool:
    """Return whether a sentence has no reserved combination, not even across clauses."""
    everything: set[str] = set()
    lemmas = []
    for clause in sentence.clauses:
        everything |= nouns_and_constructions(clause)
        lemmas.append(clause.verb.key)
        lemmas += [adjective for adjective, _ in adjectives(clause)]
    return all(RESERVED[lemma].isdisjoint(everything) for lemma in lemmas if lemma in RESERVED)


def is_held_out(sentence: Sentence) -> bool:
    """Return whether a sentence has a reserved combination within a clause."""
    for clause in sentence.clauses:
        key = clause.verb.key
        if key in RESERVED and not RESERVED[key].isdisjoint(nouns_and_constructions(clause)):
            return True
        if any(noun in RESERVED[adjective] for adjective, noun in adjectives(clause)):
            return True
    return False


def belongs_to(sentence: Sentence, split: SplitName) -> bool:
    """Return whether a sentence may be in a split; `held_out_split` separates valid and test."""
    return is_for_training(sentence) if split == "train" else is_held_out(sentence)


def held_out_split(german: str) -> SplitName:
    """Return the split of a held-out sentence; each German sentence is in only one split."""
    return "test" if zlib.crc32(german.encode()) % 2 else "valid"
