"""Sentences of one clause: statements, questions and requests."""

from transduce.datasets.pocket.clauses import Clause, Tense
from transduce.datasets.pocket.describing import describe, spot, subject_of, thing
from transduce.datasets.pocket.dice import Dice, weighted
from transduce.datasets.pocket.phrases import (
    COUNTS,
    HOW_MANY,
    MANY,
    PRONOUNS,
    SOME,
    WHAT,
    WHICH,
    WHO,
    A,
    Pair,
    Phrase,
    gap,
    noun_phrase,
    prepositional,
)
from transduce.datasets.pocket.sampling import (
    BY_FRAME,
    BY_TIME,
    FEELINGS,
    FRONTS,
    TO_BE,
    TO_LAUGH,
    WITH_OBJECT,
    Tenses,
    add_time,
    adverbs_for,
    can_be_negated,
    complete,
    draw,
    draw_active,
    draw_verb,
    state,
)
from transduce.datasets.pocket.sentences import (
    Sentence,
    finished,
    marked,
    plain,
    question,
    question_with,
)
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    ADJECTIVES,
    DATIVE,
    NOMINATIVE,
    NUMBERS,
    VERBS,
    Verb,
    nouns_that_are,
)


def statement(dice: Dice) -> Sentence:
    """Draw a plain main clause."""
    return plain(draw(dice))


FRONTED: Tenses = weighted({"present": 25, "habit": 15, "past": 35, "modal": 25})


def fronted(dice: Dice) -> Sentence:
    """Begin with the time or the place; German then puts the verb before the subject."""
    clause = draw(dice, draw_active(dice), tenses=FRONTED, timed=False, placed=False)
    clause.negated = clause.negated and clause.tense != "habit"
    if "place" in clause.verb.uses and dice.chance(0.5):
        add_time(dice, clause)
        front, phrases = spot(dice, clause.subject)
        clause.phrases += phrases
    else:
        adverb = dice.pick(FRONTS[adverbs_for(clause)])
        front = Pair(adverb.en, adverb.de)
    comma = "," if " " in front.en else ""
    return Sentence(
        [clause],
        lambda: finished(
            f"{front.en}{comma} {clause.english()}", f"{front.de} {clause.german('first')}"
        ),
    )


def yes_or_no(dice: Dice) -> Sentence:
    """Draw a yes-no question."""
    verb = draw_verb(dice)
    return question(draw(dice, verb, subject_of_question(dice, verb), p_negated=0))


def subject_of_question(dice: Dice, verb: Verb) -> Phrase:
    """Draw the subject of a question: definite, and not "I"."""
    subject = subject_of(dice, verb, "known")
    while subject.person == 0:
        subject = subject_of(dice, verb, "known")
    return subject


LIKED = tuple(verb for verb in VERBS if "gern" in verb.uses)


def liking(dice: Dice) -> Sentence:
    """Say or ask what somebody likes to do; German uses gern."""
    verb = dice.pick(LIKED)
    subject = subject_of(dice, verb, "known")
    clause = Clause(verb, subject, "like", phrases=[subject], negated=dice.chance(0.2))
    things = [noun for noun in verb.objects if "person" not in noun.tags]
    if things and verb.frame == "transitive":
        clause.accusative = thing(dice, things, subject, "generic")
        clause.phrases.append(clause.accusative)
    else:
        complete(dice, clause, "known")
    return question(clause) if dice.chance(0.25) else plain(clause)


NOUNS_BY_ADJECTIVE = {
    adjective.en: nouns_that_are(" ".join(adjective.tags)) for adjective in ADJECTIVES
}


