"""The guard on translations: what it flags, and what it leaves alone."""

import re
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected_failures import UNRELATED, injected_failures

from transduce.config import SearchConfig
from transduce.datasets import pocket
from transduce.translation.guard import KINDS, Attempt, Flag, better, check, retry_settings

PROTECTED = "\U000f0001"


def kinds(
    source: str, output: str, languages: str = "en-de", *, mean: float = -0.5, tokens: int = 10
) -> list[str]:
    """Return the kinds of the flags of a translation."""
    code, _, other = languages.partition("-")
    flags = check(
        source, output, log_probability=mean * tokens, tokens=tokens, languages=(code, other)
    )
    assert all(flag.kind in KINDS and flag.detail for flag in flags)
    return [flag.kind for flag in flags]


@pytest.mark.parametrize(
    ("languages", "source", "output"),
    [
        ("en-de", "The dog runs across the wet grass.", "Der Hund rennt über das nasse Gras."),
        ("en-fr", "The dog runs across the wet grass.", "Le chien court sur l'herbe mouillée."),
        ("en-zh", "The dog runs across the wet grass.", "狗在湿漉漉的草地上奔跑。"),
        ("en-ja", "The dog runs across the wet grass.", "犬が濡れた芝生の上を走っている。"),
        ("en-ru", "The dog runs across the wet grass.", "Собака бежит по мокрой траве."),
        ("en-ar", "The dog runs across the wet grass.", "يركض الكلب عبر العشب المبلل."),
        ("zh-en", "狗在湿漉漉的草地上奔跑。", "The dog runs across the wet grass."),
        ("ja-en", "犬が濡れた芝生の上を走っている。", "A dog is running on the wet grass."),
        ("ru-en", "Собака бежит по мокрой траве.", "The dog runs across the wet grass."),
        ("ko-en", "개가 젖은 풀밭을 가로질러 달린다.", "The dog runs across the wet grass."),
        ("en-de", "Why?", "Warum?"),
        ("en-de", "Yes.", "Ja, das stimmt."),
        ("en-zh", "Thanks", "谢谢"),
        ("src-tgt", "The dog runs.", "Собака бежит."),
        ("en-de", "", ""),
    ],
)
def test_a_good_translation_has_no_flag(languages: str, source: str, output: str) -> None:
    assert kinds(source, output, languages) == []


@pytest.mark.parametrize(
    ("languages", "source", "output"),
    [
        ("en-de", "The dog runs.", "Der Hund Hund Hund rennt."),
        ("en-de", "The dog runs home.", "Der Hund der Hund rennt nach Hause."),
        ("en-fr", "How are you?", "Comment allez-vous ? ? ? ? ? ? ?"),
        ("en-de", "Solutions are needed now.", "Lösungungungungungungung wird gebraucht."),
        ("en-zh", "The dog runs across the wet grass.", "狗在草地上奔跑奔跑奔跑奔跑奔跑。"),
        ("en-ja", "The dog runs across the wet grass.", "犬が走る犬が走る芝生の上。"),
        ("en-ru", "The dog runs home.", "Собака бежит бежит бежит домой."),
        ("en-ar", "The dog runs home.", "الكلب الكلب الكلب يركض"),
        (
            "en-de",
            "We want to discuss the plan for the new bridge with all of the people there.",
            "Wir wollen den Plan für die Brücke, dann aber wollen den Plan für die Brücke dort.",
        ),
        ("en-de", "Why?", "Warum? Warum?"),
        ("en-de", "Never, never, never!", "Nie, nie, nie, nie, nie, nie!"),  # more often
    ],
)
def test_a_loop_is_a_repetition(languages: str, source: str, output: str) -> None:
    assert "repetition" in kinds(source, output, languages)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("Never, never, never give up!", "Gib niemals, niemals, niemals auf!"),
        ("No! No! No! No! No! No! No!", "Nein! Nein! Nein! Nein! Nein! Nein! Nein!"),
        ("I know that that is so.", "Ich weiß, dass die, die das sagen, das wissen."),
        ("Wait ......... now.", "Warte ......... jetzt."),
    ],
)
def test_repetition_of_the_source_may_stay(source: str, output: str) -> None:
    assert kinds(source, output) == []


def test_copies_are_flagged_but_not_what_stays() -> None:
    assert kinds("The dog runs across the grass.", "The dog runs across the grass.") == ["copy"]
    assert kinds("The dog runs across the grass.", "Der dog runs across the grass.") == ["copy"]
    assert "copy" in kinds("Собака бежит по траве.", "Собака бежит по траве.", "ru-uk")
    for text in (
        "Barack Obama",
        "OK",
        "radio",
        "42",
        "SELECT * FROM dbo.Customers WHERE id = 7",
        "https://example.org/how/to/get/here/from/there",
        "`git commit --amend --no-edit and more words`",
        "Microsoft SQL Server 2019",
    ):
        assert kinds(text, text) == [], text
    assert kinds("The colour is grey here.", "The color is grey here.", "en_GB-en_US") == []
    assert kinds("東京大学", "東京大学", "ja-zh") == []
    text = "北京是中国的首都和最大的城市。"
    assert kinds(text, text, "zh-ja") == ["copy"]


