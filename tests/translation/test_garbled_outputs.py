"""Whatever a model writes, each span is in the translation once, or the span is reported."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripted_engine import SUBWORDS, Scripted, Weights, scripted_translator

from transduce import Translator
from transduce.config import SearchConfig
from transduce.glossary import Glossary
from transduce.markup import Inline, SpanRules, Tag
from transduce.markup.placing import has_each_once
from transduce.markup.protected import find_literal, protect, restore
from transduce.subwords import Codec, Subwords
from transduce.translation.types import Hypothesis, Ints, Job

RULES = SpanRules([r"ACME-\d+"], ["Data Hub", "over"])
SPANS = [
    *("{name}", "{a}", "%s", "https://x.org/a?b=c", "/usr/bin/ls", "`a b`", "5 km", "20%", "&amp;"),
    *("<br/>", "<b>", "</b>", "<i>", "</i>", "f()", "ACME-1", "ACME-12", "Data Hub", "over"),
    *("\U000f0000", "\U000f0003", "\U000ffffd", "{{ x }}", "C:\\x\\y.exe", "a.md"),
]
WORDS = [
    *("Two", "dogs", "run.", "A", "man!", ",", "5", "1", "km", "()", "\u00a0", "x", ";"),
    *(
        "你好。",
        "كِتَاب",
        "שלום",
        "e\u0301te\u0301",
        "किताब",
        "ภาษาไทย",
        "\u202e",
        "ﬁ",
        "🏳️\u200d🌈",
        "\u2028",
    ),
]
GLOSSARY = Glossary.of({"dogs": "Hunde", "man": "Mann"})
MARKED = SUBWORDS.with_markers(spans=True, terms=True)


class Garbling(Scripted):
    """Drops, repeats and mixes what it reads, or writes anything; it aligns at random."""

    def __init__(self, subwords: Subwords, seed: int) -> None:
        super().__init__({})
        self.subwords, self.random = subwords, random.Random(seed)
        self.forbidden = {*subwords.forbidden_ids(), *range(4)}

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        for number, job in enumerate(jobs):
            outputs = [self.output(job.source[:-1].tolist()) for _ in range(config.nbest)]
            yield number, [Hypothesis.of([*job.prefix, *ids], -1.0, config) for ids in outputs]

    def output(self, source: list[int]) -> list[int]:
        choose = self.random.choice
        how = choose(["copied", "lost", "repeated", "mixed", "words", "bytes"])
        ids = [*source]
        if how in ("lost", "repeated"):
            ids = [i for i in source for _ in range(choose([0, 1, 1, 1 + (how == "repeated")]))]
        elif how == "mixed":
            self.random.shuffle(ids)
        elif how == "words":
            space = choose(["", " "])
            ids = self.subwords.encode(space.join(self.random.choices(SPANS + WORDS, k=6)))
        elif how == "bytes":
            ids = self.random.choices(range(len(self.subwords)), k=12)
        if self.subwords.sentinels:
            ids.insert(self.random.randrange(len(ids) + 1), choose(self.subwords.sentinels))
        return [token for token in ids if token not in self.forbidden]

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[Weights]:
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        return [rng.random((len(o), len(s)), dtype=np.float32) for s, o in pairs]


def garbling(seed: int, *, sentinels: bool, max_len: int = 24) -> Translator:
    translator, _ = scripted_translator({}, max_len=max_len)
    translator.engine = Garbling(MARKED if sentinels else SUBWORDS, seed)
    if not sentinels:
        return translator
    return Translator(translator.engine, Codec(MARKED, MARKED), translator.config)


PARTS = st.lists(st.sampled_from([*SPANS, *WORDS, " ", " ", "  "]), min_size=1, max_size=12)
TEXTS = PARTS.map("".join) | PARTS.map(" ".join)


@st.composite
def contents(draw: st.DrawFn) -> Inline:
    """Draw a text with elements, single tags and tags without their other half."""
    parts: list[str | Tag] = []
    opened: list[int] = []
    for key in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["text", "text", "open", "close", "single", "stray"]))
        if kind == "text":
            parts.append(draw(TEXTS))
        elif kind == "open":
            opened.append(key)
            parts.append(Tag("open", key))
        elif kind == "close" and opened:
            parts.append(Tag("close", opened.pop()))
        else:
            parts.append(Tag("close" if kind == "stray" else "single", key))
    return (*parts, *(Tag("close", key) for key in reversed(opened)))


def require_spans(content: str | Inline, translator: Translator, guard: str) -> None:
    """Translate, and require that each span is there once or reported, and tags are nested."""
    (found,) = translator.translate(
        [content],
        keep=RULES,
        glossary=GLOSSARY,
        guard=guard,  # type: ignore[arg-type]
        nbest=2,
    )
    protected = protect(content, RULES)
    wanted = Counter(span for span in protected.spans if isinstance(span, str))
    reported = {span.text for span in found.spans if span.placed in ("repeated", "joined")}
    assert Counter(span.text for span in found.spans if span.text in wanted) == wanted
    elements = [tag.data for e in protected.elements for tag in (e.opening, e.closing)]
    before = restore(protected.text, protected.spans)
    for span, count in wanted.items():
        assert all(candidate.text.count(span) >= count for candidate in found.candidates)
        alone = len(find_literal(before, span))
        if span not in reported and not elements:  # a tag may separate a span from a word
            assert alone <= len(find_literal(found.text, span)) <= max(alone, count)
    if isinstance(content, str):
        for tag in {*elements}:
            assert found.text.count(tag) >= elements.count(tag) + wanted[tag]
    else:
        assert found.content is not None
        assert has_each_once(found.content, protected)


@pytest.mark.parametrize("sentinels", [False, True])
@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(0, 1 << 30), st.sampled_from(["off", "retry"]))
@example(" ".join(f"{{x{number}}}" for number in range(200)), 0, "off")
@example("{a}" * 200, 1, "off")
@example(f"Two {'https://x.org/' + 'long/' * 100} dogs run.", 2, "off")
@example("Two <b>dogs {a}</b>{a} <i></i> run</b>.", 3, "off")
def test_spans_of_a_line_are_kept(sentinels: bool, text: str, seed: int, guard: str) -> None:
    require_spans(text, garbling(seed, sentinels=sentinels), guard)


@pytest.mark.parametrize("sentinels", [False, True])
@settings(max_examples=100, deadline=None)
@given(contents(), st.integers(0, 1 << 30))
def test_spans_and_tags_of_a_document_text_are_kept(
    sentinels: bool, content: Inline, seed: int
) -> None:
    require_spans(content, garbling(seed, sentinels=sentinels), "off")


def written(text: str, *outputs: str) -> list[tuple[str, str]]:
    """Return the spans of a translation for which a model writes these outputs."""
    cut = " ".join(re.sub(r"\{a\}|5 km|https://x\.org", "", text).split())
    translator, _ = scripted_translator({cut: [*outputs[1:]], text: [*outputs[:1]]})
    (translation,) = translator.translate([text], keep=True)
    return [(span.text, span.placed) for span in translation.spans]


def test_a_span_that_the_model_writes_without_being_shown_it_is_reported() -> None:
    assert written("Two {a} dogs", "{a} Hunde") == [("{a}", "copied")]
    assert written("Two {a} dogs", "Hunde", "Zwei Hunde") == [("{a}", "aligned")]
    assert written("Two {a} dogs", "{a} {a}", "{a} {a} Hunde") == [("{a}", "repeated")]


def test_a_span_that_only_the_source_joins_with_a_letter_is_not_reported() -> None:
    text = "Two dogshttps://x.org"
    assert written(text, "Hunde https://x.org") == [("https://x.org", "copied")]
    assert written(text, "Hundehttps://x.org", "Hunde") == [("https://x.org", "aligned")]


def test_placeholders_without_a_name_in_another_order_are_reported() -> None:
    """A program fills them in order: %s would get the number."""
    text = "%s runs {name} %d dogs %s"
    names = [placed for _, placed in written(text, "%d Hunde {name} %s %s")]
    assert names == ["reordered", "copied", "reordered", "copied"]
    assert {placed for _, placed in written(text, "{name} %s Hunde %d %s")} == {"copied"}
    assert {placed for _, placed in written("%1$s runs %2$s", "%2$s %1$s")} == {"copied"}


def test_a_span_that_is_joined_with_a_digit_is_reported() -> None:
    translator = garbling(0, sentinels=True)
    engine = translator.engine
    assert isinstance(engine, Garbling)
    one, span = MARKED.encode("1")[-1], MARKED.sentinels[0]
    engine.output = lambda source: [one, span]  # type: ignore[method-assign]
    (translation,) = translator.translate(["A man runs 5 km."])
    assert translation.text == "15 km"
    assert [span.placed for span in translation.spans] == ["joined"]


def test_private_characters_that_a_model_writes_stand_for_no_span() -> None:
    text = "Two {a} \U000f0001 dogs"
    translator, _ = scripted_translator(
        {text: ["\U000f0001 {a}"], "Two dogs": ["\U000f0000 Zwei \U000f0007 Hunde"]}
    )
    (translation,) = translator.translate([text], keep=True)
    assert translation.text.count("{a}") == translation.text.count("\U000f0001") == 1
    assert "\U000f0000" not in translation.text


def test_a_tag_that_a_model_writes_besides_the_pair_is_reported() -> None:
    translator, _ = scripted_translator({"Two dogs run.": ["Zwei </b> Hunde."]})
    (translation,) = translator.translate(["Two <b>dogs</b> run."], keep=True)
    assert [(span.text, span.placed) for span in translation.spans] == [("</b>", "repeated")]
