"""Languages are identified among those that are possible."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.text.identification import identify_among

SENTENCES = {
    "en": "Two dogs run over the grass.",
    "de": "Zwei Hunde laufen über die Wiese.",
    "fr": "Deux chiens courent dans l'herbe.",
    "pt-BR": "Dois cachorros correm pela grama.",
    "zh_Hans": "两只狗在草地上跑。",
    "nb": "To hunder løper over gresset.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_identified_by_the_codes_that_were_given(code: str) -> None:
    assert identify_among(SENTENCES[code], SENTENCES)[0].language == code


def test_unknown_languages_are_left_out() -> None:
    assert identify_among("Two dogs run.", ["src", "tgt"]) == []
    assert [guess.language for guess in identify_among("Two dogs run.", ["de", "src", "en"])] == [
        "en",
        "de",
    ]


def test_the_serbian_columns_of_the_library_count_as_one() -> None:
    assert identify_among("123", ["sr", "en"]) == []


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_probabilities_are_among_the_candidates(text: str) -> None:
    guesses = identify_among(text, ["en", "de", "fr"])
    if guesses:
        assert {guess.language for guess in guesses} == {"en", "de", "fr"}
        assert sum(guess.probability for guess in guesses) == pytest.approx(1, abs=1e-3)
        assert guesses == sorted(guesses, key=lambda guess: -guess.probability)
