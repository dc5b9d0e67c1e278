"""The corpus that comes along: right German, one translation each, and parts that share nothing."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from transduce.datasets.pocket import pairs
from transduce.datasets.pocket.chance import Dice
from transduce.datasets.pocket.clauses import Clause, imperative
from transduce.datasets.pocket.grammar import CONSTRUCTIONS
from transduce.datasets.pocket.parts import APART, Part, belongs, company, is_free, is_held_out
from transduce.datasets.pocket.phrases import (
    BARE,
    COUNTS,
    HER,
    IT,
    MANY,
    NO,
    OF_NAMES,
    PEOPLE,
    POSSESSIVES,
    PRONOUNS,
    RELATIVE,
    SOME,
    THE,
    THIS,
    WHO,
    A,
    Determiner,
    Pair,
    Phrase,
    at,
    back_to,
    both,
    gap,
    noun_phrase,
    prepositional,
)
from transduce.datasets.pocket.relatives import Relative
from transduce.datasets.pocket.sampling import TO_BE, YET
from transduce.datasets.pocket.sentences import finished, joined, plain, question, question_with
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    ADJECTIVES,
    ADVERBS,
    CITIES,
    DATIVE,
    MODALS,
    NAMES,
    NOUNS,
    NUMBERS,
    VERBS,
    Verb,
)
from transduce.errors import BadInput, BadSetting

NOUN = {noun.en[0]: noun for noun in NOUNS}
ADJECTIVE = {adjective.en: adjective for adjective in ADJECTIVES}
ADVERB = {adverb.en: adverb for adverb in ADVERBS}
MODAL = {modal.de[2]: modal for modal in MODALS}
ME, YOU, HE, SHE, WE, THEY = PRONOUNS
ANNA, PETER = PEOPLE[0], PEOPLE[6]
HIS_, HER_ = POSSESSIVES[2], POSSESSIVES[HER]


def verb(key: str, frame: str = "", base: str = "") -> Verb:
    """Find a verb by its German lemma."""
    return next(
        one
        for one in VERBS
        if one.key == key and (not frame or one.frame == frame) and (not base or one.base == base)
    )


def np(which: Determiner, words: str, *, plural: bool = False) -> Phrase:
    """Build a phrase from an English noun, perhaps with an adjective before it."""
    *adjective, noun = words.split()
    chosen = ADJECTIVE[adjective[0]] if adjective else None
    return noun_phrase(which, NOUN[noun], chosen, plural=plural)


def said(clause: Clause) -> Pair:
    return plain(clause).write()


def asked(clause: Clause) -> Pair:
    return question(clause).write()


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
    phrase = np(which, words)
    assert [phrase.german(case) for case in range(3)] == [nominative, accusative, dative]


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
    known = [one for one in ADJECTIVES if one.en in adjective]
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
    assert " ".join(verb(key).present) == forms


def test_english_verbs_are_conjugated() -> None:
    forms = {
        (one.base, one.third, one.past, one.ing)
        for one in VERBS
        if one.base in {"cry", "watch", "go", "lie", "see", "dance", "put", "have"}
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
def test_the_imperative_is_what_one_says_to_a_friend(key: str, form: str) -> None:
    assert imperative(verb(key)) == form


def test_german_numbers_say_the_unit_first() -> None:
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
        (at(np(THE, "garden")), ("in the garden", "im Garten")),
        (at(np(THE, "dark kitchen")), ("in the dark kitchen", "in der dunklen Küche")),
        (at(np(THE, "station")), ("at the station", "am Bahnhof")),
        (at(np(THIS, "station")), ("at this station", "an diesem Bahnhof")),
        (at(np(THE, "market")), ("at the market", "auf dem Markt")),
        (prepositional("to", "zu", DATIVE, np(THE, "school")), ("to the school", "zur Schule")),
        (
            prepositional("to", "zu", DATIVE, np(THE, "old church")),
            ("to the old church", "zur alten Kirche"),
        ),
        (prepositional("to", "zu", DATIVE, np(THE, "beach")), ("to the beach", "zum Strand")),
        (prepositional("by", "von", DATIVE, np(THE, "king")), ("by the king", "vom König")),
        (
            prepositional("into", "in", ACCUSATIVE, np(THE, "bag")),
            ("into the bag", "in die Tasche"),
        ),
        (prepositional("of", "an", ACCUSATIVE, np(THE, "king")), ("of the king", "an den König")),
        (prepositional("with", "mit", DATIVE, THEY), ("with them", "mit ihnen")),
    ],
)
def test_prepositions_take_their_case_and_draw_the_article_in(
    pair: Pair, expected: tuple[str, str]
) -> None:
    assert pair == expected


# The order of words -------------------------------------------------------------------------------

CALL, READ, BUY, SLEEP = verb("anrufen"), verb("lesen"), verb("kaufen"), verb("schlafen")
KNOWN_GOOD: list[tuple[Callable[[], Pair], str, str]] = [
    (
        lambda: said(Clause(CALL, SHE, accusative=np(HER_, "brother"))),
        "She is calling her brother.",
        "Sie ruft ihren Bruder an.",
    ),
    (
        lambda: said(Clause(CALL, SHE, "past", accusative=np(HER_, "brother"))),
        "She called her brother.",
        "Sie hat ihren Bruder angerufen.",
    ),
    (
        lambda: asked(Clause(CALL, SHE, accusative=np(HER_, "brother"))),
        "Is she calling her brother?",
        "Ruft sie ihren Bruder an?",
    ),
    (
        lambda: said(
            Clause(verb("abholen"), ANNA, accusative=np(THE, "boy"), time=ADVERB["today"])
        ),
        "Anna is picking up the boy today.",
        "Anna holt heute den Jungen ab.",
    ),
    (
        lambda: said(Clause(verb("abholen"), ANNA, accusative=HE, time=ADVERB["today"])),
        "Anna is picking him up today.",
        "Anna holt ihn heute ab.",
    ),
    (
        lambda: said(
            Clause(
                READ,
                np(THE, "boy"),
                "modal",
                MODAL["will"],
                accusative=np(A, "interesting book"),
                place=at(np(THE, "garden")),
            )
        ),
        "The boy wants to read an interesting book in the garden.",
        "Der Junge will im Garten ein interessantes Buch lesen.",
    ),
    (
        lambda: said(
            Clause(
                BUY,
                np(THE, "woman"),
                "past",
                accusative=np(A, "new car"),
                time=ADVERB["yesterday"],
            )
        ),
        "The woman bought a new car yesterday.",
        "Die Frau hat gestern ein neues Auto gekauft.",
    ),
    (
        lambda: said(Clause(BUY, HE, negated=True, accusative=np(A, "old car"))),
        "He is not buying an old car.",
        "Er kauft kein altes Auto.",
    ),
    (
        lambda: said(Clause(BUY, HE, negated=True, accusative=np(BARE, "flower", plural=True))),
        "He is not buying any flowers.",
        "Er kauft keine Blumen.",
    ),
    (
        lambda: said(
            Clause(READ, ME, "past", negated=True, accusative=np(THE, "book"), time=ADVERB["today"])
        ),
        "I did not read the book today.",
        "Ich habe das Buch heute nicht gelesen.",
    ),
    (
        lambda: said(
            Clause(READ, ME, "perfect", negated=True, accusative=np(THE, "book"), time=YET)
        ),
        "I have not read the book yet.",
        "Ich habe das Buch noch nicht gelesen.",
    ),
    (
        lambda: said(Clause(READ, ME, "perfect", negated=True, accusative=np(A, "book"), time=YET)),
        "I have not read a book yet.",
        "Ich habe noch kein Buch gelesen.",
    ),
    (
        lambda: said(
            Clause(READ, WE, "perfect", accusative=np(THE, "book"), time=ADVERB["already"])
        ),
        "We have already read the book.",
        "Wir haben das Buch schon gelesen.",
    ),
    (
        lambda: said(
            Clause(verb("gehen"), YOU, "past", close=prepositional("to", "zu", 2, np(THE, "lake")))
        ),
        "You went to the lake.",
        "Du bist zum See gegangen.",
    ),
    (
        lambda: said(Clause(SLEEP, np(THE, "child"), "modal", MODAL["kann"], negated=True)),
        "The child cannot sleep.",
        "Das Kind kann nicht schlafen.",
    ),
    (
        lambda: asked(Clause(SLEEP, THEY, "modal", MODAL["muss"])),
        "Do they have to sleep?",
        "Müssen sie schlafen?",
    ),
    (
        lambda: said(Clause(SLEEP, SHE, "modal", MODAL["darf"], negated=True)),
        "She is not allowed to sleep.",
        "Sie darf nicht schlafen.",
    ),
    (
        lambda: said(Clause(verb("helfen"), np(THE, "girl"), dative=np(THE, "farmer"))),
        "The girl is helping the farmer.",
        "Das Mädchen hilft dem Bauern.",
    ),
    (
        lambda: said(Clause(verb("zuhören"), np(THE, "girl"), dative=THEY, negated=True)),
        "The girl is not listening to them.",
        "Das Mädchen hört ihnen nicht zu.",
    ),
    (
        lambda: said(
            Clause(verb("geben"), SHE, "past", dative=np(THE, "child"), accusative=np(A, "apple"))
        ),
        "She gave the child an apple.",
        "Sie hat dem Kind einen Apfel gegeben.",
    ),
    (
        lambda: said(
            Clause(verb("vorlesen"), SHE, dative=np(THE, "child"), accusative=np(THE, "story"))
        ),
        "She is reading the story to the child.",
        "Sie liest dem Kind die Geschichte vor.",
    ),
    (
        lambda: said(Clause(verb("fressen"), np(THE, "dog"), accusative=np(THE, "meat"))),
        "The dog is eating the meat.",
        "Der Hund frisst das Fleisch.",
    ),
    (
        lambda: said(
            Clause(
                verb("legen"),
                both(ANNA, PETER),
                accusative=np(THE, "book"),
                close=prepositional("on", "auf", ACCUSATIVE, np(THE, "table")),
            )
        ),
        "Anna and Peter are putting the book on the table.",
        "Anna und Peter legen das Buch auf den Tisch.",
    ),
    (
        lambda: said(
            Clause(
                verb("schreiben"),
                np(THE, "letter"),
                "passive",
                close=prepositional("by", "von", DATIVE, np(THE, "student")),
            )
        ),
        "The letter was written by the student.",
        "Der Brief wurde vom Studenten geschrieben.",
    ),
    (
        lambda: said(Clause(verb("tanzen"), np(HIS_, "sister"), "like", negated=True)),
        "His sister does not like to dance.",
        "Seine Schwester tanzt nicht gern.",
    ),
    (
        lambda: said(Clause(TO_BE, np(THE, "soup"), "past", close=Pair("cold", "kalt"))),
        "The soup was cold.",
        "Die Suppe war kalt.",
    ),
    (
        lambda: joined(
            Clause(verb("weinen"), np(THE, "woman")),
            Clause(CALL, SHE, negated=True, accusative=np(HER_, "brother")),
            Pair("because", "weil"),
        ).write(),
        "The woman is crying because she is not calling her brother.",
        "Die Frau weint, weil sie ihren Bruder nicht anruft.",
    ),
    (
        lambda: joined(
            Clause(READ, np(THE, "man"), "modal", MODAL["wird"], accusative=np(THE, "book")),
            Clause(CALL, ANNA, "perfect", accusative=HE, time=ADVERB["already"]),
            Pair("if", "wenn"),
            first=True,
        ).write(),
        "If Anna has already called him, the man will read the book.",
        "Wenn Anna ihn schon angerufen hat, wird der Mann das Buch lesen.",
    ),
    (
        lambda: question_with(Pair("why", "warum"), Clause(SLEEP, YOU, negated=True)).write(),
        "Why are you not sleeping?",
        "Warum schläfst du nicht?",
    ),
    (
        lambda: plain(Clause(BUY, WHO, "past", accusative=np(THE, "ring")), "?").write(),
        "Who bought the ring?",
        "Wer hat den Ring gekauft?",
    ),
]


@pytest.mark.parametrize(("build", "english", "german"), KNOWN_GOOD)
def test_clauses_are_said_rightly(build: Callable[[], Pair], english: str, german: str) -> None:
    assert build() == (english, german)


def test_an_infinitive_takes_zu_inside_a_separable_verb() -> None:
    calling = Clause(CALL, SHE, accusative=np(HER_, "brother"))
    reading = Clause(READ, SHE, accusative=np(THE, "book"))
    assert calling.infinitive() == "call her brother"
    assert calling.german_zu() == "ihren Bruder anzurufen"
    assert reading.german_zu() == "das Buch zu lesen"
    assert calling.german_imperative() == "ruf ihren Bruder an"


@pytest.mark.parametrize(
    ("key", "noun", "case", "german"),
    [
        ("sehen", "man", 1, "der Mann, den sie sieht"),
        ("sehen", "woman", 1, "die Frau, die sie sieht"),
        ("sehen", "child", 1, "das Kind, das sie sieht"),
        ("helfen", "man", 2, "der Mann, dem sie hilft"),
        ("helfen", "woman", 2, "die Frau, der sie hilft"),
        ("zuhören", "boy", 2, "der Junge, dem sie zuhört"),
    ],
)
def test_a_relative_pronoun_has_the_heads_gender_and_its_own_case(
    key: str, noun: str, case: int, german: str
) -> None:
    head = np(THE, noun)
    clause = Clause(verb(key), SHE)
    if case == DATIVE:
        clause.dative = gap(head)
    else:
        clause.accusative = gap(head)
    about = Relative(Pair("whom", RELATIVE[4 * case + head.gender]), clause)
    assert f"{head.german(0)}, {about.write().de}" == german


def test_of_several_the_relative_pronoun_is_denen() -> None:
    assert RELATIVE[4 * DATIVE + 3] == "denen"


def test_a_pronoun_points_back_with_the_nouns_gender() -> None:
    assert [back_to(np(THE, noun)) for noun in ("table", "lamp", "car")] == list(IT[:3])
    assert back_to(np(THE, "king")) is HE
    assert back_to(np(THE, "queen")) is SHE
    assert back_to(np(THE, "king", plural=True)) is THEY
    assert back_to(np(THE, "girl")) is None  # es or sie?


# The corpus ---------------------------------------------------------------------------------------

Corpus = dict[Part, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return {"train": pairs(45_000), "valid": pairs(2_500, "valid"), "test": pairs(2_500, "test")}


def german_words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence)


def test_equal_seeds_give_equal_pairs_and_other_seeds_others() -> None:
    assert pairs(300, "train", 7) == pairs(300, "train", 7)
    assert pairs(300, "test", 7)[:100] == pairs(100, "test", 7)
    assert not set(pairs(100, "train", 7)) & set(pairs(100, "train", 8)[:10])


def test_no_order_of_hashes_reaches_the_pairs() -> None:
    code = (
        "from transduce.datasets.pocket import pairs; "
        "print(pairs(40, 'train', 3), pairs(20, 'test', 3))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            encoding="utf-8",
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert said == {f"{pairs(40, 'train', 3)} {pairs(20, 'test', 3)}\n"}


def test_the_wanted_number_of_different_pairs_comes_back(corpus: Corpus) -> None:
    assert pairs(0) == []
    assert {len(set(made)) for made in corpus.values()} == {45_000, 2_500}


def test_parts_share_no_sentence_whatever_the_seed(corpus: Corpus) -> None:
    others: Corpus = {"train": pairs(5_000, seed=2), "valid": [], "test": pairs(1_000, "test", 2)}
    for side in (0, 1):
        train, valid, test = (
            {pair[side] for pair in corpus[part] + others[part]} for part in corpus
        )
        assert not train & valid
        assert not train & test
        assert not valid & test


def test_one_english_sentence_has_one_translation(corpus: Corpus) -> None:
    translations: dict[str, str] = {}
    for english, german in [pair for made in corpus.values() for pair in made]:
        assert translations.setdefault(english, german) == german
    assert len(translations) == 50_000


def test_there_are_far_more_than_a_million_pairs() -> None:
    """Count one kind of statement: the (old) man is reading, or read, the (long) letter."""
    found = 0
    for one in VERBS:
        if one.frame == "transitive" and one.aspect == "activity":
            who = [1 + len(noun.adjectives) for noun in one.subjects if "kin" not in noun.tags]
            what = [1 + len(noun.adjectives) for noun in one.objects if "kin" not in noun.tags]
            found += 2 * sum(who) * sum(what)
    assert found > 1_000_000


def test_two_seeds_hardly_ever_draw_the_same_sentence(corpus: Corpus) -> None:
    """Of N equally likely ones, another seed's 10,000 would meet 10,000 * 45,000 / N of ours."""
    ours = {english for english, _ in corpus["train"]}
    met = sum(english in ours for english, _ in pairs(10_000, seed=5))
    assert met < 450


