"""Random clauses that make sense."""

from collections.abc import Sequence

from transduce.datasets.pocket.clauses import Clause, Tense
from transduce.datasets.pocket.describing import (
    SOMEBODY,
    goal,
    location,
    object_of,
    on_or_in,
    other_person,
    spot,
    subject_of,
    thing,
)
from transduce.datasets.pocket.dice import Dice, weighted
from transduce.datasets.pocket.phrases import (
    EVERY,
    NO,
    Pair,
    Phrase,
    prepositional,
)
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    ADVERBS,
    DATIVE,
    MODALS,
    NUMBERS,
    VERBS,
    Adjective,
    Adverb,
    Verb,
)

# Time ---------------------------------------------------------------------------------------------

CLOCK = tuple(
    Adverb(f"at {en} o'clock", f"um {de} Uhr", mid=False, setting=True, uses=frozenset(["not"]))
    for en, de in NUMBERS[:11]
)
YET = Adverb("yet", "noch", mid=False, setting=False, uses=frozenset(["not"]))
ALREADY = next(adverb for adverb in ADVERBS if adverb.en == "already")
TIMES = ("present", "later", "future", "past", "habit", "perfect")
BY_TIME = {time: tuple(adverb for adverb in ADVERBS if time in adverb.uses) for time in TIMES}
FRONTS = {
    time: tuple(adverb for adverb in adverbs if "front" in adverb.uses)
    for time, adverbs in BY_TIME.items()
}
WITH_NOT = {
    time: tuple(adverb for adverb in adverbs if "not" in adverb.uses)
    for time, adverbs in BY_TIME.items()
}
MODALS_NOW = tuple(modal for modal in MODALS if modal.adverbs != "past")
MODALS_PAST = tuple(modal for modal in MODALS if modal.adverbs == "past")
FUTURE = MODALS[-1]

Tenses = tuple[Tense, ...]
ANY: Tenses = weighted({"present": 31, "habit": 18, "past": 27, "perfect": 6, "modal": 24})


def adverbs_for(clause: Clause) -> str:
    """Return the group of adverbs that goes with the tense of a clause."""
    if clause.tense == "modal":
        assert clause.modal
        return clause.modal.adverbs
    return {"passive": "past", "like": "present"}.get(clause.tense, clause.tense)


def draw_tense(dice: Dice, verb: Verb, tenses: Tenses) -> Tense:
    """Draw a tense that suits the verb: not "is knowing a man" or "often finds a key"."""
    if verb.aspect == "state":
        return "present"
    tense = dice.pick(tenses)
    return "past" if verb.aspect == "event" and tense in ("present", "habit") else tense


def add_time(dice: Dice, clause: Clause) -> None:
    """Add an adverb of time if the tense needs one, and sometimes otherwise."""
    if clause.tense == "perfect":
        clause.time = YET if clause.negated else dice.pick(BY_TIME["perfect"])
        if clause.subject.determiner in (NO, EVERY):
            clause.time = ALREADY
    elif clause.tense == "habit":
        if not clause.negated:
            quantified = clause.subject.determiner in (NO, EVERY)  # not "no man never"
            clause.time = dice.pick(FRONTS["habit"] if quantified else BY_TIME["habit"])
    elif clause.verb.aspect != "state" and dice.chance(0.36):
        group = adverbs_for(clause)
        if group != "present" and dice.chance(0.1):
            clause.time = dice.pick(CLOCK)
        else:
            clause.time = dice.pick((WITH_NOT if clause.negated else BY_TIME)[group])


# Clauses ------------------------------------------------------------------------------------------

FRAMES = weighted(
    {
        "transitive": 46,
        "intransitive": 16,
        "dative": 9,
        "ditransitive": 10,
        "prepositional": 9,
        "motion": 8,
        "posture": 7,
    }
)
BY_FRAME = {
    frame: tuple(verb for verb in VERBS if verb.frame == frame) for frame in dict.fromkeys(FRAMES)
}
MOMENTS = tuple(verb for verb in VERBS if "moment" in verb.uses)
TO_BE = next(verb for verb in VERBS if verb.base == "be")
TO_LAUGH = next(verb for verb in VERBS if verb.base == "laugh")  # everybody can do it
WITH_OBJECT = ("transitive", "dative", "ditransitive", "prepositional")


def draw_verb(dice: Dice) -> Verb:
    """Draw a verb of any frame."""
    return dice.pick(BY_FRAME[dice.pick(FRAMES)])


def draw_active(dice: Dice, unless: str = "-") -> Verb:
    """Draw a verb that allows all tenses and personal subjects, except one base or use."""
    verb = draw_verb(dice)
    while (
        verb.aspect != "activity" or not verb.personal or verb.base == unless or unless in verb.uses
    ):
        verb = draw_verb(dice)
    return verb


