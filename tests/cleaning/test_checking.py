"""Repeats, overlap and boilerplate; any number of processes gives the same result."""

import functools
from collections.abc import Sequence

import pytest
from small_corpora import make_pairs

from transduce.cleaning import checking
from transduce.cleaning.checking import Counts, Settings, check_pairs
from transduce.cleaning.limits import RULES, Limits
from transduce.errors import LostProcess

Pair = tuple[str, str]
SETTINGS = Settings(tuple(RULES), Limits(), ("en", "de"), library=False)
REPEATS = Settings(
    ("overlap", "duplicate", "near-duplicate", "boilerplate"), Limits(), ("en", "de"), library=False
)


def verdicts(
    pairs: Sequence[Pair], settings: Settings = REPEATS, **options: object
) -> tuple[list[str], Counts]:
    found: list[str] = []
    counts = check_pairs(
        pairs,
        settings,
        write=lambda _, names, first: found.extend(names),
        **options,  # type: ignore[arg-type]
    )
    return found, counts


def test_the_first_of_equal_pairs_is_kept() -> None:
    pairs = [
        ("The hotel", "Das Hotel"),
        ("The hotel", "Das Hotel"),
        ("the HOTEL!", "das Hotel"),
        ("The hotel", "Der Gasthof"),
        ("A hotel", "Das Hotel"),
    ]
    found, counts = verdicts(pairs)
    assert found == ["", "duplicate", "near-duplicate", "", ""]
    assert (counts.pairs, counts.kept, counts.several_targets) == (5, 3, 1)
    assert counts.removed == {"duplicate": 1, "near-duplicate": 1}
    assert counts.examples["near-duplicate"] == [(3, "the HOTEL!", "das Hotel")]


def test_a_target_of_many_sources_is_boilerplate() -> None:
    footer = "Alle Rechte vorbehalten."
    pairs = [(f"Sentence {letter * 3} here", footer) for letter in "abcdefghijklmnopqrstuvwxyz"]
    pairs += [(f"Yes {letter * 3}", "Ja.") for letter in "abcdefghijklmnopqrstuvwxyz"]
    found, _ = verdicts(pairs)
    assert found == [""] * 10 + ["boilerplate"] * 16 + [""] * 26  # short targets repeat by chance


def test_pairs_of_a_test_set_are_removed() -> None:
    test = ["The hotel is closed in winter.", "Das Hotel ist im Winter geschlossen.", "Yes.", "Ja."]
    pairs = [
        ("THE HOTEL is closed in winter", "Der Gasthof hat im Winter zu."),
        ("In winter it is closed.", "Das Hotel ist im Winter geschlossen."),
        ("Yes", "Jawohl."),
        ("Yes", "ja"),
    ]
    found, _ = verdicts(pairs, against=test)
    assert found == ["overlap", "overlap", "", "overlap"]


def dirty(count: int) -> list[Pair]:
    pairs = make_pairs(count)
    for index in range(0, count, 7):
        source, _ = pairs[index]
        pairs[index] = [(source, source), (source, ""), pairs[index // 2], (source, "x" * 3000)][
            index % 4
        ]
    return pairs


def test_the_number_of_processes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = dirty(3_000)
    alone, counts = verdicts(pairs, SETTINGS)
    monkeypatch.setattr(checking, "BLOCK", 100)
    monkeypatch.setattr(checking, "INLINE", 2)
    several, same = verdicts(pairs, SETTINGS, workers=2)
    assert several == alone
    assert same.removed == counts.removed
    assert same.examples == counts.examples
    assert (same.histograms == counts.histograms).all()
    assert counts.kept + sum(counts.removed.values()) == counts.pairs == 3_000


def test_a_process_that_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "BLOCK", 10)
    monkeypatch.setattr(checking, "INLINE", 1)
    monkeypatch.setattr(checking, "_start", functools.partial(exit, 3))
    with pytest.raises(LostProcess, match="a process that checks pairs has ended"):
        verdicts(make_pairs(100), SETTINGS, workers=1 + 1)
