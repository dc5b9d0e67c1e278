"""Settings chosen by measurement: averaged weights, CPU threads, warm-up."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import TINY, threads_kept, tiny_pairs, write_pairs

from transduce.checkpoints.checkpoint import average_checkpoints, load_tensors
from transduce.checkpoints.selection import select_weights
from transduce.config import TrainConfig
from transduce.errors import BadSetting
from transduce.presets import PRESETS
from transduce.runs.folder import RunConfig, checkpoints
from transduce.runs.state import State
from transduce.system.processes import thread_counts
from transduce.system.progress import Silent
from transduce.training import pacing
from transduce.training import train as training
from transduce.training.gradient import GradientStep
from transduce.training.optimizer import fit_ramp, learning_rate

SETTINGS = TINY | {"select": "auto", "steps": "20", "save_every": "5"}


class Recorder(Silent):
    """Keeps the printed lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threads_kept():
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    source, target = write_pairs(tmp_path_factory.mktemp("text"), "train", tiny_pairs(200))
    return source, target


def train(
    files: tuple[Path, Path], out: Path, progress: Silent | None = None, **changes: str | None
) -> RunConfig:
    """Train a tiny model; a change to None leaves a setting to be chosen."""
    settings = {name: value for name, value in (SETTINGS | changes).items() if value is not None}
    training.train(
        *files, out=out, preset="tiny", settings=settings, device="cpu", progress=progress
    )
    return RunConfig.load(out)


