"""The built-in corpus: reproducible, one translation each, disjoint splits."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from pocket_grammar import (
    MODAL,
    SHE,
    find_verb,
    phrase,
)

from transduce.datasets.pocket import CONSTRUCTIONS, pairs
from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.dice import Dice
from transduce.datasets.pocket.phrases import (
    THE,
)
from transduce.datasets.pocket.sentences import finished
from transduce.datasets.pocket.splits import (
    RESERVED,
    SplitName,
    belongs_to,
    is_for_training,
    is_held_out,
    nouns_and_constructions,
)
from transduce.datasets.pocket.words import (
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    VERBS,
)
from transduce.errors import BadInput, BadSetting

# The corpus ---------------------------------------------------------------------------------------

Corpus = dict[SplitName, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return {"train": pairs(45_000), "valid": pairs(2_500, "valid"), "test": pairs(2_500, "test")}


def german_words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence)


def test_the_seed_decides_the_pairs() -> None:
    assert pairs(300, "train", 7) == pairs(300, "train", 7)
    assert pairs(300, "test", 7)[:100] == pairs(100, "test", 7)
    assert not set(pairs(100, "train", 7)) & set(pairs(100, "train", 8)[:10])


def test_pairs_do_not_depend_on_the_order_of_hashes() -> None:
    code = (
        "from transduce.datasets.pocket import pairs; "
        "print(pairs(40, 'train', 3), pairs(20, 'test', 3))"
    )
    outputs = {
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
    assert outputs == {f"{pairs(40, 'train', 3)} {pairs(20, 'test', 3)}\n"}


def test_the_requested_number_of_different_pairs_is_returned(corpus: Corpus) -> None:
    assert pairs(0) == []
    assert {len(set(part)) for part in corpus.values()} == {45_000, 2_500}


def test_splits_share_no_sentence_with_any_seed(corpus: Corpus) -> None:
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
    for english, german in [pair for part in corpus.values() for pair in part]:
        assert translations.setdefault(english, german) == german
    assert len(translations) == 50_000


def test_there_are_far_more_than_a_million_pairs() -> None:
    """Count one kind of statement: the (old) man is reading, or read, the (long) letter."""
    found = 0
    for verb in VERBS:
        if verb.frame == "transitive" and verb.aspect == "activity":
            who = [1 + len(noun.adjectives) for noun in verb.subjects if "kin" not in noun.tags]
            what = [1 + len(noun.adjectives) for noun in verb.objects if "kin" not in noun.tags]
            found += 2 * sum(who) * sum(what)
    assert found > 1_000_000


def test_two_seeds_hardly_ever_draw_the_same_sentence(corpus: Corpus) -> None:
    """Of N equally likely sentences, 10,000 of another seed share 10,000 * 45,000 / N with ours."""
    ours = {english for english, _ in corpus["train"]}
    met = sum(english in ours for english, _ in pairs(10_000, seed=5))
    assert met < 450


def test_the_words_are_many_and_each_is_common_in_training(corpus: Corpus) -> None:
    lemmas = {
        *(noun.en[0] for noun in NOUNS),
        *(adjective.en for adjective in ADJECTIVES),
        *(verb.base for verb in VERBS),
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
    for verb in VERBS:
        forms = {verb.base, verb.third, verb.past, verb.participle, verb.ing}
        assert sum(words[form] for form in forms) >= 90, verb.base
    for adjective in ADJECTIVES:
        assert words[adjective.en] >= 60, adjective.en


def test_every_word_of_the_test_split_occurs_in_training(corpus: Corpus) -> None:
    def words(part: SplitName) -> set[str]:
        return {
            word for english, _ in corpus[part] for word in re.findall(r"[\w'-]+", english.lower())
        }

    assert words("test") <= words("train")


ENDINGS = ("e", "er", "en", "em", "es")


def test_reserved_adjectives_and_nouns_never_occur_together_in_training(corpus: Corpus) -> None:
    """Checked in the text: no such pair of words is adjacent."""
    reserved = {
        (adjective.stem + ending, form)
        for adjective in ADJECTIVES
        for noun in NOUNS
        if noun.key in RESERVED[adjective.alone]
        for ending in ENDINGS
        for form in {*noun.de[0], *noun.de[1]}
    }

    def meetings(part: SplitName) -> int:
        return sum(
            couple in reserved
            for _, german in corpus[part]
            for couple in pairwise(german_words(german))
        )

    assert meetings("train") == 0
    assert meetings("test") > 100


def test_reserved_verbs_and_nouns_never_occur_together_in_training(corpus: Corpus) -> None:
    """Checked in the text, by forms that belong to one verb and to one noun."""
    nouns = {form: noun.key for noun in NOUNS for number in noun.de for form in number}
    readings: dict[str, set[str]] = {}
    for verb in VERBS:
        for form in (verb.partizip, verb.key, *verb.present):
            readings.setdefault(form, set()).add(verb.key)
    for form in ("gibt", *find_verb("haben").present):  # es gibt, hat gelesen
        readings[form].add("auxiliary")
    verbs = {form: min(keys) for form, keys in readings.items() if len(keys) == 1}

    def meetings(part: SplitName) -> int:
        met = 0
        for _, german in corpus[part]:
            words = german_words(re.sub(r"um \w+ Uhr", "", german))  # no clock
            found = {nouns[word] for word in words if word in nouns}
            doing = {verbs[word] for word in words if word in verbs}
            met += any(RESERVED.get(key, frozenset()) & found for key in doing)
        return met

    assert meetings("train") == 0
    assert meetings("test") > 300


def test_no_sentence_is_both_for_training_and_held_out() -> None:
    dice = Dice("both")
    for construction in CONSTRUCTIONS:
        for _ in range(40):
            sentence = construction(dice)
            assert not (is_for_training(sentence) and is_held_out(sentence))
            assert belongs_to(sentence, "train") == is_for_training(sentence)
            assert (
                belongs_to(sentence, "test")
                == belongs_to(sentence, "valid")
                == is_held_out(sentence)
            )


def test_three_to_eight_percent_of_the_combinations_are_reserved() -> None:
    possible = sum(len(noun.adjectives) for noun in NOUNS)
    reserved = sum(noun.key in RESERVED[entry.alone] for noun in NOUNS for entry in noun.adjectives)
    assert 0.03 < reserved / possible < 0.08
    couples = {(verb.key, noun.key) for verb in VERBS for noun in (*verb.subjects, *verb.objects)}
    combinations = [noun in RESERVED.get(key, frozenset()) for key, noun in couples]
    assert 0.03 < sum(combinations) / len(combinations) < 0.08


def test_every_construction_is_in_every_split() -> None:
    dice = Dice("every")
    for construction in CONSTRUCTIONS:
        drawn = [construction(dice) for _ in range(400)]
        assert any(is_for_training(sentence) for sentence in drawn)
        assert any(is_held_out(sentence) for sentence in drawn), construction.__name__


def test_all_nouns_and_constructions_of_a_clause_are_found() -> None:
    clause = Clause(find_verb("lesen"), SHE, "modal", MODAL["will"], marks=("weil",))
    clause.phrases = [phrase(THE, "boy"), phrase(THE, "book"), SHE]
    assert nouns_and_constructions(clause) == {"Junge", "Buch", "wollen", "weil"}


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
def test_the_phenomenon_occurs_in_training(corpus: Corpus, phenomenon: str) -> None:
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


def test_a_finished_sentence_keeps_its_words() -> None:
    assert finished("it is raining", "es regnet") == ("It is raining.", "Es regnet.")


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(BadInput, match=r"count = -1: expected 0 pairs or more"):
        pairs(-1)


def test_an_unknown_split_is_refused_with_a_hint() -> None:
    with pytest.raises(BadSetting, match=r"there is no split tests.*Did you mean test\?"):
        pairs(1, "tests")  # type: ignore[arg-type]
