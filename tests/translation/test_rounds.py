"""Sentences are searched again where that may repair their output, and only there."""

import pytest
from scripted_engine import scripted_translator as translator

from transduce.glossary import Glossary


def test_a_copied_span_needs_no_further_search() -> None:
    translate, engine = translator({"Two {dogs} run.": ["Zwei {dogs} laufen."]})
    (translation,) = translate.translate(["Two {dogs} run."])
    assert translation.text == "Zwei {dogs} laufen."
    assert [span.placed for span in translation.spans] == ["copied"]
    assert len(engine.searched) == 1


@pytest.mark.parametrize("first", ["Zwei { Dogs } laufen.", "{dogs} Zwei {dogs} laufen.", "Zwei."])
def test_a_changed_repeated_or_lost_span_is_cut_out_and_inserted(first: str) -> None:
    answers = {"Two {dogs} run.": [first], "Two run.": ["Zwei laufen."]}
    translate, engine = translator(answers)
    (translation,) = translate.translate(["Two {dogs} run."])
    assert translation.text == "Zwei {dogs} laufen."
    assert [span.placed for span in translation.spans] == ["aligned"]
    assert [each.source for each in engine.searched] == ["Two {dogs} run.", "Two run."]


def test_a_part_of_a_longer_word_is_no_copy() -> None:
    answers = {"It has 5 km.": ["Es hat 15 km."], "It has.": ["Es hat."]}
    (translation,) = translator(answers)[0].translate(["It has 5 km."])
    assert translation.text == "Es hat 5 km."


def test_a_lost_term_is_required_in_a_second_search() -> None:
    glossary = Glossary.of({"dogs": "Wauwaus"})
    translate, engine = translator(
        {"Two dogs run.": ["Zwei Hunde laufen.", "Zwei Wauwaus laufen."]}
    )
    (translation,) = translate.translate(["Two dogs run."], glossary=glossary)
    assert translation.text == "Zwei Wauwaus laufen."
    assert [bool(each.required) for each in engine.searched] == [False, True]
    assert [(term.target, term.found) for term in translation.terms] == [("Wauwaus", True)]


def test_an_inflected_term_is_not_required_again() -> None:
    glossary = Glossary.of({"dog": "Hund"})
    translate, engine = translator({"Two dogs run.": ["Zwei Hunde laufen."]})
    (translation,) = translate.translate(["Two dogs run."], glossary=glossary)
    assert translation.terms[0].found
    assert len(engine.searched) == 1


def test_a_term_that_the_second_search_lacks_too_is_reported() -> None:
    glossary = Glossary.of({"dogs": "Wauwaus"})
    translate, _ = translator({"Two dogs run.": ["Zwei Hunde laufen.", "Zwei Tiere laufen."]})
    (translation,) = translate.translate(["Two dogs run."], glossary=glossary)
    assert translation.text == "Zwei Hunde laufen."
    assert not translation.terms[0].found


def test_terms_that_a_search_loses_are_required_in_the_next() -> None:
    glossary = Glossary.of({"dogs": "Wauwaus", "man": "Herr"})
    source = "Two dogs see a man."
    outputs = ["Zwei Hunde sehen einen Herr.", "Zwei Wauwaus.", "Zwei Wauwaus sehen einen Herr."]
    translate, engine = translator({source: outputs})
    (translation,) = translate.translate([source], glossary=glossary)
    assert translation.text == outputs[-1]
    assert [term.found for term in translation.terms] == [True, True]
    assert len(engine.searched) == 3


def test_flagged_outputs_are_only_searched_again_if_asked_for() -> None:
    loop = "Zwei Hunde Hunde Hunde Hunde laufen."
    for guard, expected in (("off", loop), ("flag", loop), ("retry", "Zwei Hunde laufen.")):
        translate, engine = translator({"Two dogs run.": [loop, "Zwei Hunde laufen."]})
        (translation,) = translate.translate(["Two dogs run."], guard=guard)  # type: ignore[arg-type]
        assert translation.text == expected
        kinds = [flag.kind for flag in translation.flags]
        assert ("repetition" in kinds) == (guard == "flag")
        assert len(engine.searched) == (2 if guard == "retry" else 1)
    assert engine.searched[0].config != engine.searched[1].config


def test_retries_end_and_the_least_bad_output_is_kept() -> None:
    loop, copy = "Hunde Hunde Hunde Hunde Hunde.", "Zwei Hunde laufen laufen laufen."
    translate, engine = translator({"Two dogs run.": [loop, copy, loop, loop, loop, loop]})
    (translation,) = translate.translate(["Two dogs run."], guard="retry")
    assert translation.flags
    assert 2 <= len(engine.searched) <= 5


def test_other_sentences_are_not_searched_again() -> None:
    answers = {"Two {dogs} run.": ["Zwei laufen."], "Two run.": ["Zwei laufen."]}
    answers |= {"A man sleeps.": ["Ein Mann schläft."]}
    translate, engine = translator(answers)
    (translation,) = translate.translate(["Two {dogs} run. A man sleeps."])
    assert translation.text == "Zwei {dogs} laufen. Ein Mann schläft."
    assert [each.source for each in engine.searched].count("A man sleeps.") == 1