def test_the_words_are_many_and_each_is_common_in_training(corpus: Corpus) -> None:
    lemmas = {
        *(noun.en[0] for noun in NOUNS),
        *(one.en for one in ADJECTIVES),
        *(one.base for one in VERBS),
        *(name for name, _ in NAMES),
        *(city for city, _ in CITIES),
    }
    assert len(lemmas) > 320  # and about a hundred small words
    words = Counter(
        word for english, _ in corpus["train"] for word in re.findall(r"[\w-]+", english)
    )
    assert len(words) > 900
    for noun in NOUNS:
        assert words[noun.en[0]] + words[noun.en[1]] >= 60, noun.en
    for one in VERBS:
        forms = {one.base, one.third, one.past, one.participle, one.ing}
        assert sum(words[form] for form in forms) >= 90, one.base
    for adjective in ADJECTIVES:
        assert words[adjective.en] >= 60, adjective.en


def test_every_word_of_the_test_part_is_known_from_training(corpus: Corpus) -> None:
    def words(part: Part) -> set[str]:
        return {
            word for english, _ in corpus[part] for word in re.findall(r"[\w'-]+", english.lower())
        }

    assert words("test") <= words("train")


ENDINGS = ("e", "er", "en", "em", "es")


def test_reserved_adjectives_and_nouns_never_meet_in_training(corpus: Corpus) -> None:
    """Seen from the text alone: no such two words stand side by side."""
    reserved = {
        (adjective.stem + ending, form)
        for adjective in ADJECTIVES
        for noun in NOUNS
        if noun.key in APART[adjective.alone]
        for ending in ENDINGS
        for form in {*noun.de[0], *noun.de[1]}
    }

    def meetings(part: Part) -> int:
        return sum(
            couple in reserved
            for _, german in corpus[part]
            for couple in pairwise(german_words(german))
        )

    assert meetings("train") == 0
    assert meetings("test") > 100