def described(dice: Dice) -> Sentence:
    """State or ask what somebody or something is like: the soup is cold."""
    adjective = dice.pick(ADJECTIVES)
    feeling = adjective in FEELINGS
    if feeling and dice.chance(0.3):
        subject = dice.pick(PRONOUNS)
    else:
        subject = describe(dice, dice.pick(NOUNS_BY_ADJECTIVE[adjective.en]), "known", None, 0)
    tense: Tense = dice.pick(("present", "present", "past"))
    clause = state(dice, subject, tense, [adjective])
    if tense == "past" and feeling and not clause.negated:
        add_time(dice, clause)
    return question(clause) if not clause.negated and dice.chance(0.15) else plain(clause)


COMPARABLE = tuple(adjective for adjective in ADJECTIVES if adjective.more)
KINDS = (
    *("person", "grown", "pet", "farm", "beast", "text", "show"),
    *("goods", "clothes", "load", "building", "town"),
)
NOUNS_BY_KIND = {kind: nouns_that_are(kind) for kind in KINDS}


def compared(dice: Dice) -> Sentence:
    """Compare two nouns of the same kind: bigger than, größer als."""
    adjective = dice.pick(COMPARABLE)
    nouns = NOUNS_BY_KIND[dice.pick([kind for kind in KINDS if kind in adjective.tags])]
    subject = describe(dice, dice.pick(nouns), "known", None, 0)
    other = thing(dice, nouns, subject, "known")
    assert adjective.more
    en, de = adjective.more
    close = Pair(f"{en} than {other.en}", f"{de} als {other.german(NOMINATIVE)}")
    phrases = [subject, other]
    return plain(Clause(TO_BE, subject, close=close, phrases=phrases, predicate=adjective))


TO_COST = next(verb for verb in VERBS if verb.base == "cost")


def numbered(dice: Dice) -> Sentence:
    """State an age or a price."""
    if dice.chance(0.5):
        subject = subject_of(dice, TO_LAUGH, "known")  # any person or pronoun
        en, de = dice.pick(ages(subject))
        close = Pair(f"{en} years old", f"{de} Jahre alt")
        return plain(Clause(TO_BE, subject, close=close, phrases=[subject]))
    subject = describe(dice, dice.pick(TO_COST.subjects), "known")
    en, de = dice.pick(NUMBERS)
    close = Pair(f"{en} euros", f"{de} Euro")
    return plain(Clause(TO_COST, subject, close=close, phrases=[subject]))


def ages(subject: Phrase) -> tuple[tuple[str, str], ...]:
    """Return the possible ages of somebody."""
    if subject.noun is None:
        return NUMBERS
    if "child" in subject.noun.tags:
        return NUMBERS[:13]
    return NUMBERS[60:] if subject.noun.en[0].startswith("grand") else NUMBERS[20:80]


ROOMS, FURNITURE = nouns_that_are("chamber"), nouns_that_are("furniture")
TOWNS, BUILDINGS = nouns_that_are("town"), nouns_that_are("building castle")


def there_is(dice: Dice) -> Sentence:
    """Say what is in a place: In der Küche gibt es einen Tisch."""
    rooms, contents = (ROOMS, FURNITURE) if dice.chance(0.6) else (TOWNS, BUILDINGS)
    where, phrases = spot(dice, None, rooms)
    noun = dice.pick(contents)
    plural = dice.chance(0.3)
    which = dice.pick((MANY, SOME, *COUNTS[:4])) if plural else A
    adjective = dice.pick(noun.adjectives) if dice.chance(0.25) else None
    phrase = noun_phrase(which, noun, adjective, plural=plural)
    verb = "are" if plural else "is"
    return Sentence(
        [marked(Clause(TO_BE, phrase, phrases=[phrase, *phrases]), "es gibt")],
        lambda: finished(
            f"there {verb} {phrase.en} {where.en}",
            f"{where.de} gibt es {phrase.german(ACCUSATIVE)}",
        ),
    )


PASSIVES = tuple(verb for verb in VERBS if "passive" in verb.uses)


