"""The clauses of the built-in corpus: word order, agreement, pronouns."""

from collections.abc import Callable

import pytest
from pocket_grammar import (
    ADVERB,
    ANNA,
    HE,
    HER_,
    HIS_,
    ME,
    MODAL,
    PETER,
    SHE,
    THEY,
    WE,
    YOU,
    as_question,
    as_statement,
    find_verb,
    phrase,
)

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.phrases import (
    BARE,
    IT,
    RELATIVE,
    THE,
    WHO,
    A,
    Pair,
    at,
    both,
    gap,
    prepositional,
    pronoun_for,
)
from transduce.datasets.pocket.relatives import Relative
from transduce.datasets.pocket.sampling import TO_BE, YET
from transduce.datasets.pocket.sentences import joined, plain, question_with
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    DATIVE,
)

# The order of words -------------------------------------------------------------------------------

CALL, READ, BUY, SLEEP = (
    find_verb("anrufen"),
    find_verb("lesen"),
    find_verb("kaufen"),
    find_verb("schlafen"),
)


KNOWN_GOOD: list[tuple[Callable[[], Pair], str, str]] = [
    (
        lambda: as_statement(Clause(CALL, SHE, accusative=phrase(HER_, "brother"))),
        "She is calling her brother.",
        "Sie ruft ihren Bruder an.",
    ),
    (
        lambda: as_statement(Clause(CALL, SHE, "past", accusative=phrase(HER_, "brother"))),
        "She called her brother.",
        "Sie hat ihren Bruder angerufen.",
    ),
    (
        lambda: as_question(Clause(CALL, SHE, accusative=phrase(HER_, "brother"))),
        "Is she calling her brother?",
        "Ruft sie ihren Bruder an?",
    ),
    (
        lambda: as_statement(
            Clause(find_verb("abholen"), ANNA, accusative=phrase(THE, "boy"), time=ADVERB["today"])
        ),
        "Anna is picking up the boy today.",
        "Anna holt heute den Jungen ab.",
    ),
    (
        lambda: as_statement(
            Clause(find_verb("abholen"), ANNA, accusative=HE, time=ADVERB["today"])
        ),
        "Anna is picking him up today.",
        "Anna holt ihn heute ab.",
    ),
    (
        lambda: as_statement(
            Clause(
                READ,
                phrase(THE, "boy"),
                "modal",
                MODAL["will"],
                accusative=phrase(A, "interesting book"),
                place=at(phrase(THE, "garden")),
            )
        ),
        "The boy wants to read an interesting book in the garden.",
        "Der Junge will im Garten ein interessantes Buch lesen.",
    ),
    (
        lambda: as_statement(
            Clause(
                BUY,
                phrase(THE, "woman"),
                "past",
                accusative=phrase(A, "new car"),
                time=ADVERB["yesterday"],
            )
        ),
        "The woman bought a new car yesterday.",
        "Die Frau hat gestern ein neues Auto gekauft.",
    ),
    (
        lambda: as_statement(Clause(BUY, HE, negated=True, accusative=phrase(A, "old car"))),
        "He is not buying an old car.",
        "Er kauft kein altes Auto.",
    ),
    (
        lambda: as_statement(
            Clause(BUY, HE, negated=True, accusative=phrase(BARE, "flower", plural=True))
        ),
        "He is not buying any flowers.",
        "Er kauft keine Blumen.",
    ),
    (
        lambda: as_statement(
            Clause(
                READ, ME, "past", negated=True, accusative=phrase(THE, "book"), time=ADVERB["today"]
            )
        ),
        "I did not read the book today.",
        "Ich habe das Buch heute nicht gelesen.",
    ),
    (
        lambda: as_statement(
            Clause(READ, ME, "perfect", negated=True, accusative=phrase(THE, "book"), time=YET)
        ),
        "I have not read the book yet.",
        "Ich habe das Buch noch nicht gelesen.",
    ),
    (
        lambda: as_statement(
            Clause(READ, ME, "perfect", negated=True, accusative=phrase(A, "book"), time=YET)
        ),
        "I have not read a book yet.",
        "Ich habe noch kein Buch gelesen.",
    ),
    (
        lambda: as_statement(
            Clause(READ, WE, "perfect", accusative=phrase(THE, "book"), time=ADVERB["already"])
        ),
        "We have already read the book.",
        "Wir haben das Buch schon gelesen.",
    ),
    (
        lambda: as_statement(
            Clause(
                find_verb("gehen"),
                YOU,
                "past",
                close=prepositional("to", "zu", 2, phrase(THE, "lake")),
            )
        ),
        "You went to the lake.",
        "Du bist zum See gegangen.",
    ),
    (
        lambda: as_statement(
            Clause(SLEEP, phrase(THE, "child"), "modal", MODAL["kann"], negated=True)
        ),
        "The child cannot sleep.",
        "Das Kind kann nicht schlafen.",
    ),
    (
        lambda: as_question(Clause(SLEEP, THEY, "modal", MODAL["muss"])),
        "Do they have to sleep?",
        "Müssen sie schlafen?",
    ),
    (
        lambda: as_statement(Clause(SLEEP, SHE, "modal", MODAL["darf"], negated=True)),
        "She is not allowed to sleep.",
        "Sie darf nicht schlafen.",
    ),
    (
        lambda: as_statement(
            Clause(find_verb("helfen"), phrase(THE, "girl"), dative=phrase(THE, "farmer"))
        ),
        "The girl is helping the farmer.",
        "Das Mädchen hilft dem Bauern.",
    ),
    (
        lambda: as_statement(
            Clause(find_verb("zuhören"), phrase(THE, "girl"), dative=THEY, negated=True)
        ),
        "The girl is not listening to them.",
        "Das Mädchen hört ihnen nicht zu.",
    ),
    (
        lambda: as_statement(
            Clause(
                find_verb("geben"),
                SHE,
                "past",
                dative=phrase(THE, "child"),
                accusative=phrase(A, "apple"),
            )
        ),
        "She gave the child an apple.",
        "Sie hat dem Kind einen Apfel gegeben.",
    ),
    (
        lambda: as_statement(
            Clause(
                find_verb("vorlesen"),
                SHE,
                dative=phrase(THE, "child"),
                accusative=phrase(THE, "story"),
            )
        ),
        "She is reading the story to the child.",
        "Sie liest dem Kind die Geschichte vor.",
    ),
    (
        lambda: as_statement(
            Clause(find_verb("fressen"), phrase(THE, "dog"), accusative=phrase(THE, "meat"))
        ),
        "The dog is eating the meat.",
        "Der Hund frisst das Fleisch.",
    ),
    (
        lambda: as_statement(
            Clause(
                find_verb("legen"),
                both(ANNA, PETER),
                accusative=phrase(THE, "book"),
                close=prepositional("on", "auf", ACCUSATIVE, phrase(THE, "table")),
            )
        ),
        "Anna and Peter are putting the book on the table.",
        "Anna und Peter legen das Buch auf den Tisch.",
    ),
    (
        lambda: as_statement(
            Clause(
                find_verb("schreiben"),
                phrase(THE, "letter"),
                "passive",
                close=prepositional("by", "von", DATIVE, phrase(THE, "student")),
            )
        ),
        "The letter was written by the student.",
        "Der Brief wurde vom Studenten geschrieben.",
    ),
    (
        lambda: as_statement(
            Clause(find_verb("tanzen"), phrase(HIS_, "sister"), "like", negated=True)
        ),
        "His sister does not like to dance.",
        "Seine Schwester tanzt nicht gern.",
    ),
    (
        lambda: as_statement(
            Clause(TO_BE, phrase(THE, "soup"), "past", close=Pair("cold", "kalt"))
        ),
        "The soup was cold.",
        "Die Suppe war kalt.",
    ),
    (
        lambda: joined(
            Clause(find_verb("weinen"), phrase(THE, "woman")),
            Clause(CALL, SHE, negated=True, accusative=phrase(HER_, "brother")),
            Pair("because", "weil"),
        ).write(),
        "The woman is crying because she is not calling her brother.",
        "Die Frau weint, weil sie ihren Bruder nicht anruft.",
    ),
    (
        lambda: joined(
            Clause(
                READ, phrase(THE, "man"), "modal", MODAL["wird"], accusative=phrase(THE, "book")
            ),
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
        lambda: plain(Clause(BUY, WHO, "past", accusative=phrase(THE, "ring")), "?").write(),
        "Who bought the ring?",
        "Wer hat den Ring gekauft?",
    ),
]


@pytest.mark.parametrize(("build", "english", "german"), KNOWN_GOOD)
def test_clauses_are_correct_in_both_languages(
    build: Callable[[], Pair], english: str, german: str
) -> None:
    assert build() == (english, german)


def test_an_infinitive_takes_zu_inside_a_separable_verb() -> None:
    calling = Clause(CALL, SHE, accusative=phrase(HER_, "brother"))
    reading = Clause(READ, SHE, accusative=phrase(THE, "book"))
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
    head = phrase(THE, noun)
    clause = Clause(find_verb(key), SHE)
    if case == DATIVE:
        clause.dative = gap(head)
    else:
        clause.accusative = gap(head)
    about = Relative(Pair("whom", RELATIVE[4 * case + head.gender]), clause)
    assert f"{head.german(0)}, {about.write().de}" == german


def test_the_plural_dative_relative_pronoun_is_denen() -> None:
    assert RELATIVE[4 * DATIVE + 3] == "denen"


def test_a_pronoun_has_the_gender_of_its_noun() -> None:
    assert [pronoun_for(phrase(THE, noun)) for noun in ("table", "lamp", "car")] == list(IT[:3])
    assert pronoun_for(phrase(THE, "king")) is HE
    assert pronoun_for(phrase(THE, "queen")) is SHE
    assert pronoun_for(phrase(THE, "king", plural=True)) is THEY
    assert pronoun_for(phrase(THE, "girl")) is None  # es or sie?