def test_reserved_verbs_and_nouns_never_meet_in_training(corpus: Corpus) -> None:
    """Seen from the text alone, by forms that belong to one verb and to one noun."""
    nouns = {form: noun.key for noun in NOUNS for number in noun.de for form in number}
    readings: dict[str, set[str]] = {}
    for one in VERBS:
        for form in (one.partizip, one.key, *one.present):
            readings.setdefault(form, set()).add(one.key)
    for form in ("gibt", *verb("haben").present):  # es gibt, hat gelesen
        readings[form].add("auxiliary")
    verbs = {form: min(keys) for form, keys in readings.items() if len(keys) == 1}

    def meetings(part: Part) -> int:
        met = 0
        for _, german in corpus[part]:
            words = german_words(re.sub(r"um \w+ Uhr", "", german))  # no clock
            found = {nouns[word] for word in words if word in nouns}
            doing = {verbs[word] for word in words if word in verbs}
            met += any(APART.get(key, frozenset()) & found for key in doing)
        return met

    assert meetings("train") == 0
    assert meetings("test") > 300


def test_a_sentence_is_trained_on_or_tested_on_or_neither_but_never_both() -> None:
    dice = Dice("both")
    for construction in CONSTRUCTIONS:
        for _ in range(40):
            sentence = construction(dice)
            assert not (is_free(sentence) and is_held_out(sentence))
            assert belongs(sentence, "train") == is_free(sentence)
            assert belongs(sentence, "test") == belongs(sentence, "valid") == is_held_out(sentence)


