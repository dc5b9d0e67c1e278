"""The Extended Neural GPU learns, resumes, and costs what it should."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY
from convolutional import small
from small_training import Killed, killing, weights
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from models import batch_of, pairs_of, part_of, search
from transduce.batching.packed import make_batch
from transduce.bench.flops import flops, weights_by_length
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.decoding.search import log_probabilities
from transduce.errors import BadSetting
from transduce.model.architecture import count_parameters
from transduce.model.baselines.neural_gpu import NeuralGPU
from transduce.presets import find_preset
from transduce.subwords import EOS
from transduce.training.gradient import Objective
from transduce.training.train import train
from transduce.training.trainer import Trainer


def model_of(**changes: Any) -> NeuralGPU:
    model = small("neural-gpu", **changes)
    assert isinstance(model, NeuralGPU)
    return model


def test_it_learns_to_reverse_what_it_has_not_seen() -> None:
    """Sequences of four of six symbols; 300 of the 1,296 are held out."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    every = np.stack(np.meshgrid(*[np.arange(4, 10)] * 4), axis=-1).reshape(-1, 4)
    random.shuffle(every)
    pairs = [(np.append(row, EOS), np.append(row[::-1], EOS)) for row in every]
    held_out, known = pairs[:300], pairs[300:]
    model = model_of(N=1, P_drop=0.0, source_vocabulary=10, target_vocabulary=10).train()
    objective = Objective(model, TrainConfig(eps_ls=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(120):
        batch = make_batch([known[i] for i in random.integers(0, len(known), 64)])
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - step / 120)
        optimizer.zero_grad()
        total, _ = objective(batch)
        (total / len(batch.labels)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    found = search(
        model.eval(),
        [source for source, _ in held_out],
        SearchConfig(beam=2),
        forbidden=[0, 1, 3],
        batch=300,
    )
    right = sum(
        outputs[0].tokens == target[:-1].tolist()
        for outputs, (_, target) in zip(found, held_out, strict=True)
    )
    assert right > 0.9 * len(held_out)  # by chance, 1 in 1,296


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kernel": 4}, "kernel = 4: expected an odd number from 3 on"),
        ({"kernel": 1}, "kernel = 1: expected an odd number from 3 on"),
        ({"d_ff": 100}, "d_ff = 100: expected a multiple of d_model = 32"),
        ({"h": 8, "relu_dropout": 0.1}, "relu_dropout = 0.1: expected 0.0"),
        ({"positions": "rotary"}, "positions = 'rotary': expected 'sinusoidal'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadSetting, match=f"^{expected}"):
        model_of(**changes)


@pytest.mark.parametrize("size", ["", "-small", "-tiny"])
def test_a_preset_is_as_large_as_the_transformer_of_its_size(size: str) -> None:
    ours, theirs = find_preset(f"neural-gpu{size}"), find_preset(size.removeprefix("-") or "base")
    assert ours.model.d_model == theirs.model.d_model
    assert count_parameters(ours.model) == pytest.approx(count_parameters(theirs.model), rel=0.03)
    assert ours.train.steps == theirs.train.steps
    assert ours.train.batch_tokens == theirs.train.batch_tokens


def test_a_model_has_the_weights_of_its_convolutions() -> None:
    """Each has a kernel of 3 x 3 for three inputs of the CGRU; the tape fills one column."""
    model = model_of(d_model=16, d_ff=64, N=2, N_decoder=3)
    cgru = 3 * (3 * 3 * 16 * 16) + 3 * 16
    tape = 3 * (3 * 2 * 3 * 16 * 16)  # taps in the last column would read what is always 0
    others = 16 * 16 + 16 + 50 * 16
    assert count_parameters(model.config) == 5 * cgru + tape + others


@pytest.mark.parametrize("changes", [{}, {"d_ff": 96, "N": 1, "N_decoder": 2}], ids=str)
def test_flops_equal_those_that_torch_counts(changes: dict[str, Any]) -> None:
    """Matrix products of a sentence alone, so that there are no empty rows."""
    model, lengths = model_of(**changes), (7, 6)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(batch_of(lengths))).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    products = sum(counts[kind] for kind in (torch.ops.aten.mm, torch.ops.aten.addmm))
    by_length = weights_by_length(model.config, part_of(pairs_of([lengths])))
    assert products == flops(model.config, *lengths, by_length)


def test_flops_count_each_row_that_exists_in_each_step() -> None:
    config = model_of().config
    lengths = [(2, 7), (5, 3), (4, 4)]
    rows = sum(
        n * n + sum(max(n, t + 1) for t in range(T))  # as many layers in both
        for n, T in lengths
    )
    tape = 2 * 3 * 3 * 32 * 32
    expected = rows * 2 * 3 * 3 * 32 * 32 - len(lengths) * tape  # <s> is not written
    part = part_of(pairs_of(lengths))
    assert weights_by_length(config, part) == expected
    halves = [weights_by_length(config, part, np.array(chosen)) for chosen in ([0], [1, 2])]
    assert sum(halves) == expected
    assert weights_by_length(ModelConfig(), part) == 0


def test_flops_of_large_texts_do_not_overflow() -> None:
    """Four columns and 36 million pairs of 40 tokens exceed 64 bits."""
    config = find_preset("neural-gpu").model.replace(d_ff=2048)
    lengths = np.full(1_000_000, 40)
    million = NeuralGPU.weights_by_length(config, lengths, lengths)
    lengths = np.full(36_000_000, 40)
    assert NeuralGPU.weights_by_length(config, lengths, lengths) == 36 * million > 2**63


def test_a_run_killed_and_resumed_ends_with_the_same_bits(
    tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"d_model": "16", "d_ff": "16", "batch_tokens": "100", "validate_bleu": "2"}
    default = {"h": "4", "d_k": "32", "d_v": "32"}
    schedule = {"steps": "8", "save_every": "2", "validate_every": "4"}
    settings, preset = TINY | sizes | default | schedule, "neural-gpu-tiny"

    def run(name: str) -> Path:
        out = tmp_path / name
        return train(*tiny_files, out=out, settings=settings, preset=preset, device="cpu")

    expected = run("expected")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(5))
        with pytest.raises(Killed):
            run("run")
    assert weights(run("run")) == weights(expected)


def test_a_copy_of_a_prepared_model_gives_the_same_logits() -> None:
    """Packed matrices are multiplied by oneDNN, whatever the number of rows."""
    model, pairs = model_of(), pairs_of([(5, 12), (3, 9)])
    expected = log_probabilities([model], pairs)
    for ours, theirs in zip(
        log_probabilities([copy.deepcopy(model).pack()], pairs), expected, strict=True
    ):
        assert ours == pytest.approx(theirs, abs=1e-4)
