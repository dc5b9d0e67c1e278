"""SubRip and WebVTT: texts change; times, numbers, settings and tags stay."""

import pysubs2
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from text_documents import assert_unchanged, read, spoil_and_read, texts, translated

from transduce.documents.lines_of_cues import divide, width_of, wrap
from transduce.errors import BadInput
from transduce.markup import Tag, inline_text

SRT = """\
1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>Two dogs</i> run
over the grass.

2
00:00:03,000 --> 00:00:04,500
- Hello there.
- <i>Hi you.</i>

7
00:00:05,000 --> 00:00:06,500 X1:40 X2:600
She said that she would not come

8
00:00:06,600 --> 00:00:08,500
because the rain was strong.

9
00:00:09,000 --> 00:00:10,000
♪ la la land ♪

10
00:00:11,000 --> 00:00:12,000
- 42 -
"""
VTT = """\
WEBVTT - a title

NOTE text in a note
00:00:01.000 --> 00:00:02.000 is no cue

STYLE
::cue { color: red }

REGION
id:fred

first
00:01.000 --> 00:02.000 align:start line:0
<v Bob>Salt &amp; pepper, a &lt; b <c.yellow>bye</c>
<v Mary>Fine <00:01.500>thanks

00:03.000 --> 00:04.000
<ruby>Text<rt>above</rt></ruby> here
"""
BOTH = [("srt", SRT), ("vtt", VTT)]


@pytest.mark.parametrize(("name", "text"), BOTH)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_nothing_changes_without_translations(
    name: str, text: str, end: str, mark: str, last: bool
) -> None:
    text = text if last else text.rstrip("\n")
    assert_unchanged(name, (mark + text).replace("\n", end))


def test_speakers_songs_and_sentences_over_cues_are_units() -> None:
    assert texts(read("srt", SRT)) == [
        "<1>Two dogs</1> run over the grass.",
        "Hello there.",
        "Hi you.",
        "She said that she would not come because the rain was strong.",
        "la la land",
    ]
    assert texts(read("vtt", VTT)) == [
        "Salt & pepper, a < b <1>bye</1>",
        "Fine <1/>thanks",
        "<1>Text<2>above</2></1> here",
    ]


def test_a_dash_is_before_any_speaker_but_not_before_a_number() -> None:
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    assert texts(read("srt", f"{times}- 5 dogs run.\n- --help helps.\n")) == [
        "5 dogs run.",
        "--help helps.",
    ]
    assert texts(read("srt", f"{times}-5 degrees.\n-6 degrees.\n")) == ["-5 degrees. -6 degrees."]


def test_the_first_speaker_may_have_no_dash() -> None:
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    text = f"{times}<i>-5 degrees.</i>\n- Is it?\n"
    assert texts(read("srt", text)) == ["-5 degrees.", "Is it?"]
    assert translated("srt", text) == f"{times}<i>-5 DEGREES.</i>\n- IS IT?\n"
    assert texts(read("srt", f"{times}Hello there\n-Hi you\n")) == ["Hello there", "Hi you"]
    assert texts(read("srt", f"{times}One of them\n- the big one - fell.\n")) == [
        "One of them - the big one - fell."
    ]


def test_webvtt_has_all_entities_of_html() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n&copy; Salt &amp; pepper &zzz;\n"
    assert texts(read("vtt", text)) == ["© Salt & pepper &zzz;"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_texts_change_in_their_places(end: str) -> None:
    expected = SRT
    for old, new in (
        (
            "{\\an8}<i>Two dogs</i> run\nover the grass.",
            "{\\an8}<i>TWO DOGS</i> RUN OVER THE GRASS.",
        ),
        ("Hello there.", "HELLO THERE."),
        ("<i>Hi you.</i>", "<i>HI YOU.</i>"),
        ("She said that she would not come", "SHE SAID THAT SHE WOULD NOT COME"),
        ("because the rain was strong.", "BECAUSE THE RAIN WAS STRONG."),
        ("la la land", "LA LA LAND"),
    ):
        assert old in expected
        expected = expected.replace(old, new)
    assert translated("srt", SRT.replace("\n", end)) == expected.replace("\n", end)


def test_an_independent_reader_finds_the_same_times() -> None:
    for name, text in BOTH:
        before = pysubs2.SSAFile.from_string(text, format_=name)
        after = pysubs2.SSAFile.from_string(translated(name, text), format_=name)
        assert [(e.start, e.end) for e in before] == [(e.start, e.end) for e in after]
        if name == "srt":
            upper = [line.plaintext.upper().replace("\n", " ") for line in before]
            assert upper == [line.plaintext.replace("\n", " ") for line in after]


def test_webvtt_keeps_notes_settings_and_escapes() -> None:
    result = translated("vtt", VTT, lambda text: text.replace("pepper", "<P>"))
    assert result == VTT.replace("pepper", "&lt;P&gt;")


def test_a_translation_has_at_most_two_balanced_lines() -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    srt = "1\n00:00:01,000 --> 00:00:02,000\nA <b>text</b>.\n"
    result = translated("srt", srt, lambda part: part.replace("A", text), width=30)
    first, second = result.splitlines()[2:]
    assert f"{first} {second}" == f"{text} <b>text</b>."
    assert abs(len(first) - len(second.replace("<b>", "").replace("</b>", ""))) <= 8
    assert translated("srt", srt, lambda part: part.replace("A", text), width=200).count("\n") == 3


WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=9), min_size=1, max_size=30)


