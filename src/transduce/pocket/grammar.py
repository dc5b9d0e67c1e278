"""The constructions: each draws its clauses and says the sentence in both languages at once."""

from collections.abc import Callable
from typing import NamedTuple

from transduce.pocket import lexicon
from transduce.pocket.clauses import Clause, Tense
from transduce.pocket.phrases import (
    COUNTS,
    ES,
    HOW_MANY,
    IT,
    MANY,
    PEOPLE,
    PRONOUNS,
    RELATIVE,
    SOME,
    THE,
    WHAT,
    WHICH,
    WHO,
    A,
    Determiner,
    Pair,
    Phrase,
    back_to,
    gap,
    noun_phrase,
    prepositional,
)
from transduce.pocket.sampling import (
    BE_VERB,
    BY_FRAME,
    BY_TIME,
    FRONTS,
    FUTURE,
    MODALS_NOW,
    MODALS_PAST,
    SOMEBODY,
    SOMEBODY_FEELS,
    Dice,
    Tenses,
    add_time,
    complete,
    deniable,
    describe,
    draw,
    draw_active,
    draw_moment,
    draw_verb,
    fit,
    other_person,
    spot,
    state,
    subject_of,
    thing,
    weighted,
    when,
)
from transduce.pocket.words import (
    ACCUSATIVE,
    ADJECTIVES,
    ADVERBS,
    DATIVE,
    NOMINATIVE,
    NUMBERS,
    PLURAL,
    VERBS,
    Adjective,
    Noun,
    Verb,
    nouns_that_are,
    rows,
)


class Sentence(NamedTuple):
    """A sentence drawn and not yet written: many are drawn in vain, and writing costs most."""

    clauses: list[Clause]
    write: Callable[[], Pair]


Construction = Callable[[Dice], Sentence]


def finished(en: str, de: str, mark: str = ".") -> Pair:
    """Begin with a capital and end with a mark."""
    de = de.removesuffix(",")  # of a relative clause at the very end
    return Pair(en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark)


def marked(clause: Clause, *marks: str) -> Clause:
    """Note the constructions that a clause takes part in."""
    clause.marks += marks
    return clause


# Main clauses -------------------------------------------------------------------------------------


def statement(dice: Dice) -> Sentence:
    """Draw a plain main clause."""
    clause = draw(dice)
    return Sentence([clause], lambda: finished(clause.english(), clause.german()))


def fronted(dice: Dice) -> Sentence:
    """Begin with the time or the place: German then turns subject and verb around."""
    clause = draw(dice, draw_active(dice), tenses=FRONTED, timed=False, placed=False)
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


FRONTED: Tenses = weighted({"present": 25, "habit": 15, "past": 35, "modal": 25})


def yes_or_no(dice: Dice) -> Sentence:
    """Ask whether something is so."""
    verb = draw_verb(dice)
    clause = draw(dice, verb, subject_of(dice, verb, "known"), denial=0)
    return Sentence(
        [clause],
        lambda: finished(clause.english(question=True), clause.german("first"), "?"),
    )


def liking(dice: Dice) -> Sentence:
    """Say what somebody likes to do: German says it with gern."""
    verb = dice.pick(LIKED)
    subject = subject_of(dice, verb, "known")
    clause = Clause(verb, subject, "like", phrases=[subject], negated=dice.chance(0.2))
    things = [noun for noun in verb.objects if "person" not in noun.tags]
    if things and verb.frame == "transitive":
        clause.accusative = thing(dice, things, subject, "generic")
        clause.phrases.append(clause.accusative)
    else:
        complete(dice, clause, "known")
    if dice.chance(0.25):
        return Sentence(
            [clause],
            lambda: finished(clause.english(question=True), clause.german("first"), "?"),
        )
    return Sentence([clause], lambda: finished(clause.english(), clause.german()))


LIKED = tuple(verb for verb in VERBS if "gern" in verb.uses)


def described(dice: Dice) -> Sentence:
    """Say or ask how somebody or something is."""
    adjective = dice.pick(ADJECTIVES)
    noun = dice.pick(SO[adjective.en])
    feels = adjective in SOMEBODY_FEELS and dice.chance(0.3)
    subject = dice.pick(PRONOUNS) if feels else describe(dice, noun, "known", None, 0)
    tense: Tense = dice.pick(("present", "present", "past"))
    clause = state(dice, subject, tense, adjectives=[adjective])
    if tense == "past" and not clause.negated and adjective in SOMEBODY_FEELS:
        add_time(dice, clause)
    return question(clause) if not clause.negated and dice.chance(0.15) else plain(clause)


SO = {
    one.en: tuple(noun for noun in nouns_that_are(" ".join(sorted(one.tags)))) for one in ADJECTIVES
}


