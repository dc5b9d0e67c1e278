"""Each model chooses its kernels; with them it computes what it computes without them."""

import pytest

pytest.importorskip("triton")

import copy
import types
from typing import Any

import numpy as np
import torch
from interpreted import interpret, packed_batch
from torch import Tensor

from models import SMALL, batch_of, pairs_of, part_of, small_model
from reference import distance
from transduce.batching.packed import Batch
from transduce.batching.static import pack
from transduce.config import ModelConfig, TrainConfig
from transduce.model.baselines.bytenet import ByteNet
from transduce.model.ops import kernels
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.triton import attention, rows
from transduce.model.transformer import Transformer
from transduce.training.gradient import Objective

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="the interpreter is for machines without a GPU"
)


@pytest.fixture
def batch() -> Batch:
    return packed_batch()


def sums_and_gradients(model: Transformer, batch: Batch) -> list[Tensor]:
    model.zero_grad()
    smoothed, nll = Objective(model, TrainConfig())(batch)
    smoothed.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    return [
        smoothed.detach(),
        nll,
        *(gradient.clone() for gradient in gradients if gradient is not None),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"d_k": 5, "d_v": 3},
        {"attention_bias": True},
        {"activation": "swish", "logits_bias": True},
        {"scaled": False},
        {"neighbourhood": 4},
        {"neighbourhood": 1},
    ],
    ids=str,
)
def test_a_model_with_kernels_computes_the_same(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(P_drop=0.0, N=1, **({"h": 2} | changes)).train()
    lengths = [(9, 7), (3, 12), (2, 2)]
    batch = pack(part_of(pairs_of(lengths)), np.arange(3), (16, 24))
    plain = sums_and_gradients(model, batch)
    grouped = sums_and_gradients(model, batch_of(*lengths))
    interpret(monkeypatch)
    fused_ = sums_and_gradients(model, batch)
    assert len(plain) == 2 + len(list(model.parameters()))
    for ours, theirs, others in zip(fused_, plain, grouped, strict=True):
        assert distance(ours, theirs) < 1e-5
        assert distance(ours, others) < 1e-5


def test_recomputed_layers_drop_the_same_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    interpret(monkeypatch)
    model = small_model(P_drop=0.3, N=1, h=1).train()
    batch = pack(part_of(pairs_of([(5, 4), (2, 3)])), np.arange(2), (8, 8))
    found = []
    for recompute in (False, True):
        model.recompute = recompute
        torch.manual_seed(0)
        found.append(sums_and_gradients(model, batch))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_kernels_are_for_gpus_and_for_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "INSTALLED", True)
    on_a_gpu: Any = types.SimpleNamespace(device=torch.device("cuda"))
    one, other = small_model(), small_model()
    assert one.kernels.usable(on_a_gpu)
    assert not one.kernels.usable(torch.empty(1))
    assert not one.kernels.usable(torch.empty(1, device="meta"))
    one.kernels.enabled = False
    assert not one.kernels.usable(on_a_gpu)
    assert other.kernels.usable(on_a_gpu)
    copied = copy.deepcopy(one)
    assert not copied.kernels.enabled
    shared = {id(module.kernels) for module in copied.modules() if hasattr(module, "kernels")}
    assert shared == {id(copied.kernels)}


def test_kernels_that_are_missing_or_fail_are_disabled_and_the_reason_is_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("ptxas fatal\nno sm_99\n")

    chosen = Kernels()

    def select() -> tuple[str, bool]:
        device = torch.device("cpu")
        reason = chosen.select(ModelConfig(), torch.float32, device, training=True)
        return reason, chosen.enabled

    monkeypatch.setattr(kernels, "INSTALLED", False)
    missing = "Triton is not installed: torch's kernels are used, which is slower"
    assert select() == (missing, False)
    monkeypatch.setattr(kernels, "INSTALLED", True)
    monkeypatch.setattr(kernels, "try_out", lambda *_, **__: None)
    assert select() == ("", True)
    monkeypatch.setattr(kernels, "try_out", fail)
    broken = "our kernels do not work here, torch's are used, which is slower: "
    assert select() == (f"{broken}ValueError: no sm_99", False)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("architecture", "of_training", "of_all"),
    [
        (
            "transformer",
            ["backward", "relu_backward", "residual_backward", "softmax"],
            ["forward", "residual_forward"],
        ),
        ("bytenet", ["norm_backward"] * 2 + ["softmax"], ["norm_forward"] * 2),
        ("recurrent", ["softmax"], []),
    ],
)
def test_a_trial_runs_the_kernels_of_a_model_with_its_sizes(
    architecture: Any,
    of_training: list[str],
    of_all: list[str],
    training: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for module, name in (
        *((attention, name) for name in ("forward", "backward")),
        *(
            (rows, name)
            for name in vars(rows)
            if name.endswith(("ward", "softmax")) and name[0] != "_"
        ),
    ):
        original = getattr(module, name)

        def counted(
            *args: Tensor, original: Any = original, name: str = name, **flags: Any
        ) -> object:
            called.append(name)
            shapes.extend(tuple(value.shape) for value in args if isinstance(value, Tensor))
            return original(*args, **flags)

        monkeypatch.setattr(module, name, counted)
    config = ModelConfig(
        architecture=architecture,
        attention="additive" if architecture == "recurrent" else "dot-product",
        positions="none" if architecture == "recurrent" else "sinusoidal",
        N=1,
        d_model=24,
        d_ff=40,
        h=1 if architecture == "recurrent" else 3,
        d_k=16,
        d_v=8,
        source_vocabulary=70,
        target_vocabulary=70,
    )
    kernels.try_out(config, torch.float32, torch.device("cpu"), training=training)
    assert sorted(called) == sorted(of_all + (of_training if training else []))
    if architecture == "transformer":
        assert {(128, 24), (128, 3, 16), (128, 3, 8)} <= {*shapes}
        assert ((16, 128) in shapes) is training  # of logits
        assert ((128, 40) in shapes) is training


def test_bytenet_with_kernels_computes_the_same(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    changes: dict[str, Any] = SMALL | {"architecture": "bytenet"}
    model = ByteNet(ModelConfig(**changes))
    objective = Objective(model.eval(), TrainConfig())

    def passed() -> list[Tensor]:
        smoothed, nll = objective(batch)
        return [smoothed, nll, *torch.autograd.grad(smoothed, list(model.parameters()))]

    plain = passed()
    interpret(monkeypatch)
    for ours, theirs in zip(passed(), plain, strict=True):
        assert distance(ours, theirs) < 1e-5
