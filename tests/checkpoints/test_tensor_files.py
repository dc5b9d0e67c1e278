"""Tensors are loaded bit for bit as they were saved, or refused."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from small_tensors import TENSORS, equal_bits
from torch import Tensor

from models import small_model
from transduce.checkpoints.checkpoint import (
    load_tensors,
    load_weights,
    save_checkpoint,
    save_tensors,
    weights_of,
)
from transduce.errors import BadRun
from transduce.runs.arrays import KEY

CPU = torch.device("cpu")


def refused_or_harmless(path: Path, expected: dict[str, Tensor]) -> bool:
    """Return whether a file is refused; if not, its tensors must be the expected ones."""
    try:
        found = load_tensors(path)
    except BadRun as error:
        complaint = str(error)
    else:
        assert equal_bits(found, expected)
        return False
    assert complaint.startswith(f"{path} is damaged")
    assert "\n" not in complaint
    return True


def test_tensors_are_loaded_as_they_were_saved(tmp_path: Path) -> None:
    save_tensors(tmp_path / "file.safetensors", TENSORS)
    assert equal_bits(load_tensors(tmp_path / "file.safetensors"), TENSORS)
    assert [path.name for path in tmp_path.iterdir()] == ["file.safetensors"]


def test_equal_tensors_give_equal_files(tmp_path: Path) -> None:
    first, second = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    save_tensors(first, TENSORS)
    copies = {name: tensor.clone() for name, tensor in reversed(TENSORS.items())}
    transposed = {"a": copies["a"].T.contiguous().T}  # the same values in another memory layout
    save_tensors(second, copies | transposed)
    assert first.read_bytes() == second.read_bytes()


def test_a_flipped_byte_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    save_tensors(path, TENSORS)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= (0x01, 0x20, 0xFF)[position % 3]
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

    def fail(tensors: Any, path: Path, **named: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transduce.checkpoints.checkpoint.save_file", fail)
    with pytest.raises(OSError, match="No space left"):
        save_tensors(path, {"a": torch.zeros(1)})
    assert equal_bits(load_tensors(path), TENSORS)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022, 0o002])
@pytest.mark.parametrize("folder", [0o755, 0o700, 0o1777])
def test_a_saved_file_has_the_permissions_of_the_umask(
    folder: int, mask: int, tmp_path: Path
) -> None:
    tmp_path.chmod(folder)
    before = os.umask(mask)
    try:
        save_tensors(tmp_path / "file.safetensors", TENSORS)
        save_checkpoint(tmp_path, 5, scheduled=True, weights={}, optimizer={}, state={})
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
    loaded = small_model(seed=1, tie=tie)
    load_weights(loaded, stored, path)
    three = [loaded.source_embedding.matrix, loaded.target_embedding.matrix, loaded.output]
    assert len({matrix.data_ptr() for matrix in three}) == matrices
    assert equal_bits(weights_of(loaded), weights_of(model))


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
    assert equal_bits(weights_of(model), before)
    huge = before | {name: torch.full_like(before[name], 3e38)}  # finite, but their sum is not
    load_weights(model, huge, path)