def test_three_to_eight_in_a_hundred_couples_are_reserved() -> None:
    possible = sum(len(noun.adjectives) for noun in NOUNS)
    reserved = sum(noun.key in APART[one.alone] for noun in NOUNS for one in noun.adjectives)
    assert 0.03 < reserved / possible < 0.08
    couples = {(one.key, noun.key) for one in VERBS for noun in (*one.subjects, *one.objects)}
    kept = [noun in APART.get(key, frozenset()) for key, noun in couples]
    assert 0.03 < sum(kept) / len(kept) < 0.08


def test_every_construction_is_in_every_part() -> None:
    dice = Dice("every")
    for construction in CONSTRUCTIONS:
        drawn = [construction(dice) for _ in range(400)]
        assert any(is_free(sentence) for sentence in drawn)
        assert any(is_held_out(sentence) for sentence in drawn), construction.__name__


def test_the_company_of_a_verb_counts_nouns_in_any_place_and_constructions() -> None:
    clause = Clause(READ, SHE, "modal", MODAL["will"], marks=("weil",))
    clause.phrases = [np(THE, "boy"), np(THE, "book"), SHE]
    assert company(clause) == {"Junge", "Buch", "wollen", "weil"}


PHENOMENA = {
    "verb last after a conjunction": r", weil sie \w+ \w+ ",
    "a separated verb": r"^\w+ (ruft|probiert|zieht|sieht|kommt) .*\ban\.$",
    "a separable verb joined": r"(dass|weil|ob|wenn) .* (ein|an|ab|auf|aus|weg|mit)[a-zäöü]+t[.,]",
    "zu inside a verb": r", (um )?.*\b(an|ab|auf|ein|aus|weg|zurück|mit|vor|zu)zu\w+en\.$",
    "perfect with sein": r"\b(ist|sind|bin|bist) .*\bge\w+en\.$",
    "perfect without ge-": r"\bhat .* (besucht|bezahlt|verkauft|repariert|verloren)\.$",
    "a modal bracket": r"\b(kann|muss|will|soll\w+|darf|möchte)\b .*en\.$",
    "kein": r"\bkein(e|en|em|er)?\b",
    "nicht": r"\bnicht\b",
    "noch nicht": r"\bnoch nicht\b",
    "a relative clause inside": r", (der|die|das|dem|den|denen) .*, ",
    "dessen and deren": r", (dessen|deren) ",
    "a relative with a preposition": r", (auf|über|an|von|mit) (den|die|das|dem|der|denen) ",
    "inversion after the time": r"^Gestern (hat|haben|ist|sind|habe|bin) ",
    "inversion after a clause": r"^Wenn .*, (wird|werden|muss|kann|darf) ",
    "als": r"^Als ",
    "während": r"\bwährend\b",
    "bevor": r"\b[Bb]evor\b",
    "obwohl": r"\b[Oo]bwohl\b",
    "ob": r", ob ",
    "indirect question": r", (wo|wann|warum) ",
    "wohin": r"^Wohin ",
    "wen and wem": r"^(Wen|Wem) ",
    "welcher": r"^Welch(e|en|es) ",
    "wie viele": r"^Wie viele ",
    "contractions": r"\b(im|am|zum|zur|vom)\b",
    "the passive": r"\bwurden? .*\.$",
    "es gibt": r" gibt es ",
    "comparison": r"er als ",
    "gern": r"\bgern\b",
    "a request": r"^Bitte ",
    "weak nouns": r"\b(den|dem) (Jungen|Studenten|Kollegen|Bauern|Nachbarn)\b",
    "numbers": r"\b\w+und(zwanzig|dreißig|vierzig)\b",
    "genitive of names": r"\b(Annas|Peters|Lenas)\b",
    "strong adjectives": r"\b(kaltes|frisches|gutes|kalte|guten) (Bier|Wasser|Brot|Milch|Wein)\b",
}


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_training_shows_the_phenomenon(corpus: Corpus, phenomenon: str) -> None:
    pattern = re.compile(PHENOMENA[phenomenon])
    assert sum(bool(pattern.search(german)) for _, german in corpus["train"]) >= 30


