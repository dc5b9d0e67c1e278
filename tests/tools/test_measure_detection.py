"""The measurement of language identification counts first guesses."""

import measure_detection


def test_shares_are_counted_by_length_and_candidates() -> None:
    texts = {
        "en": ["Two dogs run over the grass."],
        "de": ["Zwei Hunde laufen.", "The dogs of it."],
    }
    rows = measure_detection.measure(texts, ["fr"])
    assert [(row["candidates"], row["words"]) for row in rows] == [
        (count, words) for count in (2, 3) for words in measure_detection.WORDS
    ]
    assert rows[0]["lines"] == 3
    assert rows[0]["right"] == 0.6667  # one line of the German text is English
