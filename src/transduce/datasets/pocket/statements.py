"""Sentences of one clause that state, ask or beg."""

from transduce.datasets.pocket.chance import Dice, weighted
from transduce.datasets.pocket.clauses import Clause, Tense
from transduce.datasets.pocket.describing import describe, spot, subject_of, thing
from transduce.datasets.pocket.phrases import (
    COUNTS,
    MANY,
    PRONOUNS,
    SOME,
    A,
    Pair,
    Phrase,
    noun_phrase,
    prepositional,
)
from transduce.datasets.pocket.sampling import (
    BY_TIME,
    FEELINGS,
    FRONTS,
    TO_BE,
    TO_LAUGH,
    WITH_OBJECT,
    Tenses,
    add_time,
    complete,
    deniable,
    draw,
    draw_active,
    draw_verb,
    state,
    when,
)
from transduce.datasets.pocket.sentences import Sentence, finished, marked, plain, question
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
    """Begin with the time or the place: German then turns subject and verb around."""
    clause = draw(dice, draw_active(dice), tenses=FRONTED, timed=False, placed=False)
    clause.negated = clause.negated and clause.tense != "habit"
    if "place" in clause.verb.uses and dice.chance(0.5):
        add_time(dice, clause)
        front, phrases = spot(dice, clause.subject)
        clause.phrases += phrases
    else:
        adverb = dice.pick(FRONTS[when(clause)])
        front = Pair(adverb.en, adverb.de)
    comma = "," if " " in front.en else ""
    return Sentence(
        [clause],
        lambda: finished(
            f"{front.en}{comma} {clause.english()}", f"{front.de} {clause.german('first')}"
        ),
    )


def yes_or_no(dice: Dice) -> Sentence:
    """Ask whether something is so."""
    verb = draw_verb(dice)
    return question(draw(dice, verb, asked_about(dice, verb), denial=0))


def asked_about(dice: Dice, verb: Verb) -> Phrase:
    """Draw whom a question is about: somebody known, and not the one who asks."""
    subject = subject_of(dice, verb, "known")
    while subject.person == 0:
        subject = subject_of(dice, verb, "known")
    return subject


LIKED = tuple(verb for verb in VERBS if "gern" in verb.uses)


def liking(dice: Dice) -> Sentence:
    """Say or ask what somebody likes to do: German says it with gern."""
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


SO = {one.en: nouns_that_are(" ".join(one.tags)) for one in ADJECTIVES}


def described(dice: Dice) -> Sentence:
    """Say or ask how somebody or something is."""
    adjective = dice.pick(ADJECTIVES)
    feeling = adjective in FEELINGS
    if feeling and dice.chance(0.3):
        subject = dice.pick(PRONOUNS)
    else:
        subject = describe(dice, dice.pick(SO[adjective.en]), "known", None, 0)
    tense: Tense = dice.pick(("present", "present", "past"))
    clause = state(dice, subject, tense, [adjective])
    if tense == "past" and feeling and not clause.negated:
        add_time(dice, clause)
    return question(clause) if not clause.negated and dice.chance(0.15) else plain(clause)


COMPARABLE = tuple(one for one in ADJECTIVES if one.more)
KINDS = (
    *("person", "grown", "pet", "farm", "beast", "text", "show"),
    *("goods", "clothes", "load", "building", "town"),
)
OF_KIND = {kind: nouns_that_are(kind) for kind in KINDS}


def compared(dice: Dice) -> Sentence:
    """Compare two of a kind: bigger than, größer als."""
    adjective = dice.pick(COMPARABLE)
    nouns = OF_KIND[dice.pick([kind for kind in KINDS if kind in adjective.tags])]
    subject = describe(dice, dice.pick(nouns), "known", None, 0)
    other = thing(dice, nouns, subject, "known")
    assert adjective.more
    en, de = adjective.more
    close = Pair(f"{en} than {other.en}", f"{de} als {other.german(NOMINATIVE)}")
    phrases = [subject, other]
    return plain(Clause(TO_BE, subject, close=close, phrases=phrases, predicate=adjective))


TO_COST = next(verb for verb in VERBS if verb.base == "cost")


def numbered(dice: Dice) -> Sentence:
    """Say an age or a price."""
    if dice.chance(0.5):
        subject = subject_of(dice, TO_LAUGH, "known")
        en, de = dice.pick(ages(subject))
        close = Pair(f"{en} years old", f"{de} Jahre alt")
        return plain(Clause(TO_BE, subject, close=close, phrases=[subject]))
    subject = describe(dice, dice.pick(TO_COST.subjects), "known")
    en, de = dice.pick(NUMBERS)
    close = Pair(f"{en} euros", f"{de} Euro")
    return plain(Clause(TO_COST, subject, close=close, phrases=[subject]))


def ages(subject: Phrase) -> tuple[tuple[str, str], ...]:
    """List the ages that somebody can have."""
    if subject.noun is None:
        return NUMBERS
    if "child" in subject.noun.tags:
        return NUMBERS[:13]
    return NUMBERS[60:] if subject.noun.en[0].startswith("grand") else NUMBERS[20:80]


ROOMS, FURNITURE = nouns_that_are("chamber"), nouns_that_are("furniture")
TOWNS, BUILDINGS = nouns_that_are("town"), nouns_that_are("building castle")


def there_is(dice: Dice) -> Sentence:
    """Say what there is in a place: In der Küche gibt es einen Tisch."""
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
    """Beg a friend to do something, or not to."""
    verb = draw_active(dice)
    while verb.frame not in WITH_OBJECT or verb.uses & {"happens", "lasts"}:
        verb = draw_active(dice)
    clause = Clause(verb, PRONOUNS[1], "habit")
    complete(dice, clause, "known")
    clause.negated = deniable(clause) and dice.chance(0.2)
    start = "please do not" if clause.negated else "please"
    return Sentence(
        [clause],
        lambda: finished(f"{start} {clause.infinitive()}", f"bitte {clause.german_imperative()}"),
    )


def two_statements(dice: Dice) -> Sentence:
    """Put two main clauses side by side."""
    tenses: Tenses = dice.pick((("present",), ("past",)))
    one = draw(dice, draw_active(dice), tenses=tenses, timed=False)
    verb = draw_active(dice, one.verb.base)
    subject = describe(dice, dice.pick(verb.subjects), "known")
    other = draw(dice, verb, subject, tenses, timed=False)
    en, de = (", but", ", aber") if dice.chance(0.5) else (", and", " und")
    return Sentence(
        [one, other],
        lambda: finished(
            f"{one.english()}{en} {other.english()}", f"{one.german()}{de} {other.german()}"
        ),
    )
