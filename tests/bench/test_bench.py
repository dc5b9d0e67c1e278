"""`transduce bench train`: rounds, ratios, tables and JSON."""

import contextlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import CommandLine, options, threads_kept

from transduce.bench import hardware, training
from transduce.bench import workers as bench_workers
from transduce.bench.hardware import processor
from transduce.bench.results import Comparison, Measured, report
from transduce.bench.training import OurTrainer
from transduce.bench.workers import (
    WARM_UP,
    Round,
    Saving,
    Started,
    StepTokens,
    measure,
    measure_saving,
    start,
)
from transduce.presets import find_preset
from transduce.runs.folder import checkpoints

TINY = {
    "N": "2",
    "d_model": "16",
    "d_ff": "32",
    "h": "2",
    "d_k": "8",
    "d_v": "8",
    "batch_tokens": "300",
    "threads": "1",
}


QUICK = ["--steps", "2", "--rounds", "2", "--vocabulary", "300", "--device", "cpu"]


@dataclass(frozen=True)
class Measurement:
    """One real run of the command, shared by the tests."""

    comparison: Comparison
    output: str
    corpus: Path


@pytest.fixture(scope="module", autouse=True)
def quick_product() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(256, "float32", 1, 3))
        yield


@pytest.fixture(scope="module")
def measurement(
    tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, quick_product: None
) -> Measurement:
    from transduce.cli import main

    corpus = tmp_path_factory.mktemp("bench") / "corpus"
    command = ["transduce", "bench", "train", *map(str, tiny_files), *options(TINY), *QUICK]
    command += ["--peer", "huggingface", "--peer", "torch", "--corpus", str(corpus)]
    compare, stored, output = training.compare, [], io.StringIO()

    def keeping(*arguments: Any, **named: Any) -> list[Comparison]:
        stored.extend(compare(*arguments, **named))
        return stored

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(training, "compare", keeping)
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit, match="0"):
            main()
    (comparison,) = stored
    return Measurement(comparison, output.getvalue(), corpus)


@pytest.fixture
def as_json(
    measurement: Measurement, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Any]:
    """Return the output of --json for this many presets."""

    def written(presets: int) -> Any:
        result = [measurement.comparison] * presets
        monkeypatch.setattr(training, "compare", lambda *_, **__: result)
        return json.loads(cli("bench", "train", "text.en", "text.de", "--json").stdout)

    return written


