"""The learning rates that runs recorded are those of Eq. 3 and their settings."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fake_runs import training as trained_rows
from fake_runs import write_run
from transduce.config import ModelConfig, TrainConfig
from transduce.experiments.training_rates import (
    Recorded,
    departures,
    describe_agreement,
    equation_3,
    rates_of,
)
from transduce.training.optimizer import learning_rate

D_MODEL = ModelConfig().d_model  # of the runs that tests write


def recorded(folder: Path, rates: dict[int, float], **settings: Any) -> Recorded:
    """Return a run whose log has these learning rates, by step."""
    rows = trained_rows(*rates)
    for row in rows:
        row["learning_rate"] = rates[int(row["step"])]
    write_run(folder, rows, **settings)
    return Recorded.read(folder, "run")


def test_recorded_rates_are_those_of_equation_3_and_the_settings(recorded_run: Path) -> None:
    """Paper 5.3: the recorded rate of every step, with lr_scale and a cooldown."""
    rates = rates_of(Recorded.read(recorded_run, "run"))
    assert [rate.step for rate in rates] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [rate.deviation for rate in rates] == [0.0] * 8
    alone = [equation_3(step, 16, 4) for step in range(1, 9)]
    assert [rate.recorded / eq3 for rate, eq3 in zip(rates, alone, strict=True)] == pytest.approx(
        [0.5] * 5 + [0.5 * 0.75, 0.5 * 0.5, 0.5 * 0.25]
    )
    text = describe_agreement({"run": rates})
    assert "are those computed from the settings, exactly, at 8 recorded steps" in text


def test_a_wrong_record_is_reported_with_its_step(recorded_run: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(recorded_run, wrong)
    lines = [json.loads(line) for line in (wrong / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if line["step"] == 3 and "learning_rate" in line:
            line["learning_rate"] *= 1.01
    (wrong / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rates = rates_of(Recorded.read(wrong, "wrong"))
    assert [rate.step for rate in rates if rate.deviation > 1e-6] == [3]
    text = describe_agreement(
        {"right": rates_of(Recorded.read(recorded_run, "right")), "wrong": rates}
    )
    assert "are not those computed from the settings at 1 of 16 recorded steps" in text
    assert "in wrong at step 3" in text
    assert "1.0% apart" in text


def test_a_cooldown_by_time_is_compared_within_the_recorded_times(tmp_path: Path) -> None:
    config = TrainConfig(seconds=100, cooldown=1.0, warmup=10)
    done = {20: 0.095, 40: 0.19, 60: 0.29}  # 0.5 s for each step
    rates = {step: learning_rate(step, D_MODEL, config, part) for step, part in done.items()}
    limits = {"steps": None, "seconds": 100.0, "cooldown": 1.0, "warmup": 10}
    right = rates_of(recorded(tmp_path / "right", rates, **limits))
    assert [rate.deviation for rate in right] == [0.0] * 3
    assert all(rate.low < rate.high for rate in right)
    assert "the recorded times leave up to 12.5% open" in describe_agreement({"run": right})
    wrong = rates | {60: learning_rate(60, D_MODEL, config, 0.35)}  # later than recorded
    deviations = [each.deviation for each in rates_of(recorded(tmp_path / "w", wrong, **limits))]
    assert deviations[:2] == [0.0, 0.0]
    assert deviations[2] > 0.01


def test_every_departure_from_equation_3_is_named() -> None:
    assert departures(TrainConfig()) == []
    config = TrainConfig(
        lr_scale=2.0, ramp=100, schedule="constant", cooldown=0.3, residual_lr=0.25
    )
    names = [sentence.split(" ")[0] for sentence in departures(config)]
    assert names == ["lr_scale", "ramp", "schedule", "cooldown", "residual_lr"]
    assert departures(TrainConfig(optimizer="muon")) == ["the optimizer is muon, not Adam"]
