"""Noun phrases in both languages: determiner, adjective and noun agree in gender, number, case."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from transduce.datasets.pocket.words import (
    DATIVE,
    FEMININE,
    MASCULINE,
    NAMES,
    NEUTER,
    NUMBERS,
    PLURAL,
    VOWELS,
    Adjective,
    Noun,
)

# The position of a phrase in the German clause: pronouns, definite phrases, indefinite phrases.
Kind = Literal["pronoun", "definite", "indefinite"]
Endings = tuple[str, ...]  # by case and gender, as in the tables below


class Pair(NamedTuple):
    """A text in both languages."""

    en: str
    de: str


def table(nominative: str, accusative: str, dative: str) -> Endings:
    """Return three rows (each m, f, n, plural) as one tuple; a dash means no ending."""
    cells = [*nominative.split(), *accusative.split(), *dative.split()]
    return tuple("" if cell == "-" else cell for cell in cells)


DER = table("der die das die", "den die das die", "dem der dem den")
DIESER = table("er e es e", "en e es e", "em er em en")
EIN = table("- e - e", "en e - e", "em er em en")
WEAK = table("e e e en", "en e e en", "en en en en")
MIXED = table("er e es en", "en e es en", "en en en en")
STRONG = table("er e es e", "en e es e", "em er em en")
RELATIVE = table("der die das die", "den die das die", "dem der dem denen")


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """A determiner: English forms, German forms by case and gender, adjective endings."""

    en: tuple[str, str]  # before a singular, before a plural
    de: Endings
    endings: Endings  # of the adjective that follows
    kind: Kind


def determiner(
    en: str, de: str, forms: Endings, endings: Endings, kind: Kind = "definite"
) -> Determiner:
    """Make a determiner; a slash separates the English singular and plural."""
    singular, _, plural = en.partition("/")
    spaced = tuple(f"{de}{form} " if de + form else "" for form in forms)
    return Determiner((f"{singular} ", f"{plural or singular} "), spaced, endings, kind)


NOTHING = ("",) * 12
THE = determiner("the", "", DER, WEAK)
THIS = determiner("this/these", "dies", DIESER, WEAK)
EVERY = determiner("every", "jed", DIESER, WEAK)
WHICH = determiner("which", "welch", DIESER, WEAK)
NO = determiner("no", "kein", EIN, MIXED, "indefinite")
MANY = determiner("many", "viele", table("- - - -", "- - - -", "n n n n"), STRONG, "indefinite")
SOME = determiner("some", "einige", table("- - - -", "- - - -", "n n n n"), STRONG, "indefinite")
HOW_MANY = determiner("how many", "wie viele", NOTHING, STRONG, "indefinite")
A = determiner("a", "ein", EIN, MIXED, "indefinite")
BARE = Determiner(("", ""), NOTHING, STRONG, "indefinite")
POSSESSIVES = tuple(
    determiner(en, de, EIN, MIXED)
    for en, de in zip(
        ("my", "your", "his", "her", "our", "their"),
        ("mein", "dein", "sein", "ihr", "unser", "ihr"),
        strict=True,
    )
)
MY, YOUR, HIS, HER, OUR, THEIR = range(6)
WHOSE = tuple(  # by the gender of the owner
    determiner("whose", de, NOTHING, STRONG) for de in ("dessen", "deren", "dessen", "deren")
)
OF_NAMES = tuple(determiner(f"{name}'s", f"{name}s", NOTHING, STRONG) for name, _ in NAMES)
COUNTS = tuple(determiner(en, de, NOTHING, STRONG, "indefinite") for en, de in NUMBERS)


@dataclass(slots=True, eq=False)
class Phrase:
    """A noun phrase, a name or a pronoun."""

    en: str
    object: str  # English: him
    person: int
    gender: int
    kind: Kind
    human: bool
    owner: int | None  # the possessive that refers to it
    fixed: tuple[str, str, str] | None = None  # German forms of names and pronouns
    determiner: Determiner | None = None
    adjective: Adjective | None = None
    noun: Noun | None = None

    def german(self, case: int, *, negated: bool = False) -> str:
        """Return the German phrase in a case; with kein if it is negated."""
        if self.fixed:
            return self.fixed[case]
        assert self.determiner
        assert self.noun
        which = NO if negated else self.determiner
        cell = 4 * case + self.gender
        noun = self.noun.de[self.gender == PLURAL][case]
        if self.adjective:
            return f"{which.de[cell]}{self.adjective.stem}{which.endings[cell]} {noun}"
        return which.de[cell] + noun

    def english_negated(self) -> str:
        """Return an indefinite phrase after "not": a car, any cars."""
        return f"any {self.object}" if self.determiner is BARE else self.object

    @property
    def negatable(self) -> bool:
        """Whether a clause with this object can be negated."""
        return self.kind != "indefinite" or self.determiner in (A, BARE)


OWNERS = {MASCULINE: HIS, FEMININE: HER, PLURAL: THEIR}


def noun_phrase(
    which: Determiner, noun: Noun, adjective: Adjective | None = None, *, plural: bool = False
) -> Phrase:
    """Make a noun phrase."""
    words = f"{adjective.en} {noun.en[plural]}" if adjective else noun.en[plural]
    article = "an " if which is A and words[0] in VOWELS else which.en[plural]
    gender = PLURAL if plural else noun.gender
    human = "person" in noun.tags
    return Phrase(
        en=article + words,
        object=article + words,
        person=4 if plural else 2,
        gender=gender,
        kind=which.kind,
        human=human,
        owner=OWNERS.get(gender) if human else None,  # das Mädchen: sein or ihr, so no possessive
        determiner=which,
        adjective=adjective,
        noun=noun,
    )


def fixed_phrase(
    en: str,
    german: str,
    person: int,
    gender: int,
    owner: int | None,
    *,
    kind: Kind = "pronoun",
    human: bool = False,
) -> Phrase:
    """Make a pronoun: English subject and object, German nominative, accusative, dative."""
    subject, _, object_ = en.partition(" ")
    nominative, accusative, dative = german.split()
    return Phrase(
        en=subject,
        object=object_ or subject,
        person=person,
        gender=gender,
        kind=kind,
        human=human or owner is not None,
        owner=owner,
        fixed=(nominative, accusative, dative),
    )


PRONOUNS = (
    fixed_phrase("I me", "ich mich mir", 0, MASCULINE, MY),
    fixed_phrase("you", "du dich dir", 1, MASCULINE, YOUR),
    fixed_phrase("he him", "er ihn ihm", 2, MASCULINE, HIS),
    fixed_phrase("she her", "sie sie ihr", 2, FEMININE, HER),
    fixed_phrase("we us", "wir uns uns", 3, PLURAL, OUR),
    fixed_phrase("they them", "sie sie ihnen", 4, PLURAL, THEIR),
)
IT = (
    fixed_phrase("it", "er ihn ihm", 2, MASCULINE, None),
    fixed_phrase("it", "sie sie ihr", 2, FEMININE, None),
    fixed_phrase("it", "es es ihm", 2, NEUTER, None),
    fixed_phrase("they them", "sie sie ihnen", 4, PLURAL, None),
)
ES = IT[NEUTER]  # it is raining
WHO = fixed_phrase("who", "wer wen wem", 2, MASCULINE, None, human=True)
WHAT = fixed_phrase("what", "was was was", 2, NEUTER, None)
PEOPLE = tuple(
    fixed_phrase(
        name,
        f"{name} {name} {name}",
        2,
        FEMININE if gender == "f" else MASCULINE,
        HER if gender == "f" else HIS,
        kind="definite",
    )
    for name, gender in NAMES
)


def both(first: Phrase, second: Phrase) -> Phrase:
    """Join two people: Anna and Peter."""
    nominative, accusative, dative = (
        f"{first.german(case)} und {second.german(case)}" for case in range(3)
    )
    return Phrase(
        en=f"{first.en} and {second.en}",
        object=f"{first.object} and {second.object}",
        person=4,
        gender=PLURAL,
        kind="definite",
        human=True,
        owner=THEIR,
        fixed=(nominative, accusative, dative),
    )


def gap(phrase: Phrase) -> Phrase:
    """Return an empty phrase that agrees like this one, for relative clauses and questions."""
    empty = replace(phrase, en="", object="", kind="pronoun", fixed=("", "", ""))
    empty.determiner = empty.adjective = None
    return empty


def pronoun_for(phrase: Phrase) -> Phrase | None:
    """Return the pronoun for a phrase, if both languages agree on one."""
    if phrase.determiner is NO:
        return None
    if phrase.owner is not None:
        return PRONOUNS[phrase.owner]
    if phrase.human:  # das Mädchen: es or sie
        return None
    return IT[phrase.gender]


CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}


def prepositional(english: str, german: str, case: int, phrase: Phrase) -> Pair:
    """Put a preposition before a phrase; German contracts it with the article: im, zum."""
    text = f"{german} {phrase.german(case)}"
    if phrase.determiner is THE:
        article = f"{german} {THE.de[4 * case + phrase.gender]}".strip()
        if article in CONTRACTIONS:
            text = CONTRACTIONS[article] + text[len(article) :]
    return Pair(f"{english} {phrase.object}", text)


def at(phrase: Phrase) -> Pair:
    """Return a place with its own prepositions: at the station, am Bahnhof."""
    assert phrase.noun
    assert phrase.noun.place
    return prepositional(*phrase.noun.place, DATIVE, phrase)
