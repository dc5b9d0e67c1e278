"""The claims of the paper's text: scaling, positions, label smoothing."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import CommandLine, Result, options, write_pairs

from transduce.decoding.search import log_probabilities
from transduce.experiments.claims import Trial
from transduce.experiments.findings import Finding
from transduce.experiments.positions import _buckets
from transduce.experiments.scaling import measure, measure_softmax
from transduce.experiments.teacher_forcing import (
    TokenScores,
    accuracy,
    perplexity,
    score_tokens,
)
from transduce.system.progress import Silent
from transduce.translation.translator import Translator

pytest.importorskip("matplotlib")

SMALL = {
    "N": "1",
    "d_model": "16",
    "d_ff": "32",
    "vocabulary": "300",
    "batch_tokens": "400",
    "log_every": "5",
    "threads": "1",
}
QUICK = ["--pairs", "200", "--held", "30", "--steps", "4", "--device", "cpu", *options(SMALL)]
HEADS = options({"h": "2", "d_k": "8", "d_v": "8"})


def finding_of(result: Result, folder: Path, name: str) -> Finding:
    """Return the finding that a command has written."""
    assert result.status == 0, result.stderr
    return Finding.load(folder / f"{name}.json")


def test_the_variance_of_dot_products_is_d_k() -> None:
    """Paper 3.2.1, footnote 4."""
    for width in measure([4, 64, 512]):
        assert width.variance == pytest.approx(width.d_k, rel=0.05)


def test_without_scaling_a_large_d_k_has_a_sharp_softmax_with_small_gradients() -> None:
    narrow, wide = measure([16, 512])
    assert narrow.scaled.largest == pytest.approx(wide.scaled.largest, rel=0.05)
    assert narrow.scaled.gradient == pytest.approx(wide.scaled.gradient, rel=0.05)
    assert wide.unscaled.largest > 0.9 > narrow.unscaled.largest
    assert wide.unscaled.gradient < wide.scaled.gradient < narrow.unscaled.gradient
    assert wide.unscaled.median < wide.scaled.median / 10
    assert wide.unscaled.entropy < narrow.unscaled.entropy < wide.scaled.entropy


def test_the_norm_of_the_gradient_is_autograds() -> None:
    scores = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    jacobians = [torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row) for row in scores]
    norms = torch.stack([jacobian.norm() for jacobian in jacobians])
    measured = measure_softmax(scores)
    assert measured.gradient == pytest.approx(float(norms.mean()))
    assert measured.median == pytest.approx(float(norms.median()))
    uniform = measure_softmax(torch.zeros(1, 8, dtype=torch.float64))
    assert (uniform.largest, uniform.entropy) == pytest.approx((1 / 8, math.log(8)))


def test_scaling_is_measured_without_training(cli: CommandLine, tmp_path: Path) -> None:
    result = cli("paper", "scaling", "--no-train", "--widths", "4,512", "--out", tmp_path)
    finding = finding_of(result, tmp_path, "scaling")
    (table,) = finding.tables
    assert [row[0] for row in table.rows] == ["4", "512"]
    assert len(finding.pictures) == 1
    assert not (tmp_path / "runs").exists()


def test_scaling_is_trained_three_ways(cli: CommandLine, tmp_path: Path) -> None:
    arguments = ["paper", "scaling", "--d-k", "16", "--widths", "4", *QUICK, "--out", str(tmp_path)]
    finding = finding_of(cli(*arguments), tmp_path, "scaling")
    rows = finding.tables[1].rows
    assert [row[0] for row in rows] == [
        *("dot products / sqrt(d_k)", "dot products, unscaled", "additive attention")
    ]
    assert len({row[1] for row in rows}) == 3, "the three are the same model"
    assert "d_k = 16" in finding.tables[1].title
    again = cli(*arguments)
    assert "3 of 3 rows are finished" in again.stderr
    assert finding.tables == finding_of(again, tmp_path, "scaling").tables


def test_smoothing_is_measured_at_each_amount(cli: CommandLine, tmp_path: Path) -> None:
    result = cli(
        *("paper", "smoothing", *QUICK, *HEADS, "--eps", "0,0.3", "--seeds", "2"),
        *("--out", tmp_path),
    )
    finding = finding_of(result, tmp_path, "smoothing")
    assert [(row[0], row[1]) for row in finding.tables[0].rows] == [
        *(("0", "1"), ("0", "2"), ("0.3", "1"), ("0.3", "2"))
    ]
    recipes = [
        json.loads((tmp_path / "runs" / name / "config.json").read_text())["train"]["eps_ls"]
        for name in ("ls0-seed1", "ls0.3-seed2")
    ]
    assert recipes == [0.0, 0.3]
    assert any("the mean of 2 seeds" in note for note in finding.notes)
    assert any("4 steps of 400 tokens" in note for note in finding.notes)


def test_positions_are_measured_at_lengths_seen_and_beyond(
    cli: CommandLine, tmp_path: Path
) -> None:
    lengths = ("--longest", "8", "--held", "80", "--most", "10")
    result = cli("paper", "positions", *QUICK, *HEADS, *lengths, "--out", tmp_path)
    finding = finding_of(result, tmp_path, "positions")
    rows = finding.tables[0].rows
    assert {row[1] for row in rows} == {"seen", "longer"}
    short = (tmp_path / "texts" / "short.en").read_text().splitlines()
    assert max(len(line.split()) for line in short) <= 8
    whole = (tmp_path / "texts" / "all.en").read_text().splitlines()
    assert len(whole) == len(short)
    assert max(len(line.split()) for line in whole) > 8
    settings = [
        json.loads((tmp_path / "runs" / name / "config.json").read_text())["model"]["positions"]
        for name in ("sinusoidal", "learned")
    ]
    assert settings == ["sinusoidal", "learned"]
    beyond = {row[1]: row[3] for row in rows}
    assert beyond["seen"] == "0%"


def test_a_given_text_is_split_by_length(cli: CommandLine, tmp_path: Path) -> None:
    pairs = [(f"a {'b ' * (number % 12)}c", f"x {'y ' * (number % 12)}z") for number in range(600)]
    files = write_pairs(tmp_path, "own", pairs)
    quick = ["--steps", "2", "--device", "cpu", *options(SMALL), *HEADS]
    result = cli("paper", "positions", *files, "--longest", "6", *quick, "--out", tmp_path / "out")
    finding = finding_of(result, tmp_path / "out", "positions")
    assert finding.data["longest"] == 6
    held = (tmp_path / "out" / "texts" / "lengths.en").read_text().splitlines()
    assert len(held) == 30  # one of twenty
    assert max(len(line.split()) for line in held) > 6


def test_lengths_are_divided_where_training_ended() -> None:
    pairs = [("w " * length, "w") for length in range(1, 31)]
    buckets = list(_buckets(pairs, 10, least=1))
    assert [(bucket.shortest, bucket.longest, bucket.seen) for bucket in buckets] == [
        *((1, 5, True), (6, 10, True), (11, 12, False), (13, 15, False)),
        *((16, 20, False), (21, 30, False)),
    ]


def test_token_scores_are_the_log_probabilities_of_the_model(learnt_run: Path) -> None:
    pairs = [("a dog sees the man.", "ein Hund sieht der Mann."), ("one fish!", "jener Fisch!")]
    scores = score_tokens(learnt_run, pairs, "cpu", Silent())
    translator = Translator.load(learnt_run, device="cpu", engine="torch")
    codec = translator.codec
    tokens = [
        (np.array([*codec.source.encode(a), 2]), np.array([*codec.target.encode(b), 2]))
        for a, b in pairs
    ]
    models = translator.engine.models  # type: ignore[attr-defined]
    for sentence, logs in zip(scores, log_probabilities(models, tokens), strict=True):
        np.testing.assert_allclose(sentence.nll, [-log for log in logs], rtol=1e-4, atol=1e-5)
        assert sentence.correct[sentence.nll < math.log(2)].all()
        assert not sentence.correct[sentence.nll > 20].any()


def test_perplexity_and_accuracy_are_means_over_tokens() -> None:
    likely = TokenScores(np.array([0.5, 0.5]), np.array([True, True]))
    unlikely = TokenScores(np.array([2.0]), np.array([False]))
    assert perplexity([likely, unlikely]).value == pytest.approx(math.e)
    assert accuracy([likely, unlikely]).value == pytest.approx(200 / 3)
    low, high = perplexity([likely, unlikely] * 20).low, perplexity([likely, unlikely] * 20).high
    assert low < math.e < high


def test_a_short_training_warms_up_for_a_quarter_of_its_steps_to_the_same_peak() -> None:
    shared = Trial(out=Path("x"), steps=100, settings={"seed": "3"}).shared()
    assert shared["warmup"] == "25"
    assert float(shared["lr_scale"]) / math.sqrt(25) == pytest.approx(1 / math.sqrt(400))
    assert shared["seed"] == "3"
    assert Trial(out=Path("x"), steps=50_000, settings={}).shared()["warmup"] == "400"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["smoothing", "--eps", "0.1,0.2"], "expected 0, to compare with, and one more"),
        (["smoothing", "--eps", "much"], "--eps much: expected numbers"),
        (["scaling", "--no-train", "--widths", "0"], "--widths 0: expected d_k from 1 to 32,768"),
        (["scaling", "--widths", "wide"], "--widths wide: expected numbers"),
        (["positions", "--longest", "90", "--pairs", "100"], "--longest 90: expected sentences of"),
        (["positions", "--languages", "en-de"], "go with a text of your own"),
        (["smoothing", "--preset", "tinny"], "there is no preset tinny. Did you mean tiny?"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(
    cli: CommandLine, tmp_path: Path, arguments: list[str], error: str
) -> None:
    assert error in cli("paper", *arguments, "--out", tmp_path / "out").error


@pytest.mark.parametrize("name", ["experiment.json", "config.json"])
def test_the_folder_of_a_table_or_a_run_is_refused_and_unchanged(
    cli: CommandLine, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    error = cli("paper", "smoothing", "--out", tmp_path).error
    assert error == f"{tmp_path} holds something else ({name}): choose another folder"
    assert [path.name for path in tmp_path.iterdir()] == [name]
