"""Tags and spans are placed once each, nested, whatever the alignment is."""

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.markup import Inline, SpanRules, Tag, inline_text
from transduce.markup.placing import (
    NONE,
    Aligned,
    has_each_once,
    insert_spans,
    place_tags,
    units,
)
from transduce.markup.protected import find_literal, protect, restore, stand_ins

RULES = SpanRules()
BOLD, END_BOLD = Tag("open", 1), Tag("close", 1)
ITALIC, END_ITALIC = Tag("open", 2), Tag("close", 2)
BREAK = Tag("single", 3)


def shown(content: Inline) -> str:
    """Write tags as <o1>, <c1>, <s3>."""
    return "".join(p if isinstance(p, str) else f"<{p.kind[0]}{p.key}>" for p in content)


def linked(source: str, target: str, pairs: dict[str, str]) -> list[int]:
    """Link the words of a target to words of the source."""
    words = [source[begin:end] for begin, end in units(source)]
    links = [pairs.get(target[begin:end]) for begin, end in units(target)]
    return [NONE if word is None else words.index(word) for word in links]


def test_an_element_goes_around_the_words_that_translate_its_own() -> None:
    content = ("Click the ", BOLD, "red ", ITALIC, "button", END_ITALIC, END_BOLD, " twice.")
    protected = protect(content, RULES)
    target = "Zweimal auf den roten Knopf klicken."
    pairs = {"Zweimal": "twice", "roten": "red", "Knopf": "button", "klicken": "Click", ".": "."}
    aligned = Aligned(protected.text, target, linked(protected.text, target, pairs))
    placed = place_tags(aligned, protected)
    assert shown(placed) == "Zweimal auf den <o1>roten <o2>Knopf<c2><c1> klicken."


def test_words_between_linked_ones_stay_inside() -> None:
    protected = protect(("a ", BOLD, "b c", END_BOLD, " d"), RULES)
    target = "B x C D"
    aligned = Aligned(protected.text, target, [1, NONE, 2, 3])
    assert shown(place_tags(aligned, protected)) == "<o1>B x C<c1> D"


def test_a_span_follows_the_word_before_it() -> None:
    protected = protect("Open {file} with {app}.", RULES)
    assert restore(protected.text, protected.spans) == "Open {file} with {app}."
    target = "Mit öffnen."
    pairs = {"Mit": "with", "öffnen": "Open", ".": "."}
    aligned = Aligned(protected.text, target, linked(protected.text, target, pairs))
    text = insert_spans(aligned, [0, 1])
    assert restore(text, protected.spans) == "Mit {app} öffnen {file}."


def test_spans_stay_in_order_where_they_follow_each_other() -> None:
    protected = protect("{a} {b} {c} runs", RULES)
    aligned = Aligned(protected.text, "läuft", [3])
    assert restore(insert_spans(aligned, [0, 1, 2]), protected.spans) == "{a} {b} {c} läuft"


def test_a_span_does_not_grow_into_a_word_where_the_mark_beside_it_is_elsewhere() -> None:
    protected = protect("See https://a.org/b. The *site.css* page is (./run.sh).", RULES)
    target = "Seite Siehe Hier läuft"
    aligned = Aligned(protected.text, target, [4, 0, 1, 6])
    text = restore(insert_spans(aligned, stand_ins(protected.text)), protected.spans)
    for span in protected.spans:
        assert isinstance(span, str)
        assert len(find_literal(text, span)) == 1, text


def test_a_span_that_touches_a_word_in_the_source_touches_it_in_the_target() -> None:
    protected = protect("Count {n}th dog", RULES)
    aligned = Aligned(protected.text, "th Hund", [2, 3])
    assert restore(insert_spans(aligned, [0]), protected.spans) == "{n}th Hund"
    protected = protect("`a`{b}, dogs", RULES)
    aligned = Aligned(protected.text, "Hunde", [3])
    assert restore(insert_spans(aligned, [0, 1]), protected.spans) == "`a`{b} Hunde"


def test_a_span_does_not_grow_into_a_word_where_it_touches_another_script_in_the_source() -> None:
    for text, target, expected in [
        ("用户%s你好", "User hello", "User %s hello"),
        ("привет%sмир", "hello world", "hello %s world"),
        ("привет%sмир", "你好", "你%s好"),
    ]:
        protected = protect(text, RULES)
        links = [0, len(units(protected.text)) - 1]
        aligned = Aligned(protected.text, target, links)
        assert restore(insert_spans(aligned, [0]), protected.spans) == expected


def test_text_without_spaces_gets_none() -> None:
    protected = protect("Hi {name}, see {a} (or {b}) now.", RULES)
    target = "你好，现在看吧。"
    pairs = {"你": "Hi", "，": ",", "看": "see", "现": "now", "。": "."}
    aligned = Aligned(protected.text, target, linked(protected.text, target, pairs))
    text = restore(insert_spans(aligned, stand_ins(protected.text)), protected.spans)
    assert " " not in text.replace("{a} {b}", "")
    assert text.startswith("你{name}好，现在看{a}")


