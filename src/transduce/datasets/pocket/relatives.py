"""Sentences with a relative clause."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.describing import describe, subject_of
from transduce.datasets.pocket.dice import Dice, weighted
from transduce.datasets.pocket.phrases import (
    RELATIVE,
    WHOSE,
    Pair,
    Phrase,
    gap,
    noun_phrase,
    prepositional,
)
from transduce.datasets.pocket.sampling import BY_FRAME, Tenses, draw, state
from transduce.datasets.pocket.sentences import Sentence, finished, marked
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    DATIVE,
    NOMINATIVE,
    Noun,
    Verb,
    nouns_that_are,
)


class Relative(NamedTuple):
    """A relative clause, and the pronoun (with a preposition) that begins it."""

    word: Pair
    clause: Clause

    def write(self) -> Pair:
        """Return the clause in both languages, without the German commas."""
        en = f"{self.word.en} {self.clause.english()}".strip()
        return Pair(en, f"{self.word.de} {self.clause.german('last')}".strip())


def by_noun(verbs: Iterable[Verb], *, subjects: bool) -> dict[str, tuple[Verb, ...]]:
    """Index verbs by their subjects or by their objects."""
    index: dict[str, tuple[Verb, ...]] = {}
    for verb in verbs:
        for noun in verb.subjects if subjects else verb.objects:
            index[noun.key] = (*index.get(noun.key, ()), verb)
    return index


FRAMES = ("transitive", "intransitive", "dative", "prepositional", "motion")
DOES = by_noun((verb for frame in FRAMES for verb in BY_FRAME[frame]), subjects=True)
DONE = [verb for verb in (*BY_FRAME["transitive"], *BY_FRAME["dative"]) if verb.base != "belong"]
UNDERGOES = by_noun(DONE, subjects=False)
CONCERNS = by_noun(BY_FRAME["prepositional"], subjects=False)
OWNED = nouns_that_are("brother sister son daughter dog cat friend uncle aunt")
HEADS = tuple(
    noun
    for noun in nouns_that_are("person animal thing place")
    if noun.adjectives and len(UNDERGOES.get(noun.key, ())) > 1 and "kin" not in noun.tags
)
OPEN: Tenses = weighted({"present": 30, "past": 45, "modal": 25})


def relative(dice: Dice, head: Phrase, main: Verb) -> Relative:
    """Draw a relative clause about the head, with a different verb from the main clause."""
    drawn = any_relative(dice, head)
    while drawn.clause.verb.key == main.key:
        drawn = any_relative(dice, head)
    return drawn


def any_relative(dice: Dice, head: Phrase) -> Relative:
    """Draw a relative clause; its pronoun has the gender and number of the head."""
    assert head.noun
    key = head.noun.key
    roll = dice.random()
    if roll < (0.4 if is_alive(head.noun) else 0.08) and key in DOES:
        drawn = of_subject(dice, head)
    elif roll > 0.88 and head.human:
        drawn = of_owner(dice, head)
    elif roll > 0.75 and key in CONCERNS:
        drawn = of_preposition(dice, head)
    else:
        drawn = of_object(dice, head)
    marked(drawn.clause, "relative")
    return drawn


def is_alive(noun: Noun) -> bool:
    """Return whether a noun is a person or an animal."""
    return bool(noun.tags & {"person", "animal"})


def of_subject(dice: Dice, head: Phrase) -> Relative:
    """Draw: the man who is working."""
    assert head.noun
    clause = draw(dice, dice.pick(DOES[head.noun.key]), gap(head))
    return Relative(Pair("who" if head.human else "that", RELATIVE[head.gender]), clause)


def of_object(dice: Dice, head: Phrase) -> Relative:
    """Draw: the man whom she is helping, the book that she is reading."""
    assert head.noun
    verb = dice.pick(UNDERGOES[head.noun.key])
    clause = draw(dice, verb, subject_of(dice, verb, "known"), OPEN, placed=False)
    hole = gap(head)
    clause.phrases, clause.close = [clause.subject, hole], None
    if clause.dative:
        clause.dative, case = hole, DATIVE
    else:
        clause.accusative, case = hole, ACCUSATIVE
    word = Pair("whom" if head.human else "that", RELATIVE[4 * case + head.gender])
    return Relative(word, clause)


def of_preposition(dice: Dice, head: Phrase) -> Relative:
    """Draw: the bus that she is waiting for, the man for whom she is waiting."""
    assert head.noun
    verb = dice.pick(CONCERNS[head.noun.key])
    assert verb.preposition
    en, de, case = verb.preposition
    clause = draw(dice, verb, subject_of(dice, verb, "known"), OPEN, timed=head.human)
    clause.phrases = [clause.subject, gap(head)]
    clause.close = None if head.human else Pair(en, "")
    word = f"{en} whom" if head.human else "that"
    return Relative(Pair(word, f"{de} {RELATIVE[4 * case + head.gender]}"), clause)


def of_owner(dice: Dice, head: Phrase) -> Relative:
    """Draw: the man whose dog is barking."""
    noun = dice.pick(OWNED)
    subject = noun_phrase(WHOSE[head.gender], noun, plural=dice.chance(0.25))
    clause = draw(dice, dice.pick(DOES[noun.key]), subject)
    clause.phrases.append(gap(head))
    return Relative(Pair("", ""), clause)


def about_the_subject(dice: Dice) -> Sentence:
    """Draw: the man who is working is calling his son."""
    noun = dice.pick(HEADS)
    if noun.key in DOES and dice.chance(0.6 if is_alive(noun) else 0.15):
        head = describe(dice, noun, "head", None, 0.2)
        clause = draw(dice, dice.pick(DOES[noun.key]), head)
    else:
        head = describe(dice, noun, "head", None, 0)  # not: the new house is old
        clause = state(dice, head, dice.pick(("present", "past")))
    about = relative(dice, head, clause.verb)

    def write() -> Pair:
        en, de = about.write()
        whole = gap(head)
        whole.en, whole.fixed = f"{head.en} {en}", (f"{head.german(NOMINATIVE)}, {de},", "", "")
        said = replace(clause, subject=whole)
        return finished(said.english(), said.german())

    return Sentence([clause, about.clause], write)


RELATABLE = tuple(
    verb
    for frame in ("transitive", "dative", "prepositional")
    for verb in BY_FRAME[frame]
    if any(noun in HEADS for noun in verb.objects)
)


def about_the_object(dice: Dice) -> Sentence:
    """Draw: she knows the man who is working; in German the relative clause comes last."""
    verb = dice.pick(RELATABLE)
    subject = subject_of(dice, verb)
    noun = dice.pick([noun for noun in verb.objects if noun in HEADS and noun is not subject.noun])
    head = describe(dice, noun, "head", None, 0.12)
    clause = draw(dice, verb, subject, OPEN, p_negated=0, timed=False, placed=False)
    clause.phrases = [subject, head]
    clause.close = prepositional(*verb.preposition, head) if verb.preposition else None
    if clause.accusative:
        clause.accusative = head
    elif clause.dative:
        clause.dative = head
    about = relative(dice, head, verb)

    def write() -> Pair:
        en, de = about.write()
        return finished(f"{clause.english()} {en}", f"{clause.german()}, {de}")

    return Sentence([clause, about.clause], write)
