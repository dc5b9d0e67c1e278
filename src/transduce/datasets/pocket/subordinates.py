"""Sentences with a subordinate clause: a reason, a condition, a time or an object."""

from typing import NamedTuple

from transduce.datasets.pocket.clauses import Clause, Tense
from transduce.datasets.pocket.describing import SOMEBODY, describe, other_person, subject_of
from transduce.datasets.pocket.dice import Dice, weighted
from transduce.datasets.pocket.phrases import ES, IT, PEOPLE, Pair, Phrase, gap, pronoun_for
from transduce.datasets.pocket.sampling import (
    BY_FRAME,
    FEELINGS,
    FUTURE,
    MODALS_NOW,
    MODALS_PAST,
    MOMENTS,
    TO_BE,
    WITH_OBJECT,
    Tenses,
    draw,
    draw_active,
    draw_tense,
    state,
)
from transduce.datasets.pocket.sentences import Sentence, finished, joined, marked
from transduce.datasets.pocket.statements import ASKED, without_objects
from transduce.datasets.pocket.words import ADVERBS, VERBS, WORD_TABLES, Adjective, Noun, Verb, rows

BECAUSE, ALTHOUGH = Pair("because", "weil"), Pair("although", "obwohl")
WEATHER = tuple(verb for verb in VERBS if verb.base in ("rain", "snow"))
TOMORROW = next(adverb for adverb in ADVERBS if adverb.en == "tomorrow")

# Reasons ------------------------------------------------------------------------------------------

STATES = tuple(
    verb
    for verb in (*BY_FRAME["transitive"], *BY_FRAME["dative"])
    if verb.aspect == "state" and verb.personal
)
ANIMAL_STATES = ("hungry", "thirsty", "tired", "sick", "young", "old", "big", "small", "strong")


def because_or_although(dice: Dice) -> Sentence:
    """Draw a clause with because or although."""
    tenses: Tenses = ("past",) if dice.chance(0.35) else ("present", "present", "modal")
    main = draw(dice, draw_active(dice), tenses=tenses, p_negated=0.2)
    past = main.tense == "past" or (main.modal is not None and main.modal.adverbs == "past")
    sub = background(dice, main, "past" if past else "present")
    word = dice.pick((BECAUSE, BECAUSE, ALTHOUGH))
    return joined(main, sub, word, first=word is ALTHOUGH and dice.chance(0.5))


def background(dice: Dice, main: Clause, tense: Tense) -> Clause:
    """Draw a state that may explain what somebody does, now or in the past."""
    about = main.subject
    subject = pronoun_for(about) if dice.chance(0.75) else None
    if subject is None or (not subject.human and len(main.phrases) > 1):  # "it" would be ambiguous
        return circumstance(dice, tense)
    if not subject.human and about.noun:
        return state(
            dice,
            subject,
            tense,
            [adjective for adjective in about.noun.adjectives if adjective.en in ANIMAL_STATES],
        )
    roll = dice.random()
    if roll < 0.45:
        return state(dice, subject, tense, FEELINGS)
    if roll < 0.75 and tense == "present":
        return draw(dice, dice.pick(STATES), subject, timed=False)
    clause = draw(dice, draw_active(dice), subject, ("modal",), timed=False, placed=False)
    clause.modal = dice.pick(MODALS_PAST if tense == "past" else MODALS_NOW)
    return clause


def circumstance(dice: Dice, tense: Tense) -> Clause:
    """Draw a reason: somebody else's state, or the weather."""
    if tense == "present" and dice.chance(0.2):
        return Clause(dice.pick(WEATHER), ES)
    named = dice.chance(0.2)
    subject = dice.pick(PEOPLE) if named else describe(dice, dice.pick(SOMEBODY), "known")
    if tense == "present" and dice.chance(0.4):
        return draw(dice, dice.pick(STATES), subject, timed=False)
    return state(dice, subject, tense, FEELINGS)


class Reason(NamedTuple):
    """A verb, and the qualities of things that are a reason for or against it."""

    verb: Verb
    because: tuple[tuple[Noun, Adjective], ...]
    despite: tuple[tuple[Noun, Adjective], ...]


def read_reasons() -> tuple[Reason, ...]:
    """Read the reasons from the lexicon."""
    verbs = {
        f"{verb.base}~{verb.particle}".strip("~"): verb
        for verb in BY_FRAME["transitive"]
        if verb.personal
    }
    return tuple(
        Reason(verbs[key], qualities(verbs[key], because), qualities(verbs[key], despite))
        for key, because, despite in rows(WORD_TABLES["reasons"])
    )


def qualities(verb: Verb, adjectives: str) -> tuple[tuple[Noun, Adjective], ...]:
    """Return the things that can be objects of a verb, with each possible adjective."""
    wanted = adjectives.split()
    things = [noun for noun in verb.objects if noun.tags & {"thing", "place"}]
    return tuple(
        (noun, adjective)
        for noun in things
        for adjective in noun.adjectives
        if adjective.en in wanted
    )


