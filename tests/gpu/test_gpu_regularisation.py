"""R-Drop, SimCut and word dropout on a GPU: gradients, and passes captured as graphs."""

import dataclasses
from typing import Any

import pytest
import torch
from gpu_steps import assert_same, gradient_of, gradient_step_on

from models import small_model
from reference import distance
from transduce.batching.packed import PackedTokens
from transduce.subwords import EOS
from transduce.system.devices import choose_device
from transduce.training.averaging import MovingAverage

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]
SIMCUT: dict[str, Any] = {"simcut": 3.0, "cutoff": 0.3}


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


def drop_every_third(side: PackedTokens, _: float) -> PackedTokens:
    """Drop the same words on every device."""
    kept = (side.positions % 3 != 1) | (side.tokens <= EOS)
    return dataclasses.replace(side, kept=kept)


@pytest.mark.parametrize(
    ("recipe", "tolerance", "gradient_tolerance"),
    [
        ({"precision": "float32"}, 1e-4, 1e-3),
        ({"precision": "bf16"}, 1e-2, 6e-2),
        ({"precision": "bf16", "accumulate": 3}, 1e-2, 6e-2),
        ({"precision": "bf16", "kernels": False}, 1e-2, 6e-2),
    ],
    ids=str,
)
@pytest.mark.parametrize("logits_bias", [False, True])
def test_simcut_has_the_loss_and_the_gradients_of_the_cpu(
    recipe: dict[str, Any],
    tolerance: float,
    gradient_tolerance: float,
    logits_bias: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PackedTokens, "drop_words", drop_every_third)
    model = {"logits_bias": logits_bias}
    messages: list[str] = []
    on_cpu = gradient_step_on("cpu", messages=messages, model=model, **SIMCUT)
    on_gpu = gradient_step_on(messages=messages, model=model, **SIMCUT, **recipe)
    cpu_sums, *cpu_gradients = gradient_of(on_cpu)
    sums, *gradients = gradient_of(on_gpu)
    assert cpu_sums[2] > 0
    for ours, theirs in zip(sums, cpu_sums, strict=True):
        assert distance(ours, theirs) < tolerance
    assert_same(gradients, cpu_gradients, gradient_tolerance)
    assert messages == []


def test_r_drop_without_dropout_has_the_gradient_of_one_pass() -> None:
    sums, *gradients = gradient_of(gradient_step_on(messages=[], rdrop=5.0))
    plain_sums, *plain = gradient_of(gradient_step_on(messages=[]))
    assert sums[2] == 0
    assert distance(sums[:2], plain_sums) < 1e-5
    assert_same(gradients, plain, 2e-2)


@pytest.mark.parametrize(
    "settings", [{"rdrop": 5.0, "word_dropout": 0.1}, {"word_dropout": 0.1}, SIMCUT], ids=str
)
def test_a_captured_pass_draws_and_computes_what_a_plain_pass_does(
    settings: dict[str, Any],
) -> None:
    messages: list[str] = []
    graphed, plain = (
        gradient_step_on(messages=messages, P_drop=0.1, precision="float32", **settings)
        for _ in range(2)
    )
    plain.graphed = False
    gradient_of(graphed)  # captures the graph
    first = gradient_of(graphed)
    assert_same(first, gradient_of(graphed), 1e-5)  # gradient_of sets the seed
    ours, theirs = first[0], gradient_of(plain)[0]
    assert graphed.graphs is not None
    # A graph may draw other numbers from the same seed.
    assert distance(ours, theirs) < 0.1
    assert torch.isfinite(ours).all()
    assert messages == []


def test_the_moving_average_does_not_wait_for_the_device() -> None:
    model = small_model().to("cuda")
    average = MovingAverage(model, 0.9)
    expected = {name: weight.clone() for name, weight in average.weights.items()}
    skipped = torch.zeros((), device="cuda")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        average.update(1, skipped)
        average.update(1, skipped + 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for name, weight in expected.items():
        torch.testing.assert_close(average.weights[name], weight + 0.9)
