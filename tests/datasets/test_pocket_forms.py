"""The forms of German and English words in the built-in corpus."""

import pytest
from pocket_grammar import HER_, HIS_, NOUN, THEY, find_verb, phrase

from transduce.datasets.pocket.clauses import imperative
from transduce.datasets.pocket.phrases import (
    BARE,
    COUNTS,
    MANY,
    NO,
    OF_NAMES,
    POSSESSIVES,
    SOME,
    THE,
    THIS,
    A,
    Determiner,
    Pair,
    at,
    noun_phrase,
    prepositional,
)
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    ADJECTIVES,
    DATIVE,
    NUMBERS,
    VERBS,
)

# The forms of words -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "words", "nominative", "accusative", "dative"),
    [
        (THE, "old man", "der alte Mann", "den alten Mann", "dem alten Mann"),
        (THE, "old woman", "die alte Frau", "die alte Frau", "der alten Frau"),
        (THE, "new book", "das neue Buch", "das neue Buch", "dem neuen Buch"),
        (A, "old man", "ein alter Mann", "einen alten Mann", "einem alten Mann"),
        (A, "old woman", "eine alte Frau", "eine alte Frau", "einer alten Frau"),
        (A, "new book", "ein neues Buch", "ein neues Buch", "einem neuen Buch"),
        (HER_, "new friend", "ihr neuer Freund", "ihren neuen Freund", "ihrem neuen Freund"),
        (POSSESSIVES[4], "cat", "unsere Katze", "unsere Katze", "unserer Katze"),
        (THIS, "small child", "dieses kleine Kind", "dieses kleine Kind", "diesem kleinen Kind"),
        (NO, "clock", "keine Uhr", "keine Uhr", "keiner Uhr"),
        (OF_NAMES[0], "new car", "Annas neues Auto", "Annas neues Auto", "Annas neuem Auto"),
        (BARE, "cold milk", "kalte Milch", "kalte Milch", "kalter Milch"),
        (BARE, "good wine", "guter Wein", "guten Wein", "gutem Wein"),
        (BARE, "fresh bread", "frisches Brot", "frisches Brot", "frischem Brot"),
        (A, "expensive ring", "ein teurer Ring", "einen teuren Ring", "einem teuren Ring"),
        (THE, "dark forest", "der dunkle Wald", "den dunklen Wald", "dem dunklen Wald"),
        (THE, "boy", "der Junge", "den Jungen", "dem Jungen"),
        (A, "student", "ein Student", "einen Studenten", "einem Studenten"),
        (HIS_, "neighbor", "sein Nachbar", "seinen Nachbarn", "seinem Nachbarn"),
        (THE, "bear", "der Bär", "den Bären", "dem Bären"),
    ],
)
def test_a_phrase_agrees_in_gender_and_case(
    which: Determiner, words: str, nominative: str, accusative: str, dative: str
) -> None:
    built = phrase(which, words)
    assert [built.german(case) for case in range(3)] == [nominative, accusative, dative]


@pytest.mark.parametrize(
    ("which", "words", "nominative", "dative"),
    [
        (THE, "small child", "die kleinen Kinder", "den kleinen Kindern"),
        (HER_, "daughter", "ihre Töchter", "ihren Töchtern"),
        (NO, "new car", "keine neuen Autos", "keinen neuen Autos"),
        (BARE, "red flower", "rote Blumen", "roten Blumen"),
        (MANY, "old friend", "viele alte Freunde", "vielen alten Freunden"),
        (SOME, "teacher", "einige Lehrer", "einigen Lehrern"),
        (COUNTS[1], "big dog", "drei große Hunde", "drei großen Hunden"),
        (COUNTS[19], "book", "einundzwanzig Bücher", "einundzwanzig Büchern"),
        (THIS, "girl", "diese Mädchen", "diesen Mädchen"),
        (THE, "boss", "die Chefs", "den Chefs"),
    ],
)
def test_a_plural_agrees_and_ends_in_n_in_the_dative(
    which: Determiner, words: str, nominative: str, dative: str
) -> None:
    *adjective, noun = words.split()
    known = [entry for entry in ADJECTIVES if entry.en in adjective]
    phrase = noun_phrase(which, NOUN[noun], known[0] if known else None, plural=True)
    assert (phrase.german(0), phrase.german(2)) == (nominative, dative)


