"""A lost term is put in the place of the words aligned with it; else the search must write it."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_engine import SUBWORDS, Scripted, Searched, Weights, by_words
from scripted_engine import scripted_translator as translator

from transduce import Translation
from transduce.config import SearchConfig
from transduce.config.model import EXTRA_POSITIONS
from transduce.glossary import Entry, Glossary, accuracy
from transduce.translation.types import Hypothesis, Ints, Job

LINKS = {"Zwei": "Two", "Hunde": "dogs", "sehen": "see", "Mann": "man", "Wauwaus": "dogs"}
ALIGNED = by_words(LINKS)
BOTH = Glossary.of({"dogs": "Wauwaus", "man": "Herr"})
DOGS = Glossary.of({"dogs": "Wauwaus"})


def translated(
    outputs: dict[str, list[str]], glossary: Glossary, *, preset: str = "tiny", **settings: Any
) -> tuple[Translation, list[Searched]]:
    """Translate the first of the sources; every sentence has its outputs, in order."""
    translate, engine = translator(outputs, ALIGNED, preset=preset)
    (translation,) = translate.translate([next(iter(outputs))], glossary=glossary, **settings)
    return translation, engine.searched


def test_a_term_stands_in_the_place_of_the_words_aligned_with_it() -> None:
    outputs = ["Zwei Hunde sehen.", "Zwei Wauwaus schauen."]
    translation, searched = translated({"Two dogs see.": outputs}, DOGS)
    assert [each.prefix for each in searched] == ["", "Zwei Wauwaus"]
    assert not searched[1].required
    assert translation.text == "Zwei Wauwaus schauen."  # the model goes on as it likes
    assert translation.terms[0].found


def test_a_term_aligned_with_no_word_is_required() -> None:
    outputs = ["Zwei Tiere sehen.", "Zwei Wauwaus sehen."]
    translation, searched = translated({"Two dogs see.": outputs}, DOGS)
    assert searched[1].prefix == ""
    assert searched[1].required == (("Wauwaus",),)
    assert translation.text == outputs[1]


def test_a_term_that_the_model_makes_another_word_of_is_required() -> None:
    outputs = ["Zwei Hunde sehen.", "Zwei Wauwausung sehen.", "Zwei Wauwaus sehen."]
    translation, searched = translated({"Two dogs see.": outputs}, DOGS)
    assert [(each.prefix, bool(each.required)) for each in searched[1:]] == [
        ("Zwei Wauwaus", False),
        ("", True),
    ]
    assert translation.text == outputs[2]


def test_several_terms_are_placed_one_after_the_other() -> None:
    outputs = ["Zwei Hunde sehen Mann.", "Zwei Wauwaus sehen Mann.", "Zwei Wauwaus sehen Herr."]
    translation, searched = translated({"Two dogs see man.": outputs}, BOTH)
    prefixes = ["", "Zwei Wauwaus", "Zwei Wauwaus sehen Herr"]
    assert [each.prefix for each in searched] == prefixes
    assert [term.found for term in translation.terms] == [True, True]


def test_the_first_term_of_the_output_is_placed_first() -> None:
    outputs = ["Mann sehen Hunde.", "Herr sehen Hunde.", "Herr sehen Wauwaus."]
    _, searched = translated({"Two dogs see man.": outputs}, BOTH)
    assert [each.prefix for each in searched] == ["", "Herr", "Herr sehen Wauwaus"]


def test_nothing_before_a_placed_term_is_placed_again() -> None:
    """A term whose place is in the beginning that the search was given is required."""
    outputs = ["Mann sehen Hunde.", "Mann sehen Wauwaus.", "Herr sehen Wauwaus."]
    links = by_words(LINKS | {"Mann": "Two"})
    source = "Two dogs see man."
    translate, engine = translator({source: [outputs[0], outputs[1], outputs[2]]}, links)
    (translation,) = translate.translate([source], glossary=BOTH)
    assert [each.prefix for each in engine.searched] == ["", "Mann sehen Wauwaus", ""]
    assert engine.searched[2].required == (("Wauwaus",), ("Herr",))
    assert translation.text == outputs[2]


def test_no_term_is_placed_after_terms_were_required() -> None:
    outputs = ["Zwei Tiere sehen Mann.", "Zwei Tiere sehen Herr.", "Zwei Wauwaus sehen Mann."]
    translation, searched = translated({"Two dogs see man.": outputs}, BOTH)
    assert [each.prefix for each in searched] == ["", "Zwei Tiere sehen Herr", ""]
    assert searched[2].required == (("Wauwaus",), ("Herr",))
    assert sum(term.found for term in translation.terms) == 1


@pytest.mark.parametrize(("case", "prefix"), [(False, "Wauwaus"), (True, "wauwaus")])
def test_a_term_that_begins_an_output_has_a_capital_unless_case_matters(
    case: bool, prefix: str
) -> None:
    glossary = Glossary.of([Entry("dogs", "wauwaus", case=case)])
    outputs = ["Hunde sehen.", f"{prefix} sehen."]
    translation, searched = translated({"dogs see.": outputs}, glossary)
    assert searched[1].prefix == prefix
    assert translation.terms[0].found


def test_a_beginning_that_is_longer_than_the_longest_output_is_not_searched() -> None:
    target = "Wauwaus" * 60
    assert len(SUBWORDS.encode(target)) > 24 + EXTRA_POSITIONS
    outputs = {"Two dogs see.": ["Zwei Hunde sehen.", f"Zwei {target} sehen."]}
    translate, engine = translator(outputs, ALIGNED, max_len=24)
    translate.translate(["Two dogs see."], glossary=Glossary.of({"dogs": target}))
    assert [each.prefix for each in engine.searched] == ["", ""]


def test_a_term_of_characters_that_the_model_cannot_write_is_not_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never = SUBWORDS.encode("Wauwaus")[-1]
    monkeypatch.setattr(type(SUBWORDS), "forbidden_ids", lambda self: [never])
    outputs = ["Zwei Hunde sehen.", "Zwei Hunde sehen."]
    translation, searched = translated({"Two dogs see.": outputs}, DOGS)
    assert [each.prefix for each in searched] == ["", ""]
    assert not translation.terms[0].found


def test_models_without_attention_are_not_aligned_to_place_terms() -> None:
    outputs = {"Two dogs see.": ["Zwei Hunde sehen.", "Zwei Wauwaus sehen."]}
    translate, engine = translator(outputs, ALIGNED, preset="bytenet-tiny")
    (translation,) = translate.translate(["Two dogs see."], glossary=DOGS)
    assert translation.text == "Zwei Wauwaus sehen."
    assert engine.aligned == 0
    assert [bool(each.required) for each in engine.searched] == [False, True]


def test_a_sentence_that_was_cut_is_searched_once_and_its_lost_terms_are_reported() -> None:
    source = "Two dogs see, " * 6 + "see."

    class Cut(Scripted):
        def search(
            self, jobs: Sequence[Job], config: SearchConfig, batch: int
        ) -> Iterator[tuple[int, list[Hypothesis]]]:
            for number, _ in enumerate(jobs):
                self.searched.append(Searched("", config, (), ""))
                yield number, [Hypothesis.of(SUBWORDS.encode("Zwei Hunde."), -1.0, config)]

    translate, _ = translator({}, max_len=24)
    translate.engine = engine = Cut({})
    (translation,) = translate.translate([source], glossary=DOGS)
    assert translation.cut
    assert len(engine.searched) == translation.parts > 1
    assert [term.found for term in translation.terms] == [False] * 6


def test_a_term_is_placed_in_an_output_without_the_spans_that_were_cut_out() -> None:
    outputs = {
        "Two {a} dogs see.": ["Zwei Hunde sehen."],  # it lost the span
        "Two dogs see.": ["Zwei Hunde sehen.", "Zwei Wauwaus sehen."],
    }
    translation, searched = translated(outputs, DOGS)
    assert translation.text == "Zwei {a} Wauwaus sehen."
    assert [each.prefix for each in searched] == ["", "", "Zwei Wauwaus"]


def test_a_placed_term_that_costs_a_span_leaves_the_span_to_be_inserted() -> None:
    outputs = {
        "Two dogs see {a}.": ["Zwei Hunde sehen {a}.", "Zwei Wauwaus sehen."],
        "Two dogs see.": ["Zwei Wauwaus sehen."],
    }
    translation, searched = translated(outputs, DOGS)
    assert translation.text == "Zwei Wauwaus sehen {a}."
    assert [each.prefix for each in searched] == ["", "Zwei Wauwaus", ""]
    assert [span.placed for span in translation.spans] == ["aligned"]


def test_a_term_with_an_inserted_span_between_its_words_is_reported() -> None:
    glossary = Glossary.of({"wet grass": "nasses Gras"})
    outputs = {"See wet {a} grass wet grass.": ["Nasses Gras."]}
    outputs |= {"See wet grass wet grass.": ["Nasses Gras."]}
    translate, _ = translator(outputs, by_words({"Nasses": "wet", "Gras": "grass"}))
    (translation,) = translate.translate([*outputs][:1], glossary=glossary)
    assert translation.text == "Nasses {a} Gras."
    assert [term.found for term in translation.terms] == [False]


def test_a_flagged_output_with_a_placed_term_is_retried_with_the_term() -> None:
    loop = "Zwei Wauwaus laufen laufen laufen laufen."
    outputs = ["Zwei Hunde laufen laufen laufen laufen.", loop, "Zwei Wauwaus laufen."]
    translation, searched = translated({"Two dogs run.": outputs}, DOGS, guard="retry")
    assert translation.text == "Zwei Wauwaus laufen."
    assert [each.prefix for each in searched] == ["", "Zwei Wauwaus", "Zwei Wauwaus"]
    assert searched[1].config != searched[2].config


def test_the_users_prefix_is_kept_and_further_sentences_are_free() -> None:
    outputs = {
        "Two dogs see. Two dogs see!": [],
        "Two dogs see.": ["Zwei Hunde sehen.", "Zwei Wauwaus sehen."],
        "Two dogs see!": ["Zwei Hunde sehen!", "Zwei Wauwaus sehen!"],
    }
    translation, searched = translated(outputs, DOGS, prefixes=["Zwei"])
    assert translation.text == "Zwei Wauwaus sehen. Zwei Wauwaus sehen!"
    of_first = [each for each in searched if each.source.endswith(".")]
    assert [(each.prefix, bool(each.required)) for each in of_first] == [
        ("Zwei", False),
        ("Zwei", True),
    ]
    assert [each.prefix for each in searched if each.source.endswith("!")] == ["", "Zwei Wauwaus"]


def test_samples_are_drawn_once_whatever_terms_they_lack() -> None:
    translation, searched = translated(
        {"Two dogs see.": ["Zwei Hunde sehen.", "Zwei Wauwaus sehen."]}, DOGS, sample=True
    )
    assert len(searched) == 1
    assert not translation.terms[0].found


WORDS = ("Wauwaus", "wauwaus", "Herr", "Hunde", "Zwei", "{a}", "Herrenhaus", ",", "rotes", "Gras")
SOURCES = ("Two", "dogs", "{a}", "man", "see", ",", "wet grass")
GLOSSARY = Glossary.of({"dogs": "Wauwaus", "man": "Herr", "wet grass": "rotes Gras"})


class Drawn(Scripted):
    """Writes any words, and aligns at random; it keeps prefixes, and phrases at times."""

    def __init__(self, seed: int) -> None:
        super().__init__({})
        self.random = random.Random(seed)

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        for number, job in enumerate(jobs):
            self.searched.append(Searched("", config, (), ""))
            shown = "{a}" in SUBWORDS.decode(job.source[:-1].tolist())
            choices = WORDS if shown else [word for word in WORDS if word != "{a}"]
            words = self.random.choices(choices, k=self.random.randrange(6))
            tokens = [*job.prefix, *SUBWORDS.encode(" ".join(words))]
            for phrase in job.required:
                if self.random.random() < 0.7:
                    tokens += self.random.choice(phrase)
            yield number, [Hypothesis.of(tokens, -self.random.random(), config)] * config.nbest

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[Weights]:
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        return [rng.random((len(o), len(s)), dtype=np.float32) for s, o in pairs]


@given(
    st.lists(st.sampled_from(SOURCES), min_size=1, max_size=7).map(" ".join),
    st.integers(0, 1 << 30),
    st.sampled_from(["off", "retry"]),
)
def test_whatever_is_written_terms_are_in_the_translation_or_reported(
    source: str, seed: int, guard: str
) -> None:
    translate, _ = translator({})
    translate.engine = engine = Drawn(seed)
    (translation,) = translate.translate([source], glossary=GLOSSARY, guard=guard)  # type: ignore[arg-type]
    found = accuracy([(source, translation.text)], GLOSSARY)
    assert len(translation.terms) == found.matched
    assert sum(term.found for term in translation.terms) <= found.found
    if spans := source.count("{a}"):
        assert translation.text.count("{a}") == spans
    assert len(engine.searched) < 40
