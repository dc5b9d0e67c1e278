"""Every span and tag of a text is in its translation once, whatever the model writes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from untrained_translator import untrained_translator

from transduce.markup import Inline, SpanRules, Tag
from transduce.markup.placing import has_each_once
from transduce.markup.protected import protect
from transduce.translation.model_input import Mode, model_input

SPANS = ["{name}", "%s", "https://x.org/a?b=c", "me@x.org", "/usr/bin/ls", "`a b`", "5 km", "&amp;"]
WORDS = ["Two", "dogs", "run", "over", "the", "grass.", "A", "man", "sleeps!", ",", "and"]
BOLD, END = Tag("open", 1), Tag("close", 1)


translators = {sentinels: untrained_translator(sentinels=sentinels) for sentinels in (False, True)}


def spans_of(text: str) -> Counter[str]:
    return Counter(s for s in protect(text, SpanRules()).spans if isinstance(s, str))


@pytest.mark.parametrize("sentinels", [False, True])
@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(SPANS + WORDS), min_size=1, max_size=14), st.booleans())
def test_every_span_is_kept_once(sentinels: bool, parts: list[str], split: bool) -> None:
    text = " ".join(parts)
    (translation,) = translators[sentinels].translate(
        [text], keep=True, split=split, nbest=2, beam=2, extra=5
    )
    for candidate in translation.candidates:
        assert spans_of(candidate.text) >= spans_of(text)
    assert Counter(span.text for span in translation.spans) == spans_of(text)


def test_a_document_text_keeps_its_tags() -> None:
    content: Inline = (
        "Two ",
        BOLD,
        "dogs {name}",
        END,
        " run. A man",
        Tag("single", 2),
        " sleeps.",
    )
    for translator in translators.values():
        (translation,) = translator.translate([content])
        assert translation.content is not None
        assert has_each_once(translation.content, protect(content, SpanRules()))
        assert spans_of(translation.text)["{name}"] == 1


def test_white_space_around_a_document_text_stays() -> None:
    for content in ((" ", BOLD, "Two dogs", END, " run. \u00a0"), ("  Two dogs run. A man. ",)):
        (translation,) = translators[False].translate([content])
        text = "".join(part for part in translation.content or () if isinstance(part, str))
        source = "".join(part for part in content if isinstance(part, str))
        assert text.startswith(source[: len(source) - len(source.lstrip())])
        assert text.endswith(source[len(source.rstrip()) :])


def test_a_sentence_of_spans_alone_is_not_translated() -> None:
    (translation,) = translators[False].translate(["{a}: 5 km, https://x.org"])
    assert translation.text == "{a}: 5 km, https://x.org"
    assert {span.placed for span in translation.spans} == {"copied"}


def test_test_sets_are_translated_as_they_are() -> None:
    """With split=False nothing is protected, unless asked for."""
    text = "Two dogs {name} run 5 km."
    whole, plain = (
        translators[False].translate([text], split=False, keep=keep)[0] for keep in (None, False)
    )
    assert whole.text == plain.text
    assert not whole.spans


def test_own_patterns_are_kept() -> None:
    rules = SpanRules([r"ACME-\d+"])
    (translation,) = translators[False].translate(["Two dogs ACME-12 run."], keep=rules)
    assert translation.text.count("ACME-12") == 1


def test_spans_do_not_end_sentences() -> None:
    (translation,) = translators[False].translate(["See https://x.org/a.b?c now. A man sleeps."])
    assert translation.parts == 2


def test_the_model_reads_sentinels_in_order_and_no_more_than_it_has() -> None:
    coder = translators[True].codec.source
    text = " ".join(f"{{x{number}}}" for number in range(20)) + " run"
    protected = protect(text, SpanRules())
    shown = model_input(protected.text, protected.spans, Mode.SENTINELS, coder)
    ids = [part for part in shown.parts if isinstance(part, int)]
    assert ids == [*coder.sentinels]
    assert shown.sentinels == tuple(range(16))
    (translation,) = translators[True].translate([text])
    assert spans_of(translation.text) == spans_of(text)


def test_what_is_left_out_leaves_no_double_spaces() -> None:
    coder = translators[False].codec.source
    protected = protect("Two {a} dogs ({b}), run {c}.", SpanRules())
    shown = model_input(protected.text, protected.spans, Mode.CUT, coder)
    assert shown.text == "Two dogs (), run."
    assert [protected.text[p] for p in shown.positions] == [*shown.text]


def test_candidates_with_spans_have_alignments_of_whole_words() -> None:
    text = "Two `a b c` dogs run."
    (translation,) = translators[False].translate([text], align=True)
    links = translation.alignment or ()
    assert links
    assert all(source < len(text.split()) for source, _ in links)
    assert all(target < len(translation.text.split()) for _, target in links)


@pytest.mark.parametrize("keep", [True, False])
def test_private_use_characters_stay(keep: bool) -> None:
    for text in ("\U000f0000", "Two \U000f0000 dogs \U000f0003 run."):
        (translation,) = translators[False].translate([text], keep=keep, extra=5)
        assert [c for c in translation.text if c >= "\U000f0000"] == [
            c for c in text if c >= "\U000f0000"
        ]


def test_a_translation_of_spans_alone_begins_with_its_prefix() -> None:
    (translation,) = translators[False].translate(["{x}"], prefixes=["Zwei"], extra=5)
    assert "Zwei" in translation.text
    assert "{x}" in translation.text
