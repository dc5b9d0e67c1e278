"""The study of initial weights trains every combination and prints one table."""

import json
import math
from pathlib import Path

import init_study
import pytest
from conftest import TINY, threads_kept
from init_study import Outcome, table


def test_every_condition_and_scheme_has_a_row(
    tiny_files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [f"--set={name}={value}" for name, value in TINY.items() if name != "steps"]
    with threads_kept():
        init_study.main(
            [
                *(*map(str, tiny_files), "--corpus", str(tmp_path / "corpus"), *sizes),
                *("--condition", "lr_scale=1", "--condition", "lr_scale=2,clip=1"),
                *("--inits", "xavier,admin", "--seeds", "2", "--steps", "3", "--every", "2"),
                *("--device", "cpu", "--out", str(tmp_path / "curves.jsonl")),
            ]
        )
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| lr_scale")]
    assert [row.split(" | ")[:3] for row in rows] == [
        [f"| {condition}", init, "2"]
        for condition in ("lr_scale=1", "lr_scale=2,clip=1")
        for init in ("xavier", "admin")
    ]
    curves = [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()]
    assert len(curves) == 8
    assert all(curve["steps"] == [2, 3] for curve in curves)
    assert len({curve["nll"][-1] for curve in curves}) == 8  # each setting had an effect


def test_runs_that_never_find_the_source_or_diverge_are_counted() -> None:
    def outcome(seed: int, nll: list[float], source_use: list[float]) -> Outcome:
        steps = [10, 20, 30]
        return Outcome(
            condition="lr_scale=2", init="small", seed=seed,
            steps=steps, nll=nll, source_use=source_use,
        )  # fmt: skip

    outcomes = [
        outcome(1, [5.0, 4.0, 3.0], [0.1, 0.7, 0.9]),
        outcome(2, [5.0, 4.0, 4.2], [0.0, 0.0, 0.1]),
        outcome(3, [5.0, 4.0, 4.6], [0.0, 0.6, 0.0]),
    ]
    assert [each.found_at for each in outcomes] == [20, math.inf, 20]
    assert [each.diverged for each in outcomes] == [False, False, True]
    assert table(outcomes)[-1] == (
        "| lr_scale=2 | small | 3 | 20; 1 | 3.933 (3.000 to 4.600) | 0.33 (0.00 to 0.90) | 1 |"
    )
