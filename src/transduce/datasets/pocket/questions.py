"""Questions with a question word."""

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.describing import describe, subject_of
from transduce.datasets.pocket.dice import Dice, weighted
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
from transduce.datasets.pocket.statements import TO_COST, subject_of_question
from transduce.datasets.pocket.words import ACCUSATIVE, DATIVE, VERBS, Verb

ASKED: Tenses = weighted({"present": 40, "past": 40, "modal": 20})


def who_does(dice: Dice) -> Sentence:
    """Ask for the subject: who."""
    verb = draw_verb(dice)
    while not verb.personal:
        verb = draw_verb(dice)
    return plain(draw(dice, verb, WHO, ASKED, denial=0.1), "?")


def all_are(verb: Verb, tag: str) -> bool:
    """Return whether all objects of a verb have a tag."""
    return all(tag in noun.tags for noun in verb.objects)


ASKABLE = tuple(
    verb
    for verb in (*BY_FRAME["transitive"], *BY_FRAME["dative"])
    if verb.personal and verb.aspect != "state"  # "what does she know" could be kennt or weiß
    if all_are(verb, "person") or all_are(verb, "thing")
)


def what_or_whom(dice: Dice) -> Sentence:
    """Ask for the object; who is wen or wem, depending on the verb."""
    verb = dice.pick(ASKABLE)
    clause = draw(dice, verb, subject_of_question(dice, verb), ASKED, denial=0, placed=False)
    object_ = clause.accusative
    case = ACCUSATIVE if object_ else DATIVE
    without_objects(clause)
    if all_are(verb, "person"):
        return question_with(Pair("who", WHO.german(case)), clause)
    if object_ and object_.noun and object_.noun.numbers == "both" and dice.chance(0.5):
        many = dice.chance(0.5)
        phrase = noun_phrase(HOW_MANY if many else WHICH, object_.noun, plural=many)
        clause.phrases.append(gap(phrase))
        return question_with(Pair(phrase.en, phrase.german(case)), clause)
    return question_with(Pair("what", WHAT.german(case)), clause)


def without_objects(clause: Clause) -> Clause:
    """Remove all phrases but the subject."""
    clause.accusative = clause.dative = clause.close = None
    clause.phrases = [clause.subject]
    return clause


WHERE = (
    *(
        verb for verb in BY_FRAME["motion"] if verb.base != "come"
    ),  # "where does she come" could be wohin or woher
    *(verb for verb in BY_FRAME["posture"] if not verb.objects),
    *(verb for verb in VERBS if "place" in verb.uses),
)


def where(dice: Dice) -> Sentence:
    """Ask for a place: wo for being there, wohin for going there."""
    verb = dice.pick(WHERE)
    subject = subject_of_question(dice, verb)
    clause = draw(dice, verb, subject, ASKED, denial=0, timed=verb is not TO_BE, placed=False)
    if verb.frame in ("motion", "posture"):
        without_objects(clause)
    return question_with(Pair("where", "wohin" if verb.frame == "motion" else "wo"), clause)


def when_or_why(dice: Dice) -> Sentence:
    """Ask for the time or the reason."""
    verb = draw_active(dice)
    subject = subject_of_question(dice, verb)
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
