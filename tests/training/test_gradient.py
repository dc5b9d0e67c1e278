"""An update has one gradient, however and in however many micro-batches it is computed."""

import numpy as np
import pytest
import torch
from gradient_steps import (
    LENGTHS,
    PAIRS,
    SENTENCES,
    assert_same,
    expected_gradient,
    gradient_of,
    make_step,
    on_path,
)

from reference import distance
from transduce.batching.layouts import GroupedLayout
from transduce.batching.packed import make_batch
from transduce.batching.static import PackedLayout
from transduce.corpus.updates import DataPosition
from transduce.model.transformer import Transformer
from transduce.training.distributed.processes import Processes


@pytest.mark.parametrize("accumulate", [1, 2, 3, None])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_the_gradient_does_not_depend_on_the_number_of_micro_batches(
    path: str, accumulate: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    step = make_step(accumulate=accumulate)
    assert isinstance(step.layout, PackedLayout if path == "packed" else GroupedLayout)
    assert len(step.layout.micro_batches(SENTENCES)) == (accumulate or 1)
    for _ in range(2):  # the second update starts from zero
        assert_same(gradient_of(step), expected_gradient())


@pytest.mark.parametrize("P_drop", [0.0, 0.3])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_recomputing_layers_gives_the_same_gradient(
    path: str, P_drop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    remembered = gradient_of(make_step(P_drop=P_drop))
    passes: list[str] = []
    step = make_step(P_drop=P_drop, recompute=True)
    assert isinstance(step.model, Transformer)
    for layer in (*step.model.encoder, *step.model.decoder):
        layer.register_forward_pre_hook(lambda *_: passes.append("layer"))
    assert_same(gradient_of(step), remembered, 1e-6)
    assert len(passes) == 2 * 2  # both layers are computed twice


def test_on_a_gpu_updates_do_not_depend_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradient_steps.PAIRS", PAIRS * 5)
    grouped = make_step(accumulate=2)
    grouped.device = torch.device("cuda")
    on_path(monkeypatch, "packed")
    packed = make_step()
    ours, theirs = (
        [update.tolist() for update in layout.updates(np.random.default_rng(0))]
        for layout in (grouped.make_layout(), packed.make_layout())
    )
    assert isinstance(grouped.make_layout(), GroupedLayout)
    assert ours == theirs
    assert len(ours) > 4


def test_losses_add_up_over_updates() -> None:
    step = make_step()
    once = gradient_of(step)[0]
    step.compute(step.prepare(SENTENCES, DataPosition(0, 1), 0.5))
    assert step.sums.tolist() == pytest.approx((2 * once).tolist())


def test_an_update_has_its_tokens_position_and_layout() -> None:
    step = make_step(accumulate=2)
    update = step.prepare(SENTENCES, DataPosition(3, 4), 3.5)
    assert update.tokens == sum(target for _, target in LENGTHS)
    assert (update.next_position, update.epochs, update.idle) == (DataPosition(3, 4), 3.5, False)
    assert update.layout is step.layout
    assert update.used == tuple(map(sum, zip(*LENGTHS, strict=True)))


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_processes_share_an_update_without_overlap(
    path: str, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their gradients, which torch averages, are together that of one process."""
    on_path(monkeypatch, path)
    step = make_step()
    step.micro_batches = world
    step.layout = step.make_layout()
    found, sums, shares = [], torch.zeros(2), []
    for rank in range(world):
        step.processes = Processes(rank, world)
        update = step.prepare(SENTENCES, DataPosition(0, 1), 0.5)
        assert not update.idle
        shares.append(sum(len(batch.order) for batch in update.batches))
        one, *gradients = gradient_of(step)
        sums = sums + one
        found.append(gradients)
    assert sum(shares) == len(PAIRS)
    means = [torch.stack(of_one).mean(0) for of_one in zip(*found, strict=True)]
    assert_same([sums, *means], expected_gradient())


def test_a_process_without_a_share_computes_a_zero_gradient() -> None:
    step = make_step()
    step.processes = Processes(1, 2)
    update = step.prepare(SENTENCES[:1], DataPosition(0, 1), 0.5)
    assert update.idle
    assert len(update.batches) == 1
    step.compute(update)
    assert step.sums.tolist() == [0.0, 0.0]
    for parameter in step.model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_in_bf16_the_loss_is_close_and_gradients_are_float32(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, path)
    step = make_step()
    step.model.compute_in(torch.bfloat16)
    assert step.model(make_batch(PAIRS)).dtype == torch.bfloat16
    found = gradient_of(step)
    assert {gradient.dtype for gradient in found[1:]} == {torch.float32}
    assert {weight.dtype for weight in step.model.parameters()} == {torch.float32}
    sums, *gradients = expected_gradient()
    assert found[0].tolist() == pytest.approx(sums.tolist(), rel=0.01)
    for ours, theirs in zip(found[1:], gradients, strict=True):
        assert distance(ours, theirs) < 0.05