REASONS = read_reasons()
PLANS = tuple(reason for reason in REASONS if reason.verb.aspect == "activity")


def with_object(dice: Dice, verb: Verb, thing: Phrase, tenses: Tenses) -> Clause:
    """Draw a clause with a given object."""
    subject = subject_of(dice, verb)
    tense = draw_tense(dice, verb, tenses)
    return Clause(verb, subject, tense, accusative=thing, phrases=[subject, thing])


def because_it(dice: Dice) -> Sentence:
    """Refer to a thing with it, which is er, sie or es in German."""
    reason = dice.pick(REASONS)
    although = dice.chance(0.35)
    noun, adjective = dice.pick(reason.despite if although else reason.because)
    thing = describe(dice, noun, "object", None, 0)
    main = with_object(dice, reason.verb, thing, ("present", "past"))
    sub = state(dice, IT[thing.gender], main.tense, [adjective], p_negated=0)
    sub.phrases = [gap(thing)]
    return joined(main, sub, ALTHOUGH if although else BECAUSE)


def if_it(dice: Dice) -> Sentence:
    """Refer to a thing in the main clause: wenn die Suppe kalt ist, isst er sie nicht."""
    reason = dice.pick(PLANS)
    denied = dice.chance(0.4)
    noun, adjective = dice.pick(reason.despite if denied else reason.because)
    thing = describe(dice, noun, "known", None, 0)
    sub = state(dice, thing, "present", [adjective], p_negated=0)
    main = with_object(dice, reason.verb, IT[thing.gender], ("modal",))
    main.modal = dice.pick(MODALS_NOW)
    main.negated = denied and main.subject.kind != "indefinite"
    main.phrases = [main.subject, gap(thing)]
    return joined(main, sub, Pair("if", "wenn"), first=True)


# Conditions and times -----------------------------------------------------------------------------


def if_or_when(dice: Dice) -> Sentence:
    """Draw a condition; when in the present is wenn too."""
    verb = draw_active(dice, "ask")  # "asks him when" would have a different meaning
    habit = dice.chance(0.4)
    tenses: Tenses = ("habit",) if habit else ("modal",)
    main = draw(dice, verb, tenses=tenses, timed=False, p_negated=0.25)
    if not habit:
        main.modal = dice.pick(MODALS_NOW) if dice.chance(0.5) else FUTURE
    sub = condition(dice, pronoun_for(main.subject))
    if sub.subject is ES and not habit and dice.chance(0.4):
        sub.time = TOMORROW
    always = habit and shows_present(main) and shows_present(sub) and dice.chance(0.5)
    return joined(main, sub, Pair("when" if always else "if", "wenn"), first=dice.chance(0.6))


def condition(dice: Dice, subject: Phrase | None) -> Clause:
    """Draw a condition in the present, without an adverb."""
    roll = dice.random()
    if roll < 0.3 or (subject is not None and not subject.human):
        return Clause(dice.pick(WEATHER), ES, "habit")
    if roll < 0.65 and subject is not None:
        return state(dice, subject, "present", FEELINGS)
    verb = draw_active(dice)
    return draw(dice, verb, subject if dice.chance(0.4) else None, ("habit",), timed=False)


def shows_present(clause: Clause) -> bool:
    """Return whether the English verb is visibly in the present; "they read" is not."""
    same = clause.verb.base == clause.verb.past
    return not same or clause.negated or clause.subject.person == 2


def when_it_happened(dice: Dice) -> Sentence:
    """Say when something happened: when in the past is als."""
    main = draw(dice, draw_active(dice, "ask"), tenses=("past",), timed=False)
    sub = draw(dice, dice.pick(MOMENTS), tenses=("past",), timed=False, p_negated=0)
    return joined(main, sub, Pair("when", "als"), first=dice.chance(0.6))


def while_it_lasts(dice: Dice) -> Sentence:
    """Say what happens at the same time."""
    main = draw(dice, draw_active(dice), tenses=("present",), timed=False, p_negated=0)
    verb = draw_active(dice, main.verb.base)
    sub = draw(dice, verb, tenses=("present",), timed=False, p_negated=0)
    return joined(main, sub, Pair("while", "während"), first=dice.chance(0.5))


def before_it_begins(dice: Dice) -> Sentence:
    """Say what comes first."""
    main = draw(dice, draw_active(dice), tenses=("modal",), timed=False, p_negated=0)
    main.modal = dice.pick(MODALS_NOW)
    subject = pronoun_for(main.subject)
    if subject is not None and not subject.human:
        subject = None
    sub = draw(dice, draw_active(dice, "lasts"), subject, ("habit",), timed=False, p_negated=0)
    return joined(main, sub, Pair("before", "bevor"), first=dice.chance(0.4))


