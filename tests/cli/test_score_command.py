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
        (["--samples", "100"], "--paired-bs, --paired-ar, --samples and --html"),
        (["--trees", "--lowercase"], "--trees takes no metric options"),
        (["--ref", "-", "--confidence", "100"], "--confidence and --paper score one system"),
        (["--ref", "missing.de", "--metric", "bleu"], "a system is given twice"),
        (["--ref", "-", "--paired-bs", "--paired-ar"], "a system is given twice"),
        (["--comet", "model.ckpt"], "--comet needs the source text too"),
        (["--comet", "model.ckpt", "--source", "-"], "standard input"),
        (["x=", "--ref", "-"], "x=: expected FILE, or NAME=FILE,FILE"),
        (["x=a,,b", "--ref", "-"], "x=a,,b: expected FILE, or NAME=FILE,FILE"),
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
    common: list[str | Path] = [*files, "--ref", ref, "--metric", "bleu", "--samples", "100"]
    result = cli("score", *common)
    assert (result.status, result.stderr) == (0, "")
    head, first, second, signature, *notes = lines_of(result.stdout)
    columns = "metric system score mean and 95% interval difference p (bootstrap)"
    assert head.split() == [*columns.split(), "p", "(randomisation)"]
    assert notes[0] == "* p < 0.05 in both tests"
    assert [note.split(":")[0] for note in notes[1:]] == ["p (bootstrap)", "p (randomisation)"]
    assert first.startswith(f"BLEU    {tmp_path / 'a.de'} (baseline)  ")
    assert second.startswith(f"BLEU    {tmp_path / 'b.de'}")
    assert second.split()[-3].endswith("*")
    assert second.split()[-2:] == ["0.0099", "0.0099"]
    assert signature.startswith("BLEU nrefs:1|bs:100|ar:100|seed:12345|")
    (comparison,) = json.loads(cli("score", *common, "--json").stdout)
    assert [row["system"] for row in comparison["systems"]] == list(map(str, files))
    assert f"{comparison['systems'][1]['value']:.2f}" in second
    two = cli("score", *common, "--ref", tmp_path / "b.de", "--paired-ar").stdout
    assert "BLEU nrefs:2|ar:100|" in two
    assert "interval" not in two
    assert "(bootstrap)" not in two
    assert "BLEU nrefs:1|bs:100|seed:" in cli("score", *common, "--paired-bs").stdout
    (alone,) = lines_of(cli("score", files[0], "--ref", ref, "--metric", "chrf++").stdout)
    assert alone.startswith("chrF2++ = ")
    error = cli("score", "-", "--ref", "-", input="a\n").error
    assert error.startswith("- is given twice")


def test_outputs_of_several_seeds_are_one_system(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    right = lines_of(tiny_files[1].read_text(encoding="utf-8"))
    for name, every in {"a1": 3, "a2": 4, "b1": 2, "b2": 2, "b,3": 2}.items():
        lines = [line.upper() if place % every == 0 else line for place, line in enumerate(right)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    a, b = (f"{name}={tmp_path / name}1,{tmp_path / name}2" for name in "ab")
    common: list[str | Path] = ["--ref", tiny_files[1], "--metric", "chrf", "--samples", "100"]
    head, first, second, _, deviation, *_ = lines_of(cli("score", a, b, *common).stdout)
    assert head.split()[:4] == ["metric", "system", "outputs", "score"]
    assert first.split()[:4] == ["chrF2", "a", "(baseline)", "2"]
    assert second.split()[:3] == ["chrF2", "b", "2"]
    assert deviation.startswith("standard deviation between outputs of one system: chrF2 ")
    (comparison,) = json.loads(cli("score", a, b, *common, "--json").stdout)
    base, other = comparison["systems"]
    assert base["value"] == pytest.approx(sum(base["outputs"]) / 2)
    assert other["p"] == max(other["p_bs"], other["p_ar"])
    alone = lines_of(cli("score", a, *common).stdout)
    assert alone[1].split()[:3] == ["chrF2", "a", "2"]
    assert not any("baseline" in line or "p <" in line for line in alone)
    with_comma = cli("score", tmp_path / "b,3", *common[:-2]).stdout  # a file's name
    assert with_comma.startswith("chrF2 = ")
    assert cli("score", a, a, *common).error.startswith("a system is given twice")
    assert cli("score", a, "--html", "x.html", *common).error.startswith("--html compares systems")


def test_the_page_shows_the_sentences_that_differ_most(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    right = lines_of(tiny_files[1].read_text(encoding="utf-8"))
    one_wrong = [*right[:7], "<b>ganz</b> anders", *right[8:]]
    (tmp_path / "wrong.de").write_text("\n".join(one_wrong) + "\n", encoding="utf-8")
    (tmp_path / "right.de").write_text("\n".join(right) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    files: list[str | Path] = [tmp_path / "wrong.de", tmp_path / "right.de", "--ref", tiny_files[1]]
    more: list[str | Path] = [
        "--source",
        tiny_files[0],
        "--metric",
        "chrf",
        "--samples",
        "40",
        "--html",
        page,
    ]
    result = cli("score", *files, *more)
    assert (result.status, result.stderr) == (0, f"sentences side by side: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert text.count("<li data-number") == 1
    assert '<li data-number="8"' in text
    assert '<mark class="out">&lt;b&gt;ganz&lt;/b&gt;</mark>' in text
    assert f'<mark class="in">{right[7].split()[0]}</mark>' in text
    assert lines_of(tiny_files[0].read_text(encoding="utf-8"))[7] in text
    assert "1 of 300 lines differ; all of them are here." in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert cli("score", *files, *more).status == 0  # our own page is replaced
    page.write_text("mine")
    assert cli("score", *files, *more).error.startswith(f"--html {page} exists and was not made")


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
