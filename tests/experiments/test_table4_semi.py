"""`transduce paper table4` with raw text: a semi-supervised parser beside a supervised one."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import CommandLine, options, snapshot
from small_training import Killed

from transduce.errors import BadRun
from transduce.experiments.experiment_folder import RESULT
from transduce.experiments.findings import Finding
from transduce.experiments.parser_experiment import GOLD, PARSED, ParserExperiment
from transduce.experiments.semi_budget import within
from transduce.experiments.semi_supervised import (
    GOLD_TREES,
    REST_TREES,
    REST_WORDS,
    UNSEEN_TREES,
    RawOptions,
    SemiSupervised,
)
from transduce.parsing.trees import normalize, read_trees
from transduce.runs.folder import RunConfig
from transduce.system.progress import Silent
from treebank import TWO_STEPS, parseval, trees, write

# Learned positions limit outputs to max_len: parsers that are hardly trained write long ones.
BUDGET = {name: value for name, value in TWO_STEPS.items() if name != "steps"} | {
    "positions": "learned",
    "max_len": "50",
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Training, validation and test trees, as the command takes them."""
    train = write(tmp_path / "train.trees", trees(60))
    dev = write(tmp_path / "dev.trees", trees(3, 2))
    test = write(tmp_path / "test.trees", trees(5, 3))
    return [str(train), "--valid", str(dev), "--test", str(test)]


@pytest.fixture
def command(files: list[str], tmp_path: Path) -> list[str]:
    where = ["--out", str(tmp_path / "out"), "--device", "cpu", "--steps", "2", "--beam", "2"]
    raw = ["--raw-beam", "1", "--agreement", "0"]
    return ["paper", "table4", *files, *where, *raw, *options(BUDGET)]


GOLD_QUARTER = ["--gold", "0.25", "--unseen", "0.1"]


