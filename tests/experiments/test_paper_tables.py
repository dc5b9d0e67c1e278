"""`transduce paper table2` and `table3`: several trainings on one corpus."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from conftest import (
    COMMAND,
    CommandLine,
    environment,
    options,
    snapshot,
    threads_kept,
    tiny_pairs,
    write_pairs,
)
from interrupted_writes import leave_unfinished

from transduce.bench import hardware
from transduce.config import TrainConfig
from transduce.errors import BadRun, BadSetting
from transduce.experiments import paper_numbers, table3
from transduce.experiments.budget import Budget, schedule
from transduce.experiments.comparison import Setup
from transduce.experiments.experiment_folder import read_result, require_new
from transduce.experiments.findings import Finding
from transduce.experiments.rows import Data, Result
from transduce.experiments.table2 import table2
from transduce.presets import TABLE_3
from transduce.runs.folder import RunConfig
from transduce.system.progress import Silent
from transduce.training import train as training
from transduce.training.trainer import Trainer

Files = tuple[Path, Path]

SMALLEST = {"N": "1", "h": "2", "vocabulary": "300", "batch_tokens": "400", "log_every": "2"}
ROWS = ("base", "C-N2", "D-ls0")
HOW = ("--device", "cpu", *options(SMALLEST))


def arguments(files: Files, out: Path, rows: str = ",".join(ROWS), steps: str = "4") -> list[str]:
    """Return a command for small rows of Table 3."""
    texts = [str(path) for path in files]
    how = ["--rows", rows, "--steps", steps, "--shrink", "16", *HOW]
    return ["paper", "table3", *texts, *how, "--out", str(out)]


@pytest.fixture(scope="module")
def trained(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of finished rows, and the output of the command."""
    out = tmp_path_factory.mktemp("paper") / "t3"
    command = [*COMMAND, *arguments(tiny_files, out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.fixture
def folder(trained: tuple[Path, str]) -> Path:
    """The folder of finished rows; tests do not change it."""
    return trained[0]


@pytest.fixture
def results_only(folder: Path, tmp_path: Path) -> Path:
    """A copy of the results alone: without weights, runs and corpus."""
    out = tmp_path / "t3"
    for name in ("experiment.json", "references.txt"):
        out.mkdir(exist_ok=True)
        shutil.copy(folder / name, out)
    for row in ROWS:
        (out / row).mkdir()
        for name in ("result.json", "translations.txt"):
            shutil.copy(folder / row / name, out / row)
    return out


def test_every_row_has_the_papers_numbers() -> None:
    assert list(paper_numbers.TABLE_3) == list(TABLE_3)
    assert paper_numbers.TABLE_3["C-ff4096"] == (4.75, 26.2, 90)


def test_rows_are_trained_and_compared_with_the_papers(trained: tuple[Path, str]) -> None:
    out, printed = trained
    (table,) = Finding.load(out / "table3.json").tables
    assert [row[0] for row in table.rows] == list(ROWS)
    of_N2 = dict(zip(table.columns, table.rows[1], strict=False))
    assert (of_N2["what differs"], of_N2["steps"]) == ("N 2", "4")
    assert table.rows[1][-4:] == ("6.11", "23.7", "-2.1", "36")
    assert "Scaled down: 4 steps of 400 tokens per side" in printed
    assert "divided by 16" in printed
    configs = {row: RunConfig.load(out / row) for row in ROWS}
    assert {row: config.model.N for row, config in configs.items()} == dict(
        zip(ROWS, (1, 2, 1), strict=True)
    )
    assert configs["D-ls0"].train.eps_ls == 0
    assert configs["base"].model.d_model == 32
    assert (out / "table3.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_rows_share_one_corpus_and_leave_no_weights(folder: Path) -> None:
    assert (folder / "corpus" / "manifest.json").exists()
    for row in ROWS:
        assert not (folder / row / "corpus").exists()
        assert not list((folder / row).rglob("*.safetensors"))


def test_a_result_has_the_numbers_of_its_row(folder: Path) -> None:
    result = read_result(folder / "C-N2", Result)
    assert (result.steps, result.preset, result.model["N"]) == (4, "C-N2", 2)
    assert result.low <= result.bleu <= result.high
    assert result.perplexity > 1
    assert result.flops > 0
    assert result.curve[-1]["step"] == 4
    lines = (folder / "C-N2" / "translations.txt").read_text(encoding="utf-8")
    assert lines.count("\n") == (folder / "references.txt").read_text("utf-8").count("\n") == 3


def test_finished_rows_are_gathered_without_weights_or_corpus(
    cli: CommandLine, tiny_files: Files, results_only: Path
) -> None:
    before = snapshot(results_only)
    done = cli(*arguments(tiny_files, results_only))
    assert done.status == 0, done.stderr
    assert "3 of 3 rows are finished already" in done.stderr
    after = snapshot(results_only)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"table3.json", "table3.svg"}


def test_rows_can_be_added_later_and_all_are_reported(
    cli: CommandLine, tiny_files: Files, results_only: Path
) -> None:
    done = cli(*arguments(tiny_files, results_only, rows="E"))
    assert done.status == 0, done.stderr
    (table,) = Finding.load(results_only / "table3.json").tables
    assert [row[0] for row in table.rows] == [*ROWS, "E-learned"]


def test_gathering_trains_nothing(cli: CommandLine, tiny_files: Files, results_only: Path) -> None:
    done = cli(*arguments(tiny_files, results_only, rows="A"), "--gather")
    assert done.status == 0, done.stderr
    assert not (results_only / "A-h1").exists()


def test_an_interrupted_row_continues(
    cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Trainer.update

    def stop(self: Trainer) -> object:
        if self.state.step == 3:
            raise KeyboardInterrupt
        return update(self)

    command = arguments(tiny_files, tmp_path / "t3", rows="base")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", stop)
        stopped = cli(*command)
    assert stopped.status == 130, stopped.stderr
    done = cli(*command)
    assert "resuming from step 2" in done.stderr
    assert read_result(tmp_path / "t3" / "base", Result).steps == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--steps", "5"), "was started with steps = 4, not 5"),
        (("--set", "P_drop=0.2"), "was started without P_drop, which is now 0.2"),
        (("--shrink", "8"), "was started with shrink = 16, not 8"),
        (("--languages", "en-fr"), "other validation, test or raw text, or other languages"),
    ],
)
def test_a_folder_with_other_settings_is_refused(
    change: tuple[str, ...], message: str, cli: CommandLine, tiny_files: Files, results_only: Path
) -> None:
    before = snapshot(results_only)
    assert message in cli(*arguments(tiny_files, results_only), *change).error
    assert snapshot(results_only) == before


def test_a_folder_with_another_text_or_test_set_is_refused(
    cli: CommandLine, tiny_files: Files, results_only: Path, tmp_path: Path
) -> None:
    other = write_pairs(tmp_path, "other", tiny_pairs(300, seed=2))
    assert " differs from " in cli(*arguments(other, results_only)).error
    error = cli(*arguments(tiny_files, results_only), "--test", *other).error
    assert "other validation, test or raw text" in error


def test_a_foreign_folder_is_refused(
    cli: CommandLine, tiny_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    assert "holds something else" in cli(*arguments(tiny_files, tiny_run)).error
    gathers = ["paper", "table2", *map(str, tiny_files), "--systems", "tiny", "--gather"]
    assert "tiny, which the others" in cli(*gathers, *HOW, "--out", tmp_path / "t2").stdout
    error = cli(*arguments(tiny_files, tmp_path / "t2")).error
    assert "holds table2, not table3" in error


def test_a_folder_with_only_an_unfinished_write_counts_as_new(tmp_path: Path) -> None:
    leave_unfinished(tmp_path, "experiment.json")
    require_new(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BadRun, match=r"holds something else \(notes.txt\)"):
        require_new(tmp_path)


def test_too_many_systems_for_a_picture_are_refused_before_training(
    tiny_files: Files, tmp_path: Path
) -> None:
    setup = Setup(out=tmp_path / "out", data=Data(train=tiny_files), budget=Budget(steps=1))
    with pytest.raises(BadSetting, match="9 systems: expected at most 8"):
        table2(setup, list(TABLE_3)[:9], Silent())
    assert not (tmp_path / "out").exists()


def test_a_missing_device_is_reported_before_the_corpus_is_prepared(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    error = cli(*arguments(tiny_files, tmp_path / "t3"), "--device", "cuda").error
    assert error.startswith("device = 'cuda': ")
    assert not (tmp_path / "t3" / "corpus").exists()


def test_the_error_says_why_a_row_has_no_weights(cli: CommandLine, folder: Path) -> None:
    error = cli("paper", "figures", folder / "base").error
    assert "`transduce paper` deleted them; --keep-weights keeps them" in error


def test_a_result_with_other_settings_is_refused(
    cli: CommandLine, tiny_files: Files, results_only: Path
) -> None:
    shutil.rmtree(results_only / "base")
    shutil.copytree(results_only / "C-N2", results_only / "base")
    assert "belongs to a run with other settings" in cli(*arguments(tiny_files, results_only)).error


@pytest.mark.parametrize(
    ("rows", "hint"), [("C-N3", "Did you mean C-N"), ("bsae", "Did you mean base?"), ("F", "A, B,")]
)
def test_an_unknown_row_is_refused(
    rows: str, hint: str, cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    error = cli(*arguments(tiny_files, tmp_path / "t3", rows=rows)).error
    assert f"there is no row {rows}." in error
    assert hint in error
    assert not (tmp_path / "t3").exists()


def test_an_unknown_setting_or_a_second_budget_is_refused(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    command = arguments(tiny_files, tmp_path / "t3")
    assert "there is no setting warmpu" in cli(*command, "--set", "warmpu=3").error
    assert "two budgets" in cli(*command, "--time", "3s").error
    assert "give the budget as" in cli(*command, "--set", "epochs=3").error


def test_rows_are_chosen_by_group_and_name_in_the_order_given() -> None:
    assert table3.row_names(["E", "B", "base", "B-dk32"]) == [
        "E-learned",
        "B-dk16",
        "B-dk32",
        "base",
    ]
    assert table3.row_names([]) == list(TABLE_3)


def test_shared_settings_do_not_override_what_a_row_changes() -> None:
    settings = {"N": "3", "P_drop": "0.3"}
    assert table3.row_of("C-N2", settings, 1).settings == {"P_drop": "0.3"}
    assert table3.row_of("D-drop0", settings, 1).settings == {"N": "3"}
    shrunk = table3.row_of("C-d256", {}, 4).settings
    assert shrunk == {"d_model": "64", "d_ff": "512", "d_k": "8", "d_v": "8"}


def test_a_short_budget_warms_up_to_the_same_peak_and_cools_down() -> None:
    recipe = TrainConfig()
    short = schedule(1000, recipe, 2, 2)
    assert (short["warmup"], short["cooldown"], short["validate_every"]) == ("250", "0.4", "500")
    highest = float(short["lr_scale"]) * 250**-0.5
    assert highest == pytest.approx(recipe.lr_scale * recipe.warmup**-0.5, rel=1e-3)
    assert "cooldown" not in schedule(100_000, recipe, 2, 2)


def test_systems_are_trained_for_the_same_time(
    cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(64, "float32", 1, 3))
    out, test = tmp_path / "t2", write_pairs(tmp_path, "test", tiny_pairs(20, seed=3))
    command = ["paper", "table2", *map(str, tiny_files), "--systems", "tiny,tiny-3-1"]
    small = options({"d_model": "32", "d_ff": "64", "d_k": "16", "d_v": "16"})
    done = cli(*command, "--test", *test, "--time", "1s", *HOW, *small, "--out", out)
    assert done.status == 0, done.stderr
    finding = Finding.load(out / "table2.json")
    quality, cost, papers = finding.tables
    assert [row[0] for row in quality.rows] == ["tiny", "tiny-3-1"]
    assert quality.rows[1][6:] == ("Transformer, base", "27.3", "")
    assert papers.rows[2] == ("GNMT + RL", "24.6", "39.92", "2.3e19", "1.4e20")
    results = [read_result(out / name, Result) for name in ("tiny", "tiny-3-1")]
    assert all(result.seconds >= 1 for result in results)
    assert [row[2] for row in cost.rows] == [f"{result.steps:,}" for result in results]
    assert all(result.machine["matrix"]["flops_per_second"] > 0 for result in results)
    assert "Equal time: 1s" in done.stdout
    assert finding.data["curves"]["tiny"] == results[0].curve
    assert results[0].curve[-1]["step"] == results[0].steps


def test_time_can_count_steps_only(
    tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow validation does not use up a time budget that counts steps only."""
    clock = 0.0

    def slow(self: Trainer, interrupted: object) -> tuple[float, int, int]:
        nonlocal clock
        clock += 100
        return 1.0, 1, 0

    def quick(self: Trainer) -> object:
        nonlocal clock
        clock += 1
        return update(self)

    update = Trainer.update
    monkeypatch.setattr(Trainer, "_validate", slow)
    monkeypatch.setattr(Trainer, "update", quick)
    monkeypatch.setattr("transduce.training.trainer.time.monotonic", lambda: clock)
    settings = SMALLEST | {"seconds": "10", "validate_every": "2", "save_every": "50"}
    steps = {}
    with threads_kept():
        for timed in ("all", "steps"):
            run = tmp_path / timed
            limited = settings | {"timed": timed}
            training.train(*tiny_files, out=run, preset="tiny", settings=limited, device="cpu")
            steps[timed] = max(int(path.name[5:]) for path in (run / "checkpoints").iterdir())
    assert steps == {"all": 3, "steps": 10}


def test_a_run_never_replaces_a_shared_corpus(tiny_files: Files, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    first = SMALLEST | {"steps": "1"}
    with threads_kept():
        training.train(
            *tiny_files,
            out=tmp_path / "a",
            corpus=corpus,
            preset="tiny",
            settings=first,
            device="cpu",
        )
        before = snapshot(corpus)
        with pytest.raises(BadRun, match="prepared from other text or with other settings"):
            training.train(
                *tiny_files,
                out=tmp_path / "b",
                corpus=corpus,
                preset="tiny",
                settings=first | {"vocabulary": "310"},
                device="cpu",
            )
    assert snapshot(corpus) == before
