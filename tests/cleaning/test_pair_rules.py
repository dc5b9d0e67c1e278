"""Each rule finds its kind of bad pair, and leaves good ones alone."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.cleaning.limits import RULES, Limits, chosen_rules
from transduce.cleaning.rules import DAMAGED, PairRules, side_key
from transduce.errors import BadInput
from transduce.text.reading import read_pairs

EXAMPLES = Path(__file__).parents[2] / "examples"
ALL = PairRules(RULES, Limits(), ("en", "de"), library=True)

GOOD = [
    ("The hotel is closed in winter.", "Das Hotel ist im Winter geschlossen."),
    ("Yes.", "Ja."),
    ("SQL Server Management Studio", "SQL Server Management Studio"),
    ("He said “no” at the SPÖ’s “café”.", "Er sagte bei der „SPÖ“ im »CAFÉ« nein."),
    ("It costs 1,234.50 euros.", "Es kostet 1.234,50 Euro."),
    ("At 6 p.m. there are three of them.", "Um 18 Uhr sind es 3."),
    ("See https://example.com/en/a.", "Siehe https://example.com/de/a."),
    ("(a) Press the <b>key</b>", "(a) Drücken Sie die <b>Taste</b>"),
    ("The angle α is 30 degrees wide.", "Der Winkel α ist 30 Grad groß."),
    ("Agree", "Einverstanden"),
    ("Größe XL", "Größe XL"),
]
BAD = [
    ("encoding", "The bakery", "Die BÃ¤ckerei"),
    ("encoding", "It’s open", "Es ist geÃ¶ffnet"),
    ("encoding", "It\u00e2\u20ac\u2122s open", "Es ist offen"),
    ("encoding", "A \ufffd sign", "Ein Zeichen"),
    ("encoding", "A bell\x07 rings", "Eine Glocke läutet"),
    ("encoding", "A b\udce4ckerei", "Eine Bäckerei"),
    ("encoding", "The bread", "Das Brot kostet 2Â\u00a0Euro"),
    ("encoding", "The bread", "Ð¥Ð»ÐµÐ± das Brot"),
    ("blank", "The hotel", "  "),
    ("blank", "- - -", "Das Hotel"),
    ("long", "word " * 201, "Wort " * 201),
    ("long", "The hotel", "x" * 2001),
    ("ratio", "The hotel is closed in winter, and open in summer and autumn.", "Das Hotel"),
    ("ratio", "Yes.", "Das Hotel ist im Winter geschlossen und im Sommer geöffnet, sagte er."),
    ("copy", "The hotel is closed in winter.", "The hotel is closed in winter."),
    ("copy", "The hotel is closed in winter.", "The hotel is closed in winter!"),
    ("copy", "The old hotel is closed in winter.", "The hotel is closed in winter now."),
    ("script", "The hotel is closed.", "Отель зимой закрыт."),
    ("script", "これはホテルです。", "Das ist ein Hotel."),
    ("markup", "Press the key", "Drücken Sie <b>die</b> Taste"),
    ("markup", "Home | Products | Prices | Contact", "Start | Produkte | Preise | Kontakt"),
    ("markup", "};-);;;(x){{}}", "};-);;;(y){{}}"),
    ("urls", "See https://example.com for more.", "Mehr dazu auf der Website."),
    ("numbers", "The prices rose by 2,345 euros.", "Die Preise stiegen um 2.354 Euro."),
    ("numbers", "It was built in 1985.", "Es wurde gebaut."),
    ("brackets", "The hotel (closed) is old.", "Das Hotel (geschlossen ist alt."),
    ("language", "The hotel is closed in winter.", "Hotellet är stängt på vintern och våren."),
    (
        "language",
        "Das Hotel ist im Winter nicht geöffnet.",
        "Im Winter ist das Hotel leider geschlossen.",
    ),
    (
        "language",
        "The hotel is closed in winter now.",
        "Hotelli on suljettu talvella remontin vuoksi.",
    ),
]


@pytest.mark.parametrize(("source", "target"), GOOD)
def test_good_pairs_are_kept(source: str, target: str) -> None:
    assert ALL.check(source, target)[0] == ""


@pytest.mark.parametrize(("rule", "source", "target"), BAD)
def test_bad_pairs_are_found_by_their_rule(rule: str, source: str, target: str) -> None:
    assert ALL.check(source, target)[0] == rule
    without = PairRules(set(RULES) - {rule}, Limits(), ("en", "de"), library=True)
    assert without.check(source, target)[0] != rule
    alone = PairRules({rule}, Limits(), ("en", "de"), library=True)
    assert alone.check(source, target)[0] == rule


def test_the_built_in_examples_name_their_rules() -> None:
    """The removed pairs of the guide: each line of the file says what is wrong with it."""
    pairs = list(read_pairs(EXAMPLES / "crawl.en-de.tsv", None, raw=True))
    found = {ALL.check(*pair)[0] for pair in pairs}
    assert found >= {"", "encoding", "blank", "ratio", "copy", "numbers", "urls", "language"}


def test_languages_in_other_scripts_are_measured_by_their_letters() -> None:
    rules = PairRules(RULES, Limits(), ("en", "ja"), library=True)
    assert rules.check("The hotel is closed in winter.", "ホテルは冬は閉まっています。")[0] == ""
    assert rules.check("The hotel is closed.", "Das Hotel ist geschlossen.")[0] == "script"
    russian = PairRules(RULES, Limits(), ("ru", "en"), library=True)
    assert russian.check("Отель зимой закрыт.", "The hotel is closed in winter.")[0] == ""


def test_without_the_library_frequent_words_find_other_languages() -> None:
    rules = PairRules(RULES, Limits(), ("en", "de"), library=False)
    french = "L’hôtel est fermé pendant les mois de l’hiver et pour les fêtes."
    assert rules.check("The hotel is closed in winter and on holidays.", french)[0] == "language"
    assert rules.check("Agent job properties page", "Eigenschaftenseite Agentauftrag")[0] == ""


def test_unknown_languages_are_not_checked() -> None:
    rules = PairRules(RULES, Limits(), ("src", "tgt"), library=True)
    assert rules.check("Отель зимой закрыт.", "Hotellet är stängt på vintern.")[0] == ""


def test_near_duplicates_have_the_same_key() -> None:
    def keys(source: str, target: str) -> bytes:
        rule, found = ALL.check(source, target)
        assert not rule
        return found

    first = keys("On page 3: the hotel.", "Auf Seite 3: das Hotel.")
    second = keys("on page 4,  The Hotel", "auf Seite 4,  Das Hotel")
    third = keys("On page 3: the house.", "Auf Seite 3: das Haus.")
    assert first[8:] == second[8:]
    assert first[:8] != second[:8]
    assert first[8:16] != third[8:16]
    assert keys("A street", "Eine Straße")[8:] == keys("A STREET", "EINE STRASSE")[8:]
    assert first[16:24] == side_key("On page 3: the HOTEL")


def test_limits_can_be_changed_and_are_checked() -> None:
    short = PairRules(RULES, Limits(max_words=3), ("en", "de"), library=True)
    assert short.check("The hotel is closed.", "Das Hotel ist zu.")[0] == "long"
    for limits in ({"max_words": 0}, {"min_letters": 1.5}, {"max_ratio": 0.5}):
        with pytest.raises(BadInput, match="expected a number"):
            Limits(**limits)


def test_rules_are_chosen_by_name() -> None:
    assert chosen_rules([], []) == list(RULES)
    assert chosen_rules(["copy, blank"], ["copy"]) == ["blank"]
    with pytest.raises(BadInput, match=r"there is no rule 'copies'.* Did you mean copy"):
        chosen_rules([], ["copies"])
    with pytest.raises(BadInput, match="no rule is left"):
        chosen_rules(["copy"], ["copy"])


@given(st.text(), st.text())
def test_any_text_gets_a_verdict(source: str, target: str) -> None:
    rule, keys = ALL.check(source, target)
    assert rule in RULES or (rule == "" and len(keys) == 32)


def test_damaged_characters_are_not_printable_but_one() -> None:
    """So texts that are printable need no search for them."""
    damaged = [chr(code) for code in range(sys.maxunicode + 1) if DAMAGED.match(chr(code))]
    assert [character for character in damaged if character.isprintable()] == ["\ufffd"]
    rules = PairRules(["encoding"], Limits(), ("en", "de"), library=False)
    for character in damaged:
        assert rules.check(f"a{character}b", "ab")[0] == "encoding"