def plain(clause: Clause) -> Sentence:
    """Say a clause by itself."""
    return Sentence([clause], lambda: finished(clause.english(), clause.german()))


def question(clause: Clause) -> Sentence:
    """Ask whether a clause is so."""
    return Sentence(
        [clause], lambda: finished(clause.english(question=True), clause.german("first"), "?")
    )


def compared(dice: Dice) -> Sentence:
    """Compare two of a kind: bigger than, größer als."""
    adjective = dice.pick(COMPARABLE)
    kind = dice.pick([tag for tag in COMPARED if tag in adjective.tags])
    nouns = BY_KIND[kind]
    subject = describe(dice, dice.pick(nouns), "known", None, 0)
    other = thing(dice, nouns, subject, "known")
    assert adjective.more
    en, de = adjective.more
    close = Pair(f"{en} than {other.en}", f"{de} als {other.german(NOMINATIVE)}")
    clause = Clause(BE_VERB, subject, close=close, phrases=[subject, other], predicate=adjective)
    return Sentence([clause], lambda: finished(clause.english(), clause.german()))


COMPARABLE = tuple(one for one in ADJECTIVES if one.more)
COMPARED = [
    "grown",
    "person",
    "pet",
    "farm",
    "beast",
    "text",
    "show",
    "goods",
    "clothes",
    "building",
    "town",
    "load",
]
BY_KIND = {tag: nouns_that_are(tag) for tag in COMPARED}


def numbered(dice: Dice) -> Sentence:
    """Say an age or a price."""
    en, de = dice.pick(NUMBERS)
    if dice.chance(0.5):
        subject = subject_of(dice, LAUGH, "known")
        en, de = dice.pick(ages(subject))
        close = Pair(f"{en} years old", f"{de} Jahre alt")
        clause = Clause(BE_VERB, subject, close=close, phrases=[subject])
    else:
        subject = describe(dice, dice.pick(COST.subjects), "known")
        clause = Clause(COST, subject, close=Pair(f"{en} euros", f"{de} Euro"), phrases=[subject])
    return Sentence([clause], lambda: finished(clause.english(), clause.german()))


def ages(subject: Phrase) -> tuple[tuple[str, str], ...]:
    """List the ages that somebody can have."""
    if subject.noun is None:
        return NUMBERS
    if "child" in subject.noun.tags:
        return NUMBERS[:13]
    if subject.noun.en[0].startswith("grand"):
        return NUMBERS[60:]
    return NUMBERS[20:80]


def there_is(dice: Dice) -> Sentence:
    """Say what there is in a place: In der Küche gibt es einen Tisch."""
    inside = dice.chance(0.6)
    where, phrases = spot(dice, None, ROOMS if inside else TOWNS)
    noun = dice.pick(FURNITURE if inside else BUILDINGS)
    phrase = describe(dice, noun, "object")
    if phrase.kind != "indefinite" or phrase.gender == PLURAL:
        which = dice.pick((MANY, SOME, *COUNTS[:4])) if phrase.gender == PLURAL else A
        phrase = noun_phrase(which, noun, phrase.adjective, plural=phrase.gender == PLURAL)
    verb = "are" if phrase.gender == PLURAL else "is"
    clause = Clause(BE_VERB, phrase, phrases=[phrase, *phrases])
    return Sentence(
        [marked(clause, "es gibt")],
        lambda: finished(
            f"there {verb} {phrase.en} {where.en}",
            f"{where.de} gibt es {phrase.german(ACCUSATIVE)}",
        ),
    )


ROOMS, TOWNS = nouns_that_are("room"), nouns_that_are("town")
FURNITURE, BUILDINGS = nouns_that_are("furniture"), nouns_that_are("building castle")


def passive(dice: Dice) -> Sentence:
    """Say what was done, and perhaps by whom."""
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
    return Sentence([clause], lambda: finished(clause.english(), clause.german()))


PASSIVES = tuple(verb for verb in VERBS if "passive" in verb.uses)


def request(dice: Dice) -> Sentence:
    """Ask a friend to do something."""
    verb = draw_active(dice)
    while verb.frame not in WITH_OBJECT or verb.uses & {"happens", "lasts"}:
        verb = draw_active(dice)
    clause = Clause(verb, PRONOUNS[1], "habit")
    complete(dice, clause, "known")
    clause.negated = deniable(clause) and dice.chance(0.2)
    start = "please do not" if clause.negated else "please"
    return Sentence(
        [marked(clause, "bitte")],
        lambda: finished(f"{start} {clause.infinitive()}", f"bitte {clause.german_imperative()}"),
    )


WITH_OBJECT = ("transitive", "dative", "ditransitive", "prepositional")


# Questions with a question word -------------------------------------------------------------------


