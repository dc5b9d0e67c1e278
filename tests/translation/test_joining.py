"""What is searched by itself, and how it is put together again."""

from transduce.subwords import Subwords
from transduce.translation.joining import gaps, source_words
from transduce.translation.segments import Segment

SUBWORDS = Subwords.learn(["Two dogs run over the wet grass. A man sleeps."] * 20, 300)


def test_the_gap_is_the_texts_or_else_the_languages() -> None:
    parts = [
        Segment([4], "  "),
        Segment([5], "\t"),
        Segment([6], ""),
        Segment([7], "", begins=False),
    ]
    assert gaps(parts, "de") == ["", "\t", " ", " "]
    assert gaps(parts, "zh_Hans") == ["", "\t", "", ""]
    assert gaps([], "de") == []


def test_words_are_numbered_across_sentences_and_cuts() -> None:
    first, second = (SUBWORDS.encode(text) for text in ("Two dogs run.", "A man sleeps."))
    for place in range(1, len(second)):
        parts = [
            Segment(first),
            Segment(second[:place], " "),
            Segment(second[place:], " ", begins=False),
        ]
        words = source_words(parts, SUBWORDS)
        assert [len(own) for own in words] == [len(part.ids) for part in parts]
        assert [*dict.fromkeys(word for own in words for word in own)] == list(range(6))
    glued = source_words([Segment(first), Segment(second, "")], SUBWORDS)
    assert (max(glued[0]), min(glued[1]), max(glued[1])) == (2, 2, 4)
