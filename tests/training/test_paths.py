"""The choice of the training path, and messages about missing features."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import tiny_pairs, write_pairs
from gradient_steps import make_step, on_path
from small_training import Killed, Recorder, records, train_tiny

from models import small_model
from transduce.batching.prefetch import Update
from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadSetting, summarize_error
from transduce.model.ops import kernels
from transduce.model.ops.kernels import Kernels
from transduce.training.gradient import choose_path
from transduce.training.trainer import Trainer


def on_cuda(monkeypatch: pytest.MonkeyPatch, *, bf16: bool = True, **model: Any) -> Any:
    """Return a fake model on a GPU."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    monkeypatch.setattr(kernels, "INSTALLED", True)
    monkeypatch.setattr(kernels, "try_out", lambda *_, **__: None)
    output = SimpleNamespace(device=torch.device("cuda"))
    config = ModelConfig(**model)
    packed = config.attention == "dot-product"
    return SimpleNamespace(output=output, config=config, supports_packed=packed, kernels=Kernels())


def fails(*_: object, **__: object) -> None:
    raise ValueError("ptxas fatal\nno sm_99\n")


def test_on_the_cpu_batches_are_grouped_and_float32() -> None:
    messages: list[str] = []
    for precision in ("auto", "float32"):
        assert choose_path(small_model(), TrainConfig(precision=precision), messages.append) == (
            False,
            "float32",
        )
    assert messages == []
    assert make_step().path == "grouped, float32"


def test_bf16_on_the_cpu_is_refused() -> None:
    with pytest.raises(BadSetting) as caught:
        choose_path(small_model(), TrainConfig(precision="bf16"), print)
    assert str(caught.value) == "precision = 'bf16': expected a CUDA GPU; on cpu it is float32"


def test_on_a_gpu_that_supports_everything_there_is_no_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages: list[str] = []
    model = on_cuda(monkeypatch)
    assert choose_path(model, TrainConfig(), messages.append) == (True, "bf16")
    assert choose_path(model, TrainConfig(precision="bf16"), messages.append) == (True, "bf16")
    assert choose_path(model, TrainConfig(precision="float32"), messages.append) == (
        True,
        "float32",
    )
    assert messages == []
    assert model.kernels.usable(model.output)


def test_kernels_switched_off_by_the_user_give_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    model = on_cuda(monkeypatch)
    found = choose_path(model, TrainConfig(kernels=False), messages.append)
    assert (found, messages) == ((False, "bf16"), [])
    assert not model.kernels.usable(model.output)
    assert choose_path(model, TrainConfig(), messages.append) == (True, "bf16")
    assert model.kernels.usable(model.output), "they are back for the next run"


@pytest.mark.parametrize("settings", [{"attention_dropout": 0.1}, {"attention": "additive"}, {}])
def test_kernels_of_a_model_without_packing_are_tried_too(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels of the loss work without packed batches."""
    messages: list[str] = []
    model = on_cuda(monkeypatch, **settings)
    model.supports_packed = False
    assert choose_path(model, TrainConfig(kernels=False), messages.append) == (False, "bf16")
    assert messages == []
    assert not model.kernels.usable(model.output)
    monkeypatch.setattr(kernels, "try_out", fails)
    assert choose_path(model, TrainConfig(), messages.append) == (False, "bf16")
    assert len(messages) == 1
    assert not model.kernels.usable(model.output)


@pytest.mark.parametrize(
    ("missing", "chosen", "line"),
    [
        (
            "bf16",
            (True, "float32"),
            "Tesla T4 has no bf16: training in float32, slower",
        ),
        (
            "attention without dropout",
            (False, "bf16"),
            "attention_dropout: attention uses torch's kernels, which is slower",
        ),
        (
            "dot products",
            (False, "bf16"),
            "attention = 'additive': attention uses torch's kernels, which is slower",
        ),
        (
            "triton",
            (False, "bf16"),
            "Triton is not installed: torch's kernels are used, which is slower",
        ),
        (
            "compiler",
            (False, "bf16"),
            "our kernels do not work here, torch's are used, which is slower: ValueError: no sm_99",
        ),
    ],
)
def test_a_missing_feature_gives_a_slower_path_and_one_message(
    missing: str, chosen: tuple[bool, str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout = 0.1 if missing == "attention without dropout" else 0.0
    kind = "additive" if missing == "dot products" else "dot-product"
    model = on_cuda(monkeypatch, bf16=missing != "bf16", attention_dropout=dropout, attention=kind)
    if missing == "triton":
        monkeypatch.setattr(kernels, "INSTALLED", False)
    if missing == "compiler":
        monkeypatch.setattr(kernels, "try_out", fails)
    messages: list[str] = []
    assert choose_path(model, TrainConfig(), messages.append) == chosen
    assert messages == [line]
    assert model.kernels.usable(model.output) == (missing not in ("triton", "compiler"))


def test_kernels_are_tried_with_the_sizes_and_the_precision_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []
    model = on_cuda(monkeypatch, h=1, d_k=512)
    monkeypatch.setattr(
        kernels, "try_out", lambda *arguments, training: tried.append((arguments, training))
    )
    choose_path(model, TrainConfig(), print)
    choose_path(model, TrainConfig(precision="float32"), print)
    cuda = torch.device("cuda")
    assert tried == [
        ((model.config, torch.bfloat16, cuda), True),
        ((model.config, torch.float32, cuda), True),
    ]


def test_packed_and_grouped_runs_end_with_the_same_validation_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each update has the whole text, because the layouts divide sentences differently."""
    found = []
    files = write_pairs(tmp_path, "short", tiny_pairs(60))
    for path in ("grouped", "packed"):
        with monkeypatch.context() as patch:
            on_path(patch, path)
            progress = Recorder()
            changes = {"P_drop": "0", "batch_tokens": "2000", "accumulate": "2", "steps": "6"}
            found.append(records(train_tiny(files, tmp_path / path, changes, progress)))
            assert f"computing on cpu: {path}, float32" in progress.lines
    assert len(found[0]) == 4
    for ours, theirs in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4)


def test_a_packed_run_that_was_killed_ends_with_the_same_bits(
    tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, "packed")
    whole = train_tiny(tiny_files, tmp_path / "whole")
    original = Trainer.update

    def dying(self: Trainer) -> Update:
        if self.state.step == 8:
            raise Killed
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(Killed):
            train_tiny(tiny_files, tmp_path / "run")
    again = train_tiny(tiny_files, tmp_path / "run")
    for name in ("model.safetensors", "best.safetensors"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()
    assert records(again) == records(whole)


def test_an_error_without_text_is_named() -> None:
    assert summarize_error(KeyError()) == "KeyError"
    assert summarize_error(ValueError("one\ntwo\n")) == "ValueError: two"
