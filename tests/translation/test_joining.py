"""The gaps between segments, and the word indices of their tokens."""

from transduce.subwords import Subwords
from transduce.translation.joining import gaps, source_words
from transduce.translation.segments import Segment

SUBWORDS = Subwords.learn(["Two dogs run over the wet grass. A man sleeps."] * 20, 300)


def test_the_gap_is_that_of_the_text_or_of_the_language() -> None:
    segments = [
        Segment([4], "  "),
        Segment([5], "\t"),
        Segment([6], ""),
        Segment([7], "", begins=False),
    ]
    assert gaps(segments, "de") == ["", "\t", " ", " "]
    assert gaps(segments, "zh_Hans") == ["", "\t", "", ""]
    assert gaps([], "de") == []


def test_words_are_numbered_across_sentences_and_cuts() -> None:
    first, second = (SUBWORDS.encode(text) for text in ("Two dogs run.", "A man sleeps."))
    for place in range(1, len(second)):
        segments = [
            Segment(first),
            Segment(second[:place], " "),
            Segment(second[place:], " ", begins=False),
        ]
        words = source_words(segments, SUBWORDS)
        assert [len(indices) for indices in words] == [len(segment.ids) for segment in segments]
        assert [*dict.fromkeys(word for indices in words for word in indices)] == list(range(6))
    glued = source_words([Segment(first), Segment(second, "")], SUBWORDS)
    assert (max(glued[0]), min(glued[1]), max(glued[1])) == (2, 2, 4)
