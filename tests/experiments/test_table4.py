"""`transduce paper table4`: a parser is trained, selected, scored, and compared with the paper."""

import dataclasses
import json
import lzma
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from conftest import CommandLine, options, snapshot

from transduce.experiments.findings import Finding
from transduce.experiments.parser_experiment import (
    GOLD,
    PARSED,
    ParserExperiment,
    Scores,
    score_parser,
)
from transduce.parsing.evaluation import CUTOFF
from transduce.parsing.parser import Parser
from transduce.parsing.sequences import replace_tags
from transduce.parsing.trees import Tree, read_trees
from transduce.system.progress import Progress, Silent
from treebank import TWO_STEPS, joined, parseval, trees, write

BUDGET = {name: value for name, value in TWO_STEPS.items() if name != "steps"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Training, validation and test trees, as the command takes them."""
    train = write(tmp_path / "train.trees", trees(60))
    dev = write(tmp_path / "dev.trees", trees(4, 2))
    text = "".join(f"{tree}\n" for tree in trees(6, 3))
    test = tmp_path / "test.trees.xz"
    test.write_bytes(lzma.compress(text.encode()))
    return [str(train), "--valid", str(dev), "--test", str(test)]


@pytest.fixture
def command(files: list[str], tmp_path: Path) -> list[str]:
    where = ["--out", str(tmp_path / "out"), "--device", "cpu", "--steps", "2"]
    return ["paper", "table4", *files, *where, *options(BUDGET)]


def test_the_command_reports_what_its_files_contain_and_repeats_no_work(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    done = cli(*command)
    assert done.status == 0, done.stderr
    out = tmp_path / "out"
    gold, guesses = (list(read_trees(out / name)) for name in (GOLD, PARSED))
    every, short = parseval(gold, guesses), parseval(gold, guesses, CUTOFF)
    assert every.errors == every.skipped == 0
    finding = Finding.load(out / "table4.json")
    beside, details = finding.tables
    assert [row[-1] for row in beside.rows if row[0] == "Transformer, 4 layers"] == ["91.3", "92.7"]
    assert beside.rows[-1][-1] == f"{every.f1:.2f}"
    test = dict(zip(details.columns, details.rows[1], strict=True))
    assert test["well-formed"] == "100"
    assert test["sentences"] == "6"
    found = [test[name] for name in ("recall", "precision", "F1", "F1 up to 40 words")]
    expected = [every.recall, every.precision, every.f1, short.f1]
    assert found == [f"{value:.2f}" for value in expected]
    assert every.f1 == pytest.approx(finding.data["test"]["all"]["f1"])
    assert any("2 steps of 1,000 tokens" in note for note in finding.notes)
    before = snapshot(out)
    again = cli(*command)
    assert again.stdout == done.stdout
    assert snapshot(out) == before


@pytest.mark.parametrize("best", [10.0, 90.0])
def test_the_weights_with_the_best_validation_score_are_used(
    best: float,
    cli: CommandLine,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scored(
        parser: Parser, gold: Sequence[Tree], what: str, progress: Progress
    ) -> tuple[list[Tree], Scores]:
        guesses, scores = score_parser(parser, gold[:1], what, progress)
        f1 = best if what == "best validation loss" else 50.0
        return guesses, dataclasses.replace(scores, all=dataclasses.replace(scores.all, f1=f1))

    monkeypatch.setattr("transduce.experiments.parser_experiment.score_parser", scored)
    assert cli(*command).status == 0
    data = json.loads((tmp_path / "out" / "table4.json").read_text())["data"]
    assert data["candidates"] == {"checkpoint at step 2": 50.0, "best validation loss": best}
    chosen = "best validation loss" if best > 50 else "checkpoint at step 2"
    assert data["chosen"] == chosen
    assert data["valid"]["all"]["f1"] == max(best, 50.0)
    assert chosen in cli("info", tmp_path / "out" / "parser").stdout
    parsed = cli("parse", tmp_path / "out" / "parser", "a dog sees it.", "--beam", "2")
    assert parsed.stdout.startswith("(TOP ")


def test_brackets_are_scored_with_gold_tags_and_tags_separately() -> None:
    class Mistagging:
        """Returns the gold brackets, with all words tagged as nouns except in long sentences."""

        def fits(self, words: Sequence[str]) -> bool:
            return len(words) < 12

        def parse_words(self, sentences: Sequence[Sequence[str]], **_: object) -> list[Tree]:
            known = {tuple(tree.words()): tree for tree in gold}
            return [replace_tags(known[tuple(words)], ["NN"] * len(words)) for words in sentences]

    gold = trees(20, seed=8)
    short = [tree for tree in gold if len(tree.words()) < 12]
    assert 0 < len(short) < len(gold)
    guesses, scores = score_parser(cast("Parser", Mistagging()), gold, "test", Silent())
    assert [guess == tree for guess, tree in zip(guesses, gold, strict=True)] == [
        tree in short for tree in gold
    ]
    assert scores.too_long == len(gold) - len(short)
    assert scores.well_formed == scores.sentences == 20
    assert scores.all.precision == 100
    assert scores.all.errors == 0
    nouns = sum(leaf.label == "NN" for tree in short for leaf in tree.leaves())
    assert scores.tagging == pytest.approx(100 * nouns / sum(len(tree.words()) for tree in gold))


def test_the_schedule_follows_the_number_of_steps_unless_it_is_set(tmp_path: Path) -> None:
    def paced(**settings: str) -> dict[str, str]:
        nothing = tmp_path / "nothing"
        return ParserExperiment(
            folder=nothing, train=nothing, valid=nothing, test=nothing, settings=settings
        ).scheduled_settings()

    assert paced() == {}
    assert paced(seconds="60") == {"seconds": "60"}
    short = paced(steps="400", save_every="100")
    assert (short["warmup"], short["save_every"], short["validate_every"]) == ("100", "100", "20")
    assert "lr_scale" not in paced(steps="400", warmup="50")
    assert paced(steps="400", warmup="50")["warmup"] == "50"


def test_a_sentence_too_long_for_the_model_is_scored_without_constituents(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    text = "".join(f"{tree}\n" for tree in [joined(trees(9)), *trees(2)])
    (tmp_path / "test.trees.xz").write_bytes(lzma.compress(text.encode()))
    done = cli(*command)
    assert done.status == 0, done.stderr
    assert "0 validation and 1 test sentences are longer than the model's 80" in done.stdout
    gold, guesses = (list(read_trees(tmp_path / "out" / name)) for name in (GOLD, PARSED))
    assert [tree.words() for tree in gold] == [tree.words() for tree in guesses]


def test_a_folder_of_another_run_is_refused(cli: CommandLine, command: list[str]) -> None:
    assert cli(*command).status == 0
    for change, error in [
        (["--steps", "3"], "was started with steps = 2, not 3"),
        (["--set", "h=4"], "was started with h = 2, not 4"),
        (["--masked"], "was started with masked = False, not True"),
        (["--preset", "parse"], "was started with preset = parse-small, not parse"),
    ]:
        assert error in cli(*command, *change).error


def test_a_folder_of_other_trees_or_of_something_else_is_refused(
    cli: CommandLine, command: list[str], tiny_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert "holds something else (notes.txt)" in cli(*command).error
    shutil.rmtree(out)
    shutil.copytree(tiny_run, out)
    assert "holds something else" in cli(*command).error
    shutil.rmtree(out)
    assert cli(*command).status == 0
    write(tmp_path / "dev.trees", trees(11, 9))
    assert "dev.trees differs from" in cli(*command).error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "(NP (NN a))\n(NP (NN b)\n",
            "train.trees, line 2: the tree that begins here",
        ),
        ("(NP (NN a))\n( )\n", "train.trees, line 2: () is empty"),
        ("(NP (NN a(b)))\n", "train.trees, line 1: a is not alone in its bracket"),
        ("", "train.trees has no trees"),
    ],
)
def test_bad_trees_are_refused_with_their_line_before_anything_is_written(
    cli: CommandLine, command: list[str], tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "train.trees").write_text(text)
    assert error in cli(*command).error
    assert not (tmp_path / "out").exists()


def test_a_missing_file_and_a_mistyped_setting_are_refused(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    assert "there is no setting d_modle" in cli(*command, "--set", "d_modle=3").error
    (tmp_path / "dev.trees").unlink()
    assert "dev.trees does not exist: expected a file of trees" in cli(*command).error