def who_does(dice: Dice) -> Sentence:
    """Ask for the subject."""
    verb = draw_verb(dice)
    while not verb.personal:
        verb = draw_verb(dice)
    clause = draw(dice, verb, WHO, ASKED, denial=0.1)
    return Sentence([clause], lambda: finished(clause.english(), clause.german(), "?"))


ASKED: Tenses = weighted({"present": 40, "past": 40, "modal": 20})


def what_or_whom(dice: Dice) -> Sentence:
    """Ask for the object: was, wen or wem, as the verb has it."""
    verb = dice.pick(ASKABLE)
    clause = draw(dice, verb, asked(dice, verb), ASKED, denial=0, placed=False)
    found = clause.accusative if verb.frame == "transitive" else clause.dative
    assert found
    word = WHO if "person" in verb.objects[0].tags else WHAT
    case = ACCUSATIVE if verb.frame == "transitive" else DATIVE
    if word is WHAT and found.noun and found.noun.numbers == "both" and dice.chance(0.5):
        return what_kind(dice, clause, found.noun)
    return ask_for(clause, Pair(word.en, word.german(case)))


def asked(dice: Dice, verb: Verb) -> Phrase:
    """Draw whom a question is about: somebody known, and not the one who asks."""
    subject = subject_of(dice, verb, "known")
    while subject.person == 0:
        subject = subject_of(dice, verb, "known")
    return subject


def what_kind(dice: Dice, clause: Clause, noun: Noun) -> Sentence:
    """Ask for one or for a number of a kind: which book, how many books."""
    many = dice.chance(0.5)
    phrase = noun_phrase(HOW_MANY if many else WHICH, noun, None, plural=many)
    sentence = ask_for(clause, Pair(phrase.en, phrase.german(ACCUSATIVE)))
    clause.accusative = gap(phrase)
    clause.phrases.append(clause.accusative)
    return sentence


def ask_for(clause: Clause, word: Pair) -> Sentence:
    """Ask for the object of a clause."""
    clause.phrases = [clause.subject]
    clause.accusative = clause.dative = clause.close = None
    return Sentence(
        [clause],
        lambda: finished(
            f"{word.en} {clause.english(question=True)}", f"{word.de} {clause.german('first')}", "?"
        ),
    )


def only(verb: Verb, tag: str) -> bool:
    """Whether all that the verb is done to is of one kind."""
    return all(tag in noun.tags for noun in verb.objects)


ASKABLE = tuple(
    verb
    for frame in ("transitive", "dative")
    for verb in BY_FRAME[frame]
    if verb.personal and verb.aspect != "state" and (only(verb, "person") or only(verb, "thing"))
)


def where_to(dice: Dice) -> Sentence:
    """Ask for a place: wo somebody is, wohin somebody goes."""
    verb = dice.pick(WHERE)
    subject = asked(dice, verb)
    clause = draw(dice, verb, subject, ASKED, denial=0, timed=verb.base != "be", placed=False)
    word = Pair("where", "wohin" if verb.frame == "motion" else "wo")
    if verb.frame not in ("motion", "posture"):
        return Sentence(
            [clause],
            lambda: finished(
                f"where {clause.english(question=True)}", f"wo {clause.german('first')}", "?"
            ),
        )
    return ask_for(clause, word)


WHERE = (
    *(verb for verb in BY_FRAME["motion"] if verb.base != "come"),  # from where, to where?
    *(verb for verb in BY_FRAME["posture"] if not verb.objects),
    *(verb for verb in VERBS if "place" in verb.uses and verb.aspect == "activity"),
)


def when_or_why(dice: Dice) -> Sentence:
    """Ask for the time or the reason."""
    why = dice.chance(0.5)
    verb = draw_active(dice)
    clause = draw(dice, verb, asked(dice, verb), ASKED, denial=0.2 if why else 0, timed=why)
    word = Pair("why", "warum") if why else Pair("when", "wann")
    return Sentence(
        [clause],
        lambda: finished(
            f"{word.en} {clause.english(question=True)}", f"{word.de} {clause.german('first')}", "?"
        ),
    )


def how_much(dice: Dice) -> Sentence:
    """Ask for an age or a price."""
    if dice.chance(0.5):
        subject = subject_of(dice, LAUGH, "known")
        clause = Clause(BE_VERB, subject, phrases=[subject])
        word = Pair("how old", "wie alt")
    else:
        subject = describe(dice, dice.pick(COST.subjects), "known")
        clause = Clause(COST, subject, phrases=[subject])
        word = Pair("how much", "wie viel")
    return ask_for(clause, word)


# Relative clauses ---------------------------------------------------------------------------------


class Relative(NamedTuple):
    """A relative clause, to be written later."""

    clause: Clause
    write: Callable[[], Pair]