def test_spans_that_touch_marks_in_the_source_do_not_touch_each_other() -> None:
    protected = protect("dogs over. ,me@x.org run", SpanRules(words=["over"]))
    aligned = Aligned(protected.text, "Hunde.", [0, 2])
    assert restore(insert_spans(aligned, [0, 1]), protected.spans) == "Hunde over me@x.org."


def test_pairs_of_tags_in_plain_text_are_elements() -> None:
    protected = protect("A <b>red</b> dog<br> and </i> <u>more", RULES)
    assert [element.opening.data for element in protected.elements] == ["<b>"]
    assert protected.spans == ("<br>", "</i>", "<u>")


def test_tags_inside_a_copied_word_stay_where_they_were() -> None:
    protected = protect(("Drink H", Tag("open", 1), "2", Tag("close", 1), "O now."), RULES)
    aligned = Aligned(protected.text, "Jetzt H2O trinken.", [2, 1, 0, 3])
    assert shown(place_tags(aligned, protected)) == "Jetzt H<o1>2<c1>O trinken."


@st.composite
def contents(draw: st.DrawFn) -> Inline:
    """Draw nested elements, single tags, stray tags and words, with random white space."""
    parts: list[str | Tag] = []
    opened: list[int] = []
    for key in range(draw(st.integers(0, 14))):
        what = draw(st.sampled_from(["text", "open", "close", "single", "stray"]))
        if what == "text":
            parts.append(draw(st.sampled_from([" dog ", " the", "{x}", " , ", "  ", " é\u0301 "])))
        elif what == "open":
            opened.append(key)
            parts.append(Tag("open", key))
        elif what == "close" and opened:
            parts.append(Tag("close", opened.pop()))
        elif what == "stray":
            parts.append(Tag(draw(st.sampled_from(["open", "close"])), key))
        else:
            parts.append(Tag("single", key))
    return (*parts, *(Tag("close", number) for number in reversed(opened)))


@given(contents(), st.text("abc ., {}", max_size=30), st.randoms(use_true_random=False))
def test_every_tag_and_span_is_placed_once_and_nested(
    content: Inline, output: str, random: object
) -> None:
    protected = protect(content, RULES)
    source_units = len(units(protected.text))
    choices = range(NONE, source_units)
    links = [random.choice(choices) for _ in units(output)]  # type: ignore[attr-defined]
    text = insert_spans(Aligned(protected.text, output, links), stand_ins(protected.text))
    links = [random.choice(choices) for _ in units(text)]  # type: ignore[attr-defined]
    placed = place_tags(Aligned(protected.text, text, links), protected)
    assert has_each_once(placed, protected)
    expected = sorted(span for span in protected.spans if isinstance(span, str))
    assert sorted(re.findall(r"\{x\}", inline_text(placed))) == expected or "{x}" in output
    words = re.sub(r"\s", "", output)
    assert re.sub(r"\s", "", inline_text(placed).replace("{x}", "")) == words.replace("{x}", "")


@given(contents())
def test_a_copied_text_keeps_its_tags_where_they_were(content: Inline) -> None:
    """With each unit linked to itself, elements with words stay around the same words."""
    protected = protect(content, RULES)
    links = [*range(len(units(protected.text)))]
    placed = place_tags(Aligned(protected.text, protected.text, links), protected)
    again = protect(placed, RULES)  # spans of neighbouring parts may be one now
    around = {
        e.opening.key: restore(again.text[e.start : e.end], again.spans) for e in again.elements
    }
    for e in protected.elements:
        inside = restore(protected.text[e.start : e.end], protected.spans)
        assert inside.strip() in around[e.opening.key]


@pytest.mark.parametrize("word", ["किताब", "ภาษาไทย", "كِتَاب", "e\u0301te\u0301"])
def test_a_mark_belongs_to_what_it_follows(word: str) -> None:
    starts = {start for start, _ in units(word)}
    assert starts.isdisjoint(
        i for i, letter in enumerate(word) if unicodedata.category(letter).startswith("M")
    )


def test_a_unit_of_chinese_is_a_character() -> None:
    assert len(units("你好。")) == 3


def test_thousands_of_tags_are_placed_fast() -> None:
    protected = protect("<b>dogs</b> run " * 3_000, SpanRules())
    words = range(len(units(protected.text)))
    start = time.process_time()
    content = place_tags(Aligned(protected.text, protected.text, words), protected)
    assert time.process_time() - start < 3
    assert (
        "".join(p if isinstance(p, str) else p.data for p in content).count("<b>dogs</b>") == 3000
    )
