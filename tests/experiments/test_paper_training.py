"""`transduce paper training`: learning rates, losses, and means of checkpoints."""

import dataclasses
import io
import json
import math
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import (
    CommandLine,
    Result,
    options,
    threads_kept,
    tiny_pairs,
    write_pairs,
)

from fake_runs import training as trained_rows
from fake_runs import validation, write_run
from transduce.checkpoints.checkpoint import average_checkpoints, load_tensors
from transduce.cli import main
from transduce.config import ModelConfig
from transduce.errors import BadRun, BadSetting
from transduce.experiments.checkpoint_means import Averaged, _weights, compare_checkpoints
from transduce.experiments.claims import Trial
from transduce.experiments.findings import Finding
from transduce.experiments.training import save_rarely, training_of, variants_of
from transduce.experiments.training_pictures import draw_losses, draw_means, draw_rates
from transduce.experiments.training_rates import (
    Recorded,
    equation_3,
    rates_of,
)
from transduce.inspection.style import drawing_style
from transduce.runs.folder import WEIGHTS, RunConfig, checkpoints
from transduce.system.files import FILE_MARK
from transduce.system.progress import Silent
from transduce.translation.translator import Translator

pytest.importorskip("matplotlib")

Files = tuple[Path, Path]

SMALL = {
    "N": "1",
    "d_model": "16",
    "d_ff": "32",
    "h": "2",
    "d_k": "8",
    "d_v": "8",
    "vocabulary": "300",
    "batch_tokens": "400",
    "threads": "1",
}
FEW = {"steps": "8", "log_every": "1", "warmup": "4", "save_every": "2", "validate_every": "4"}
FEWER = {"validate_every": "3", "validate_bleu": "4", "save_every": "2"}
QUICK = ["--pairs", "200", "--held", "20", "--steps", "6", "--most", "20", "--device", "cpu"]
QUICK += ["--warmups", "1,4", "--dropouts", "0.1,0.3", *options(SMALL | FEWER | {"cooldown": "0"})]
PAIRS = tiny_pairs(4, seed=3)
SVG = f'<svg xmlns="http://www.w3.org/2000/svg"><desc>{FILE_MARK}</desc></svg>'
D_MODEL = ModelConfig().d_model  # of the runs that tests write


def points(line: Any) -> tuple[list[float], list[float]]:
    """Return the coordinates of a drawn line."""
    return line.get_xdata().tolist(), line.get_ydata().tolist()


@pytest.fixture(scope="module")
def averaged(recorded_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Averaged]:
    """Translations by the checkpoints of the run and by their means; not to be changed."""
    texts = tmp_path_factory.mktemp("averaged") / "texts"
    with threads_kept():
        compared = compare_checkpoints(recorded_run, PAIRS, texts, "cpu", Silent())
    assert compared is not None
    return texts, compared


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn but not written as SVG, which is slow."""
    monkeypatch.setattr("transduce.experiments.drawing.to_svg", lambda figure: SVG)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished `transduce paper training`; not to be changed."""
    out = tmp_path_factory.mktemp("paper") / "training"
    errors = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, threads_kept():
        patch.setattr(sys, "argv", ["transduce", "paper", "training", *QUICK, "--out", str(out)])
        with (
            redirect_stdout(io.StringIO()),
            redirect_stderr(errors),
            pytest.raises(SystemExit) as end,
        ):
            main()
    assert not end.value.code, errors.getvalue()
    return out


def finding_of(result: Result, out: Path) -> Finding:
    """Return the finding that a command has written."""
    assert result.status == 0, result.stderr
    return Finding.load(out / "training.json")