def relative(dice: Dice, head: Phrase, main: Verb) -> Relative:
    """Draw a relative clause about the head, with another verb than the main clause."""
    made = relative_of_any_kind(dice, head)
    while made.clause.verb.key == main.key:
        made = relative_of_any_kind(dice, head)
    return made


def relative_of_any_kind(dice: Dice, head: Phrase) -> Relative:
    """Draw a relative clause: its pronoun has the head's gender and number, and its own case."""
    assert head.noun
    roll = dice.random()
    if roll < (0.4 if head.noun.tags & {"person", "animal"} else 0.08):
        made = relative_subject(dice, head)
    elif roll < 0.75:
        made = relative_object(dice, head)
    elif roll < 0.88:
        made = relative_preposition(dice, head)
    else:
        made = relative_owner(dice, head)
    made = made or relative_subject(dice, head) or relative_object(dice, head)
    assert made
    return made


def relative_subject(dice: Dice, head: Phrase) -> Relative | None:
    """Draw: the man who is working."""
    assert head.noun
    verbs = DOES.get(head.noun.key)
    if not verbs:
        return None
    clause = marked(draw(dice, dice.pick(verbs), gap(head)), "relative")
    word = "who" if head.human else "that"
    pronoun = RELATIVE[head.gender]
    return Relative(
        clause, lambda: Pair(f"{word} {clause.english()}", f"{pronoun} {clause.german('last')}")
    )


def relative_object(dice: Dice, head: Phrase) -> Relative | None:
    """Draw: the man whom she is helping, the book that she is reading."""
    assert head.noun
    verbs = UNDERGOES.get(head.noun.key)
    if not verbs:
        return None
    verb = dice.pick(verbs)
    clause = draw(dice, verb, subject_of(dice, verb, "known"), RELATED, placed=False)
    hole = gap(head)
    if verb.frame == "dative":
        clause.dative = hole
    else:
        clause.accusative = hole
        clause.close = None
    clause.phrases = [clause.subject, hole]
    marked(clause, "relative")
    word = "whom" if head.human else "that"
    pronoun = RELATIVE[4 * (DATIVE if verb.frame == "dative" else ACCUSATIVE) + head.gender]
    return Relative(
        clause, lambda: Pair(f"{word} {clause.english()}", f"{pronoun} {clause.german('last')}")
    )


RELATED: Tenses = weighted({"present": 30, "past": 40, "perfect": 5, "modal": 20, "habit": 10})


def relative_preposition(dice: Dice, head: Phrase) -> Relative | None:
    """Draw: the bus that she is waiting for, the man for whom she is waiting."""
    assert head.noun
    verbs = CONCERNS.get(head.noun.key)
    if not verbs:
        return None
    verb = dice.pick(verbs)
    assert verb.preposition
    en, de, case = verb.preposition
    clause = draw(dice, verb, subject_of(dice, verb, "known"), RELATED, timed=head.human)
    clause.close = None if head.human else Pair(en, "")
    clause.phrases = [clause.subject, gap(head)]
    marked(clause, "relative")
    word = f"{en} whom" if head.human else "that"
    pronoun = f"{de} {RELATIVE[4 * case + head.gender]}"
    return Relative(
        clause, lambda: Pair(f"{word} {clause.english()}", f"{pronoun} {clause.german('last')}")
    )


def relative_owner(dice: Dice, head: Phrase) -> Relative | None:
    """Draw: the man whose dog is barking."""
    if not head.human:
        return None
    owned = describe(dice, dice.pick(OWNED), "known", None, 0)
    assert owned.noun
    verbs = DOES[owned.noun.key]
    which = WHOSE_SHE if head.gender in (1, PLURAL) else WHOSE_HE
    subject = noun_phrase(which, owned.noun, None, plural=owned.gender == PLURAL)
    clause = marked(draw(dice, dice.pick(verbs), subject), "relative")
    clause.phrases.append(gap(head))
    return Relative(clause, lambda: Pair(clause.english(), clause.german("last")))


def by_noun(verbs: tuple[Verb, ...], *, subjects: bool) -> dict[str, tuple[Verb, ...]]:
    """Index verbs by the nouns that do them, or that they are done to."""
    index: dict[str, list[Verb]] = {}
    for verb in verbs:
        for noun in verb.subjects if subjects else verb.objects:
            index.setdefault(noun.key, []).append(verb)
    return {key: tuple(found) for key, found in index.items()}


