"""What is saved is loaded bit for bit, or refused; averages are the paper's."""

import itertools
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from interrupted_writes import leave_unfinished
from safetensors.torch import save_file
from torch import Tensor

import hostile_files
from models import small_model
from transduce.checkpoints.checkpoint import (
    average,
    average_checkpoints,
    load_model,
    load_moments,
    load_tensors,
    load_weights,
    prune,
    save_checkpoint,
    save_model,
    save_tensors,
    set_random_states,
    weights_of,
)
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadRun
from transduce.model.transformer import Transformer
from transduce.runs.arrays import KEY
from transduce.runs.folder import RunConfig, checkpoints, last_checkpoint
from transduce.system.files import write_checksummed, write_json
from transduce.training.optimizer import adam

CPU = torch.device("cpu")
TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).view(2, 3),
    "half": torch.tensor([1.5, -0.0, float("inf"), float("nan")], dtype=torch.float16),
    "count": torch.tensor(7),
    "random": torch.arange(5, dtype=torch.uint8),
    "nothing": torch.empty(0, 4),
}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Compare names, types, shapes and bits."""
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].contiguous().flatten().view(torch.uint8).tolist()
        == right[name].contiguous().flatten().view(torch.uint8).tolist()
        for name in left
    )


def refused_or_harmless(path: Path, expected: dict[str, Tensor]) -> bool:
    """Tell whether a file is refused; if not, it must hold what was written."""
    try:
        found = load_tensors(path)
    except BadRun as error:
        complaint = str(error)
    else:
        assert same(found, expected)
        return False
    assert complaint.startswith(f"{path} is damaged")
    assert "\n" not in complaint
    return True


def write_checkpoint(run: Path, step: int, value: float = 0.0, *, scheduled: bool = True) -> None:
    weights = {"w": torch.full((2, 2), value), "count": torch.tensor(step)}
    save_checkpoint(
        run, step, scheduled=scheduled, weights=weights, optimizer={}, state={"step": step}
    )


def written(run: Path) -> list[str]:
    return [one.path.name for one in checkpoints(run)]


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


def test_tensors_are_loaded_as_they_were_saved(tmp_path: Path) -> None:
    save_tensors(tmp_path / "file.safetensors", TENSORS)
    assert same(load_tensors(tmp_path / "file.safetensors"), TENSORS)
    assert [path.name for path in tmp_path.iterdir()] == ["file.safetensors"]


def test_equal_tensors_make_equal_files(tmp_path: Path) -> None:
    one, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    save_tensors(one, TENSORS)
    copies = {name: tensor.clone() for name, tensor in reversed(TENSORS.items())}
    transposed = {"a": copies["a"].T.contiguous().T}  # the same values, laid out otherwise
    save_tensors(other, copies | transposed)
    assert one.read_bytes() == other.read_bytes()


def test_a_flipped_byte_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    save_tensors(path, TENSORS)
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= (0x01, 0x20, 0xFF)[place % 3]
        path.write_bytes(changed)
        refused += refused_or_harmless(path, TENSORS)
    assert refused > 0.97 * len(whole)


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    save_tensors(path, TENSORS)
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        assert refused_or_harmless(path, TENSORS)
    path.write_bytes(whole + b"\0")
    assert refused_or_harmless(path, TENSORS)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "other.safetensors"
    path.write_bytes(content)
    assert refused_or_harmless(path, {})


@pytest.mark.parametrize(
    "note", [None, {}, {KEY: "{}"}, {KEY: "null"}, {KEY: "{"}, {"format": "pt"}]
)
def test_a_safetensors_file_of_something_else_is_refused(
    tmp_path: Path, note: dict[str, str] | None
) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "model.safetensors", metadata=note)
    with pytest.raises(BadRun, match=str(tmp_path / "model.safetensors")):
        load_tensors(tmp_path / "model.safetensors")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=f"^{tmp_path / 'w.safetensors'} is missing$"):
        load_tensors(tmp_path / "w.safetensors")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").mkdir()
    with pytest.raises((BadRun, OSError), match=r"w\.safetensors"):
        load_tensors(tmp_path / "w.safetensors")


def test_a_failure_while_saving_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, TENSORS)

    def fail(tensors: Any, beside: Path, **named: Any) -> None:
        beside.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transduce.checkpoints.checkpoint.save_file", fail)
    with pytest.raises(OSError, match="No space left"):
        save_tensors(path, {"a": torch.zeros(1)})
    assert same(load_tensors(path), TENSORS)
    assert [one.name for one in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022, 0o002])
@pytest.mark.parametrize("folder", [0o755, 0o700, 0o1777])
def test_a_saved_file_has_the_permissions_that_the_umask_gives(
    folder: int, mask: int, tmp_path: Path
) -> None:
    tmp_path.chmod(folder)
    before = os.umask(mask)
    try:
        save_tensors(tmp_path / "file.safetensors", TENSORS)
        write_checkpoint(tmp_path, 5)
    finally:
        os.umask(before)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(found) == 4
    assert {path.stat().st_mode & 0o777 for path in found} == {0o666 & ~mask}
    assert (tmp_path / "checkpoints").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "checkpoints" / "step-0000005").stat().st_mode & 0o777 == 0o777 & ~mask


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_a_tied_matrix_is_stored_once_and_tied_again_when_loaded(
    tie: str, matrices: int, tmp_path: Path
) -> None:
    model, path = small_model(tie=tie), tmp_path / "model.safetensors"
    save_tensors(path, weights_of(model))
    stored = load_tensors(path)
    shape = (model.config.target_vocabulary, model.config.d_model)
    assert sum(tensor.shape == shape for tensor in stored.values()) == matrices
    other = small_model(seed=1, tie=tie)
    load_weights(other, stored, path)
    three = [other.source_embedding.matrix, other.target_embedding.matrix, other.output]
    assert len({matrix.data_ptr() for matrix in three}) == matrices
    assert same(weights_of(other), weights_of(model))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_every_weight_of_a_model_is_stored(positions: str, tmp_path: Path) -> None:
    model = small_model(positions=positions, attention_bias=True)
    save_tensors(tmp_path / "w.safetensors", weights_of(model))
    stored = load_tensors(tmp_path / "w.safetensors")
    count = sum(parameter.numel() for parameter in model.parameters())
    assert sum(tensor.numel() for tensor in stored.values()) == count


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    model = small_model()
    before = {name: tensor.detach().clone() for name, tensor in weights_of(model).items()}
    path = tmp_path / "model.safetensors"
    lacking = {
        name: tensor for name, tensor in before.items() if name != "encoder.0.after_self.norm.bias"
    }
    for tensors, complaint in (
        (lacking, "it lacks encoder.0.after_self.norm.bias"),
        (before | {"pooler": torch.zeros(1)}, "it has an unknown tensor pooler"),
        (weights_of(small_model(d_ff=128)), r"is \(128, 32\), expected \(64, 32\)"),
        (weights_of(small_model(N=3)), "it has an unknown tensor decoder.2"),
    ):
        with pytest.raises(
            BadRun, match=f"^{path} does not fit the model of config.json: .*{complaint}"
        ):
            load_weights(model, tensors, path)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused_by_name(bad: float, tmp_path: Path) -> None:
    model, path = small_model(), tmp_path / "model.safetensors"
    before = {name: tensor.detach().clone() for name, tensor in weights_of(model).items()}
    name = "decoder.1.feed_forward.W_2.weight"
    broken = before | {name: before[name].clone()}
    broken[name][3, 5] = bad
    with pytest.raises(BadRun, match=f"^{path} cannot be used: the tensor {name} holds values"):
        load_weights(model, broken, path)
    assert same(weights_of(model), before)
    huge = before | {name: torch.full_like(before[name], 3e38)}  # finite, though their sum is not
    load_weights(model, huge, path)


def test_an_average_is_taken_in_float32() -> None:
    bfloat = [torch.tensor([256.0 if i == 0 else 1.0], dtype=torch.bfloat16) for i in range(5)]
    half = [torch.tensor([60_000.0], dtype=torch.float16) for _ in range(5)]
    mean = average([{"b": b, "h": h} for b, h in zip(bfloat, half, strict=True)])
    assert mean["b"].dtype == torch.bfloat16
    assert mean["b"].item() == 52.0  # in bfloat16 256 + 1 is 256, and the mean 51.25
    assert mean["h"].dtype == torch.float16
    assert mean["h"].item() == 60_000.0  # in float16 the sum is infinite


def test_an_average_is_the_mean_of_all() -> None:
    draws = [{"w": torch.randn(3, 4), "v": torch.randn(2)} for _ in range(7)]
    mean = average(draws)
    for name in ("w", "v"):
        expected = torch.stack([one[name].double() for one in draws]).mean(0)
        torch.testing.assert_close(mean[name].double(), expected, rtol=0, atol=1e-6)


def test_whole_numbers_are_not_averaged() -> None:
    of = [{"count": torch.tensor(n), "flag": torch.tensor([n > 1])} for n in (1, 2, 9)]
    mean = average(of)
    assert mean["count"].item() == 9
    assert mean["count"].dtype == torch.int64
    assert mean["flag"].tolist() == [True]


def test_averaging_changes_none_of_what_is_averaged() -> None:
    draws = [{"w": torch.randn(3)} for _ in range(2)]
    before = [{"w": one["w"].clone()} for one in draws]
    mean = average(draws)
    mean["w"] += 1
    assert all(same(one, then) for one, then in zip(draws, before, strict=True))
    alone = average(draws[:1])
    assert same(alone, draws[0])
    alone["w"] += 1
    assert same(draws[0], before[0])


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
    assert [one.step for one in checkpoints(tmp_path)] == [15, 20, 100, 1_000_000_000]
    prune(tmp_path, 4)
    prune(tmp_path, 99)
    assert len(checkpoints(tmp_path)) == 4
    prune(tmp_path, 1)
    assert [one.step for one in checkpoints(tmp_path)] == [1_000_000_000]


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


def test_training_goes_on_from_the_newest_and_scheduled_ones_first(tmp_path: Path) -> None:
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


def test_what_is_half_written_is_no_checkpoint(tmp_path: Path) -> None:
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
    state = {"step": 5, "best_loss": 1.25, "place": {"epoch": 1, "batch": 2}}
    save_checkpoint(tmp_path, 5, scheduled=True, weights={}, optimizer=TENSORS, state=state)
    newest = last_checkpoint(tmp_path)
    assert newest is not None
    assert newest.state().items() >= {"format": 1, **state}.items()
    assert same(load_tensors(newest.path / "optimizer.safetensors"), TENSORS)
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
    assert same(weights_of(found), weights_of(model))
    assert not found.training


def test_a_finished_run_translates_with_its_model(
    unfinished: tuple[Path, RunConfig, Transformer],
) -> None:
    run, config, _ = unfinished
    other = small_model(seed=5)
    save_tensors(run / "model.safetensors", weights_of(other))
    found, which = load_model(run, config, CPU)
    assert which == config.weights
    assert same(weights_of(found), weights_of(other))


def test_a_run_without_weights_says_so(unfinished: tuple[Path, RunConfig, Transformer]) -> None:
    run, config, _ = unfinished
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(BadRun, match=f"{run} has no weights yet: train it further"):
        load_model(run, config, CPU)


def test_the_settings_of_a_run_survive(tmp_path: Path) -> None:
    config = RunConfig(
        model=ModelConfig(N=2, positions="learned"),
        train=TrainConfig(steps=7, seconds=1.5, select="best"),
        search=SearchConfig(beam=9, alpha=0.0),
        languages=("en", "de"),
        preset="small",
        device="cuda",
        weights="mean of the checkpoints at steps 5, 7",
        versions={"torch": "9.9"},
    )
    config.save(tmp_path)
    assert RunConfig.load(tmp_path) == config


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=f"there is no run folder {tmp_path / 'run'}"):
        RunConfig.load(tmp_path / "run")
    with pytest.raises(BadRun, match=f"{tmp_path} is not a run folder: it has no config.json$"):
        RunConfig.load(tmp_path)
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "config.json", {})
    with pytest.raises(BadRun, match=f"; one of those in it is {tmp_path / 'run'}$"):
        RunConfig.load(tmp_path)


def test_settings_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"model_type": "marian", "d_model": 512})
    with pytest.raises(BadRun, match=f"^{path} is not a file of settings"):
        RunConfig.load(tmp_path)
    write_checksummed(path, {"format": 99})
    with pytest.raises(BadRun, match=f"^{path} has format 99: expected 1"):
        RunConfig.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"N": 6, "d_modl": 3}},
        {"model": {"N": "six"}},
        {"model": {"d_model": 7}},
        {"train": None},
        {"search": {"beam": 0}},
        {"languages": ["en"]},
        {"languages": 5},
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    RunConfig(model=ModelConfig(), train=TrainConfig()).save(tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_bytes())
    del content["sha256"]
    write_checksummed(path, content | change)
    with pytest.raises(BadRun, match=f"^{path} is damaged: "):
        RunConfig.load(tmp_path)
    del content[next(iter(change))]
    write_checksummed(path, content)
    with pytest.raises(BadRun, match=f"^{path} is damaged: "):
        RunConfig.load(tmp_path)


def test_changed_settings_are_noticed(tmp_path: Path) -> None:
    RunConfig(model=ModelConfig(), train=TrainConfig()).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"N": 6', '"N": 5'))
    with pytest.raises(BadRun, match=f"^{path} is damaged: its content does not agree"):
        RunConfig.load(tmp_path)


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
    with pytest.raises(BadRun, match="is damaged or of another checkpoint than"):
        other.verified(part)


def test_a_checkpoint_of_a_stranger_is_refused_in_one_sentence(tmp_path: Path) -> None:
    tensors = {"w": torch.ones(2)}
    save_checkpoint(tmp_path, 5, scheduled=True, weights=tensors, optimizer=tensors, state={})
    (one,) = checkpoints(tmp_path)
    hostile_files.reseal(one.path / "state.json", owns=[])
    with pytest.raises(BadRun, match=r"state\.json is damaged: owns is \[\]: expected an object"):
        one.verified("weights.safetensors")
    path = one.path / "optimizer.safetensors"
    with pytest.raises(BadRun, match="it holds no random state"):
        set_random_states(tensors, CPU, path)
    model = torch.nn.Linear(2, 3)
    weights = weights_of(model)
    optimizer = adam(model, TrainConfig())
    with pytest.raises(BadRun, match=r"exp_avg.weight is \(2,\), expected \(3, 2\)"):
        load_moments(optimizer, weights, {"exp_avg.weight": torch.ones(2)}, path)


def test_weights_of_another_run_are_refused_and_older_runs_know_nothing_of_it(
    unfinished: tuple[Path, RunConfig, Transformer],
) -> None:
    run, config, model = unfinished
    save_model(run, config, weights_of(model), "these")
    load_model(run, RunConfig.load(run), CPU)
    save_tensors(run / "model.safetensors", weights_of(small_model(seed=5)))
    with pytest.raises(BadRun, match=r"model\.safetensors is damaged or of another run"):
        load_model(run, RunConfig.load(run), CPU)
    content = json.loads((run / "config.json").read_bytes())
    older = {k: v for k, v in content.items() if k not in ("sha256", "identity", "owns")}
    write_checksummed(run / "config.json", older)
    load_model(run, RunConfig.load(run), CPU)


def test_a_run_translates_whenever_the_replacing_of_its_weights_is_killed(
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
