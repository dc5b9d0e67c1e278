"""Random noun phrases and places that make sense."""

from collections.abc import Sequence

from transduce.datasets.pocket.dice import Dice, weighted
from transduce.datasets.pocket.phrases import (
    BARE,
    COUNTS,
    EVERY,
    MANY,
    MY,
    NO,
    OF_NAMES,
    OUR,
    PEOPLE,
    POSSESSIVES,
    PRONOUNS,
    SOME,
    THE,
    THIS,
    YOUR,
    A,
    Determiner,
    Pair,
    Phrase,
    at,
    both,
    noun_phrase,
    prepositional,
)
from transduce.datasets.pocket.words import (
    CITIES,
    DATIVE,
    Noun,
    Verb,
    nouns_that_are,
)

# Phrases ------------------------------------------------------------------------------------------

OWN, NAMED, COUNTED = "own", "named", "counted"
Choice = Determiner | str
Menu = tuple[Choice, ...]
SUBJECT_ONE: Menu = weighted({THE: 48, A: 22, THIS: 7, OWN: 15, NAMED: 3, EVERY: 3, NO: 2})
SUBJECT_MANY: Menu = weighted({THE: 40, COUNTED: 24, MANY: 10, SOME: 10, THIS: 6, OWN: 10})
OBJECT_ONE: Menu = weighted({THE: 42, A: 30, THIS: 6, OWN: 18, NAMED: 4})
OBJECT_MANY: Menu = weighted({THE: 30, COUNTED: 22, BARE: 22, MANY: 8, SOME: 8, THIS: 4, OWN: 6})
KNOWN_ONE: Menu = weighted({THE: 70, THIS: 6, OWN: 20, NAMED: 4})
KNOWN_MANY: Menu = weighted({THE: 70, THIS: 12, OWN: 18})
GIVEN_ONE: Menu = weighted({THE: 46, A: 34, THIS: 6, OWN: 14})
GIVEN_MANY: Menu = weighted({THE: 50, COUNTED: 40, THIS: 10})
KIN: Menu = weighted({OWN: 85, NAMED: 15})
MASS: Menu = (THE, THE, BARE, BARE, BARE)
MENUS: dict[str, tuple[Menu, Menu, Menu]] = {
    "subject": (SUBJECT_ONE, SUBJECT_MANY, (THE,)),
    "object": (OBJECT_ONE, OBJECT_MANY, MASS),
    "known": (KNOWN_ONE, KNOWN_MANY, (THE,)),
    "given": (GIVEN_ONE, GIVEN_MANY, (THE,)),
    "had": ((A,), (COUNTED, BARE, MANY), (BARE,)),
    "plain": ((THE, THE, THIS), (THE, THE, THIS), (THE,)),
    "generic": ((), (BARE,), (BARE,)),
    # The head of a relative clause.
    "head": ((THE, THE, THE, A), (THE, THE, COUNTED, MANY), (THE,)),
}
SMALL_COUNTS = COUNTS[:11]


def count(dice: Dice) -> Determiner:
    """Draw a number, mostly a small one."""
    return dice.pick(SMALL_COUNTS if dice.chance(0.88) else COUNTS)


def possessive(dice: Dice, subject: Phrase | None) -> Determiner:
    """Draw a possessive; in an object it refers to the subject, or is my, your or our."""
    if subject is None:
        return dice.pick(POSSESSIVES)
    if subject.owner is not None and dice.chance(0.75):
        return POSSESSIVES[subject.owner]
    return POSSESSIVES[dice.pick((MY, YOUR, OUR))]


def describe(
    dice: Dice, noun: Noun, role: str, subject: Phrase | None = None, adjective: float = 0.26
) -> Phrase:
    """Give a noun a number, a determiner and perhaps an adjective."""
    singular_menu, plural_menu, mass_menu = MENUS[role]
    plural = noun.numbers == "plural"
    if noun.numbers == "both":
        plural = not singular_menu or dice.chance(0.25)
    if "kin" in noun.tags:
        menu = KIN
    else:
        counted = plural_menu if plural else singular_menu
        menu = mass_menu if noun.numbers == "mass" else counted
    choice = dice.pick(menu)
    if not suits(choice, noun, role, plural=plural, subject=subject):
        choice = OWN if "kin" in noun.tags else THE
    chosen = None
    if noun.adjectives and dice.chance(adjective):
        chosen = dice.pick(noun.adjectives)
    return noun_phrase(determine(dice, choice, subject), noun, chosen, plural=plural)


def suits(choice: Choice, noun: Noun, role: str, *, plural: bool, subject: Phrase | None) -> bool:
    """Return whether a determiner makes sense with a noun."""
    if choice == NAMED and (plural or (subject is not None and subject.fixed)):
        return False  # Anna's brother, but not: Anna is calling Anna's brother
    if choice in (OWN, NAMED):
        return bool(noun.tags & {"own", "kin"}) and "transport" not in noun.tags
    if choice is BARE:
        return role == "generic" or not noun.tags & {"person", "place"}
    return True


def determine(dice: Dice, choice: Choice, subject: Phrase | None) -> Determiner:
    """Return the determiner for a choice from the menus."""
    if choice == OWN:
        return possessive(dice, subject)
    if choice == NAMED:
        return dice.pick(OF_NAMES)
    if choice == COUNTED:
        return count(dice)
    assert isinstance(choice, Determiner)
    return choice


