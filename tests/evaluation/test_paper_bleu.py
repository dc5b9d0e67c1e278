"""The BLEU of Table 2: tokenised by Moses, with compounds split."""

import sys

import pytest
from scored_lines import HYPOTHESES, REFERENCES

from transduce.errors import MissingExtra
from transduce.evaluation.scores import (
    bleu,
    paper_bleu,
    split_compounds,
)


@pytest.mark.parametrize(
    ("line", "expected"),  # what the script's perl gives
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("E-Mail-Adresse", "E ##AT##-##AT## Mail ##AT##-##AT## Adresse"),
        ("Über-Ärzte", "Über ##AT##-##AT## Ärzte"),
        ("Ost- und West-Berlin", "Ost- und West ##AT##-##AT## Berlin"),
        ("a - b", "a - b"),
        ("-a a-", "-a a-"),
        ("A-B-C", "A ##AT##-##AT## B-C"),
        ("1-2-3-4", "1 ##AT##-##AT## 2-3 ##AT##-##AT## 4"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("", ""),
    ],
)
def test_compounds_are_split_as_tensor2tensor_split_them(line: str, expected: str) -> None:
    assert split_compounds(line) == expected


def test_the_papers_bleu_counts_the_parts_of_compounds() -> None:
    """Six of seven tokens are right: Rich ##AT##-##AT## Text ##AT##-##AT## Format and the dot."""
    result = paper_bleu(["Ein Rich-Text-Format."], ["Das Rich-Text-Format."])
    assert result.value == pytest.approx(100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25)
    assert result.detail.endswith("hyp_len = 7 ref_len = 7)")


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ('Er sagte: "Ja, ich gehe."', "Er sagte: „Ja, ich gehe.“"),
        ("Er sagte: ”Ja, ich gehe.”", "Er sagte: „Ja, ich gehe.“"),
        ("Das war's für heute...", "Das war’s für heute…"),
    ],
)
def test_the_papers_bleu_ignores_the_shape_of_quotes(hypothesis: str, reference: str) -> None:
    assert paper_bleu([hypothesis], [reference]).value == pytest.approx(100)
    assert bleu([hypothesis], [reference]) < 90


def test_the_papers_bleu_is_case_sensitive_and_not_smoothed() -> None:
    assert paper_bleu(["der Hund sieht die Katze"], ["Der Hund sieht die Katze"]).value < 100
    no_four = ["der Hund sieht die"], ["der Hund sieht das"]
    assert paper_bleu(*no_four).value == 0
    assert bleu(*no_four) > 0


def test_the_signature_of_the_papers_bleu_says_what_was_done() -> None:
    result = paper_bleu(HYPOTHESES, REFERENCES, "fr-CA", confidence=40)
    assert result.name == "paper BLEU"
    parts = ["case:mixed", "tok:moses-fr-sacremoses-", "quotes:ascii", "compounds:split"]
    for part in [*parts, "smooth:none", "bs:40"]:
        assert f"|{part}" in result.signature
    assert result.low is not None


def test_the_papers_bleu_keeps_abbreviations_whole() -> None:
    """Moses knows bzw.; in the language of Moses' English rules it would be two tokens."""
    german = paper_bleu(["Er kommt bzw. Sie kommt"], ["Er kommt bzw. Sie kommt"])
    english = paper_bleu(["Er kommt bzw. Sie kommt"], ["Er kommt bzw. Sie kommt"], "en")
    assert "hyp_len = 5" in german.detail
    assert "hyp_len = 6" in english.detail


def test_without_sacremoses_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(
        MissingExtra, match=r"the paper's BLEU needs sacremoses.*transduce\[paper\]"
    ):
        paper_bleu(["a"], ["a"])