def test_a_mean_of_checkpoints_is_translated_with_the_mean_of_their_weights(
    recorded_run: Path,
    averaged: tuple[Path, Averaged],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Paper 6.1: each single checkpoint, and the mean of the last 2, 3 and so on."""
    texts, before = tmp_path / "texts", averaged[1]
    assert list(before.single) == [2, 4, 6, 8]
    assert list(before.means) == [2, 3, 4]
    assert before.sentences == len(PAIRS)
    shutil.copytree(averaged[0], texts)
    for name in ("step-0000008", "mean-3"):
        (texts / f"{name}.txt").unlink()  # as if stopped before them
    used: dict[str, dict[str, list[float]]] = {}
    load = Translator.load

    def noted(folder: Path, **how: str) -> object:
        name = json.loads((folder / "config.json").read_text())["weights"]
        tensors = load_tensors(folder / "model.safetensors")
        used[name] = {key: tensor.flatten().tolist() for key, tensor in tensors.items()}
        return load(folder, **how)

    monkeypatch.setattr(Translator, "load", noted)
    assert compare_checkpoints(recorded_run, PAIRS, texts, "cpu", Silent()) == before
    last = load_tensors(checkpoints(recorded_run)[-1].path / WEIGHTS)
    mean = average_checkpoints(recorded_run, 3)[0]
    assert used == {
        name: {key: tensors[key].flatten().tolist() for key in tensors}
        for name, tensors in (("step-0000008", last), ("mean-3", mean))
    }
    assert not list(texts.glob(".transduce*")), "temporary folders are left"


def test_finished_translations_need_no_checkpoints(
    recorded_run: Path, averaged: tuple[Path, Averaged], tmp_path: Path
) -> None:
    own, texts = tmp_path / "own", averaged[0]
    shutil.copytree(recorded_run, own)
    shutil.rmtree(own / "checkpoints")
    assert compare_checkpoints(own, PAIRS, texts, "cpu", Silent()) == averaged[1]
    assert compare_checkpoints(own, PAIRS, tmp_path / "new", "cpu", Silent()) is None
    with pytest.raises(BadRun, match="holds translations of another text"):
        compare_checkpoints(own, PAIRS[:-1], texts, "cpu", Silent())


def test_a_run_that_was_trained_further_is_translated_again(
    recorded_run: Path, averaged: tuple[Path, Averaged], tmp_path: Path
) -> None:
    own, texts = tmp_path / "own", tmp_path / "texts"
    shutil.copytree(recorded_run, own)
    shutil.copytree(averaged[0], texts)
    shutil.rmtree(own / "checkpoints" / "step-0000002")  # as if a new one had replaced it
    (texts / "mean-2.txt").write_text("the same\n" * len(PAIRS))
    compared = compare_checkpoints(own, PAIRS, texts, "cpu", Silent())
    assert compared is not None
    assert list(compared.single) == [4, 6, 8]
    assert list(compared.means) == [2, 3]
    assert not (texts / "step-0000002.txt").exists()
    assert not (texts / "mean-4.txt").exists()
    assert (texts / "mean-2.txt").read_text().startswith("the same"), "it is of equal weights"


def test_means_are_of_the_checkpoints_that_were_listed(recorded_run: Path, tmp_path: Path) -> None:
    """The run may save others meanwhile."""
    own = tmp_path / "own"
    shutil.copytree(recorded_run, own)
    saved = [checkpoint for checkpoint in checkpoints(own) if checkpoint.scheduled]
    before = _weights(saved, "mean-2")
    shutil.copytree(own / "checkpoints" / "step-0000002", own / "checkpoints" / "step-0000009")
    after = _weights(saved, "mean-2")
    assert all(torch.equal(before[name], after[name]) for name in before)
    shutil.rmtree(own / "checkpoints" / "step-0000002")
    with pytest.raises(BadRun, match="has saved newer checkpoints meanwhile"):
        _weights(saved, "mean-4")


def test_more_runs_than_can_be_drawn_are_refused() -> None:
    trial = Trial(out=Path("x"), steps=400, settings={"P_drop": "0.1"})
    with pytest.raises(BadSetting, match="9 runs: expected at most 8, to draw them"):
        variants_of(trial, [2, 3, 4, 5], [0, 0.2, 0.3])


def test_a_run_of_a_gpu_is_described_on_any_machine(recorded_run: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(recorded_run, own)
    config = RunConfig.load(own)
    dataclasses.replace(config, device="cuda").save(own)
    finding = training_of(own, None, 20, tmp_path / "out", "cpu", Silent())
    assert finding.data["machine"]


def test_only_what_differs_from_the_preset_is_a_variant() -> None:
    trial = Trial(out=Path("x"), steps=400, settings={"P_drop": "0.1"})
    variants = variants_of(trial, [0.25, 1, 4], [0.0, 0.1, 0.3])
    assert variants == {
        "preset": {},
        "warmup-25": {"warmup": "25"},
        "warmup-400": {"warmup": "400"},
        "P_drop-0": {"P_drop": "0"},
        "P_drop-0.3": {"P_drop": "0.3"},
        "no-cooldown": {"cooldown": "0"},
    }
    without = Trial(out=Path("x"), steps=400, settings={"cooldown": "0"})
    assert variants_of(without, [1], [0.1]).keys() == {"preset"}
    with pytest.raises(BadSetting, match="--warmups 0: expected factors"):
        variants_of(trial, [0], [])
    with pytest.raises(BadSetting, match="--dropouts 1: expected probabilities"):
        variants_of(trial, [1], [1.0])


def test_only_runs_whose_checkpoints_are_compared_save_often() -> None:
    variants = {"preset": {}, "P_drop-0": {"P_drop": "0"}, "no-cooldown": {"cooldown": "0"}}
    rarely = {"P_drop": "0", "save_every": "90", "keep": "1"}
    assert save_rarely(variants, 90, {}) == variants | {"P_drop-0": rarely}
    assert save_rarely(variants, 90, {"keep": "3"}) == variants


def test_variants_are_trained_and_compared(trained: Path) -> None:
    """End to end: each variant has its settings, and each picture and table its numbers."""
    finding = Finding.load(trained / "training.json")
    runs, rates, *means = finding.tables
    names = ["preset", "warm-up 4", "P_drop 0.3"]
    assert [row[0] for row in runs.rows] == names
    assert [(row[1], row[2]) for row in runs.rows] == [*(("1", "0.1"), ("4", "0.1"), ("1", "0.3"))]
    papers = [row[-2:] for row in runs.rows]
    assert papers == [("4.92", "25.8"), ("", ""), ("", "")], "it varied no warm-up"
    assert [row[0] for row in rates.rows] == ["the paper's base", *names]
    assert rates.rows[0][1:4] == ("512", "4,000", "6.988e-04")
    assert {row[-1] for row in rates.rows[1:]} == {"0"}
    assert [table.title for table in means] == ["Checkpoints of preset, 20 validation sentences"]
    assert [row[0] for row in means[0].rows] == [
        *("step 2", "step 4", "step 6", "mean of the last 2", "mean of the last 3")
    ]
    assert len(finding.pictures) == 4
    assert all(picture.svg.startswith("<?xml") for picture in finding.pictures)
    notes = " ".join(finding.notes)
    assert "exactly, at 18 recorded steps" in notes
    assert "What departs from Eq. 3 in the rate: lr_scale = " in notes
    assert "cooldown" not in notes
    assert "6 steps of 400 tokens" in notes
    assert "Warm-up 1 step of 6 (the paper: 4,000 of 100,000)" in notes


def test_a_gap_is_that_of_the_perplexities_and_losses_are_the_last_ones(trained: Path) -> None:
    finding = Finding.load(trained / "training.json")
    row = dict(zip(finding.tables[0].columns, finding.tables[0].rows[0], strict=True))
    log = (trained / "runs" / "preset" / "metrics.jsonl").read_text().splitlines()
    validations = [line for line in map(json.loads, log) if "valid_loss" in line]
    assert row["validation loss"] == f"{validations[-1]['valid_loss']:.3f}"
    assert row["BLEU greedy"] == f"{validations[-1]['valid_bleu']:.1f}"
    training, held_out = (
        float(row[name].split()[0]) for name in ("PPL training text", "PPL validation text")
    )
    assert float(row["gap (nats)"]) == pytest.approx(math.log(held_out / training), abs=2e-3)


def test_a_finished_experiment_is_read_again_without_its_checkpoints(
    cli: CommandLine, trained: Path, tmp_path: Path, unrendered: None
) -> None:
    out = tmp_path / "training"
    shutil.copytree(trained, out)
    assert not list(out.rglob("step-*/"))
    before = Finding.load(out / "training.json")
    result = cli("paper", "training", *QUICK, "--out", out)
    assert finding_of(result, out).tables == before.tables
    assert "3 of 3 rows are finished already" in result.stderr
    assert "resuming" not in result.stderr


def test_an_existing_run_is_described_without_training(
    cli: CommandLine, recorded_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    before = (recorded_run / "metrics.jsonl").read_bytes()
    command = ["paper", "training", "--run", str(recorded_run), "--most", "20", "--out", str(out)]
    finding = finding_of(cli(*command), out)
    runs, rates, means = finding.tables
    assert [row[0] for row in runs.rows] == ["run"]
    assert [row[0] for row in means.rows][-1] == "mean of the last 4"
    assert rates.rows[1][1:3] == ("16", "4")
    notes = " ".join(finding.notes)
    assert "lr_scale = 0.5 multiplies it; cooldown = 0.5" in notes
    assert "8 steps of 400 tokens per side" in notes
    assert len(finding.pictures) == 4
    assert (recorded_run / "metrics.jsonl").read_bytes() == before


def test_without_checkpoints_their_means_are_left_out_and_a_note_says_so(
    cli: CommandLine, recorded_run: Path, tmp_path: Path, unrendered: None
) -> None:
    own, out = tmp_path / "own", tmp_path / "out"
    shutil.copytree(recorded_run, own)
    for name in ("checkpoints", "corpus"):
        shutil.rmtree(own / name)
    valid = write_pairs(tmp_path, "valid", tiny_pairs(10, seed=5))
    command: list[str | Path] = ["paper", "training", "--run", own, "--out", out]
    finding = finding_of(cli(*command, "--valid", *valid), out)
    assert [table.title for table in finding.tables] == [
        *("At the end of training, with 95% intervals",),
        *("Learning rates: Eq. 3, and what was recorded",),
    ]
    assert any("the run has fewer than two checkpoints" in note for note in finding.notes)
    assert len(finding.pictures) == 3
    finding = finding_of(cli(*command), out)
    assert any("give a validation text, --valid" in note for note in finding.notes)


def test_pictures_have_the_numbers_of_the_runs(
    recorded_run: Path, averaged: tuple[Path, Averaged]
) -> None:
    own = Recorded.read(recorded_run, "run")
    rates = rates_of(own)
    with drawing_style():
        paper, here = draw_rates([(own, rates)]).axes
        (losses,) = draw_losses({"The run": [own]}).axes
        singles, _ = draw_means({"run": averaged[1]}).axes
    steps, _ = points(paper.lines[0])
    assert steps[0] == 1
    assert 4000 in steps
    assert steps[-1] > 99_000
    steps, shown = points(here.lines[2])
    assert dict(zip(steps, shown, strict=True)) == {rate.step: rate.recorded for rate in rates}
    assert points(here.lines[0])[1] == [equation_3(step, 16, 4) for step in range(1, 9)]
    assert points(losses.lines[1])[1] == own.history.curve("valid_loss", None).y
    assert points(singles.lines[0])[0] == list(averaged[1].single)


def test_a_run_without_bleu_is_drawn_with_its_perplexity(
    cli: CommandLine, tmp_path: Path, unrendered: None
) -> None:
    rows = [*trained_rows(50, 100), *validation(100)]
    for row in rows:
        row.pop("valid_bleu", None)
    write_run(tmp_path / "run", rows, steps=None)
    out = tmp_path / "out"
    finding = finding_of(cli("paper", "training", "--run", tmp_path / "run", "--out", out), out)
    assert any(
        "Perplexity of the validation set" in picture.caption for picture in finding.pictures
    )
    assert any("The run has not ended" in note for note in finding.notes)
    assert "are not those computed" in finding.notes[0]  # the written rates are not Eq. 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--run", "nowhere"], "there is no run folder nowhere"),
        (["--run", "."], "is not a run folder: it has no config.json"),
        (["--run", "RUN", "a.en", "a.de"], "leave out a training text"),
        (["--run", "RUN", "--steps", "3"], "leave out --steps"),
        (["--run", "RUN", "--set", "N=1"], "leave out --set"),
        (["--run", "RUN", "--seed", "3"], "leave out --seed"),
        (["--warmups", "long"], "--warmups long: expected numbers such as 0.25,4"),
        (["--pairs", "100", "--dropouts", "1.5"], "--dropouts 1.5: expected probabilities"),
        (["--run", "RUN", "--valid", "no.en", "no.de"], "no.en"),
    ],
)
def test_bad_arguments_and_folders_are_refused_in_one_sentence(
    cli: CommandLine, recorded_run: Path, tmp_path: Path, arguments: list[str], error: str
) -> None:
    words = [str(recorded_run) if word == "RUN" else word for word in arguments]
    words = [str(tmp_path) if word == "." else word for word in words]
    out = tmp_path / "out"
    assert error in cli("paper", "training", *words, "--out", out).error
    assert not (out / "runs").exists()


def test_a_run_that_has_logged_nothing_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    write_run(tmp_path / "run", [])
    error = cli("paper", "training", "--run", tmp_path / "run", "--out", tmp_path / "out").error
    assert (
        error
        == f"{tmp_path / 'run'} has logged nothing yet: `transduce train` writes metrics.jsonl"
    )
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 4, "valid_loss": 2.0}\n')
    error = cli("paper", "training", "--run", tmp_path / "run", "--out", tmp_path / "out").error
    assert "has logged no training step yet" in error