def cells(label: str, text: str) -> list[str]:
    """Return the cells of the row of a table that begins with a label."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{label}  "))
    return [cell.strip() for cell in line.removeprefix(label).split("  ") if cell.strip()]


def speed(label: str, text: str) -> float:
    return float(cells(label, text)[0].replace(",", ""))


def side(name: str, *seconds: float, **changes: Any) -> Measured:
    """Return a side with 100 target tokens in each round of two steps."""
    seen = StepTokens(target_tokens=100, source_tokens=80, places_source=100, places_target=200)
    whole: dict[str, Any] = {
        "name": name,
        "model": find_preset("tiny").model,
        "started": Started(1, "float32", "by hand", 1.5),
        "rounds": tuple(Round(2, item, seen, peak_memory=5) for item in seconds),
        "matrix_rate": 1e9,
    }
    return Measured(**(whole | changes))


def test_the_command_prints_a_row_for_each_side_and_its_ratio(measurement: Measurement) -> None:
    # The head of the table has no label, and the notes have labels of their own.
    table = measurement.output.partition("\n\n")[0]
    ours = speed("transduce", table)
    for peer in measurement.comparison.peers:
        ratio = speed(f"ratio to {peer.name}", table)
        assert ratio == pytest.approx(ours / speed(peer.name, table), abs=0.01)
        assert f"{peer.started.parameters:,}" == cells(peer.name, table)[-1]
    assert f"torch {torch.__version__}" in measurement.output
    assert f"cpu, 1 thread, {processor()}" in measurement.output
    assert max(map(len, table.splitlines())) <= 120


def test_json_has_the_conditions_of_the_measurement(
    as_json: Callable[[int], Any],
) -> None:
    result = as_json(1)
    assert [peer["name"] for peer in result["peers"]] == ["huggingface", "torch"]
    for item in (result["ours"], *result["peers"]):
        assert item["lowest"] <= item["target_tokens_per_second"] <= item["highest"]
        assert item["milliseconds_per_step"] > 0
        assert 0 < item["model_flops_utilisation"] < 1
        assert 2**26 < item["peak_memory_bytes"] < 2**34
        assert 0 < item["seconds_to_first_step"] < 100
        assert item["precision"] == result["precision"] == "float32"
        assert len(item["rounds"]) == result["rounds"] == 2
    for peer in result["peers"]:
        assert peer["ratio_lowest"] <= peer["ratio"] <= peer["ratio_highest"]
        assert peer["fill"]["worse"] == min(peer["fill"]["source"], peer["fill"]["target"]) < 1
        assert peer["path"] == "padded, float32"
    assert result["ours"]["fill"] == {"source": 1, "target": 1, "worse": 1}
    assert (result["steps"], result["warm_up"]) == (2, WARM_UP)
    assert (result["model"]["d_model"], result["train"]["batch_tokens"]) == (16, 300)
    assert {"device", "processor", "cores", "threads", "matrix"} <= result["machine"].keys()
    assert {"torch", "transformers", "transduce"} <= result["machine"]["versions"].keys()


def test_the_json_of_several_presets_is_a_list(as_json: Callable[[int], Any]) -> None:
    assert as_json(2) == [as_json(1)] * 2


def test_every_side_learns_from_full_batches(measurement: Measurement) -> None:
    for item in measurement.comparison.sides:
        for result in item.rounds:  # two steps of at most 300 tokens per side
            tokens = result.tokens.source_tokens, result.tokens.target_tokens
            assert all(0 < count <= 2 * 300 for count in tokens)
            assert max(tokens) > 200


def test_the_peers_have_our_shape_except_for_biases_of_projections(
    measurement: Measurement,
) -> None:
    attentions = 2 + 2 * 2  # one in each layer of the encoder, two in each of the decoder
    biases = attentions * 4 * 16
    comparison = measurement.comparison
    for peer in comparison.peers:
        assert peer.started.parameters - comparison.ours.started.parameters == biases


def test_our_side_runs_the_steps_of_the_trainer(measurement: Measurement, tmp_path: Path) -> None:
    config = measurement.comparison.config
    with threads_kept():
        ours = OurTrainer(config, measurement.corpus, "cpu", tmp_path / "run")
        with ours.trainer.log:
            seen = ours.step()
            ours.save()
    assert [item.step for item in checkpoints(tmp_path / "run")] == [1]
    assert ours.trainer.state.step == 1
    assert ours.trainer.state.window.tokens == seen.target_tokens > 0
    assert seen.places_target >= seen.target_tokens
    assert seen.places_source >= seen.source_tokens > 0


class Counting:
    """A side that records its calls."""

    device, parameters, precision = "cpu", 7, "float32"

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.path = "not yet chosen"
        calls.append("make")

    def prepare(self, steps: int) -> None:
        self.calls.append(f"prepare {steps}")

    def step(self) -> StepTokens:
        self.calls.append("step")
        self.path = "chosen in a step"
        return StepTokens(target_tokens=10, source_tokens=8, places_source=16, places_target=20)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of a side, with every reading of the clock and synchronisation."""
    calls: list[str] = []

    def clock() -> float:
        calls.append("clock")
        return float(len(calls))

    monkeypatch.setattr(
        bench_workers, "synchronise", lambda device: calls.append(f"wait for {device}")
    )
    monkeypatch.setattr("time.perf_counter", clock)
    return calls


def test_the_first_step_is_timed_from_construction_to_synchronisation(
    calls: list[str],
) -> None:
    _, started = start(Counting, calls)
    assert calls == ["clock", "make", "prepare 1", "step", "wait for cpu", "clock"]
    assert started == Started(7, "float32", "chosen in a step", seconds=5)


