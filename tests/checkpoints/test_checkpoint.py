"""Checkpoints are complete or absent; averages are the paper's."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted_writes import leave_unfinished
from small_tensors import TENSORS, equal_bits

import hostile_files
from models import small_model
from transduce.checkpoints.checkpoint import (
    average,
    average_checkpoints,
    load_model,
    load_optimizer_state,
    load_tensors,
    prune,
    save_checkpoint,
    save_model,
    save_tensors,
    set_random_states,
    weights_of,
)
from transduce.config import TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.errors import BadRun
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig, checkpoints, last_checkpoint
from transduce.runs.state import State
from transduce.system.files import write_checksummed
from transduce.training.optimizer import make_optimizer

CPU = torch.device("cpu")


def write_checkpoint(run: Path, step: int, value: float = 0.0, *, scheduled: bool = True) -> None:
    weights = {"w": torch.full((2, 2), value), "count": torch.tensor(step)}
    save_checkpoint(
        run, step, scheduled=scheduled, weights=weights, optimizer={}, state={"step": step}
    )


def written(run: Path) -> list[str]:
    return [checkpoint.path.name for checkpoint in checkpoints(run)]


@pytest.fixture
def unfinished(tmp_path: Path) -> tuple[Path, RunConfig, Transformer]:
    """A run with one checkpoint of a small model and no model.safetensors."""
    model = small_model()
    config = RunConfig(model=model.config, train=TrainConfig())
    config.save(tmp_path)
    save_checkpoint(
        tmp_path, 7, scheduled=True, weights=weights_of(model), optimizer={}, state={"step": 7}
    )
    return tmp_path, config, model


def test_an_average_is_taken_in_float32() -> None:
    bfloat = [torch.tensor([256.0 if i == 0 else 1.0], dtype=torch.bfloat16) for i in range(5)]
    half = [torch.tensor([60_000.0], dtype=torch.float16) for _ in range(5)]
    mean = average([{"b": b, "h": h} for b, h in zip(bfloat, half, strict=True)])
    assert mean["b"].dtype == torch.bfloat16
    assert mean["b"].item() == 52.0  # in bfloat16 256 + 1 is 256, and the mean 51.25
    assert mean["h"].dtype == torch.float16
    assert mean["h"].item() == 60_000.0  # in float16 the sum is infinite


def test_an_average_is_the_mean_of_all_checkpoints() -> None:
    draws = [{"w": torch.randn(3, 4), "v": torch.randn(2)} for _ in range(7)]
    mean = average(draws)
    for name in ("w", "v"):
        expected = torch.stack([weights[name].double() for weights in draws]).mean(0)
        torch.testing.assert_close(mean[name].double(), expected, rtol=0, atol=1e-6)


def test_integer_tensors_are_not_averaged() -> None:
    of = [{"count": torch.tensor(n), "flag": torch.tensor([n > 1])} for n in (1, 2, 9)]
    mean = average(of)
    assert mean["count"].item() == 9
    assert mean["count"].dtype == torch.int64
    assert mean["flag"].tolist() == [True]


def test_averaging_does_not_change_its_inputs() -> None:
    draws = [{"w": torch.randn(3)} for _ in range(2)]
    before = [{"w": weights["w"].clone()} for weights in draws]
    mean = average(draws)
    mean["w"] += 1
    assert all(equal_bits(one, then) for one, then in zip(draws, before, strict=True))
    alone = average(draws[:1])
    assert equal_bits(alone, draws[0])
    alone["w"] += 1
    assert equal_bits(draws[0], before[0])


def test_the_last_scheduled_checkpoints_are_averaged(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        write_checkpoint(tmp_path, step, float(step))
    write_checkpoint(tmp_path, 45, 1000.0, scheduled=False)
    tensors, words = average_checkpoints(tmp_path, 3)
    assert tensors["w"].tolist() == [[30.0, 30.0], [30.0, 30.0]]
    assert words == "mean of the checkpoints at steps 20, 30, 40"
    assert average_checkpoints(tmp_path, 1)[0]["w"].unique().tolist() == [40.0]
    assert average_checkpoints(tmp_path, 99)[1].endswith("steps 10, 20, 30, 40")
    write_checkpoint(tmp_path, 50, 1.0)
    assert average_checkpoints(tmp_path, 99)[1].endswith("steps 10 to 50, every 10")


def test_checkpoints_of_different_models_have_no_average(tmp_path: Path) -> None:
    for step, weights in (
        (1, {"w": torch.zeros(2)}),
        (2, {"w": torch.zeros(3)}),
        (3, {"v": torch.zeros(3)}),
    ):
        save_checkpoint(tmp_path, step, scheduled=True, weights=weights, optimizer={}, state={})
    with pytest.raises(BadRun, match=f"the checkpoints of {tmp_path} are of different models"):
        average_checkpoints(tmp_path, 2)
    shutil.rmtree(tmp_path / "checkpoints" / "step-0000003")
    with pytest.raises(BadRun, match="different models"):
        average_checkpoints(tmp_path, 2)


def test_without_checkpoints_there_is_no_average(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 3, scheduled=False)
    with pytest.raises(BadRun, match=f"{tmp_path} has no checkpoints to average"):
        average_checkpoints(tmp_path, 5)


def test_pruning_keeps_the_last_scheduled_ones(tmp_path: Path) -> None:
    for step in (5, 10, 15, 20, 100, 1_000_000_000):
        write_checkpoint(tmp_path, step)
    prune(tmp_path, 4)
    assert [checkpoint.step for checkpoint in checkpoints(tmp_path)] == [15, 20, 100, 1_000_000_000]
    prune(tmp_path, 4)
    prune(tmp_path, 99)
    assert len(checkpoints(tmp_path)) == 4
    prune(tmp_path, 1)
    assert [checkpoint.step for checkpoint in checkpoints(tmp_path)] == [1_000_000_000]


def test_pruning_keeps_an_interrupted_one_until_a_scheduled_one_follows(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 5)
    write_checkpoint(tmp_path, 7, scheduled=False)
    prune(tmp_path, 1)
    assert written(tmp_path) == ["step-0000005", "step-0000007-interrupted"]
    write_checkpoint(tmp_path, 8, scheduled=False)
    prune(tmp_path, 1)
    assert written(tmp_path) == ["step-0000005", "step-0000008-interrupted"]
    write_checkpoint(tmp_path, 10)
    prune(tmp_path, 1)
    assert written(tmp_path) == ["step-0000010"]


def test_training_resumes_from_the_newest_checkpoint(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    write_checkpoint(tmp_path, 9)
    write_checkpoint(tmp_path, 10, scheduled=False)
    newest = last_checkpoint(tmp_path)
    assert newest is not None
    assert (newest.step, newest.scheduled) == (10, False)
    write_checkpoint(tmp_path, 10)
    newest = last_checkpoint(tmp_path)
    assert newest is not None
    assert (newest.step, newest.scheduled) == (10, True)


def test_a_half_written_folder_is_not_a_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 5)
    folder = tmp_path / "checkpoints"
    shutil.copytree(folder / "step-0000005", leave_unfinished(folder, "step-0000009") / "new")
    shutil.copytree(folder / "step-0000005", folder / "step-0000009.bak")
    assert written(tmp_path) == ["step-0000005"]


def test_a_checkpoint_whose_saving_fails_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, 5)

    def fail(path: Path, content: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transduce.checkpoints.checkpoint.write_checksummed", fail)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(tmp_path, 10)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-0000005"]


def test_a_checkpoint_remembers_its_state(tmp_path: Path) -> None:
    state = State(step=5, best_loss=1.25, position=DataPosition(1, 2)).to_json()
    save_checkpoint(tmp_path, 5, scheduled=True, weights={}, optimizer=TENSORS, state=state)
    newest = last_checkpoint(tmp_path)
    assert newest is not None
    assert newest.state().items() >= {"format": 1, **state}.items()
    assert State.from_json(newest.state()).position == DataPosition(1, 2)
    assert equal_bits(load_tensors(newest.path / "optimizer.safetensors"), TENSORS)
    path = newest.path / "state.json"
    path.write_text(path.read_text().replace("1.25", "1.26"))
    with pytest.raises(BadRun, match=f"^{path} is damaged"):
        newest.state()


def test_a_run_that_has_not_ended_translates_with_its_newest_checkpoint(
    unfinished: tuple[Path, RunConfig, Transformer],
) -> None:
    run, config, model = unfinished
    found, which = load_model(run, config, CPU)
    assert which == "step 7 of a run that has not ended"
    assert equal_bits(weights_of(found), weights_of(model))
    assert not found.training


def test_a_finished_run_translates_with_its_model(
    unfinished: tuple[Path, RunConfig, Transformer],
) -> None:
    run, config, _ = unfinished
    other = small_model(seed=5)
    save_tensors(run / "model.safetensors", weights_of(other))
    found, which = load_model(run, config, CPU)
    assert which == config.weights
    assert equal_bits(weights_of(found), weights_of(other))


def test_a_run_without_weights_says_so(unfinished: tuple[Path, RunConfig, Transformer]) -> None:
    run, config, _ = unfinished
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(BadRun, match=f"{run} has no weights yet: train it further"):
        load_model(run, config, CPU)


def test_a_checkpoint_is_absent_before_the_first_of_its_files_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (5, 10):
        write_checkpoint(tmp_path, step)
    monkeypatch.setattr("transduce.system.files._clean", lambda *_: None)  # killed right here
    prune(tmp_path, 1)
    assert written(tmp_path) == ["step-0000010"]


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_file_of_another_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    for step in (5, 10):
        tensors = {"w": torch.tensor(step)}
        save_checkpoint(
            *(tmp_path, step), scheduled=True, weights=tensors, optimizer=tensors, state={}
        )
    one, other = checkpoints(tmp_path)
    for part in ("weights.safetensors", "optimizer.safetensors"):
        other.verified(part)
    shutil.copy(one.path / name, other.path / name)
    part = "weights.safetensors" if name == "state.json" else name
    with pytest.raises(BadRun, match="is damaged or belongs to another checkpoint than"):
        other.verified(part)


def test_a_checkpoint_with_other_content_is_refused_in_one_sentence(tmp_path: Path) -> None:
    tensors = {"w": torch.ones(2)}
    save_checkpoint(tmp_path, 5, scheduled=True, weights=tensors, optimizer=tensors, state={})
    (one,) = checkpoints(tmp_path)
    hostile_files.reseal(one.path / "state.json", owns=[])
    with pytest.raises(BadRun, match=r"state\.json is damaged: owns is \[\]: expected an object"):
        one.verified("weights.safetensors")
    path = one.path / "optimizer.safetensors"
    with pytest.raises(BadRun, match="it has no valid random state"):
        set_random_states(tensors, CPU, path)
    model = torch.nn.Linear(2, 3)
    weights = weights_of(model)
    optimizer = make_optimizer(model, TrainConfig())
    with pytest.raises(BadRun, match=r"exp_avg.weight is \(2,\), expected \(3, 2\)"):
        load_optimizer_state(optimizer, weights, {"exp_avg.weight": torch.ones(2)}, path)


def test_weights_of_another_run_are_refused_unless_the_run_is_older(
    unfinished: tuple[Path, RunConfig, Transformer],
) -> None:
    run, config, model = unfinished
    save_model(run, config, weights_of(model), "these")
    load_model(run, RunConfig.load(run), CPU)
    save_tensors(run / "model.safetensors", weights_of(small_model(seed=5)))
    with pytest.raises(BadRun, match=r"model\.safetensors is damaged or belongs to another run"):
        load_model(run, RunConfig.load(run), CPU)
    content = json.loads((run / "config.json").read_bytes())
    older = {k: v for k, v in content.items() if k not in ("sha256", "identity", "owns")}
    write_checksummed(run / "config.json", older)
    load_model(run, RunConfig.load(run), CPU)


def test_a_run_translates_after_a_kill_while_its_weights_are_replaced(
    unfinished: tuple[Path, RunConfig, Transformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config, model = unfinished
    save_model(run, config, weights_of(model), "these")
    saved = RunConfig.save
    for at in (1, 2):
        calls = itertools.count(1)

        def save(self: RunConfig, run: Path, at: int = at, calls: Any = calls) -> None:
            if next(calls) == at:
                raise KeyboardInterrupt
            saved(self, run)

        others = weights_of(small_model(seed=at))
        with monkeypatch.context() as patch:
            patch.setattr(RunConfig, "save", save)
            with pytest.raises(KeyboardInterrupt):
                save_model(run, RunConfig.load(run), others, "others")
        load_model(run, RunConfig.load(run), CPU)