def passive(dice: Dice) -> Sentence:
    """Say what was done, and by whom or when."""
    verb = dice.pick(PASSIVES)
    subject = describe(dice, dice.pick(verb.objects), "known")
    clause = Clause(verb, subject, "passive", phrases=[subject])
    if dice.chance(0.5):
        agent = describe(dice, dice.pick(verb.subjects), "object", subject)
        clause.close = prepositional("by", "von", DATIVE, agent)
        clause.phrases.append(agent)
        add_time(dice, clause)
    else:
        clause.time = dice.pick(BY_TIME["past"])
    return plain(clause)


def request(dice: Dice) -> Sentence:
    """Ask a friend to do something, or not to."""
    verb = draw_active(dice)
    while verb.frame not in WITH_OBJECT or verb.uses & {"happens", "lasts"}:
        verb = draw_active(dice)
    clause = Clause(verb, PRONOUNS[1], "habit")
    complete(dice, clause, "known")
    clause.negated = can_be_negated(clause) and dice.chance(0.2)
    start = "please do not" if clause.negated else "please"
    return Sentence(
        [clause],
        lambda: finished(f"{start} {clause.infinitive()}", f"bitte {clause.german_imperative()}"),
    )


def two_statements(dice: Dice) -> Sentence:
    """Join two main clauses with and or but."""
    tenses: Tenses = dice.pick((("present",), ("past",)))
    first = draw(dice, draw_active(dice), tenses=tenses, timed=False)
    verb = draw_active(dice, first.verb.base)
    subject = describe(dice, dice.pick(verb.subjects), "known")
    second = draw(dice, verb, subject, tenses, timed=False)
    en, de = (", but", ", aber") if dice.chance(0.5) else (", and", " und")
    return Sentence(
        [first, second],
        lambda: finished(
            f"{first.english()}{en} {second.english()}", f"{first.german()}{de} {second.german()}"
        ),
    )


# Questions with a question word -------------------------------------------------------------------

ASKED: Tenses = weighted({"present": 40, "past": 40, "modal": 20})


def who_does(dice: Dice) -> Sentence:
    """Ask for the subject: who."""
    verb = draw_verb(dice)
    while not verb.personal:
        verb = draw_verb(dice)
    return plain(draw(dice, verb, WHO, ASKED, p_negated=0.1), "?")


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
    clause = draw(dice, verb, subject_of_question(dice, verb), ASKED, p_negated=0, placed=False)
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
    # Not "where does she come", which could be wohin or woher.
    *(verb for verb in BY_FRAME["motion"] if verb.base != "come"),
    *(verb for verb in BY_FRAME["posture"] if not verb.objects),
    *(verb for verb in VERBS if "place" in verb.uses),
)


def where(dice: Dice) -> Sentence:
    """Ask for a place: wo for being there, wohin for going there."""
    verb = dice.pick(WHERE)
    subject = subject_of_question(dice, verb)
    clause = draw(dice, verb, subject, ASKED, p_negated=0, timed=verb is not TO_BE, placed=False)
    if verb.frame in ("motion", "posture"):
        without_objects(clause)
    return question_with(Pair("where", "wohin" if verb.frame == "motion" else "wo"), clause)


def when_or_why(dice: Dice) -> Sentence:
    """Ask for the time or the reason."""
    verb = draw_active(dice)
    subject = subject_of_question(dice, verb)
    if dice.chance(0.5):
        return question_with(Pair("why", "warum"), draw(dice, verb, subject, ASKED, p_negated=0.2))
    clause = draw(dice, verb, subject, ASKED, p_negated=0, timed=False)
    return question_with(Pair("when", "wann"), clause)


def how_much(dice: Dice) -> Sentence:
    """Ask for an age or a price."""
    if dice.chance(0.5):
        subject = subject_of(dice, TO_LAUGH, "known")
        return question_with(Pair("how old", "wie alt"), Clause(TO_BE, subject, phrases=[subject]))
    subject = describe(dice, dice.pick(TO_COST.subjects), "known")
    return question_with(Pair("how much", "wie viel"), Clause(TO_COST, subject, phrases=[subject]))