def test_sentences_begin_with_a_capital_and_end_with_a_mark(corpus: Corpus) -> None:
    for english, german in corpus["train"]:
        for sentence in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' ,-]+[.?]", sentence), sentence
            assert not re.search(r"  | ,|,,|,[.?]", sentence), sentence
        assert english[-1] == german[-1]
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", english), english


def test_german_has_a_comma_before_each_conjunction(corpus: Corpus) -> None:
    for _, german in corpus["train"]:
        assert not re.search(
            r"[^,] (weil|obwohl|dass|ob|während|bevor|wenn|um|aber)\b(?! \w+ Uhr)", german
        )


def test_sentences_are_short_and_long(corpus: Corpus) -> None:
    for part in corpus:
        lengths = [len(english.split()) for english, _ in corpus[part]]
        assert 8 <= sum(lengths) / len(lengths) <= 10
        assert min(lengths) <= 4
        assert 16 <= max(lengths) <= 26


def test_a_finished_sentence_keeps_what_it_was_given() -> None:
    assert finished("it is raining", "es regnet") == ("It is raining.", "Es regnet.")


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(BadInput, match=r"count = -1: expected 0 pairs or more"):
        pairs(-1)


def test_an_unknown_part_is_refused_with_a_hint() -> None:
    with pytest.raises(BadSetting, match=r"there is no part tests.*Did you mean test\?"):
        pairs(1, "tests")  # type: ignore[arg-type]
