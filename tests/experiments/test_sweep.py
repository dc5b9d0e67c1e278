"""Sweeps: which runs there are, what their table says, and what happens when they are killed."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from conftest import CommandLine, threads_kept
from small_training import Killed, killing
from tiny_recipes import write_recipe

from transduce.errors import BadSetting, Diverged
from transduce.experiments import sweep as sweeping
from transduce.experiments.sweep import Sweep, train_sweep
from transduce.experiments.sweep_table import summarize
from transduce.recipes.grid import Grid, parse_options
from transduce.recipes.recipe import read
from transduce.system.progress import Silent
from transduce.training.trainer import Trainer

SET = ("--set", "P_drop=0.1,0.3", "--set", "steps=4", "--device", "cpu", "--seeds", "2")
NAMES = [f"P_drop-{value}_seed-{seed}" for value in ("0.1", "0.3") for seed in (1, 2)]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path / "recipe")


def tables(out: Path) -> list[str]:
    return [(out / f"table.{ending}").read_text() for ending in ("md", "csv", "json")]


def test_a_sweep_killed_and_resumed_gives_the_same_table(
    cli: CommandLine, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    result = cli("sweep", recipe, *SET, "--out", whole)
    assert result.status == 0
    assert result.stdout == tables(whole)[0]
    head, _, first, second, *_ = result.stdout.splitlines()
    assert head.split(" | ")[:4] == ["| P_drop", "seeds", "valid loss", "valid BLEU"]
    assert "BLEU | chrF2 | chrF2++ | TER |" in head
    assert first.startswith("| 0.1 | 2 | ")
    assert second.startswith("| 0.3 | 2 | ")
    assert first.count("±") == 6
    rows = list(csv.DictReader((whole / "table.csv").read_text().splitlines()))
    data = json.loads((whole / "table.json").read_text())
    for row, entry in zip(rows, data["table"], strict=True):
        runs = [run for run in data["runs"] if run["settings"] == entry["settings"]]
        mean = sum(run["values"]["valid loss"] for run in runs) / 2
        assert float(row["valid loss"]) == entry["metrics"]["valid loss"]["mean"] == mean
    assert sorted(path.name for path in (whole / "runs").iterdir()) == NAMES
    chosen = sweeping.Sweep(
        recipe=read(recipe),
        grid=Grid(values={"P_drop": ("0.1", "0.3")}, seeds=2),
        out=killed,
        settings={"steps": "4"},
        device="cpu",
    )
    with threads_kept(), monkeypatch.context() as patch:
        train_sweep(chosen, Silent(), only=1)
        assert "1 of 4 runs have finished." in tables(killed)[0]
        patch.setattr(Trainer, "update", killing(at=3))
        with pytest.raises(Killed):
            train_sweep(chosen, Silent())
    listed = cli("sweep", recipe, *SET, "--out", killed, "--dry-run").stdout.splitlines()
    states = ("  finished", "  started", "", "")
    names = [f"{number}  {name}" for number, name in enumerate(NAMES, start=1)]
    assert listed == [name + state for name, state in zip(names, states, strict=True)]
    assert cli("sweep", recipe, *SET, "--out", killed).status == 0
    assert tables(killed) == tables(whole)
    shutil.rmtree(killed / "runs" / NAMES[0])  # what has finished is not trained again
    again = cli("sweep", recipe, *SET, "--out", killed)
    assert "4 runs finished before" in again.stderr
    assert tables(killed) == tables(whole)
    other = cli("sweep", recipe, *SET, "--set", "d_ff=128", "--out", killed)
    assert "is of another recipe or other settings: continue with the same" in other.error


@pytest.mark.parametrize("name", ["train.de", "test.en"])
def test_results_of_another_text_are_not_used(
    name: str, cli: CommandLine, recipe: Path, tmp_path: Path
) -> None:
    out, text = tmp_path / "sweep", recipe.parent / name
    command = ("sweep", recipe, "--set", "P_drop=0.1,0.3", "--set", "steps=2", "--device", "cpu")
    assert cli(*command, "--out", out).status == 0
    before = text.read_bytes()
    text.write_bytes(before.replace(b"d", b"t"))
    refused = cli(*command, "--seeds", "2", "--out", out).error
    assert refused.startswith(f"{text} has changed since {out}")
    text.write_bytes(before)  # the same text at another time
    assert "2 runs finished before" in cli(*command, "--out", out).stderr


def test_runs_side_by_side_give_the_same_table(
    cli: CommandLine, recipe: Path, tmp_path: Path
) -> None:
    small = ("--set", "P_drop=0.1,0.3", "--set", "steps=2", "--device", "cpu")
    for jobs in ("1", "2"):
        result = cli("sweep", recipe, *small, "--jobs", jobs, "--out", tmp_path / jobs)
        assert result.status == 0, result.stderr
    assert tables(tmp_path / "1") == tables(tmp_path / "2")
    assert "±" not in tables(tmp_path / "1")[0]


def test_a_diverged_run_is_a_result_and_the_others_go_on(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep(recipe=read(recipe), grid=Grid(values={"clip": ("1", "2")}), out=tmp_path / "s")

    def fail(*arguments: object, **named: object) -> None:
        if "clip-1" in str(arguments[1]):
            raise Diverged("the loss is not finite")

    monkeypatch.setattr(sweeping, "follow", fail)
    monkeypatch.setattr(sweeping, "measure", lambda run, evaluation: {"valid loss": 2.0})
    table = train_sweep(sweep, Silent())
    assert table is not None
    lines = table.read_text().splitlines()
    assert lines[0] == "| clip | seeds | diverged | valid loss |"
    assert lines[2:4] == ["| 1 | 0 | 1 |  |", "| 2 | 1 | 0 | 2.000 |"]
    assert [line.split()[-1] for line in sweeping.describe(sweep, sweep.rows())] == [
        "diverged",
        "finished",
    ]


def test_the_grid_may_be_in_the_recipe(recipe: Path, tmp_path: Path, cli: CommandLine) -> None:
    text = recipe.read_text() + "\n[sweep]\nN = [1, 2]\nrdrop = [0, 1.5]\nseeds = 2\n"
    recipe.write_text(text)
    listed = cli("sweep", recipe, "--dry-run", "--out", tmp_path / "s").stdout.splitlines()
    assert len(listed) == 8
    assert listed[2] == "3  N-1_rdrop-1.5_seed-1"
    fewer = cli("sweep", recipe, "--dry-run", "--set", "N=1", "--seeds", "1").stdout
    assert fewer.splitlines() == ["1  rdrop-0_seed-1", "2  rdrop-1.5_seed-1"]
    recipe.write_text(text.replace("[1, 2]", "1"))
    with pytest.raises(BadSetting, match=r"mine.toml: sweep.N = 1: expected values, such as"):
        read(recipe)
    recipe.write_text(text.replace("seeds = 2", "seeds = true"))
    with pytest.raises(BadSetting, match=r"mine.toml: seeds = True: expected 1 to 1,000"):
        read(recipe)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "P_drop=0.1,,0.3"], "P_drop = 0.1,,0.3: expected values with single commas"),
        (["--set", "P_drop=0.1,0.1"], "P_drop = 0.1,0.1: a value is given twice"),
        (["--set", "P_drp=0.1,0.3"], "there is no setting P_drp"),
        (["--set", "P_drop=0.1,two"], "P_drop = 'two'"),
        (["--set", "P_drop=0.1,1.5"], "P_drop = 1.5"),
        (["--set", "P_drop"], "--set P_drop: expected NAME=VALUE,VALUE"),
        (["--set", "seed=1,2"], "seed is not swept as a setting"),
        (["--set", "N=1,2", "--set", "N=3"], "--set N=3: N is given twice"),
        (["--set", "P_drop=0.1,0.2", "--set", "dropout=0.3,0.4"], "dropout is another name of"),
        (["--set", "steps=2,3", "--steps", "4"], "steps is given as an option and with --set"),
        ([], "there is one run: give several values"),
        (["--seeds", "2", "--only", "3"], "--only 3: expected a number from 1 to 2"),
        (["--seeds", "500", "--set", "N=1,2,3"], "there are 1,500 runs: add --yes"),
        (["--seeds", "2", "--time", "9s", "--jobs", "2"], "--jobs with --time"),
        (["--seeds", "2", "--out", "."], ". holds something else (recipe)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_sweeps_are_refused_before_anything_is_written(
    options: list[str],
    expected: str,
    cli: CommandLine,
    recipe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("sweep", recipe, *options).error.startswith(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe"]


def test_a_job_array_has_a_task_for_each_run(
    cli: CommandLine, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sweep", str(recipe), "--set", "P_drop=0.1,0.3", "--seeds", "3", "--slurm"]
    monkeypatch.setattr("sys.argv", ["transduce", *words])
    lines = cli(*words).stdout.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert "#SBATCH --array=1-6" in lines
    run = f"exec transduce sweep {recipe} --set P_drop=0.1,0.3 --seeds 3 --only "
    assert lines[-1] == run + '"$SLURM_ARRAY_TASK_ID"'


def test_the_best_is_marked_only_beyond_the_intervals() -> None:
    """Pooled deviation 0.1 with 4 degrees of freedom: t = 2.776, the limit is 0.227."""
    near = {"a": [1.0, 1.1, 1.2], "b": [1.2, 1.3, 1.4]}
    far = {"a": [1.0, 1.1, 1.2], "b": [1.25, 1.35, 1.45]}
    assert not any(cell.best for cell in summarize(near, lower=True).values())
    low, high = (summarize(far, lower=lower) for lower in (True, False))
    assert (low["a"].best, low["b"].best, high["a"].best, high["b"].best) == (1, 0, 0, 1)
    assert low["a"].half_width == pytest.approx(2.776 * 0.1 / 3**0.5)
    assert str(low["a"]) == "1.100 ± 0.160 *"
    one_each = summarize({"a": [1.0], "b": [9.0]}, lower=True)
    assert [str(cell) for cell in one_each.values()] == ["1.000", "9.000"]


def test_an_option_grid_has_all_combinations_once() -> None:
    grid = parse_options(["N=1,2", "dropout=0.1,0.3"], 3)
    assert grid.size == 12
    combinations = grid.combinations()
    assert combinations[1] == {"N": "1", "P_drop": "0.3"}
    assert len({tuple(each.items()) for each in combinations}) == 4
