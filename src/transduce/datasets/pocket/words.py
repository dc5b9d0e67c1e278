"""Nouns, verbs, adjectives and adverbs with all their forms, read from `lexicon.toml`.

Cases are 0 nominative, 1 accusative, 2 dative; genders are 0 m, 1 f, 2 n, and 3 for all plurals;
persons are 0 I, 1 you, 2 he, she and it, 3 we, 4 they.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LEXICON = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))
WORD_TABLES: dict[str, str] = LEXICON["words"]
VERB_TABLES: dict[str, str] = LEXICON["verbs"]
NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
MASCULINE, FEMININE, NEUTER, PLURAL = range(4)

Numbers = Literal["both", "singular", "plural", "mass"]
Aspect = Literal["activity", "simple", "state", "event"]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; in German, `stem` takes endings before a noun, `alone` is the predicate."""

    en: str
    stem: str
    alone: str
    tags: frozenset[str]
    more: tuple[str, str] | None  # English and German comparative


@dataclass(slots=True, eq=False)
class Noun:
    """A noun with its forms: by number in English, by number and case in German."""

    en: tuple[str, str]
    de: tuple[tuple[str, str, str], tuple[str, str, str]]
    gender: int
    numbers: Numbers
    tags: frozenset[str]
    place: tuple[str, str] | None  # English and German preposition for being there
    key: str  # the German lemma
    adjectives: tuple[Adjective, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its forms and the nouns that can be its subject or object."""

    base: str
    third: str
    past: str
    participle: str
    ing: str
    particle: str  # "up" of "pick her up"
    tail: str  # "for" of "look for her"
    infinitive: str  # without the prefix
    prefix: str  # "an" of "anrufen"
    present: tuple[str, ...]
    preterite: tuple[str, ...] | None  # only if it is used in speech: war, hatte
    partizip: str
    with_sein: bool
    frame: str
    aspect: Aspect
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    preposition: tuple[str, str, int] | None  # English, German, case
    uses: frozenset[str]
    key: str  # the German lemma
    personal: bool  # people can be its subject, so names and pronouns can too


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb, or the auxiliary of the future."""

    auxiliary: tuple[str, ...]  # empty if English uses a full verb: "has to"
    infix: str  # "allowed to" of "is allowed to read"
    plain: tuple[str, ...]  # "have to", "has to"
    do: tuple[str, ...]
    de: tuple[str, ...]
    adverbs: str
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb of time."""

    en: str
    de: str
    mid: bool  # before the English verb rather than at the end
    setting: bool  # in German, it precedes definite objects
    uses: frozenset[str]


BE = ("am", "are", "is", "are", "are")
WAS = ("was", "were", "was", "were", "were")
HAVE = ("have", "have", "has", "have", "have")
DO = ("do", "do", "does", "do", "do")
DID = ("did",) * 5
HABEN = ("habe", "hast", "hat", "haben", "haben")
SEIN = ("bin", "bist", "ist", "sind", "sind")
WURDE = ("wurde", "wurdest", "wurde", "wurden", "wurden")
IRREGULAR_PRESENT = {
    "sein": SEIN,
    "haben": HABEN,
    "mögen": ("mag", "magst", "mag", "mögen", "mögen"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
}
PRETERITE = {
    "sein": ("war", "warst", "war", "waren", "waren"),
    "haben": ("hatte", "hattest", "hatte", "hatten", "hatten"),
}
VOWELS = "aeiou"


def rows(table: str) -> list[list[str]]:
    """Split a lexicon table into its cells."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def english_s(word: str) -> str:
    """Add the -s of a plural or of the third person: watches, cries, reads."""
    if word.endswith(("s", "x", "sh", "ch")) or word == "go":
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def english_past(word: str) -> str:
    """Form the regular past: visited, cried, smiled."""
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ied"
    return word + ("d" if word.endswith("e") else "ed")


def english_ing(word: str) -> str:
    """Form the regular present participle: visiting, smiling, lying."""
    if word.endswith("ie"):
        return word[:-2] + "ying"
    return (word[:-1] if word.endswith("e") and word[-2] != "e" else word) + "ing"


def german_present(infinitive: str, third: str) -> tuple[str, ...]:
    """Conjugate a verb for ich, du, er, wir, sie, given its infinitive and er-form."""
    if infinitive in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[infinitive]
    if infinitive.endswith("eln"):
        first = infinitive[:-3] + "le"  # ich lächle
    else:
        first = infinitive.removesuffix("n").removesuffix("e") + "e"
    stem = third.removesuffix("t")
    second = stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")  # du liest, du rufst
    return first, second, third, infinitive, infinitive


def dative_plural(plural: str) -> str:
    """Add the -n of the dative plural unless it ends in -n or -s: den Kindern, den Autos."""
    return plural if plural.endswith(("n", "s")) else plural + "n"


NUMBER_BY_MARK: dict[str, Numbers] = {"-": "singular", "=": "plural", "0": "mass"}


def read_noun(row: list[str], tags: str) -> Noun:
    """Make a noun from its line, with the tags of its table."""
    english, german, uses = row
    singular, *irregular = english.split()
    lemma, plural, gender = german.split()
    marks = uses.split()
    where = marks.pop(0).split(":") if ":" in uses else None
    other = plural if gender == "w" else lemma
    many = lemma if plural in NUMBER_BY_MARK else plural
    plurals = [singular] if plural == "=" else [*irregular, english_s(singular)]
    return Noun(
        en=(singular, plurals[0]),
        de=((lemma, other, other), (many, many, dative_plural(many))),
        gender="mfnw".index(gender) % 3,
        numbers=NUMBER_BY_MARK.get(plural, "both"),
        tags=frozenset([*marks, *tags.split(), singular]),
        place=(where[0], where[1]) if where else None,
        key=lemma,
    )


def read_adjective(row: list[str]) -> Adjective:
    """Make an adjective from its line."""
    english, german, tags, *more = row
    stem, *alone = german.split()
    comparative = more[0].replace("_", " ").rsplit(maxsplit=1) if more else None
    return Adjective(
        en=english,
        stem=stem,
        alone=alone[0] if alone else stem,
        tags=frozenset(tags.split()),
        more=(comparative[0], comparative[1]) if comparative else None,
    )


def read_verb(row: list[str], frame: str) -> Verb:
    """Make a verb from its line."""
    english, german, subjects, objects, uses = [*row, ""][:5]
    lemma, *irregular = english.split()
    base, _, particle = lemma.partition("~")
    base, _, tail = base.partition("+")
    regular = [english_past(base), english_past(base), english_ing(base)]
    past, participle, ing = irregular + regular[len(irregular) :]
    whole, third, partizip, *sein = german.split()
    prefix, _, infinitive = whole.rpartition("~")
    preposition = None
    wanted = objects.split()
    if frame == "prepositional":
        preposition = (wanted[0], wanted[1], ACCUSATIVE if wanted[2] == "acc" else DATIVE)
        wanted = wanted[3:]
    marks = frozenset([*uses.split(), *(wanted if frame == "speech" else [])])
    aspects: tuple[Aspect, ...] = ("simple", "state", "event")
    subject_nouns = nouns_that_are(subjects)
    return Verb(
        base=base,
        third="has" if base == "have" else english_s(base),
        past=past,
        participle=participle,
        ing=ing,
        particle=particle,
        tail=tail,
        infinitive=infinitive,
        prefix=prefix,
        present=german_present(infinitive, third),
        preterite=PRETERITE.get(infinitive),
        partizip=partizip,
        with_sein=bool(sein),
        frame=frame,
        aspect=next((aspect for aspect in aspects if aspect in marks), "activity"),
        subjects=subject_nouns,
        objects=nouns_that_are(" ".join(wanted)),
        preposition=preposition,
        uses=marks,
        key=prefix + infinitive,
        personal=any("person" in noun.tags for noun in subject_nouns),
    )


def read_modal(row: list[str]) -> Modal:
    """Make a modal verb from its line."""
    english, german, adverbs, key = row
    plain, _, third = english.partition(", ")
    first, _, rest = plain.partition(" ")
    full = first in ("have", "had", "want", "wanted")
    past = first in ("had", "wanted")
    auxiliary = BE if first == "be" else (first,) * 5
    return Modal(
        auxiliary=() if full else auxiliary,
        infix={"had": "have to", "wanted": "want to"}.get(first, plain) if full else rest,
        plain=(plain, plain, third or plain, plain, plain),
        do=DID if past else DO,
        de=tuple(german.split()),
        adverbs=adverbs,
        key=key,
    )


def read_numbers() -> tuple[tuple[str, str], ...]:
    """Return the numbers from 2 to 99 in both languages: twenty-one, einundzwanzig."""
    small = [tuple(pair.split()) for pair in WORD_TABLES["numbers"].replace("\n", " ").split(",")]
    units = [("one", "ein"), *small[:8]]
    numbers = [(en, de) for en, de in small]
    for pair in WORD_TABLES["tens"].replace("\n", " ").split(","):
        en, de = pair.split()
        numbers += [(en, de), *((f"{en}-{unit}", f"{einheit}und{de}") for unit, einheit in units)]
    return tuple(numbers)


def read_nouns() -> tuple[Noun, ...]:
    """Read the tables of nouns, and give each noun its adjectives."""
    tables = (
        (WORD_TABLES["people"], "person"),
        (WORD_TABLES["animals"], "animal"),
        (WORD_TABLES["things"], "thing own"),
        (WORD_TABLES["food"], "thing"),
        (WORD_TABLES["thoughts"], "thought"),
        (WORD_TABLES["places"], "place"),
    )
    nouns = tuple(read_noun(row, tags) for table, tags in tables for row in rows(table))
    for noun in nouns:
        noun.adjectives = tuple(adjective for adjective in ADJECTIVES if adjective.tags & noun.tags)
    return nouns


def nouns_that_are(tags: str) -> tuple[Noun, ...]:
    """Return the nouns with at least one of these tags, in the order of the lexicon."""
    wanted = frozenset(tags.split())
    return tuple(noun for noun in NOUNS if wanted & noun.tags)


def read_verbs() -> tuple[Verb, ...]:
    """Read the tables of verbs."""
    return tuple(
        read_verb(row, frame)
        for frame, table in VERB_TABLES.items()
        if frame != "modals"
        for row in rows(table)
    )


ADJECTIVES = tuple(read_adjective(row) for row in rows(WORD_TABLES["adjectives"]))
NOUNS = read_nouns()
VERBS = read_verbs()
MODALS = tuple(read_modal(row) for row in rows(VERB_TABLES["modals"]))
ADVERBS = tuple(
    Adverb(en, de, position == "mid", position == "end", frozenset(uses.split()))
    for en, de, position, uses in rows(WORD_TABLES["adverbs"])
)
NAMES = tuple((name, gender) for name, gender in map(str.split, WORD_TABLES["names"].splitlines()))
CITIES = tuple((en, de) for en, de in rows(WORD_TABLES["cities"]))
NUMBERS = read_numbers()
