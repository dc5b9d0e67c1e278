"""The log of a run is read while it grows, is rewritten or disappears."""

import json
from pathlib import Path
from typing import Any

import pytest
from fresh_python import libraries_after

from fake_runs import append, samples, training, validation, write_run
from transduce.runs.history import GrowingFile, RunLog, Sample, thin_out
from transduce.runs.metrics import Metrics, Samples


def steps(log: RunLog) -> list[float]:
    return [row["step"] for row in log.training]


def test_a_growing_file_is_read_once_and_a_line_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = GrowingFile(path)
    assert file.read_new() == (False, [])
    path.write_text('{"step": 1}\n{"st')
    assert file.read_new() == (False, [{"step": 1}])
    assert file.read_new() == (False, [])
    with path.open("a") as more:
        more.write('ep": 2}\nnothing\n\n[3]\n{"step": 4}')
    assert file.read_new() == (False, [{"step": 2}])
    with path.open("a") as more:
        more.write("\n")
    assert file.read_new() == (False, [{"step": 4}])


def test_a_character_of_several_bytes_may_be_cut(tmp_path: Path) -> None:
    path, line = tmp_path / "file", '{"text": "schläft\u2028日本"}\n'.encode()
    file = GrowingFile(path)
    for end in range(1, len(line)):
        path.write_bytes(line[:end])
        assert file.read_new()[1] == []
    path.write_bytes(line)
    assert file.read_new() == (False, [{"text": "schläft\u2028日本"}])


@pytest.mark.parametrize("more", [0, 1, 5])
def test_the_log_of_a_resumed_run_is_read_again(more: int, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", training(10, 20, 30))
    log = RunLog(run)
    log.catch_up()
    assert (steps(log), log.restarts) == ([10, 20, 30], 0)
    again = training(*range(20, 20 + 10 * more, 10), loss=8.0)
    with Metrics(run, 10) as metrics:
        for row in again:
            metrics.add(int(row.pop("step")), **row)
    log.catch_up()
    assert steps(log) == [10, *(20 + 10 * i for i in range(more))]
    assert log.restarts == 1
    fresh = RunLog(run)
    fresh.catch_up()
    assert log.training == fresh.training


def test_a_file_rewritten_in_place_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"step": 1, "loss": 5}\n')
    file, inode = GrowingFile(path), path.stat().st_ino
    file.read_new()
    with path.open("r+") as other:
        other.write('{"step": 1, "loss": 4}\n{"step": 2}\n')
    assert path.stat().st_ino == inode
    assert file.read_new() == (True, [{"step": 1, "loss": 4}, {"step": 2}])


def test_another_file_is_recognised_even_with_the_same_end(tmp_path: Path) -> None:
    path, end = tmp_path / "file", json.dumps({"step": 2, "note": "x" * 300}) + "\n"
    path.write_text('{"step": 1, "loss": 5}\n' + end)
    file = GrowingFile(path)
    file.read_new()
    (tmp_path / "beside").write_text('{"step": 1, "loss": 4}\n' + end)
    (tmp_path / "beside").rename(path)
    void, rows = file.read_new()
    assert void
    assert rows[0] == {"step": 1, "loss": 4}


def test_a_run_that_vanishes_leaves_nothing_and_may_come_back(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run", [*training(10), *validation(10)], samples((10, "a", "b", "c"))
    )
    log = RunLog(run)
    log.catch_up()
    for name in ("metrics.jsonl", "samples.jsonl"):
        (run / name).rename(tmp_path / name)
    log.catch_up()
    assert (log.rows, log.samples, log.source, log.last_written) == (([], []), [], [], None)
    (tmp_path / "metrics.jsonl").rename(run / "metrics.jsonl")
    log.catch_up()
    assert steps(log) == [10]
    assert log.restarts == 2


def test_samples_are_dropped_with_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    lines = samples((10, "a", "b", "c"), (20, "d", "e", "f"))
    run = write_run(tmp_path / "run", training(10, 20), lines)
    log = RunLog(run)
    log.catch_up()
    assert log.samples == [Sample(10, ["a", "b", "c"]), Sample(20, ["d", "e", "f"])]
    with (run / "samples.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 25, "out')  # killed
    Samples(run, 10)
    log.catch_up()
    assert log.samples == [Sample(10, ["a", "b", "c"])]
    left = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in left] == lines[:2]


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", training(10))
    append(run / "metrics.jsonl", [{"step": 20, "loss": None}, {"loss": 1.0}])
    wrong: list[dict[str, Any]] = [
        {"step": 1},
        {"step": "x", "outputs": []},
        {"step": 1, "outputs": "abc"},
        {"source": 1},
    ]
    append(run / "samples.jsonl", wrong)
    log = RunLog(run)
    log.catch_up()
    assert (steps(log), log.samples, log.source) == ([10], [], [])


def test_thinned_rows_keep_the_extremes_the_ends_and_the_order() -> None:
    rows = training(*range(10, 100_010, 10))
    rows[4321]["loss"], rows[777]["target_tokens_per_second"] = 99.0, 1.0
    few = thin_out(rows, ("loss", "target_tokens_per_second"), 200)
    assert 50 <= len(few) <= 204
    assert few == sorted(few, key=lambda row: row["step"])
    assert few[0] == rows[0]
    assert few[-1] == rows[-1]
    assert rows[4321] in few
    assert rows[777] in few
    assert thin_out(rows[:200], ("loss",), 200) == rows[:200]


def test_reading_a_log_needs_no_torch() -> None:
    found = libraries_after("import transduce.runs.history")
    assert "torch" not in found


def test_a_line_nested_too_deeply_is_dropped_on_resuming(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n' + "[" * 100_000 + "\n")
    with Metrics(tmp_path, 5):
        pass
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1}\n'