NOUN_FRAMES = ("transitive", "intransitive", "dative", "prepositional", "motion")
DOES = by_noun(tuple(one for frame in NOUN_FRAMES for one in BY_FRAME[frame]), subjects=True)
UNDERGOES = by_noun((*BY_FRAME["transitive"], *BY_FRAME["dative"][:-1]), subjects=False)
CONCERNS = by_noun(BY_FRAME["prepositional"], subjects=False)
OWNED = nouns_that_are("brother sister son daughter dog cat friend uncle aunt")
WHOSE_HE = Determiner(("whose ", "whose "), ("dessen ",) * 12, THE.endings, "definite")
WHOSE_SHE = Determiner(("whose ", "whose "), ("deren ",) * 12, THE.endings, "definite")
HEADS = tuple(
    noun
    for noun in nouns_that_are("person animal thing place")
    if "kin" not in noun.tags and noun.adjectives and len(UNDERGOES.get(noun.key, ())) > 1
)


def with_relative_subject(dice: Dice) -> Sentence:
    """Draw: the man who is working is calling his son."""
    noun = dice.pick(HEADS)
    head = describe(dice, noun, "head", None, 0.12)
    if noun.key in DOES and dice.chance(0.6 if noun.tags & {"person", "animal"} else 0.15):
        clause = draw(dice, dice.pick(DOES[noun.key]), head)
    else:
        clause = state(dice, head, dice.pick(("present", "past")))
    about = relative(dice, head, clause.verb)

    def write() -> Pair:
        en, de = about.write()
        whole = gap(head)
        whole.en, whole.fixed = f"{head.en} {en}", (f"{head.german(NOMINATIVE)}, {de},", "", "")
        clause.subject = whole
        return finished(clause.english(), clause.german())

    return Sentence([clause, about.clause], write)


def with_relative_object(dice: Dice) -> Sentence:
    """Draw: she knows the man who is working; the German relative clause waits for the verb."""
    verb = dice.pick(RELATABLE)
    nouns = [noun for noun in verb.objects if noun in HEADS]
    subject = subject_of(dice, verb)
    noun = dice.pick(nouns)
    head = describe(dice, noun, "head", None, 0.12)
    clause = draw(dice, verb, subject, denial=0, timed=False, placed=False)
    if clause.tense in ("habit", "perfect"):
        clause.tense = "past"
    clause.phrases = [subject, head]
    clause.close = None
    if verb.frame == "transitive":
        clause.accusative = head
    elif verb.frame == "dative":
        clause.dative = head
    else:
        assert verb.preposition
        clause.close = prepositional(*verb.preposition, head)
    about = relative(dice, head, verb)

    def write() -> Pair:
        en, de = about.write()
        return finished(f"{clause.english()} {en}", f"{clause.german()}, {de}")

    return Sentence([clause, about.clause], write)


RELATABLE = tuple(
    verb
    for frame in ("transitive", "dative", "prepositional")
    for verb in BY_FRAME[frame]
    if any(noun in HEADS for noun in verb.objects)
)


# Subordinate clauses ------------------------------------------------------------------------------


def joined(main: Clause, sub: Clause, en: str, de: str, *, first: bool) -> Sentence:
    """Join a main and a subordinate clause, in either order."""
    marked(sub, de)
    if first:
        return Sentence(
            [main, sub],
            lambda: finished(
                f"{en} {sub.english()}, {main.english()}",
                f"{de} {sub.german('last')}, {main.german('first')}",
            ),
        )
    return Sentence(
        [main, sub],
        lambda: finished(
            f"{main.english()} {en} {sub.english()}",
            f"{main.german()}, {de} {sub.german('last')}",
        ),
    )


def weather(dice: Dice) -> Clause:
    """Draw: it is raining."""
    return Clause(dice.pick(WEATHER), ES)


def background(dice: Dice, main: Clause, tense: str) -> Clause:
    """Draw a state that may explain what somebody does, now or in the past."""
    about = main.subject
    subject = back_to(about) if dice.chance(0.75) else None
    if not about.human and len(main.phrases) > 1:  # which of them is "it"?
        subject = None
    if subject is None:
        roll = dice.random()
        if roll < 0.2 and tense == "present":
            return weather(dice)
        subject = describe(dice, dice.pick(SOMEBODY), "known") if roll < 0.8 else dice.pick(PEOPLE)
    if not subject.human:
        noun = about.noun
        assert noun
        return animal_state(dice, subject, noun, tense)
    roll = dice.random()
    if roll < 0.45:
        return state(
            dice, subject, "past" if tense == "past" else "present", adjectives=SOMEBODY_FEELS
        )
    if roll < 0.75 and tense == "present":
        return draw(dice, dice.pick(STATES), subject, ("present",), timed=False)
    clause = draw(dice, draw_active(dice), subject, ("modal",), timed=False, placed=False)
    clause.modal = dice.pick(MODALS_PAST if tense == "past" else MODALS_NOW)
    return clause


def animal_state(dice: Dice, pronoun: Phrase, noun: Noun, tense: str) -> Clause:
    """Draw: because it was hungry."""
    adjectives = [one for one in noun.adjectives if one.en in CREATURELY]
    adjective = dice.pick(adjectives)
    clause = Clause(BE_VERB, pronoun, "past" if tense == "past" else "present", phrases=[pronoun])
    clause.close, clause.predicate = Pair(adjective.en, adjective.alone), adjective
    return clause