@pytest.fixture(scope="module")
def short_run(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 steps, with checkpoints at 5, 10, 15 and 20."""
    out = tmp_path_factory.mktemp("short") / "run"
    with threads_kept():
        train(files, out)
    return out


def test_a_short_run_keeps_the_weights_that_validate_best_and_reports_it(short_run: Path) -> None:
    last = load_tensors(checkpoints(short_run)[-1].path / "weights.safetensors")
    model = load_tensors(short_run / "model.safetensors")
    assert all(torch.equal(model[name], last[name]) for name in last)
    words = RunConfig.load(short_run).weights
    chosen, _, compared = words.partition(", by validation loss (means of the last ")
    assert chosen == "checkpoint at step 20"
    counts, _, values = compared.removesuffix(")").partition(" checkpoints: ")
    losses = [float(value) for value in values.split(", ")]
    assert counts == "1, 2, 3, 4"
    assert len(losses) == 4
    assert losses == sorted(losses)


@pytest.mark.parametrize("best", [1, 2, 3, 4])
def test_the_candidate_with_the_lowest_loss_is_chosen(short_run: Path, best: int) -> None:
    wanted, _ = average_checkpoints(short_run, best)

    def loss(tensors: dict[str, torch.Tensor]) -> float:
        return float(sum((tensors[name] - wanted[name]).abs().sum() for name in wanted))

    found, words = select_weights(short_run, TrainConfig(average=5), State(step=20), loss, {})  # type: ignore[arg-type]
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert ("mean of" in words) is (best > 1)


def test_checkpoints_of_the_last_tenth_of_a_run_are_averaged_without_validation(
    short_run: Path, tmp_path: Path
) -> None:
    """The paper's base model: five checkpoints of 1,000 steps each, of 100,000 steps."""
    for old, new in zip(checkpoints(short_run), (96_000, 97_000, 98_000, 100_000), strict=True):
        shutil.copytree(old.path, tmp_path / "checkpoints" / f"step-{new:07}")

    def refuse(_: object) -> float:
        raise AssertionError("nothing needs to be measured")

    _, words = select_weights(tmp_path, TrainConfig(), State(step=100_000), refuse, {})
    assert words == "mean of the checkpoints at steps 96,000, 97,000, 98,000, 100,000"


def test_select_average_takes_the_mean_however_short_the_run(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    config = train(files, tmp_path / "run", select="average")
    assert config.weights == "mean of the checkpoints at steps 5, 10, 15, 20"


def slow_with_two_threads(gradient_step: object, sentences: object) -> float:
    return 1.0 if torch.get_num_threads() > 1 else 0.1


def test_the_fastest_number_of_threads_is_measured_stored_and_reported(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "thread_counts", lambda: [2, 1])
    monkeypatch.setattr(pacing, "_timed", slow_with_two_threads)
    monkeypatch.setattr(pacing, "PAUSE", 0.0)
    recorder = Recorder()
    config = train(files, tmp_path / "run", recorder, threads=None)
    assert config.train.threads == 1
    assert any("with 1 thread; " in line and line.endswith(": 1 chosen") for line in recorder.lines)
    monkeypatch.setattr(pacing, "thread_counts", lambda: pytest.fail("measured again"))
    assert train(files, tmp_path / "run", steps="22", threads=None).train.threads == 1


def test_a_number_of_threads_that_is_set_is_not_measured(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "measure_threads", lambda *_: pytest.fail("measured"))
    assert train(files, tmp_path / "run", threads="1", steps="2").train.threads == 1


def test_a_deterministic_run_does_not_measure_threads(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of threads changes the bits, and a measurement may end either way."""
    monkeypatch.setattr(pacing, "thread_counts", lambda: [2, 1])
    monkeypatch.setattr(pacing, "measure_threads", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(pacing, "cores", lambda: 1)
    run = train(files, tmp_path / "run", threads=None, deterministic="true", steps="2")
    assert run.train.threads == 1


def test_thread_counts_halve_down_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("transduce.system.processes.cores", lambda: 12)
    assert thread_counts() == [12, 6, 3, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr("transduce.system.processes.cores", lambda: 3)
    assert thread_counts() == [3]


def test_measured_passes_change_nothing_that_is_learned(
    files: tuple[Path, Path], short_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "thread_counts", lambda: [1, 1])  # really measured, and equal
    train(files, tmp_path / "run", threads=None)
    for ours, plain in zip(checkpoints(tmp_path / "run"), checkpoints(short_run), strict=True):
        weights = load_tensors(plain.path / "weights.safetensors")
        found = load_tensors(ours.path / "weights.safetensors")
        assert all(torch.equal(found[name], weights[name]) for name in weights)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == len((short_run / "metrics.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("cap", "steps", "expected"),
    [(0.25, 150, 37), (0.25, 1600, None), (0.25, 2, 1), (1, 150, None)],
)
def test_the_rate_rises_in_at_most_a_quarter_of_a_run_to_the_same_peak(
    cap: float, steps: int, expected: int | None
) -> None:
    before = TrainConfig(warmup=400, warmup_cap=cap)
    after = fit_ramp(before, steps)
    assert after.ramp == expected
    peak = learning_rate(400, 512, before)
    assert learning_rate(after.ramp or 400, 512, after) == pytest.approx(peak)
    assert learning_rate(400, 512, after) == pytest.approx(peak)
    rates = [learning_rate(step, 512, after) for step in range(1, 600)]
    assert max(rates) == pytest.approx(peak)
    for step in (401, 599):  # with more steps, a run continues by Eq. 3
        assert learning_rate(step, 512, after) == learning_rate(step, 512, before)


def test_the_papers_presets_with_nothing_set_keep_their_warm_up() -> None:
    for name in ("base", "big", "tiny", "small"):
        config = PRESETS[name].train
        assert config.steps is not None
        assert fit_ramp(config, config.steps) == config


def test_a_run_shorter_than_its_warm_up_gets_a_shorter_one(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    recorder = Recorder()
    config = train(files, tmp_path / "run", recorder)
    assert (config.train.ramp, config.train.warmup) == (5, 400)  # a quarter of 20 steps
    messages = "\n".join(recorder.lines)
    assert "warm-up 5 steps instead of 400, because the run has about 20" in messages
    assert "warning: about 20 steps are too few to learn to translate" in messages
    assert (
        train(files, tmp_path / "run", steps="25").train.ramp == 5
    )  # a resumed run keeps its warm-up


def test_epochs_count_as_planned_steps(files: tuple[Path, Path], tmp_path: Path) -> None:
    config = train(files, tmp_path / "run", steps=None, epochs="2")
    steps = checkpoints(tmp_path / "run")[-1].step
    assert config.train.ramp == max(1, steps // 4)


def test_a_time_budget_is_turned_into_steps_by_the_measured_speed(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "measure_step", lambda _: 0.009)
    config = train(files, tmp_path / "run", steps=None, seconds="1")
    assert config.train.ramp == 25  # a quarter of 0.9 s / 0.009 s


def test_the_measured_step_is_about_the_time_that_a_step_takes(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[float] = []
    real = pacing.measure_step

    def measure(gradient_step: GradientStep) -> float:
        measured.append(real(gradient_step))
        return measured[-1]

    monkeypatch.setattr(pacing, "measure_step", measure)
    train(files, tmp_path / "run", steps=None, seconds="1")
    steps = checkpoints(tmp_path / "run")[-1].step
    assert 0.1 < measured[0] * steps < 3  # of one second


def test_a_warm_up_that_is_set_stays_with_a_warning(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    recorder = Recorder()
    config = train(files, tmp_path / "run", recorder, warmup="30")
    assert (config.train.warmup, config.train.ramp) == (30, None)
    assert any("within its warm-up of 30, and learns next to nothing" in x for x in recorder.lines)


def test_a_warm_up_cap_must_be_a_fraction() -> None:
    with pytest.raises(BadSetting, match=r"warmup_cap = 1.5: expected a fraction above 0"):
        TrainConfig(warmup_cap=1.5)