# Clauses as objects -------------------------------------------------------------------------------

THAT = tuple(verb for verb in VERBS if "that" in verb.uses)
WHETHER = tuple(verb for verb in VERBS if "whether" in verb.uses)
TO_KNOW = next(verb for verb in VERBS if verb.key == "wissen")
TO = tuple(verb for verb in VERBS if verb.frame == "speech" and "to" in verb.uses)
AIMS = tuple(verb for verb in VERBS if "aim" in verb.uses)
JUDGEMENTS = tuple(Pair(en, de) for en, de in rows(WORD_TABLES["judgements"]))
EMBEDDED: Tenses = weighted({"present": 35, "past": 30, "perfect": 5, "modal": 25, "habit": 10})


def speaker(dice: Dice, verb: Verb) -> Clause:
    """Draw a main clause of saying, asking or knowing."""
    subject = subject_of(dice, verb, "known")
    clause = Clause(verb, subject, phrases=[subject])
    if verb.base == "ask" and dice.chance(0.7):
        clause.accusative = other_person(dice, SOMEBODY, subject, "known")
        clause.phrases.append(clause.accusative)
    return clause


def that(dice: Dice) -> Sentence:
    """Say what somebody knows, thinks, says or hopes; or that something is good."""
    if dice.chance(0.2):
        main = Clause(TO_BE, ES, close=dice.pick(JUDGEMENTS))
    else:
        main = speaker(dice, dice.pick(THAT))
    return joined(main, draw(dice, tenses=EMBEDDED), Pair("that", "dass"))


def whether(dice: Dice) -> Sentence:
    """Say what somebody asks or does not know: ob, wann, warum or wo."""
    main = speaker(dice, dice.pick(WHETHER))
    roll = dice.random()
    if roll < 0.4:
        word, sub = Pair("whether", "ob"), draw(dice, tenses=EMBEDDED, p_negated=0)
    elif roll < 0.6:
        verb = draw_active(dice)
        word, sub = Pair("when", "wann"), draw(dice, verb, tenses=ASKED, p_negated=0, timed=False)
    elif roll < 0.8:
        word, sub = Pair("why", "warum"), draw(dice, tenses=ASKED)
    else:
        sub = draw(
            dice, TO_BE, subject_of(dice, TO_BE, "known"), ("present",), p_negated=0, timed=False
        )
        word, sub = Pair("where", "wo"), without_objects(sub)
    if main.verb is not TO_KNOW:
        return joined(main, sub, word)
    if dice.chance(0.4):
        return question_about(main, sub, word)
    main.negated = roll < 0.4 or dice.chance(0.7)
    return joined(main, sub, word)


def question_about(main: Clause, sub: Clause, word: Pair) -> Sentence:
    """Ask whether somebody knows."""
    marked(sub, word.de)
    return Sentence(
        [main, sub],
        lambda: finished(
            f"{main.english(question=True)} {word.en} {sub.english()}",
            f"{main.german('first')}, {word.de} {sub.german('last')}",
            "?",
        ),
    )


def can_be_planned(verb: Verb) -> bool:
    """Return whether somebody can plan to do it."""
    return verb.frame in (*WITH_OBJECT, "intransitive") and "happens" not in verb.uses


def to_do(dice: Dice) -> Sentence:
    """Say what somebody tries, hopes, decides, forgets or promises to do."""
    verb = dice.pick(TO)
    subject = subject_of(dice, verb)
    main = Clause(verb, subject, draw_tense(dice, verb, ("present",)), phrases=[subject])
    active = draw_active(dice)
    while not can_be_planned(active) or (active.frame == "intransitive" and verb.base == "forget"):
        active = draw_active(dice)
    inner = draw(dice, active, gap(subject), ("habit",), timed=False, placed=False, p_negated=0)
    return Sentence(
        [main, inner],
        lambda: finished(
            f"{main.english()} to {inner.infinitive()}", f"{main.german()}, {inner.german_zu()}"
        ),
    )


def in_order_to(dice: Dice) -> Sentence:
    """Say why somebody goes somewhere: um ein Buch zu kaufen."""
    tenses: Tenses = ("present", "past", "modal")
    main = draw(dice, dice.pick(BY_FRAME["motion"]), None, tenses, p_negated=0, timed=False)
    aim, subject = dice.pick(AIMS), gap(main.subject)
    inner = draw(dice, aim, subject, ("habit",), timed=False, placed=False, p_negated=0)
    marked(inner, "um zu")
    return Sentence(
        [main, inner],
        lambda: finished(
            f"{main.english()} to {inner.infinitive()}", f"{main.german()}, um {inner.german_zu()}"
        ),
    )