CREATURELY = frozenset(
    ["hungry", "thirsty", "tired", "sick", "young", "old", "big", "small", "strong"]
)
WEATHER = tuple(verb for verb in VERBS if verb.base in ("rain", "snow"))
STATES = tuple(
    verb
    for frame in ("transitive", "dative")
    for verb in BY_FRAME[frame]
    if verb.aspect == "state" and verb.personal
)
COST = next(verb for verb in VERBS if verb.base == "cost")
LAUGH = next(verb for verb in VERBS if verb.base == "laugh")


def because_or_although(dice: Dice) -> Sentence:
    """Give a reason, or what was no reason."""
    past = dice.chance(0.35)
    tenses: Tenses = ("past",) if past else ("present", "present", "modal")
    verb = draw_active(dice)
    main = draw(dice, verb, tenses=tenses, denial=0.2)
    if main.modal and main.modal.adverbs == "past":
        past = True
    sub = background(dice, main, "past" if past else "present")
    en, de = dice.pick((("because", "weil"), ("because", "weil"), ("although", "obwohl")))
    return joined(main, sub, en, de, first=en == "although" and dice.chance(0.5))


def because_it(dice: Dice) -> Sentence:
    """Point back to a thing: it is er, sie or es, as the noun has it."""
    reason = dice.pick(REASONS)
    although = bool(reason.despite) and dice.chance(0.35)
    found, adjective = qualified(dice, reason, "object", despite=although)
    main = done_to(dice, reason.verb, found, dice.pick((("present",), ("past",))))
    sub = Clause(BE_VERB, IT[found.gender], "past" if main.tense == "past" else "present")
    sub.close, sub.predicate = Pair(adjective.en, adjective.alone), adjective
    sub.phrases = [gap(found)]
    en, de = ("although", "obwohl") if although else ("because", "weil")
    return joined(main, sub, en, de, first=False)


def if_it(dice: Dice) -> Sentence:
    """Point back to a thing in the main clause: wenn die Suppe kalt ist, isst sie sie nicht."""
    reason = dice.pick(PLANS)
    denied = bool(reason.despite) and dice.chance(0.4)
    found, adjective = qualified(dice, reason, "known", despite=denied)
    sub = state(dice, found, "present", 0, [adjective])
    main = done_to(dice, reason.verb, IT[found.gender], ("modal",))
    main.modal = dice.pick(MODALS_NOW)
    main.negated = denied and main.subject.kind != "indefinite"
    main.phrases[1:] = [gap(found)]
    return joined(main, sub, "if", "wenn", first=True)


class Reason(NamedTuple):
    """What one does to things that are so, or in spite of it."""

    verb: Verb
    because: tuple[tuple[Noun, Adjective], ...]
    despite: tuple[tuple[Noun, Adjective], ...]


def read_reasons() -> tuple[Reason, ...]:
    """Match the verbs of the table with the nouns and adjectives that go together."""
    verbs = {f"{verb.base}~{verb.particle}".strip("~"): verb for verb in PEOPLE_DO}
    return tuple(
        Reason(verbs[key], qualities(verbs[key], because), qualities(verbs[key], despite))
        for key, because, despite in rows(lexicon.REASONS)
    )


def qualities(verb: Verb, adjectives: str) -> tuple[tuple[Noun, Adjective], ...]:
    """List the things that the verb is done to with those of the adjectives they can have."""
    wanted = adjectives.split()
    things = [noun for noun in verb.objects if noun.tags & {"thing", "place"}]
    return tuple((noun, one) for noun in things for one in noun.adjectives if one.en in wanted)


def qualified(dice: Dice, reason: Reason, role: str, *, despite: bool) -> tuple[Phrase, Adjective]:
    """Draw a thing and how it is."""
    noun, adjective = dice.pick(reason.despite if despite else reason.because)
    return describe(dice, noun, role, None, 0), adjective


def done_to(dice: Dice, verb: Verb, found: Phrase, tenses: Tenses) -> Clause:
    """Draw who does something to a thing."""
    subject = subject_of(dice, verb)
    clause = Clause(verb, subject, fit(dice, verb, tenses), accusative=found)
    clause.phrases = [subject, found]
    return clause


PEOPLE_DO = tuple(verb for verb in BY_FRAME["transitive"] if verb.personal)
REASONS = read_reasons()
PLANS = tuple(reason for reason in REASONS if reason.verb.aspect == "activity")