def draw(
    dice: Dice,
    verb: Verb | None = None,
    subject: Phrase | None = None,
    tenses: Tenses = ANY,
    *,
    p_negated: float = 0.16,
    timed: bool = True,
    placed: bool = True,
) -> Clause:
    """Draw a clause, negated with probability `p_negated`; it may have a time and a place."""
    verb = verb or draw_verb(dice)
    subject = subject or subject_of(dice, verb)
    clause = Clause(verb, subject, draw_tense(dice, verb, tenses), phrases=[subject])
    if clause.tense == "modal":
        clause.modal = dice.pick(MODALS) if is_willed(clause) else FUTURE
    complete(dice, clause)
    if timed and clause.tense == "habit" and gives_one_thing(clause):
        clause.tense = "past"
    if can_be_negated(clause) and dice.chance(p_negated):
        clause.negated = True
    if timed:
        add_time(dice, clause)
    if placed:
        add_place(dice, clause)
    return clause


def is_willed(clause: Clause) -> bool:
    """Return whether the subject can want, have or be allowed to do it."""
    noun = clause.subject.noun
    thing = noun is not None and "thing" in noun.tags
    return not thing and clause.verb.aspect != "event" and "happens" not in clause.verb.uses


def gives_one_thing(clause: Clause) -> bool:
    """Return whether a definite thing is given: such a clause cannot be habitual."""
    return bool(clause.dative and clause.accusative and clause.accusative.kind == "definite")


def complete(dice: Dice, clause: Clause, role: str = "object") -> None:
    """Add the objects and complements of the verb."""
    verb, subject = clause.verb, clause.subject
    if verb.frame == "transitive":
        if verb.base == "have" and role == "object":
            role = "had"
        clause.accusative = object_of(dice, verb, subject, role)
        clause.phrases.append(clause.accusative)
        add_person(dice, clause)
    elif verb.frame == "dative":
        clause.dative = object_of(dice, verb, subject, role)
        clause.phrases.append(clause.dative)
    elif verb.frame == "ditransitive":
        clause.dative = other_person(dice, SOMEBODY, subject, "known")
        clause.accusative = thing(dice, verb.objects, subject, "given")
        clause.phrases += [clause.dative, clause.accusative]
    elif verb.preposition:
        phrase = object_of(dice, verb, subject, "known")
        clause.close = prepositional(*verb.preposition, phrase)
        clause.phrases.append(phrase)
    elif verb.frame in ("motion", "posture"):
        put_somewhere(dice, clause)


def put_somewhere(dice: Dice, clause: Clause) -> None:
    """Add the goal or place of the verb."""
    verb, subject = clause.verb, clause.subject
    if verb.objects:
        clause.accusative = thing(dice, verb.objects, subject, "object")
        clause.phrases.append(clause.accusative)
        clause.close, phrases = on_or_in(dice, ACCUSATIVE)
    elif verb.frame == "motion":
        clause.close, phrases = goal(dice, verb)
    else:
        clause.close, phrases = location(dice, verb, subject)
    clause.phrases += phrases


def add_person(dice: Dice, clause: Clause) -> None:
    """Sometimes add a person: for or from somebody."""
    uses = clause.verb.uses
    if "for" in uses and dice.chance(0.15):
        clause.close = another_person(dice, clause, "for", "für", ACCUSATIVE)
    elif "from" in uses and dice.chance(0.5):
        clause.close = another_person(dice, clause, "from", "von", DATIVE)


def add_place(dice: Dice, clause: Clause) -> None:
    """Sometimes add a place or a companion."""
    uses = clause.verb.uses
    if "with" in uses and dice.chance(0.25):
        clause.manner = another_person(dice, clause, "with", "mit", DATIVE)
    elif "place" in uses and dice.chance(0.35):
        clause.place, phrases = spot(dice, clause.subject)
        clause.phrases += phrases


def another_person(dice: Dice, clause: Clause, en: str, de: str, case: int) -> Pair:
    """Draw a person other than the subject, after a preposition."""
    phrase = other_person(dice, SOMEBODY, clause.subject, "known")
    clause.phrases.append(phrase)
    return prepositional(en, de, case, phrase)


def can_be_negated(clause: Clause) -> bool:
    """Return whether the negation is unambiguous in both languages."""
    every = clause.subject.determiner is EVERY
    if clause.subject.kind == "indefinite" or every or clause.tense == "passive":
        return False
    if clause.verb.frame == "transitive" and clause.close:
        return False
    return all(phrase is None or phrase.negatable for phrase in (clause.accusative, clause.dative))


# States -------------------------------------------------------------------------------------------

UNGRADED = ("broken", "empty", "red", "blue", "green", "white", "black")
FEELINGS = tuple(
    adjective
    for adjective in SOMEBODY[0].adjectives
    if adjective.en in ("happy", "sad", "tired", "hungry", "thirsty", "sick", "angry")
)


def state(
    dice: Dice,
    subject: Phrase,
    tense: Tense,
    adjectives: Sequence[Adjective] = (),
    p_negated: float = 0.15,
) -> Clause:
    """Draw a clause with an adjective as predicate: is tired, war müde."""
    if not adjectives:
        adjectives = subject.noun.adjectives if subject.noun else FEELINGS
    adjective = dice.pick(adjectives)
    clause = Clause(TO_BE, subject, tense, phrases=[subject], predicate=adjective)
    clause.close = Pair(adjective.en, adjective.alone)
    if can_be_negated(clause) and dice.chance(p_negated):
        clause.negated = True
    elif adjective.en not in UNGRADED and dice.chance(0.2):
        clause.close = Pair(f"very {adjective.en}", f"sehr {adjective.alone}")
    return clause
