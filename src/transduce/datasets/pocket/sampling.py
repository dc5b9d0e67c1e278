"""Drawing clauses by chance, so that they make sense."""

from collections.abc import Sequence

from transduce.datasets.pocket.chance import Dice, weighted
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
ALREADY = next(one for one in ADVERBS if one.en == "already")
TIMES = ("present", "later", "future", "past", "habit", "perfect")
BY_TIME = {time: tuple(one for one in ADVERBS if time in one.uses) for time in TIMES}
FRONTS = {time: tuple(one for one in BY_TIME[time] if "front" in one.uses) for time in TIMES}
DENIED = {time: tuple(one for one in BY_TIME[time] if "not" in one.uses) for time in TIMES}
MODALS_NOW = tuple(one for one in MODALS if one.adverbs != "past")
MODALS_PAST = tuple(one for one in MODALS if one.adverbs == "past")
FUTURE = MODALS[-1]

Tenses = tuple[Tense, ...]
ANY: Tenses = weighted({"present": 31, "habit": 18, "past": 27, "perfect": 6, "modal": 24})


def when(clause: Clause) -> str:
    """Name the adverbs that go with the clause's tense."""
    if clause.tense == "modal":
        assert clause.modal
        return clause.modal.adverbs
    return {"passive": "past", "like": "present"}.get(clause.tense, clause.tense)


def fit(dice: Dice, verb: Verb, tenses: Tenses) -> Tense:
    """Draw a tense that suits the verb: nobody is knowing a man, or is often finding a key."""
    if verb.aspect == "state":
        return "present"
    tense = dice.pick(tenses)
    return "past" if verb.aspect == "event" and tense in ("present", "habit") else tense


def add_time(dice: Dice, clause: Clause) -> None:
    """Add an adverb of time where the tense asks for one, and sometimes elsewhere."""
    if clause.tense == "perfect":
        clause.time = YET if clause.negated else dice.pick(BY_TIME["perfect"])
        if clause.subject.determiner in (NO, EVERY):
            clause.time = ALREADY
    elif clause.tense == "habit":
        if not clause.negated:
            counted = clause.subject.determiner in (NO, EVERY)  # no "no man never"
            clause.time = dice.pick(FRONTS["habit"] if counted else BY_TIME["habit"])
    elif clause.verb.aspect != "state" and dice.chance(0.36):
        use = when(clause)
        if use != "present" and dice.chance(0.1):
            clause.time = dice.pick(CLOCK)
        else:
            clause.time = dice.pick((DENIED if clause.negated else BY_TIME)[use])


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
TO_LAUGH = next(verb for verb in VERBS if verb.base == "laugh")  # what everybody can do
WITH_OBJECT = ("transitive", "dative", "ditransitive", "prepositional")


def draw_verb(dice: Dice) -> Verb:
    """Draw a verb of any frame."""
    return dice.pick(BY_FRAME[dice.pick(FRAMES)])


def draw_active(dice: Dice, unless: str = "-") -> Verb:
    """Draw a verb that knows all tenses and that people do, but for one base or use."""
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
    denial: float = 0.16,
    timed: bool = True,
    placed: bool = True,
) -> Clause:
    """Draw a clause: with a negation in this share of cases, if asked with a time and a place."""
    verb = verb or draw_verb(dice)
    subject = subject or subject_of(dice, verb)
    clause = Clause(verb, subject, fit(dice, verb, tenses), phrases=[subject])
    if clause.tense == "modal":
        clause.modal = dice.pick(MODALS) if is_willed(clause) else FUTURE
    complete(dice, clause)
    if timed and clause.tense == "habit" and gives_one_thing(clause):
        clause.tense = "past"
    if deniable(clause) and dice.chance(denial):
        clause.negated = True
    if timed:
        add_time(dice, clause)
    if placed:
        add_place(dice, clause)
    return clause


def is_willed(clause: Clause) -> bool:
    """Whether somebody may want, have or be allowed to do it."""
    noun = clause.subject.noun
    thing = noun is not None and "thing" in noun.tags
    return not thing and clause.verb.aspect != "event" and "happens" not in clause.verb.uses


def gives_one_thing(clause: Clause) -> bool:
    """Whether one certain thing is given, which does not happen every day."""
    return bool(clause.dative and clause.accusative and clause.accusative.kind == "definite")


def complete(dice: Dice, clause: Clause, role: str = "object") -> None:
    """Add what the verb asks for."""
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
    """Add the goal or the place that the verb asks for."""
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
    """Add for whom or from whom, now and then."""
    uses = clause.verb.uses
    if "for" in uses and dice.chance(0.15):
        phrase = other_person(dice, SOMEBODY, clause.subject, "known")
        clause.close = prepositional("for", "für", ACCUSATIVE, phrase)
        clause.phrases.append(phrase)
    elif "from" in uses and dice.chance(0.5):
        phrase = other_person(dice, SOMEBODY, clause.subject, "known")
        clause.close = prepositional("from", "von", DATIVE, phrase)
        clause.phrases.append(phrase)


def add_place(dice: Dice, clause: Clause) -> None:
    """Add where or with whom, now and then."""
    uses = clause.verb.uses
    if "with" in uses and dice.chance(0.25):
        phrase = other_person(dice, SOMEBODY, clause.subject, "known")
        clause.manner = prepositional("with", "mit", DATIVE, phrase)
        clause.phrases.append(phrase)
    elif "place" in uses and dice.chance(0.35):
        clause.place, phrases = spot(dice, clause.subject)
        clause.phrases += phrases


def deniable(clause: Clause) -> bool:
    """Whether "not" has one place in both languages and means one thing."""
    which = clause.subject.determiner
    if clause.subject.kind == "indefinite" or which is EVERY or clause.tense == "passive":
        return False
    if clause.verb.frame == "transitive" and clause.close:
        return False
    return all(one is None or one.negatable for one in (clause.accusative, clause.dative))


# States -------------------------------------------------------------------------------------------

UNGRADED = ("broken", "empty", "red", "blue", "green", "white", "black")
FEELINGS = tuple(
    one
    for one in SOMEBODY[0].adjectives
    if one.en in ("happy", "sad", "tired", "hungry", "thirsty", "sick", "angry")
)


def state(
    dice: Dice,
    subject: Phrase,
    tense: Tense,
    adjectives: Sequence[Adjective] = (),
    denial: float = 0.15,
) -> Clause:
    """Draw how somebody or something is: is tired, war müde."""
    if not adjectives:
        adjectives = subject.noun.adjectives if subject.noun else FEELINGS
    adjective = dice.pick(adjectives)
    clause = Clause(TO_BE, subject, tense, phrases=[subject], predicate=adjective)
    clause.close = Pair(adjective.en, adjective.alone)
    if deniable(clause) and dice.chance(denial):
        clause.negated = True
    elif adjective.en not in UNGRADED and dice.chance(0.2):
        clause.close = Pair(f"very {adjective.en}", f"sehr {adjective.alone}")
    return clause
