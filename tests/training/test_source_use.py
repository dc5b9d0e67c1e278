"""Source use: the loss with other sentences' sources minus the loss with the true ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gradient_steps import PAIRS, make_step, on_path
from small_training import Files, Recorder, records, train_tiny
from torch.nn import functional as F

from models import part_of
from transduce.batching.packed import Ints, make_batch
from transduce.checkpoints.checkpoint import load_tensors
from transduce.config import TrainConfig
from transduce.model.attention import CrossAttention
from transduce.subwords import EOS
from transduce.training import validation
from transduce.training.gradient import GradientStep
from transduce.training.validation import Validation, measure_loss, measure_source_use, next_longer


def use(step: GradientStep, pairs: list[tuple[Ints, Ints]], count: int = 1000) -> float:
    part = part_of(pairs)
    found = measure_source_use(step, part, measure_loss(step, part)[1], count)
    assert found is not None
    return found


def plain_nll(step: GradientStep, pairs: list[tuple[Ints, Ints]]) -> float:
    batch = make_batch(pairs)
    return F.cross_entropy(step.model(batch) @ step.model.output.T, batch.labels).item()


def test_each_sentence_gets_the_source_of_another_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, 200)
    others = next_longer(lengths)
    assert sorted(others) == [*range(200)]
    assert (others != np.arange(200)).all()
    difference = np.abs(lengths[others] - lengths)
    assert np.sort(difference)[-2] <= 3  # all but the longest sentence
    assert next_longer(np.array([5, 5])).tolist() == [1, 0]


@pytest.mark.parametrize("path", ["grouped", "packed"])
@pytest.mark.parametrize("sample", [25, 1000])
@torch.inference_mode()
def test_source_use_is_the_difference_of_two_losses(
    path: str, sample: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `sample` sentences, evenly spread, or of all of them if there are fewer."""
    on_path(monkeypatch, path)
    sample = min(sample, len(PAIRS))
    step, pairs = make_step(), [PAIRS[i * len(PAIRS) // sample] for i in range(sample)]
    others = next_longer(np.array([len(source) for source, _ in pairs]))
    mixed = [(pairs[others[i]][0], target) for i, (_, target) in enumerate(pairs)]
    found = use(step, PAIRS, sample)
    assert found == pytest.approx(plain_nll(step, mixed) - plain_nll(step, pairs), abs=1e-5)
    assert abs(found) > 1e-3


@torch.inference_mode()
def test_a_decoder_that_ignores_its_source_has_none() -> None:
    step = make_step()
    for module in step.model.modules():
        if isinstance(module, CrossAttention):
            torch.nn.init.zeros_(module.W_O.weight)
    assert use(step, PAIRS) == pytest.approx(0, abs=1e-6)


def test_a_model_that_translates_uses_its_source() -> None:
    step = make_step()
    pairs = [(np.array([4 + i, EOS]), np.array([20 + i, EOS])) for i in range(8)]
    batch, optimizer = make_batch(pairs), torch.optim.Adam(step.model.parameters(), lr=3e-3)
    before = use(step, pairs)
    for _ in range(60):
        optimizer.zero_grad()
        step.objective(batch)[0].backward()
        optimizer.step()
    assert use(step, pairs) > 1 > before + 0.5


def test_one_sentence_has_no_other_source() -> None:
    assert measure_source_use(make_step(), part_of(PAIRS[:1]), 1.0, 50) is None
    assert "valid_source_use" not in Validation(3.0, 2.0).to_json()
    assert "source use" not in str(Validation(3.0, 2.0))


def test_measuring_does_not_change_training(
    tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights with dropout, with and without the metric."""
    measured = train_tiny(tiny_files, tmp_path / "measured")
    monkeypatch.setattr(validation, "MOST", 0)
    plain = train_tiny(tiny_files, tmp_path / "plain")
    for run, present in ((measured, True), (plain, False)):
        validations = [record for record in records(run) if "valid_loss" in record]
        assert [("valid_source_use" in record) for record in validations] == [present] * 3
    expected, found = (load_tensors(run / "model.safetensors") for run in (plain, measured))
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())


@pytest.mark.parametrize(
    ("source_use", "step", "part", "warned"),
    [
        (0.01, 2_500, 0.1, True),
        (0.01, 400, 0.3, True),
        (0.06, 2_500, 0.1, False),
        (None, 2_500, 0.1, False),
        (0.01, 400, 0.2, False),  # early
        (0.01, 299, 0.9, False),  # too short to learn to translate
        (0.01, 200, 0.3, False),  # within the warm-up
    ],
)
def test_a_source_that_is_still_ignored_is_reported(
    source_use: float | None, step: int, part: float, *, warned: bool
) -> None:
    result = Validation(3.0, 2.0, source_use)
    found = result.warning(step, TrainConfig(warmup=250), part)
    assert found.startswith("warning: the decoder ignores the source (source use 0.01") is warned
    assert not result.warning(4_000, TrainConfig(), 1.0)  # within the paper's warm-up


def test_the_warning_is_printed_once(
    tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "FEWEST_STEPS", 1)
    monkeypatch.setattr(validation, "UNUSED", 100.0)
    recorder = Recorder()
    train_tiny(tiny_files, tmp_path / "run", {"warmup": "2"}, recorder)
    lines = [line for line in recorder.lines if "ignores the source" in line]
    assert len(lines) == 1
    assert sum(", source use " in line for line in recorder.lines) == 3
