"""`transduce score`: metrics, comparisons of systems, parse trees."""

import json
from pathlib import Path

import pytest
from command_helpers import (
    Files,
    lines_of,
)
from conftest import (
    CommandLine,
)


def test_scores_are_printed_with_their_signatures(cli: CommandLine, tiny_files: Files) -> None:
    result = cli("score", tiny_files[1], tiny_files[1])
    assert (result.status, result.stderr) == (0, "")
    lines = lines_of(result.stdout)
    assert [line.split(" = ")[0] for line in lines] == ["BLEU", "chrF2", "chrF2++", "TER"]
    assert all("nrefs:1|" in line and "|version:" in line for line in lines)
    assert lines[0].startswith("BLEU = 100.00")


def test_score_writes_json(cli: CommandLine, tiny_files: Files) -> None:
    data = tiny_files[1].read_bytes()
    result = cli("score", "-", tiny_files[1], "--metric", "bleu", "--json", input=data)
    (bleu,) = json.loads(result.stdout)
    assert bleu["name"] == "BLEU"
    assert bleu["value"] == pytest.approx(100)
    assert "tok:13a" in bleu["signature"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--metric", "blue"], "there is no metric blue"),
        (["--confidence", "3"], "confidence = 3: expected"),
        (["--tokenize", "14a"], "there is no tokeniser 14a"),
        (["--paper", "--lowercase"], "--paper is a metric of its own"),
        (["--confidence", "100000000000"], "confidence = 100000000000: expected 0"),
        (["--samples", "100"], "--paired-ar and --samples compare systems"),
        (["--trees", "--lowercase"], "--trees takes no metric options"),
        (["--ref", "-", "--confidence", "100"], "--confidence and --paper score one system"),
        (["--ref", "missing.de", "--metric", "bleu"], "a system is given twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_score_options_are_refused(
    arguments: list[str], expected: str, cli: CommandLine, tiny_files: Files
) -> None:
    assert cli("score", tiny_files[1], tiny_files[1], *arguments).error.startswith(expected)


def test_hypotheses_and_references_must_have_the_same_number_of_lines(
    cli: CommandLine, tiny_files: Files
) -> None:
    error = cli("score", "-", tiny_files[1], input="ein Hund\n").error
    assert error.startswith(f"standard input has 1 line but {tiny_files[1]} has 300")


def test_systems_are_compared_with_the_first_one(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    right = lines_of(tiny_files[1].read_text(encoding="utf-8"))
    for name, lines in {
        "a.de": [line.replace("e", "o") for line in right],
        "b.de": [line if place % 2 else line.upper() for place, line in enumerate(right)],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files, ref = [tmp_path / "a.de", tmp_path / "b.de"], tiny_files[1]
    common: list[str | Path]
    common = [*files, "--ref", ref, "--metric", "bleu", "--samples", "100"]
    result = cli("score", *common)
    assert (result.status, result.stderr) == (0, "")
    head, first, second, signature = lines_of(result.stdout)
    assert head.split() == ["metric", "system", "score", "mean", "and", "95%", "interval", "p"]
    assert first.startswith(f"BLEU    {tmp_path / 'a.de'} (baseline)  ")
    assert second.startswith(f"BLEU    {tmp_path / 'b.de'}")
    assert second.endswith("*")
    assert signature.startswith("BLEU nrefs:1|bs:100|seed:12345|")
    (comparison,) = json.loads(cli("score", *common, "--json").stdout)
    assert [row["system"] for row in comparison["systems"]] == list(map(str, files))
    assert f"{comparison['systems'][1]['value']:.2f}" in second
    two = cli("score", *common, "--ref", tmp_path / "b.de", "--paired-ar").stdout
    assert "BLEU nrefs:2|ar:100|" in two
    assert "interval" not in two
    (alone,) = lines_of(cli("score", files[0], "--ref", ref, "--metric", "chrf++").stdout)
    assert alone.startswith("chrF2++ = ")
    error = cli("score", "-", "--ref", "-", input="a\n").error
    assert error.startswith("- is given twice")


def test_trees_are_scored_as_evalb_does(cli: CommandLine, tmp_path: Path) -> None:
    gold = "(TOP (S (NP (PRP We)) (VP (VBD gave) (PRT (RP up))) (. .)))"
    guesses = [
        "(S (NP-SBJ (PRP We)) (VP (VBD gave) (ADVP (RP up)) (. .)))",  # 4 brackets of 4 right
        "",
        "(S (X (PRP We) (VBD gave)) (RB up) (. .))",  # 1 of 2 right, 4 in gold
    ]
    (tmp_path / "gold").write_text(f"{gold}\n" * 3)
    (tmp_path / "parsed").write_text("".join(f"{line}\n" for line in guesses))
    result = cli("score", "--trees", tmp_path / "parsed", tmp_path / "gold")
    assert (result.status, result.stderr) == (0, "")
    row = lines_of(result.stdout)[1].split()
    assert row == ["all", "3", "0", "1", "83.33", "62.50", "71.43", "50.00", "50.00", "83.33"]
    result_json = json.loads(
        cli("score", "--trees", tmp_path / "parsed", tmp_path / "gold", "--json").stdout
    )
    assert result_json["all"]["f1"] == pytest.approx(500 / 7)
    error = cli("score", "--trees", "-", tmp_path / "gold", input=guesses[0]).error
    assert error.startswith("standard input has 1 tree but ")