def if_or_when(dice: Dice) -> Sentence:
    """Give a condition; when in the present is wenn as well."""
    verb = draw_active(dice, "ask")  # "asks when" would be another sentence
    habit = dice.chance(0.4)
    tenses: Tenses = ("habit",) if habit else ("modal",)
    main = draw(dice, verb, tenses=tenses, timed=False, denial=0.25)
    if main.tense == "modal":
        main.modal = dice.pick(MODALS_NOW) if dice.chance(0.5) else FUTURE
    sub = condition(dice, back_to(main.subject))
    if sub.subject is ES and not habit and dice.chance(0.4):
        sub.time = TOMORROW
    en = "when" if habit and present(main) and present(sub) and dice.chance(0.5) else "if"
    return joined(main, sub, en, "wenn", first=dice.chance(0.6))


def condition(dice: Dice, subject: Phrase | None) -> Clause:
    """Draw a condition, in the present without an adverb."""
    roll = dice.random()
    if roll < 0.3 or (subject is not None and not subject.human):
        return Clause(dice.pick(WEATHER), ES, "habit")
    if roll < 0.65 and subject is not None:
        return state(dice, subject, adjectives=SOMEBODY_FEELS)
    verb = draw_active(dice)
    return draw(dice, verb, subject if dice.chance(0.4) else None, ("habit",), timed=False)


def present(clause: Clause) -> bool:
    """Whether the English verb shows that it is not in the past, as "they read" does not."""
    same = clause.verb.base == clause.verb.past
    return not same or clause.negated or clause.subject.person == 2


TOMORROW = next(one for one in ADVERBS if one.en == "tomorrow")


def when_it_happened(dice: Dice) -> Sentence:
    """Say when something happened: when in the past is als."""
    main = draw(dice, draw_active(dice, "ask"), tenses=("past",), timed=False)
    sub = draw(dice, draw_moment(dice), tenses=("past",), timed=False, denial=0)
    return joined(main, sub, "when", "als", first=dice.chance(0.6))


def while_or_before(dice: Dice) -> Sentence:
    """Order two things in time."""
    if dice.chance(0.5):
        main = draw(dice, draw_active(dice), tenses=("present",), timed=False, denial=0)
        sub = draw(dice, draw_active(dice), tenses=("present",), timed=False, denial=0)
        return joined(main, sub, "while", "während", first=dice.chance(0.5))
    main = draw(dice, draw_active(dice), tenses=("modal",), timed=False, denial=0)
    main.modal = dice.pick(MODALS_NOW)
    subject = back_to(main.subject)
    if subject is not None and not subject.human:
        subject = None
    sub = draw(dice, draw_active(dice, "lasts"), subject, ("habit",), timed=False, denial=0)
    return joined(main, sub, "before", "bevor", first=dice.chance(0.4))


# Clauses as objects -------------------------------------------------------------------------------

THAT = tuple(verb for verb in VERBS if "that" in verb.uses)
WHETHER = tuple(verb for verb in VERBS if "whether" in verb.uses)
TO = tuple(verb for verb in VERBS if verb.frame == "speech" and "to" in verb.uses)
KNOW = next(verb for verb in VERBS if verb.infinitive == "wissen")
JUDGEMENTS = (
    Pair("good", "gut"),
    Pair("important", "wichtig"),
    Pair("possible", "möglich"),
    Pair("strange", "seltsam"),
    Pair("true", "wahr"),
)
EMBEDDED: Tenses = weighted({"present": 35, "past": 30, "perfect": 5, "modal": 25, "habit": 10})


def speaker(dice: Dice, verb: Verb) -> Clause:
    """Draw who says, asks or knows it."""
    subject = subject_of(dice, verb, "known")
    clause = Clause(verb, subject, phrases=[subject])
    if verb.base == "ask" and dice.chance(0.7):
        clause.accusative = other_person(dice, SOMEBODY, subject, "known")
        clause.phrases.append(clause.accusative)
    return clause


def that(dice: Dice) -> Sentence:
    """Say what somebody knows, thinks, says or hopes; or that it is good."""
    sub = draw(dice, tenses=EMBEDDED)
    if dice.chance(0.2):
        judgement = dice.pick(JUDGEMENTS)
        main = Clause(BE_VERB, ES, close=judgement)
    else:
        main = speaker(dice, dice.pick(THAT))
    return joined_object(main, sub, Pair("that", "dass"))


def joined_object(main: Clause, sub: Clause, word: Pair, mark: str = ".") -> Sentence:
    """Join a clause that is the object of another."""
    marked(sub, word.de)
    question = mark == "?"
    return Sentence(
        [main, sub],
        lambda: finished(
            f"{main.english(question=question)} {word.en} {sub.english()}",
            f"{main.german('first' if question else 'second')}, {word.de} {sub.german('last')}",
            mark,
        ),
    )