def test_a_round_warms_up_and_waits_for_the_device_before_it_reads_the_clock(
    calls: list[str],
) -> None:
    result = measure(Counting(calls), 3)
    before = ["make", f"prepare {WARM_UP + 3}", *["step"] * WARM_UP, "wait for cpu", "clock"]
    assert calls == [*before, *["step"] * 3, "wait for cpu", "clock"]
    assert (result.steps, result.tokens, result.seconds) == (3, StepTokens(30, 24, 48, 60), 5)


def test_the_speed_is_the_median_of_the_rounds(measurement: Measurement) -> None:
    slow, fast = side("slow", 1.0, 10.0, 0.5), side("fast", 0.5, 5.0, 0.25)
    facts = slow.to_json()
    assert (facts["target_tokens_per_second"], facts["milliseconds_per_step"]) == (100, 500)
    assert (facts["lowest"], facts["highest"]) == (10, 200)
    comparison = replace(measurement.comparison, ours=fast, peers=(slow,))
    assert comparison.ratio(slow) == 2
    assert comparison.to_json()["peers"][0]["ratio"] == 2


def test_fill_is_the_share_of_real_tokens() -> None:
    result = side("padded", 1.0, 2.0).to_json()["fill"]
    assert result == {"source": 0.8, "target": 0.5, "worse": 0.5}


def test_utilisation_is_the_share_of_the_matrix_rate() -> None:
    """Halving the time doubles it; padding is not in it."""
    once, twice = side("once", 1.0).utilisation, side("twice", 0.5).utilisation
    assert twice == pytest.approx(2 * once)
    assert side("better", 1.0, matrix_rate=2e9).utilisation == pytest.approx(once / 2)
    assert side("R-Drop", 1.0, passes=2).utilisation == pytest.approx(2 * once)
    seen = StepTokens(target_tokens=100, source_tokens=80, places_source=9000, places_target=9000)
    padded = side("padded", rounds=(Round(2, 1.0, seen, 5),))
    assert padded.utilisation == once


def test_several_presets_share_one_table(measurement: Measurement) -> None:
    item = replace(measurement.comparison, peers=())
    other = replace(item, config=replace(item.config, preset="B-dk16"))
    lines = report([item, other]).splitlines()
    assert lines[1].startswith("small, transduce  ")
    assert lines[2].startswith("B-dk16, transduce  ")
    assert [line.split()[1] for line in lines if line.startswith("model")] == ["small:", "B-dk16:"]


def test_the_cost_of_checkpoints_is_relative_to_save_every(measurement: Measurement) -> None:
    comparison = replace(measurement.comparison, saving=Saving(0.5, 0.02))
    every = comparison.config.train.save_every
    share = 0.5 / (0.5 + every * 0.02)
    assert comparison.saving_share == pytest.approx(share)
    assert comparison.to_json()["saving"]["share_of_time"] == pytest.approx(share, abs=1e-6)
    words = f"{share:.2%} of the time: 500 ms for each checkpoint, every {every:,} steps of 20.0 ms"
    assert words in report([comparison])
    assert measurement.comparison.to_json()["saving"] is None


class Writer(Counting):
    """A side that writes a checkpoint during two more steps."""

    left = 0

    @property
    def writes(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def save(self) -> None:
        self.calls.append("save")
        self.left = 2


def test_steps_during_a_background_save_do_not_count_as_its_cost(
    calls: list[str],
) -> None:
    result = measure_saving(Writer(calls), 4)
    chunk = ["prepare 4", "clock", *["step"] * 4, "wait for cpu", "clock"]
    assert calls[-19:] == ["clock", "save", "clock", *chunk * 2]
    assert result == Saving(checkpoint=2 + 2 * 6 - 8 * 1.5, step=1.5)


def test_without_a_peer_there_is_no_ratio(measurement: Measurement) -> None:
    alone = replace(measurement.comparison, peers=())
    assert alone.to_json()["peers"] == []
    assert "ratio" not in report([alone])
    assert "peers" not in report([alone])
