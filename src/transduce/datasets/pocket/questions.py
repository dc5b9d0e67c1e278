"""Questions with a question word."""

from transduce.datasets.pocket.chance import Dice, weighted
from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.describing import describe, subject_of
from transduce.datasets.pocket.phrases import HOW_MANY, WHAT, WHICH, WHO, Pair, gap, noun_phrase
from transduce.datasets.pocket.sampling import (
    BY_FRAME,
    TO_BE,
    TO_LAUGH,
    Tenses,
    draw,
    draw_active,
    draw_verb,
)
from transduce.datasets.pocket.sentences import Sentence, plain, question_with
from transduce.datasets.pocket.statements import TO_COST, asked_about
from transduce.datasets.pocket.words import ACCUSATIVE, DATIVE, VERBS, Verb

ASKED: Tenses = weighted({"present": 40, "past": 40, "modal": 20})


def who_does(dice: Dice) -> Sentence:
    """Ask for the subject."""
    verb = draw_verb(dice)
    while not verb.personal:
        verb = draw_verb(dice)
    return plain(draw(dice, verb, WHO, ASKED, denial=0.1), "?")


def all_are(verb: Verb, tag: str) -> bool:
    """Whether all that the verb is done to is of one kind."""
    return all(tag in noun.tags for noun in verb.objects)


ASKABLE = tuple(
    verb
    for verb in (*BY_FRAME["transitive"], *BY_FRAME["dative"])
    if verb.personal and verb.aspect != "state"  # what does she know: kennt, or weiß?
    if all_are(verb, "person") or all_are(verb, "thing")
)


def what_or_whom(dice: Dice) -> Sentence:
    """Ask for the object: who is wen or wem, as the verb has it."""
    verb = dice.pick(ASKABLE)
    clause = draw(dice, verb, asked_about(dice, verb), ASKED, denial=0, placed=False)
    found = clause.accusative
    case = ACCUSATIVE if found else DATIVE
    without_objects(clause)
    if all_are(verb, "person"):
        return question_with(Pair("who", WHO.german(case)), clause)
    if found and found.noun and found.noun.numbers == "both" and dice.chance(0.5):
        many = dice.chance(0.5)
        wanted = noun_phrase(HOW_MANY if many else WHICH, found.noun, plural=many)
        clause.phrases.append(gap(wanted))
        return question_with(Pair(wanted.en, wanted.german(case)), clause)
    return question_with(Pair("what", WHAT.german(case)), clause)


def without_objects(clause: Clause) -> Clause:
    """Take away all but the subject: that is what is asked for."""
    clause.accusative = clause.dative = clause.close = None
    clause.phrases = [clause.subject]
    return clause


WHERE = (
    *(verb for verb in BY_FRAME["motion"] if verb.base != "come"),  # to where, or from where?
    *(verb for verb in BY_FRAME["posture"] if not verb.objects),
    *(verb for verb in VERBS if "place" in verb.uses),
)


def where(dice: Dice) -> Sentence:
    """Ask for a place: wo somebody is, wohin somebody goes."""
    verb = dice.pick(WHERE)
    subject = asked_about(dice, verb)
    clause = draw(dice, verb, subject, ASKED, denial=0, timed=verb is not TO_BE, placed=False)
    if verb.frame in ("motion", "posture"):
        without_objects(clause)
    return question_with(Pair("where", "wohin" if verb.frame == "motion" else "wo"), clause)


def when_or_why(dice: Dice) -> Sentence:
    """Ask for the time or the reason."""
    verb = draw_active(dice)
    subject = asked_about(dice, verb)
    if dice.chance(0.5):
        return question_with(Pair("why", "warum"), draw(dice, verb, subject, ASKED, denial=0.2))
    clause = draw(dice, verb, subject, ASKED, denial=0, timed=False)
    return question_with(Pair("when", "wann"), clause)


def how_much(dice: Dice) -> Sentence:
    """Ask for an age or a price."""
    if dice.chance(0.5):
        subject = subject_of(dice, TO_LAUGH, "known")
        return question_with(Pair("how old", "wie alt"), Clause(TO_BE, subject, phrases=[subject]))
    subject = describe(dice, dice.pick(TO_COST.subjects), "known")
    return question_with(Pair("how much", "wie viel"), Clause(TO_COST, subject, phrases=[subject]))