def person(dice: Dice) -> Phrase | None:
    """Draw a pronoun or a name as a subject, or None for a noun."""
    roll = dice.random()
    if roll < 0.28:
        return dice.pick(PRONOUNS)
    if roll < 0.42:
        return dice.pick(PEOPLE)
    if roll < 0.45:
        first, second = dice.pick(PEOPLE), dice.pick(PEOPLE)
        return both(first, second) if first is not second else first
    return None


def subject_of(dice: Dice, verb: Verb, role: str = "subject") -> Phrase:
    """Draw a possible subject of a verb."""
    somebody = person(dice) if verb.personal else None
    if verb.base == "belong":
        role = "plain"  # not: her book belongs to him
    return somebody or describe(dice, dice.pick(verb.subjects), role)


def other_person(dice: Dice, nouns: Sequence[Noun], subject: Phrase, role: str) -> Phrase:
    """Draw a person as an object, not the subject: a pronoun, a name or a noun."""
    roll = dice.random()
    if roll < 0.2:
        pronoun = dice.pick(PRONOUNS)
        if not clash(subject, pronoun):
            return pronoun
    elif roll < 0.32:
        name = dice.pick(PEOPLE)
        if name is not subject:
            return name
    return thing(dice, nouns, subject, role)


def clash(subject: Phrase, pronoun: Phrase) -> bool:
    """Return whether the object would need myself or ourselves."""
    first = {0, 3}
    if subject.person in first:
        return pronoun.person in first
    return subject.person == 1 and pronoun.person == 1


def thing(dice: Dice, nouns: Sequence[Noun], subject: Phrase, role: str) -> Phrase:
    """Draw an object that is a noun, and not the subject's own."""
    noun = dice.pick(nouns)
    while noun is subject.noun and len(nouns) > 1:
        noun = dice.pick(nouns)
    return describe(dice, noun, role, subject)


def object_of(dice: Dice, verb: Verb, subject: Phrase, role: str = "object") -> Phrase:
    """Draw a possible object of a verb."""
    if "person" in verb.objects[0].tags and len(verb.objects) > 20:
        return other_person(dice, verb.objects, subject, role)
    return thing(dice, verb.objects, subject, role)


# Places -------------------------------------------------------------------------------------------

SOMEBODY = nouns_that_are("person")
SPOTS = nouns_that_are("place")
GOALS = nouns_that_are("goal")
HOMES = nouns_that_are("house castle hotel village city island")
SURFACES = nouns_that_are("surface")
HOLLOWS = nouns_that_are("hollow")
LANDMARKS = nouns_that_are("landmark")
NEAR = (("behind", "hinter"), ("in front of", "vor"), ("next to", "neben"))
AT_HOME, HOME = Pair("at home", "zu Hause"), Pair("home", "nach Hause")
Place = tuple[Pair, list[Phrase]]


def known(dice: Dice, nouns: Sequence[Noun], subject: Phrase | None = None) -> Phrase:
    """Draw one definite thing, rarely with an adjective."""
    noun = dice.pick(nouns)
    choice = dice.pick(MENUS["known"][0])
    if choice == NAMED or (choice == OWN and "own" not in noun.tags):
        choice = THE
    adjective = dice.pick(noun.adjectives) if noun.adjectives and dice.chance(0.15) else None
    return noun_phrase(determine(dice, choice, subject), noun, adjective)


def spot(dice: Dice, subject: Phrase | None = None, nouns: Sequence[Noun] = SPOTS) -> Place:
    """Draw a place to be."""
    phrase = known(dice, nouns, subject)
    return at(phrase), [phrase]


def next_to(dice: Dice) -> Place:
    """Draw a place next to a landmark."""
    phrase = known(dice, LANDMARKS)
    en, de = dice.pick(NEAR)
    return prepositional(en, de, DATIVE, phrase), [phrase]


def on_or_in(dice: Dice, case: int) -> Place:
    """Draw a place on or in a thing: dative for where it is, accusative for where it is put."""
    if dice.chance(0.6):
        phrase, words = known(dice, SURFACES), ("on", "auf")
        if dice.chance(0.25):
            words = ("under", "unter")
    else:
        phrase, words = known(dice, HOLLOWS), ("in", "in") if case == DATIVE else ("into", "in")
    return prepositional(*words, case, phrase), [phrase]


def location(dice: Dice, verb: Verb, subject: Phrase) -> Place:
    """Draw the place where somebody or something is."""
    if not subject.human and "animal" not in (subject.noun.tags if subject.noun else ()):
        return on_or_in(dice, DATIVE)
    if verb.base == "live":
        if dice.chance(0.5):
            en, de = dice.pick(CITIES)
            return Pair(f"in {en}", f"in {de}"), []
        return spot(dice, None, HOMES)
    if verb.base in ("be", "stay") and subject.human and dice.chance(0.2):
        return AT_HOME, []
    if verb.base in ("sit", "lie") and dice.chance(0.4):
        phrase = known(dice, SURFACES)
        return prepositional("on", "auf", DATIVE, phrase), [phrase]
    return next_to(dice) if dice.chance(0.25) else spot(dice, subject)


def goal(dice: Dice, verb: Verb) -> Place:
    """Draw a destination."""
    kinds = [kind for kind in ("goal", "goal", "goal", "home", "city") if kind in verb.uses]
    kind = dice.pick(kinds)
    if kind == "home":
        return HOME, []
    if kind == "city":
        en, de = dice.pick(CITIES)
        return Pair(f"to {en}", f"nach {de}"), []
    phrase = known(dice, GOALS)
    return prepositional("to", "zu", DATIVE, phrase), [phrase]