def test_the_length_is_compared_with_that_of_the_source() -> None:
    source = "The committee will discuss the proposal of the members at its next meeting in May."
    output = "Der Ausschuss wird den Vorschlag der Mitglieder auf seiner Sitzung im Mai erörtern."
    more = "Das ist so, weil niemand sonst eine Idee dazu hatte und die Zeit knapp wurde."
    assert kinds(source, output) == []
    assert kinds(source, "Der Ausschuss wird.") == ["length"]
    assert kinds(source, f"{output} {more}") == ["length"]
    assert kinds(source, "") == kinds(source, "  ") == ["length"]
    assert kinds("", "Ja.") == ["length"]
    assert kinds(source, "委员会将在五月的下次会议上讨论成员的提案。", "en-zh") == []
    assert kinds(source, "委员会。", "en-zh") == ["length"]


def test_letters_need_the_script_of_the_language_or_of_the_source() -> None:
    assert kinds("The dog runs home.", "Der Hund рент nach Hause.") == ["script"]
    assert kinds("The dog runs home.", "Der Hund 跑 nach Hause.") == ["script"]
    assert kinds("Собака бежит домой.", "The dog bежит home.", "ru-en") == []  # in the source
    assert kinds("The letter β is Greek.", "Der Buchstabe β ist griechisch.") == []
    assert kinds("The dog runs home.", "狗は家へ走る。", "en-zh") == ["script"]
    assert kinds("The dog runs home.", "犬は家へ走る。", "en-ja") == []
    assert kinds("I use Python at work.", "Я использую Python на работе.", "en-ru") == []
    assert kinds("The dog runs home.", "Der Hund rennt heim.", "en-ru") == ["script"]
    assert kinds("The dog runs home.", "Der Hund 跑 nach Hause.", "en-tgt") == ["script"]


@pytest.mark.parametrize(
    ("languages", "source", "output"),
    [
        ("en-de", "It costs 1,000.50 euros.", "Es kostet 1.000,50 Euro."),
        ("en-fr", "It costs 1,000.5 euros.", "Cela coûte 1\u202f000,50 euros."),
        ("en-de", "We met on May 3, 2014.", "Wir trafen uns am 3. 5. 2014."),
        ("en-de", "It starts on 2014-05-03.", "Es beginnt am 03.05.2014."),
        ("en-de", "It opens at 6:30 p.m. here.", "Es öffnet hier um 18.30 Uhr."),
        ("en-fr", "The concert begins at 9pm.", "Le concert commence à 21 heures."),
        ("en-de", "There are 3 dogs and 12 cats.", "Es gibt drei Hunde und zwölf Katzen."),
        ("en-de", "There are three dogs here.", "Hier gibt es 3 Hunde."),
        ("en-ru", "There are 5 dogs here.", "Здесь пять собак."),
        ("en-zh", "There are 3 dogs here.", "这里有三只狗。"),
        ("en-fr", "Art of the 19th century", "L'art du XIXe siècle"),
        ("en-de", "It costs 1.2 million euros.", "Es kostet 1.200.000 Euro."),
        ("en-de", "Music of the 1990s is good.", "Musik der 90er ist gut."),
        ("en-ar", "Chapter 15 begins here now.", "يبدأ الفصل ١٥ هنا الآن."),
        ("en-de", "Elizabeth II spoke to them.", "Elisabeth die Zweite sprach mit ihnen."),
        ("en-de", "He is 25 years old.", "Er ist fünfundzwanzig Jahre alt."),
    ],
)
def test_numbers_may_be_written_otherwise(languages: str, source: str, output: str) -> None:
    assert kinds(source, output, languages) == []


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("It costs 1,000.50 euros.", "Es kostet 1.000,60 Euro."),
        ("It costs 35,000 euros.", "Es kostet 35 Euro."),
        ("It costs 500 euros.", "Es kostet 50 Euro."),
        ("We met them in May 2014.", "Wir trafen sie im Mai."),
        ("We met them in May.", "Wir trafen sie im Mai 2014."),
        ("There are 3 dogs here.", "Hier gibt es vier Hunde."),
        ("Take step 1 of the list.", "Nehmen Sie einen Schritt der Liste."),
        ("Rooms 12 and 21 are free.", "Die Zimmer 12 und 12 sind frei."),
    ],
)
def test_lost_changed_and_invented_numbers_are_flagged(source: str, output: str) -> None:
    assert kinds(source, output) == ["numbers"]