def test_the_command_reports_what_its_files_contain_and_repeats_no_work(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    asked = [*command, *GOLD_QUARTER, "--ensemble", "--weight", "0.5"]
    done = cli(*asked)
    assert done.status == 0, done.stderr
    out = tmp_path / "out"
    finding = Finding.load(out / "table4.json")
    beside, intervals, automatic, _ = finding.tables
    assert [row[-1] for row in beside.rows if row[0] == "Transformer, 4 layers"] == ["91.3", "92.7"]
    for row, folder in zip(intervals.rows, ("parser", "ensemble", "semi-supervised"), strict=True):
        for column, name in ((1, "test"), (3, "unseen")):
            gold = list(read_trees(out / GOLD.replace("test", name)))
            found = list(read_trees(out / folder / PARSED.replace("test", name)))
            assert row[column].startswith(f"{parseval(gold, found).f1:.2f} (")
    assert [row[-1] for row in beside.rows[-3:]] == [row[1].split()[0] for row in intervals.rows]
    assert [(row[0], row[1]) for row in automatic.rows][2] == (
        *("all", f"{finding.data['automatic']['parsed']}"),
    )
    data = finding.data
    assert data["rows"]["semi-supervised"]["result"]["trees"] == 15
    assert data["automatic"]["quality"]["all"]["sentences"] == data["automatic"]["parsed"]
    assert RunConfig.load(out / "semi-supervised").corpus_weights == (1.0, 0.5)
    assert RunConfig.load(out / "parser").corpus_weights == ()
    assert [RunConfig.load(out / name).train.seed for name in ("parser", "parser-2")] == [1, 2]
    before = snapshot(out)
    again = cli(*asked)
    assert again.stdout == done.stdout
    assert snapshot(out) == before
    assert "was started with gold = 0.25, not 0.5" in cli(*asked, "--gold", "0.5").error
    assert "was started with keep = 0.5, not 0.4" in cli(*asked, "--keep", "0.4").error
    assert "was started with beam = 2, not 3" in cli(*asked, "--beam", "3").error
    plain = [word for word in command if word not in ("--raw-beam", "1", "--agreement", "0")]
    assert "which is now not set" in cli(*plain).error


def test_the_notes_say_what_differs_from_the_paper(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    text = tmp_path / "manual.txt"
    text.write_text("The dog sees a tree.\nEvery cell likes it (here).\n\n")
    done = cli(*command, "--unlabelled", str(text), "--parsers", "1", "--student-steps", "3")
    assert done.status == 0, done.stderr
    finding = Finding.load(tmp_path / "out" / "table4.json")
    notes = " ".join(finding.notes)
    for part in (
        "the paper: 92.7 - 91.3 = +1.4",
        "manual.txt, which is out of domain if it is not of the same kind of text",
        "2 sentences of 3 lines parsed (left out: 1 blank); 1 trees are used.",
        "17 million",
        "geometric mean probability of at least",
        "Weight of the automatic trees 1:",
        "Two things are not in the paper. The search is restricted to trees",
        "a word that is frequent in the gold trees gets only tags that it has there",
        "beam 2 (the paper: 21)",
        "Supervised: 2 steps of 1,000 tokens",
        "Semi-supervised: 3 steps of 1,000 tokens",
        "(the paper: 32,000 and 16,000)",
    ):
        assert part in notes
    assert "unseen" not in notes
    assert not (tmp_path / "out" / "cut").exists()


def make(tmp_path: Path, **raw: Any) -> SemiSupervised:
    """Return an experiment on 40 trees."""
    settings = BUDGET | {"steps": "2"}
    base = ParserExperiment(
        folder=tmp_path / "semi",
        train=write(tmp_path / "t.trees", trees(40)),
        valid=write(tmp_path / "v.trees", trees(3, 2)),
        test=write(tmp_path / "e.trees", trees(3, 3)),
        settings=settings,
        beam=1,
        device="cpu",
    )
    chosen = {"gold": 0.25, "unseen": 0.2, "raw_beam": 1, "agreement": 0.0, "parsers": 1} | raw
    return SemiSupervised(base=base, raw=RawOptions(**chosen))


def test_gold_trees_raw_text_and_unseen_trees_are_different_parts_of_the_file(
    tmp_path: Path,
) -> None:
    experiment = make(tmp_path)
    experiment.open(Silent())
    experiment._cut()
    cut, every = experiment.folder / "cut", list(read_trees(experiment.base.train))
    gold, rest, unseen = (
        list(read_trees(cut / name)) for name in (GOLD_TREES, REST_TREES, UNSEEN_TREES)
    )
    assert [*gold, *rest, *unseen] == every
    assert (len(gold), len(rest), len(unseen)) == (10, 22, 8)
    words = (cut / REST_WORDS).read_text().splitlines()
    assert words == [" ".join(tree.words()) for tree in map(normalize, rest) if tree]


def test_no_held_out_sentence_is_raw_text_and_a_spoiled_file_is_refused(tmp_path: Path) -> None:
    experiment = make(tmp_path, keep=1.0)
    first = next(iter(read_trees(experiment.base.train)))
    write(experiment.base.test, [list(read_trees(experiment.base.train))[15], first])
    experiment.open(Silent())
    summary = experiment.run(Silent()).automatic
    held = {" ".join(tree.words()) for tree in read_trees(experiment.folder / "test.gold.trees")}
    held |= {" ".join(tree.words()) for tree in read_trees(experiment.folder / "unseen.gold.trees")}
    used = read_trees(experiment.folder / "unlabelled" / "automatic.trees")
    assert not held & {" ".join(tree.words()) for tree in used}
    assert summary.held_out >= 1
    assert summary.parsed == summary.kept == 22 - summary.held_out - summary.too_long
    (experiment.folder / RESULT).unlink()
    spoiled = experiment.folder / "unlabelled" / "automatic.trees"
    spoiled.write_text(spoiled.read_text().replace("(TOP", "(TIP", 1))
    with pytest.raises(BadRun, match=r"automatic.trees is damaged or missing"):
        experiment.run(Silent())


def test_a_killed_experiment_continues_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    whole = make(tmp_path / "whole")
    whole.open(Silent())
    expected = whole.run(Silent())
    again = make(tmp_path)
    scored: list[str] = []
    score = ParserExperiment.score

    def dying(self: ParserExperiment, runs: Any, gold: Any, what: str, progress: Any) -> Any:
        scored.append(what)
        if len(scored) == 6:
            raise Killed
        return score(self, runs, gold, what, progress)

    monkeypatch.setattr(ParserExperiment, "score", dying)
    again.open(Silent())
    with pytest.raises(Killed):
        again.run(Silent())
    assert not (again.folder / RESULT).exists()
    again.open(Silent())
    found = again.run(Silent())
    assert scored.count("test") == 2  # once per parser: the first one's scores are kept
    for name, row in expected.rows.items():
        assert dataclasses.replace(found.rows[name].test, seconds=0) == dataclasses.replace(
            row.test, seconds=0
        )
    assert found.automatic == expected.automatic


def test_the_semi_supervised_parser_has_the_supervised_ones_settings_but_two(
    tmp_path: Path,
) -> None:
    same = make(tmp_path)
    assert same.student_settings == same.base.settings
    more = make(tmp_path, student_steps=9, student_vocabulary=400)
    assert more.student_settings == {**more.base.settings, "steps": "9", "vocabulary": "400"}
    timed = dataclasses.replace(more.base, settings={"seconds": "9"}, preset="parse")
    longer = SemiSupervised(base=timed, raw=RawOptions(gold=0.5, student_steps=9))
    assert longer.student_settings == {"steps": "9", "vocabulary": "32000"}
    chosen = SemiSupervised(
        base=dataclasses.replace(timed, settings={"vocabulary": "500"}), raw=RawOptions(gold=0.5)
    )
    assert chosen.student_settings == {"vocabulary": "500"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--keep", "0.5"], "--keep is for raw text: give some with --unlabelled FILE or --gold"),
        (["--ensemble"], "--ensemble is for raw text"),
        (["--gold", "1"], "--gold 1.0: expected a share above 0, below 1"),
        (["--gold", "0.6", "--unseen", "0.4"], "leave no trees whose words could be raw text"),
        (["--gold", "0.5", "--keep", "0"], "--keep 0.0: expected a share above 0, up to 1"),
        (["--gold", "0.5", "--agreement", "2"], "--agreement 2.0: expected an F1 from 0 to 1"),
        (["--gold", "0.5", "--weight", "0"], "--weight 0.0: expected above 0, at most 1,000"),
        (["--gold", "0.5", "--parsers", "0"], "--parsers 0: expected 1 to 16"),
        (["--gold", "0.5", "--parsers", "1", "--ensemble"], "expected --parsers 2 or more"),
        (["--gold", "0.001"], "leave a part without any: expected more trees"),
        (["--unlabelled", "none.txt"], "--unlabelled none.txt does not exist: expected text"),
        (["--gold", "0.5", "--beam", "0"], "beam = 0"),
        (["--gold", "0.5", "--raw-beam", "2000"], "beam = 2000: expected at most 1,000"),
        (["--gold", "0.5", "--words"], "--words is for the raw text of --unlabelled FILE"),
        (["--unlabelled", "BLANK", "--unseen", "0.2"], "--unseen holds out trees with --gold"),
        (["--unlabelled", "BLANK"], "has only 2 blank lines: expected sentences to parse"),
        (["--gold", "0.5", "--student-vocabulary", "0"], "vocabulary = 0"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    cli: CommandLine, files: list[str], tmp_path: Path, arguments: list[str], error: str
) -> None:
    (tmp_path / "blank.txt").write_text(" \n\n", encoding="utf-8")
    given = [argument.replace("BLANK", str(tmp_path / "blank.txt")) for argument in arguments]
    command = ["paper", "table4", *files, "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert error in cli(*command, *given).error
    assert not (tmp_path / "out").exists()


def test_the_thresholds_may_change_until_trees_are_selected(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    """No parser depends on them, so its training must not be lost."""
    asked = [*command, *GOLD_QUARTER]
    never = cli(*asked, "--agreement", "1")
    assert "or a lower --agreement" in never.error
    weights = tmp_path / "out" / "parser" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    done = cli(*asked)
    assert done.status == 0, done.stderr
    assert weights.stat().st_mtime_ns == before
    assert "agreement = 0.0, not 0.5" in cli(*asked, "--agreement", "0.5").error


def test_masked_trees_have_notes_of_their_own(
    cli: CommandLine, command: list[str], tmp_path: Path
) -> None:
    done = cli(*command, *GOLD_QUARTER, "--masked")
    assert done.status == 0, done.stderr
    notes = " ".join(Finding.load(tmp_path / "out" / "table4.json").notes)
    assert "A word is written as XX, its tag masked" in notes
    assert "a word that is frequent" not in notes


def test_without_raw_text_the_folder_is_as_before(
    cli: CommandLine, files: list[str], tmp_path: Path
) -> None:
    where = ["--out", str(tmp_path / "out"), "--device", "cpu", "--steps", "2"]
    done = cli("paper", "table4", *files, *where, *options(BUDGET))
    assert done.status == 0, done.stderr
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir() if not path.name.startswith(".")) == sorted(
        [
            *("experiment.json", "parser", "result.json", "table4.json"),
            *("test.gold.trees", "test.parsed.trees"),
            *(path.name for path in out.glob("*.svg")),
        ]
    )
    experiment = json.loads((out / "experiment.json").read_text())
    assert sorted(experiment) == [
        *("experiment", "format", "inputs", "masked", "preset", "settings", "sha256")
    ]
    assert RunConfig.load(out / "parser").search.beam == 21


def test_a_time_is_divided_among_three_parsers_and_the_raw_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = dataclasses.replace(make(tmp_path).base, settings={"h": "2"}, beam=None)
    small = within(base, 1_200.0)
    assert small.base.settings == {"seconds": "200", "h": "2"}
    assert (small.base.preset, small.base.beam) == ("parse-tiny", 4)
    assert small.raw.lines == 1_200 * 0.2 * 24 / 2
    assert within(base, 1_200.0) == small
    monkeypatch.setattr(
        "transduce.experiments.semi_budget.choose_device", lambda device: torch.device("cuda")
    )
    large = within(base, 1_200.0)
    assert (large.base.preset, large.base.beam) == ("parse-small", None)
    assert large.raw.lines is None
    small.raw.check()
    large.raw.check()
