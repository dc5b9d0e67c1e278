"""Terms found in parallel text."""

import random
from pathlib import Path

import pytest
from conftest import CommandLine, write_pairs

from transduce.glossary import extraction
from transduce.glossary.extraction import extract_terms

Pair = tuple[str, str]

TERMS = {
    "log file": "Protokolldatei",
    "availability group": "Verfügbarkeitsgruppe",
    "printer": "Drucker",
    "table": "Tabelle",
    "primary key": "primärer Schlüssel",
    "point in time": "Zeitpunkt",
    "Windows": "Windows",
    "column": "Spalte",
    "row": "Zeile",
    "window": "Fenster",
    "folder": "Ordner",
    "screen": "Bildschirm",
    "empty string": "leere Zeichenfolge",
}
OF = {"size": "Größe", "colour": "Farbe", "age": "Alter", "price": "Preis"}


def make_text(count: int, seed: int = 1) -> list[Pair]:
    """Return sentences with two terms each."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        one, two = draw.sample(sorted(TERMS), 2)
        what = draw.choice(sorted(OF))
        source = f"the {what} of the {one} is in the {two}."
        pairs.append((source, f"die {OF[what]} von die {TERMS[one]} ist in die {TERMS[two]}."))
    return pairs


@pytest.fixture(scope="module")
def text() -> list[Pair]:
    return make_text(400)


def test_terms_are_linked_with_their_translations(text: list[Pair]) -> None:
    found = {term.source: term.target for term in extract_terms(text, limit=20)}
    expected = {source: target for source, target in TERMS.items() if source != target}
    assert {source: found.get(source) for source in expected} == expected
    assert "Windows" not in found
    for source, target in found.items():
        edges = {words[place] for words in (source.split(), target.split()) for place in (0, -1)}
        assert not edges & {"the", "of", "is", "in", "die", "von", "ist"}


def test_each_side_is_linked_once_and_the_best_come_first(text: list[Pair]) -> None:
    found = extract_terms(text, limit=20)
    assert len({term.source for term in found}) == len({term.target for term in found})
    assert len({term.source for term in found}) == len(found)
    scores = [term.score for term in found]
    assert scores == sorted(scores, reverse=True)
    assert extract_terms(text, limit=2) == found[:2]
    counts = {term.source: term.count for term in found}
    assert counts["printer"] == sum("printer" in source for source, _ in text)


def test_only_the_best_of_two_terms_gets_a_translation(text: list[Pair]) -> None:
    other = [(source.replace("printer", "device"), target) for source, target in text[:100]]
    translations = [term.target for term in extract_terms([*text, *other], limit=50)]
    assert translations.count("Drucker") == 1


def test_a_name_is_not_translated_as_a_part_of_it(text: list[Pair]) -> None:
    names = [(f"the Red Hat x{n} is in", f"die Red Hat-x{n} ist in") for n in range(20)]
    assert "Red Hat" not in {term.source for term in extract_terms([*text, *names], limit=50)}


def test_names_that_are_the_same_in_both_languages_can_be_kept(text: list[Pair]) -> None:
    found = extract_terms(text, limit=20, identical=True)
    assert ("Windows", "Windows") in {(term.source, term.target) for term in found}


def test_rare_terms_and_parts_of_terms_are_left_out(text: list[Pair]) -> None:
    rare = [("A rare unicorn.", "Ein seltenes Einhorn.")] * 4
    found = {term.source for term in extract_terms([*text, *rare], limit=50)}
    assert not {"unicorn", "rare", "log", "availability", "group", "point", "time", "key"} & found
    found = {term.source for term in extract_terms([*text, *rare], limit=50, min_count=4)}
    assert "rare unicorn" in found


def test_a_term_does_not_cross_punctuation_or_sentences() -> None:
    text = [("red, fox", "roter, Fuchs"), ("old fox", "alter Fuchs"), ("Red", "Roter")] * 10
    for term in extract_terms(text, limit=20):
        assert term.source in {"fox", "red", "old", "old fox", "Red"}


@pytest.mark.parametrize(
    "text", [[], [("", "")], [("", "x")] * 9, [("a", "b")], [("1 2", ".")] * 9]
)
def test_text_without_terms_has_none(text: list[Pair]) -> None:
    assert extract_terms(text, limit=5) == []


def test_counting_in_small_blocks_changes_nothing(
    text: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = extract_terms(text, limit=50)
    for block in (1, 50, 1000):
        monkeypatch.setattr(extraction, "BLOCK", block)
        assert extract_terms(text, limit=50) == expected


def test_a_large_text_is_sampled(text: list[Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "MAX_PAIRS", 100)
    found = extract_terms(iter(text), limit=5)
    assert found == extract_terms(iter(text), limit=5)
    assert max(term.count for term in found) < 60
    long = [("table " * 100_000, "Tabelle " * 100_000)] * 5
    assert [term.source for term in extract_terms(long, limit=1, min_count=2)] == []


def test_the_command_writes_a_glossary(cli: CommandLine, text: list[Pair], tmp_path: Path) -> None:
    out = tmp_path / "terms.tsv"
    two = write_pairs(tmp_path, "text", text)
    result = cli("data", "terms", *two, "--out", out, "--limit", "4")
    assert result.status == 0, result.stderr
    assert f"4 terms in {out}" in result.stderr
    written = [tuple(line.split("\t")) for line in out.read_text("utf-8").splitlines()]
    assert written == [(term.source, term.target) for term in extract_terms(text, limit=4)]
    assert cli("data", "terms", *two, "--out", out).error == (
        f"{out} exists already: choose a new name for the glossary"
    )
    standard = cli("data", "terms", *two, "--out", "-")
    assert standard.error == "- is standard output: choose a new name for the glossary"
    tsv = tmp_path / "text.tsv"
    tsv.write_text("".join(f"{a}\t{b}\n" for a, b in text), "utf-8")
    assert cli("data", "terms", tsv, "--out", tmp_path / "2.tsv", "--limit", "4").status == 0
    assert (tmp_path / "2.tsv").read_bytes() == out.read_bytes()
    tsv.write_text("a\tb\n", "utf-8")
    refused = cli("data", "terms", tsv, "--out", tmp_path / "3.tsv").error
    assert "has no terms in at least 5 sentence pairs: expected a larger text" in refused
    assert not (tmp_path / "3.tsv").exists()