def whether(dice: Dice) -> Sentence:
    """Say what somebody does not know or asks: ob, wo, wann or warum."""
    verb = dice.pick(WHETHER)
    main = speaker(dice, verb)
    mark = "."
    if verb is KNOW:
        if dice.chance(0.4):
            mark = "?"
        elif dice.chance(0.7):
            main.negated = True
    roll = dice.random()
    if roll < 0.4:
        if verb is KNOW and mark == "." and not main.negated:
            main.negated = True
        sub = draw(dice, tenses=EMBEDDED, denial=0)
        return joined_object(main, sub, Pair("whether", "ob"), mark)
    if roll < 0.6:
        sub = draw(dice, draw_active(dice), tenses=ASKED, denial=0, timed=False)
        return joined_object(main, sub, Pair("when", "wann"), mark)
    if roll < 0.8:
        sub = draw(dice, tenses=ASKED)
        return joined_object(main, sub, Pair("why", "warum"), mark)
    verb = dice.pick(BY_FRAME["posture"][:1])
    sub = draw(dice, verb, subject_of(dice, verb, "known"), ("present",), denial=0, timed=False)
    sub.close = None
    sub.phrases = [sub.subject]
    return joined_object(main, sub, Pair("where", "wo"), mark)


def to_do(dice: Dice) -> Sentence:
    """Say what somebody tries, hopes, forgets or promises to do."""
    verb = dice.pick(TO)
    subject = subject_of(dice, verb)
    main = Clause(verb, subject, phrases=[subject])
    if verb.aspect == "event":
        main.tense = "past"
    active = draw_active(dice)
    while not intended(active) or (active.frame == "intransitive" and verb.base == "forget"):
        active = draw_active(dice)
    inner = draw(dice, active, subject, ("habit",), timed=False, placed=False, denial=0)
    marked(inner, "zu")
    return Sentence(
        [main, inner],
        lambda: finished(
            f"{main.english()} to {inner.infinitive()}", f"{main.german()}, {inner.german_zu()}"
        ),
    )


def intended(verb: Verb) -> bool:
    """Whether somebody can plan to do it."""
    return verb.frame in (*WITH_OBJECT, "intransitive") and "happens" not in verb.uses


def in_order_to(dice: Dice) -> Sentence:
    """Say what somebody goes somewhere for: um ein Buch zu kaufen."""
    verb = dice.pick(BY_FRAME["motion"])
    main = draw(dice, verb, None, PURPOSEFUL, denial=0, timed=False)
    inner = draw(
        dice, dice.pick(AIMS), main.subject, ("habit",), timed=False, placed=False, denial=0
    )
    marked(inner, "um zu")
    return Sentence(
        [main, inner],
        lambda: finished(
            f"{main.english()} to {inner.infinitive()}", f"{main.german()}, um {inner.german_zu()}"
        ),
    )


AIMS = tuple(verb for verb in VERBS if "aim" in verb.uses)
PURPOSEFUL: Tenses = ("present", "past", "modal")


def coordinated(dice: Dice) -> Sentence:
    """Put two main clauses side by side."""
    tenses: Tenses = dice.pick((("present",), ("past",)))
    one = draw(dice, draw_active(dice), tenses=tenses, timed=False)
    verb = draw_active(dice)
    other = draw(dice, verb, describe(dice, dice.pick(verb.subjects), "known"), tenses, timed=False)
    if dice.chance(0.5):
        en, de = ", but", ", aber"
    else:
        en, de = ", and", " und"
    return Sentence(
        [one, other],
        lambda: finished(
            f"{one.english()}{en} {other.english()}", f"{one.german()}{de} {other.german()}"
        ),
    )


CONSTRUCTIONS: dict[str, tuple[Construction, int]] = {
    "statement": (statement, 200),
    "fronted": (fronted, 80),
    "yes_or_no": (yes_or_no, 60),
    "liking": (liking, 25),
    "described": (described, 55),
    "compared": (compared, 20),
    "numbered": (numbered, 25),
    "there_is": (there_is, 20),
    "passive": (passive, 30),
    "request": (request, 25),
    "who_does": (who_does, 20),
    "what_or_whom": (what_or_whom, 30),
    "where_to": (where_to, 20),
    "when_or_why": (when_or_why, 25),
    "how_much": (how_much, 10),
    "with_relative_subject": (with_relative_subject, 60),
    "with_relative_object": (with_relative_object, 60),
    "because_or_although": (because_or_although, 60),
    "because_it": (because_it, 25),
    "if_it": (if_it, 20),
    "if_or_when": (if_or_when, 45),
    "when_it_happened": (when_it_happened, 20),
    "while_or_before": (while_or_before, 30),
    "that": (that, 45),
    "whether": (whether, 35),
    "to_do": (to_do, 30),
    "in_order_to": (in_order_to, 25),
    "coordinated": (coordinated, 30),
}
