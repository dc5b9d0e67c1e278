"""Every span and tag of a text is in its translation once, whatever the model writes."""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from untrained_translator import untrained_translator

from transduce import Translator
from transduce.config import ModelConfig
from transduce.errors import BadInput
from transduce.markup import Inline, SpanRules, Tag
from transduce.markup.placing import has_each_once
from transduce.markup.protected import protect, restore
from transduce.translation.finishing import _joined
from transduce.translation.model_input import Mode, model_input
from transduce.translation.segments import Finished, SegmentedText, Sentence
from transduce.translation.types import Engine, Ints

SPANS = ["{name}", "%s", "https://x.org/a?b=c", "me@x.org", "/usr/bin/ls", "`a b`", "5 km", "&amp;"]
WORDS = ["Two", "dogs", "run", "over", "the", "grass.", "A", "man", "sleeps!", ",", "and"]
BOLD, END = Tag("open", 1), Tag("close", 1)


translators = {sentinels: untrained_translator(sentinels=sentinels) for sentinels in (False, True)}


class WithoutAttention:
    """An engine whose model has no attention layers."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name, self.batch = engine, engine.name, engine.batch
        self.search, self.score, self.lanes = engine.search, engine.score, engine.lanes

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> NoReturn:
        raise BadInput("no attention")


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
        assert all(candidate.text.count(span) >= n for span, n in spans_of(text).items())
    assert Counter(span.text for span in translation.spans) == spans_of(text)


@pytest.mark.parametrize(
    "text", ["12.5 kg", "3.14", "--", "12:30", "€ 5.00", "1. 2. 3!", "♪ ♪", "{price}: 100 km/h"]
)
def test_a_text_without_words_is_copied(text: str) -> None:
    for translator in translators.values():
        content: Inline = (" ", Tag("single", 1), BOLD, text, END)
        line, marked = translator.translate([text, content])
        assert line.text == text
        assert marked.content == content
        assert translator.translate([text], keep=False)[0].text != text


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


def test_a_line_break_between_sentences_gets_no_space() -> None:
    content = ("A man sleeps.", Tag("single", 1), "Two dogs run.")
    (translation,) = translators[True].translate([content])
    placed = translation.content or ()
    texts = [part for part in placed if isinstance(part, str)]
    assert not texts[0].endswith(" ")
    assert not texts[-1].startswith(" ")


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


def test_sentences_without_a_space_between_them_are_joined() -> None:
    """The last word of one translation and the first of the next are one unit then."""
    content: Inline = ("Two dogs. ", BOLD, "A man {x} sleeps.", END, " A man {y} runs.")
    text = protect(content, SpanRules())
    sentence = Sentence("", 0, text.text[:9], 0, [], finished=[Finished("ab", (), (0,))])
    other = Sentence("", 10, text.text[10:], 0, [], finished=[Finished("cd", (), (0,))])
    target, links = _joined(SegmentedText(content, text, [sentence, other]), 0, "")
    assert (target, links) == ("abcd", [0])


def test_an_address_does_not_touch_the_next_sentence() -> None:
    """A line break between two sentences separates them; an address does not."""
    for source, expected in [
        ("见http://x.org。谢谢", "ab http://x.org cd"),
        ("见<br>谢", "ab<br>cd"),
    ]:
        text = protect(source, SpanRules())
        first = Sentence("", 0, text.text[:2], 0, [], finished=[Finished(f"ab {text.text[1]}", ())])
        if "<br>" in source:
            first.finished = [Finished(f"ab{text.text[1]}", ())]
        second = Sentence("", len(text.text) - 1, text.text[-1], 0, [])
        second.finished = [Finished("cd", ())]
        target, _ = _joined(SegmentedText(source, text, [first, second]), 0, " ")
        assert restore(target, text.spans) == expected


def test_thousands_of_tags_are_aligned_fast() -> None:
    start = time.process_time()
    (translation,) = translators[False].translate(["<b>dogs</b> run " * 1_000], extra=1, beam=1)
    assert translation.text.count("<b>") == translation.text.count("</b>") == 1_000
    assert time.process_time() - start < 6


def test_spans_are_placed_by_position_without_attention() -> None:
    translator = untrained_translator()
    size = len(translator.codec.source)
    model = ModelConfig(
        architecture="recurrent",
        positions="none",
        max_len=24,
        source_vocabulary=size,
        target_vocabulary=size,
    )
    config = dataclasses.replace(translator.config, model=model)
    alone = Translator(WithoutAttention(translator.engine), translator.codec, config)
    (translation,) = alone.translate(["Two <b>dogs</b> {x} run."], extra=5)
    assert all(translation.text.count(part) == 1 for part in ("<b>", "</b>", "{x}"))
    with pytest.raises(BadInput, match="no attention"):
        alone.translate(["Two <b>dogs</b> run."], align=True, extra=5)