@given(WORDS, st.integers(10, 60), st.integers(0, 5))
@hypothesis_settings(max_examples=40)
def test_wrapping_loses_nothing(words: list[str], width: int, position: int) -> None:
    text = " ".join(words)
    cut = min(position, len(text))
    content = (Tag("open", 1), text[:cut], Tag("close", 1), text[cut:])
    lines = wrap(content, width)
    assert len(lines) <= 2
    assert " ".join(map(inline_text, lines)) == text
    assert [part for line in lines for part in line if isinstance(part, Tag)] == [
        content[0],
        content[2],
    ]
    if width_of(text) <= width:
        assert len(lines) == 1
    elif len(lines) == 2:
        left, right = (width_of(inline_text(line)) for line in lines)
        assert abs(left - right) <= 9 + 1


@given(WORDS, st.lists(st.integers(1, 40), min_size=2, max_size=4))
@hypothesis_settings(max_examples=40)
def test_a_divided_translation_keeps_all_words(words: list[str], lengths: list[int]) -> None:
    parts = [inline_text(part) for part in divide((" ".join(words),), lengths)]
    assert len(parts) == len(lengths)
    assert all(parts)
    if len(words) >= len(lengths):
        assert " ".join(parts).split() == words


def test_a_span_stays_on_one_line() -> None:
    text = "the {name of the man} runs"
    assert wrap((text,), 12) == [("the {name of the man}",), ("runs",)]
    assert divide(("nach 5 km",), (4, 1)) == [("nach",), ("5 km",)]
    assert wrap(("见https://example.org/abc看看",), 12) == [
        ("见https://example.org/abc",),
        ("看看",),
    ]
    assert divide(("请Acme看",), (4, 1)) == [("请Acme",), ("看",)]


def test_a_translation_is_divided_in_proportion() -> None:
    text = "eins zwei drei vier fünf sechs sieben acht neun zehn"
    short, long = (inline_text(part) for part in divide((text,), (10, 40)))
    assert short == "eins zwei"
    assert f"{short} {long}" == text


@pytest.mark.parametrize(
    ("first", "second", "begin", "count"),
    [
        ("He left", "before noon", "02,500", 1),
        ("He left,", "Anna stayed", "02,500", 1),
        ("He left.", "iPhones rang", "02,500", 2),
        ("He left", "Anna stayed", "02,500", 2),
        ("He left", "before noon", "09,000", 2),
        ("He left", "- before noon", "02,500", 2),
        ("♪ He left ♪", "♪ before noon ♪", "02,500", 2),
    ],
)
def test_only_parts_of_the_same_sentence_are_joined(
    first: str, second: str, begin: str, count: int
) -> None:
    srt = f"1\n00:00:01,000 --> 00:00:02,400\n{first}\n\n"
    srt += f"2\n00:00:{begin} --> 00:00:10,000\n{second}\n"
    assert len(read("srt", srt).units) == count


def test_text_without_subtitles_is_refused() -> None:
    with pytest.raises(BadInput, match="the file: it has no subtitle: expected a line of times"):
        read("srt", "Two dogs run.\n")


@pytest.mark.parametrize(("name", "text"), BOTH)
def test_spoiled_files_are_refused_or_read(name: str, text: str) -> None:
    spoil_and_read(name, text)