@pytest.mark.parametrize(
    ("key", "forms"),
    [
        ("lesen", "lese liest liest lesen lesen"),
        ("schlafen", "schlafe schläfst schläft schlafen schlafen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeiten"),
        ("essen", "esse isst isst essen essen"),
        ("einladen", "lade lädst lädt laden laden"),
        ("helfen", "helfe hilfst hilft helfen helfen"),
        ("sprechen", "spreche sprichst spricht sprechen sprechen"),
        ("fahren", "fahre fährst fährt fahren fahren"),
        ("lächeln", "lächle lächelst lächelt lächeln lächeln"),
        ("füttern", "füttere fütterst füttert füttern füttern"),
        ("schließen", "schließe schließt schließt schließen schließen"),
        ("tanzen", "tanze tanzt tanzt tanzen tanzen"),
        ("mögen", "mag magst mag mögen mögen"),
        ("wissen", "weiß weißt weiß wissen wissen"),
        ("sein", "bin bist ist sind sind"),
    ],
)
def test_german_verbs_are_conjugated(key: str, forms: str) -> None:
    assert " ".join(find_verb(key).present) == forms


def test_english_verbs_are_conjugated() -> None:
    forms = {
        (verb.base, verb.third, verb.past, verb.ing)
        for verb in VERBS
        if verb.base in {"cry", "watch", "go", "lie", "see", "dance", "put", "have"}
    }
    assert forms == {
        ("cry", "cries", "cried", "crying"),
        ("watch", "watches", "watched", "watching"),
        ("go", "goes", "went", "going"),
        ("lie", "lies", "lay", "lying"),
        ("see", "sees", "saw", "seeing"),
        ("dance", "dances", "danced", "dancing"),
        ("put", "puts", "put", "putting"),
        ("have", "has", "had", "having"),
    }


@pytest.mark.parametrize(
    ("key", "form"),
    [
        ("lesen", "lies"),
        ("geben", "gib"),
        ("helfen", "hilf"),
        ("wegwerfen", "wirf"),
        ("anrufen", "ruf"),
        ("einladen", "lade"),
        ("waschen", "wasch"),
        ("warten", "warte"),
        ("öffnen", "öffne"),
        ("reparieren", "repariere"),
        ("füttern", "füttere"),
        ("schließen", "schließ"),
    ],
)
def test_german_imperatives_are_formed(key: str, form: str) -> None:
    assert imperative(find_verb(key)) == form


def test_german_numbers_begin_with_the_unit() -> None:
    known = dict(NUMBERS)
    assert len(known) == 98
    assert known["two"] == "zwei"
    assert known["seventeen"] == "siebzehn"
    assert known["twenty-one"] == "einundzwanzig"
    assert known["thirty-six"] == "sechsunddreißig"
    assert known["ninety-nine"] == "neunundneunzig"


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (at(phrase(THE, "garden")), ("in the garden", "im Garten")),
        (at(phrase(THE, "dark kitchen")), ("in the dark kitchen", "in der dunklen Küche")),
        (at(phrase(THE, "station")), ("at the station", "am Bahnhof")),
        (at(phrase(THIS, "station")), ("at this station", "an diesem Bahnhof")),
        (at(phrase(THE, "market")), ("at the market", "auf dem Markt")),
        (prepositional("to", "zu", DATIVE, phrase(THE, "school")), ("to the school", "zur Schule")),
        (
            prepositional("to", "zu", DATIVE, phrase(THE, "old church")),
            ("to the old church", "zur alten Kirche"),
        ),
        (prepositional("to", "zu", DATIVE, phrase(THE, "beach")), ("to the beach", "zum Strand")),
        (prepositional("by", "von", DATIVE, phrase(THE, "king")), ("by the king", "vom König")),
        (
            prepositional("into", "in", ACCUSATIVE, phrase(THE, "bag")),
            ("into the bag", "in die Tasche"),
        ),
        (
            prepositional("of", "an", ACCUSATIVE, phrase(THE, "king")),
            ("of the king", "an den König"),
        ),
        (prepositional("with", "mit", DATIVE, THEY), ("with them", "mit ihnen")),
    ],
)
def test_prepositions_take_their_case_and_contract_with_the_article(
    pair: Pair, expected: tuple[str, str]
) -> None:
    assert pair == expected