def test_the_detail_names_the_numbers() -> None:
    flags = check(
        "On page 27.", "Auf Seite 72.", log_probability=0.0, tokens=0, languages=("en", "de")
    )
    assert flags == (Flag("numbers", "not in the output: 27; not in the source: 72"),)
    assert flags[0].to_json() == {"kind": "numbers", "detail": flags[0].detail}


def test_low_confidence_is_flagged_and_unknown_confidence_is_not() -> None:
    assert kinds("The dog runs.", "Der Hund rennt.", mean=-3.0) == ["confidence"]
    assert kinds("The dog runs.", "Der Hund rennt.", mean=-1.5) == []
    assert kinds("The dog runs.", "Der Hund rennt.", mean=-3.0, tokens=0) == []


TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("ab 12.,:!МД的犬ا" + PROTECTED)), max_size=60
)


@settings(max_examples=150, deadline=None)
@given(TEXT, TEXT, st.sampled_from(["en-de", "en-ja", "ar-en", "zh-ru", "src-tgt", "pt_BR-sr"]))
def test_any_text_is_checked_and_protected_characters_do_not_count(
    source: str, output: str, languages: str
) -> None:
    plain = kinds(source, output, languages)
    assert len(set(plain)) == len(plain)
    span = re.compile("[\U000f0000-\U000ffffd]")
    if not span.search(source + output):
        many = PROTECTED * 3
        assert kinds(f"{source} {many}", f"{many} {output}", languages) == kinds(
            f"{source}  ", f"  {output}", languages
        )


def test_hostile_texts_are_checked_in_bounded_time() -> None:
    texts = ["ab" * 50_000, "! " * 50_000, "1 " * 20_000, "x y " * 20_000, "的" * 50_000]
    texts += [" ".join(map(str, range(20_000))), "!" + " " * 100_000]
    start = time.process_time()
    for text in texts:
        kinds("The dog runs.", text)
        kinds(text, "Der Hund rennt 1 2 3.")
    kinds(*(" ".join(map(str, range(start, 90_000, 2))) for start in (50_000, 50_001)))
    assert time.process_time() - start < 5


def test_injected_failures_are_flagged_and_correct_pairs_are_not() -> None:
    """The thresholds of docs/guard.md, on the pocket corpus."""
    pairs = pocket.pairs(300, "valid")
    pages = [
        (f"{en} See page {7 * n + 13}.", f"{de} Siehe Seite {7 * n + 13}.")
        for n, (en, de) in enumerate(pairs[::3])
    ]
    pairs += pages
    false_alarms = sum(bool(kinds(*pair)) for pair in pairs)
    assert false_alarms <= 0.025 * len(pairs)
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for failure in injected_failures(pairs):
        total[failure.name] += 1
        right[failure.name] += not {*failure.kinds}.isdisjoint(
            kinds(failure.source, failure.output)
        )
    assert total["number changed"] == len(pages)
    lowest = {"half missing": 0.4, UNRELATED: 0.0}
    for name, number in total.items():
        assert right[name] >= lowest.get(name, 0.95) * number, (name, right[name], number)


LENGTH = Flag("length", "too short: 3 characters where about 20 are usual")
LOOP = Flag("repetition", "'ab' 9 times in a row")
DOUBT = Flag("confidence", "mean log-probability -3.00 per token: expected -2.20 or more")


def test_other_searches_are_tried_for_a_flagged_output() -> None:
    config = SearchConfig()
    assert retry_settings((), config) == []
    short, long = (retry_settings((flag,), config) for flag in (LENGTH, LOOP))
    assert max(attempt.beam for attempt in short) > config.beam
    assert any(attempt.alpha > config.alpha for attempt in short)
    assert all(attempt.alpha >= config.alpha for attempt in short)
    assert all(attempt.alpha <= config.alpha for attempt in long)
    assert any(attempt.alpha < config.alpha for attempt in long)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 30),
    st.sampled_from([0.0, 0.6, 1.4]),
    st.booleans(),
    st.sampled_from([LENGTH, LOOP, DOUBT]),
)
def test_searches_to_try_differ_and_do_not_sample(
    beam: int, alpha: float, sample: bool, flag: Flag
) -> None:
    config = SearchConfig(beam=beam, alpha=alpha, sample=sample)
    tries = retry_settings([flag], config)
    assert 1 <= len(tries) == len(set(tries)) <= 4
    assert config not in tries
    assert not any(attempt.sample for attempt in tries)
    assert all(attempt.nbest == 1 for attempt in tries)


def test_the_least_flagged_output_is_better_then_the_higher_score_then_the_first() -> None:
    clean, doubtful = Attempt("a", -9.0, ()), Attempt("b", -1.0, (DOUBT,))
    looping, first, second = (
        Attempt("c", 0.0, (LOOP,)),
        Attempt("d", -2.0, ()),
        Attempt("e", -2.0, ()),
    )
    assert better([looping, doubtful, clean]) is clean
    assert better([looping, doubtful]) is doubtful
    assert better([clean, first, second]) is first
    assert better([second, first]) is second
