"""Which sentences belong to training and which are held out.

Five in a hundred couples are reserved, by a checksum of their German lemmas: of an adjective and a
noun, of a verb and a noun, of a verb and a construction (a modal verb, a conjunction, a relative
clause, the passive, ...). No training sentence holds a reserved couple, not even in two different
clauses. A held-out sentence has one in its proper place: the adjective with its noun, the verb and
the other in one clause. What has one in two clauses only is in no part. So whether a sentence is
held out depends on its words alone, and not on how it was drawn.
"""

import zlib
from typing import Literal

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.sentences import Sentence
from transduce.datasets.pocket.words import ADJECTIVES, MODALS, NOUNS, VERBS

Part = Literal["train", "valid", "test"]

RESERVED_PER_THOUSAND = 50
CONSTRUCTIONS = (
    *dict.fromkeys(modal.key for modal in MODALS),
    *("weil", "obwohl", "wenn", "als", "während", "bevor", "dass", "ob", "wann", "warum"),
    *("relative", "passive", "gern", "um zu"),
)
EVERYWHERE = ("sein",)  # too common a verb to be kept from any noun


def reserved(one: str, other: str) -> bool:
    """Whether two German lemmas, or a lemma and a construction, never meet in training."""
    return zlib.crc32(f"{one}+{other}".encode()) % 1000 < RESERVED_PER_THOUSAND


def apart_from(lemma: str, others: tuple[str, ...]) -> frozenset[str]:
    """List what a lemma is kept apart from."""
    return frozenset(other for other in others if reserved(lemma, other))


NOUN_KEYS = tuple(noun.key for noun in NOUNS)
APART = {one.alone: apart_from(one.alone, NOUN_KEYS) for one in ADJECTIVES}
for _verb in VERBS:
    if _verb.key not in EVERYWHERE:
        # what takes a clause lives by its constructions
        _others = NOUN_KEYS if _verb.frame == "speech" else (*NOUN_KEYS, *CONSTRUCTIONS)
        APART[_verb.key] = apart_from(_verb.key, _others)


def company(clause: Clause) -> set[str]:
    """List the nouns and the constructions of a clause."""
    found = {phrase.noun.key for phrase in clause.phrases if phrase.noun}
    found.update(clause.marks)
    if clause.modal:
        found.add(clause.modal.key)
    if clause.tense == "passive":
        found.add("passive")
    elif clause.tense == "like":
        found.add("gern")
    return found


def adjectives(clause: Clause) -> list[tuple[str, str]]:
    """List the adjectives of a clause, each with its noun."""
    pairs = [
        (phrase.adjective.alone, phrase.noun.key)
        for phrase in clause.phrases
        if phrase.adjective and phrase.noun
    ]
    if clause.predicate:
        about = next((phrase.noun.key for phrase in clause.phrases if phrase.noun), "")
        pairs.append((clause.predicate.alone, about))
    return pairs


def is_free(sentence: Sentence) -> bool:
    """Whether no reserved couple is anywhere in the sentence: it may be trained on."""
    everything: set[str] = set()
    lemmas = []
    for clause in sentence.clauses:
        everything |= company(clause)
        lemmas.append(clause.verb.key)
        lemmas += [adjective for adjective, _ in adjectives(clause)]
    return all(APART[lemma].isdisjoint(everything) for lemma in lemmas if lemma in APART)


def is_held_out(sentence: Sentence) -> bool:
    """Whether a reserved couple stands together in the sentence: it may be tested on."""
    for clause in sentence.clauses:
        key = clause.verb.key
        if key in APART and not APART[key].isdisjoint(company(clause)):
            return True
        if any(noun in APART[adjective] for adjective, noun in adjectives(clause)):
            return True
    return False


def belongs(sentence: Sentence, part: Part) -> bool:
    """Whether the sentence can be in the part; of two held-out parts, `half` decides."""
    return is_free(sentence) if part == "train" else is_held_out(sentence)


def half(german: str) -> Part:
    """Tell the held-out sentences apart: one German sentence is in one part only."""
    return "test" if zlib.crc32(german.encode()) % 2 else "valid"
