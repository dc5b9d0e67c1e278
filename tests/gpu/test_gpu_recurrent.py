"""The recurrent baseline on a GPU: cuDNN's LSTM, bf16, recorded steps."""

import copy
import json
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, threads_kept
from torch import Tensor

from models import pairs_of, part_of, realistic, sentence
from reference import distance
from transduce.batching.packed import LengthGroups
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.decoding.scheduler import Decoder
from transduce.model.architecture import build
from transduce.model.base import Transducer
from transduce.model.baselines.lstm import LSTM, Steps, run_lstm
from transduce.system.devices import choose_device
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.training.train import train
from transduce.translation.types import Hypothesis, Job

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


PAIRS = pairs_of(realistic(60, longest=60))
FORBIDDEN = [0, 1, 3]
CUDA = torch.device("cuda")


def recurrent(seed: int = 0, **changes: Any) -> Transducer:
    """Return a small recurrent model with random weights, ready for evaluation."""
    settings: dict[str, Any] = {
        "architecture": "recurrent",
        "attention": "additive",
        "positions": "none",
        "N": 3,
        "d_model": 64,
        "d_ff": 48,
        "h": 1,
        "d_k": 48,
        "d_v": 48,
        "P_drop": 0.0,
        "max_len": 64,
        "source_vocabulary": 50,
        "target_vocabulary": 50,
    }
    torch.manual_seed(seed)
    return build(ModelConfig(**(settings | changes))).eval()


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_layer_is_one_call_of_cudnn_with_contiguous_weights(
    dtype: torch.dtype, directions: int
) -> None:
    torch.manual_seed(0)
    layer = [LSTM(64, 48).cuda() for _ in range(directions)]
    steps = Steps.of(LengthGroups.of(np.array([3, 9, 9, 20])), CUDA)
    x = torch.randn(41, 64, device="cuda", dtype=dtype, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # cuDNN warns if it has to copy the weights
        y = run_lstm(layer, x, steps.sizes)
    assert y.grad_fn is not None
    assert "Cudnn" in y.grad_fn.name()
    on_cpu = copy.deepcopy(layer)
    exact = run_lstm([lstm.cpu() for lstm in on_cpu], x.detach().cpu().float(), steps.sizes)
    assert distance(y, exact.cuda()) < {4: 1e-5, 2: 2e-2}[dtype.itemsize]


def gradient_step_on(device: str, messages: list[str], **recipe: Any) -> GradientStep:
    config = TrainConfig(batch_tokens=3000, **recipe)
    model = recurrent().train().to(device)
    return GradientStep(model, config, part_of(PAIRS), Processes(), messages.append)


def gradient_of(gradient_step: GradientStep) -> list[Tensor]:
    """Return the sums of the losses and the gradients of an update."""
    gradient_step.compute(gradient_step.prepare(np.arange(len(PAIRS)), DataPosition(0, 1), 0.5))
    gradients = [parameter.grad for parameter in gradient_step.model.parameters()]
    return [
        gradient_step.sums.clone(),
        *(gradient for gradient in gradients if gradient is not None),
    ]


@pytest.mark.parametrize(
    ("precision", "tolerance", "gradient_tolerance"),
    [("float32", 1e-5, 1e-3), ("bf16", 5e-3, 5e-2)],
)
def test_a_pass_has_the_loss_and_the_gradients_of_the_cpu(
    precision: str, tolerance: float, gradient_tolerance: float
) -> None:
    messages: list[str] = []
    cpu_sums, *cpu_gradients = gradient_of(gradient_step_on("cpu", messages))
    gradient_step = gradient_step_on("cuda", messages, precision=precision)
    assert gradient_step.path == f"grouped, {precision}"
    sums, *gradients = gradient_of(gradient_step)
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    assert distance(sums, cpu_sums.cuda()) < tolerance
    for ours, theirs in zip(gradients, cpu_gradients, strict=True):
        assert distance(ours, theirs.cuda()) < gradient_tolerance


def search_all(decoder: Decoder, jobs: list[Job], config: SearchConfig) -> list[list[Hypothesis]]:
    found = dict(decoder.search(jobs, config, 16))
    return [found[i] for i in range(len(jobs))]


@pytest.mark.parametrize("attention", ["additive", "dot-product"])
@pytest.mark.parametrize("config", [{"nbest": 4}, {"beam": 1}, {"sample": True}], ids=str)
@pytest.mark.parametrize("record", [True, False])
def test_decoding_finds_what_the_cpu_finds(
    config: dict[str, Any], attention: str, record: bool
) -> None:
    """Twice, with more sentences than slots, so that slots and recorded steps are reused."""
    model = recurrent(3, attention=attention)
    with torch.no_grad():
        model.output.mul_(4)
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    jobs.sort(key=lambda job: -len(job.source))
    search = SearchConfig(extra=10, **config)
    expected = search_all(Decoder([model], FORBIDDEN), jobs, search)
    decoder = Decoder([copy.deepcopy(model).cuda()], FORBIDDEN, record=record)
    for _ in range(2):
        found = search_all(decoder, jobs, search)
        assert len(decoder.workspaces.pool) == record
        for ours, theirs in zip(found, expected, strict=True):
            assert [output.tokens for output in ours] == [output.tokens for output in theirs]
            assert [output.score for output in ours] == pytest.approx(
                [output.score for output in theirs], abs=1e-3
            )


def test_decoding_in_half_precision_scores_as_in_full() -> None:
    """The median is compared: a random model decides some near ties differently."""
    model = recurrent(4).cuda()
    jobs = [Job(sentence(20, n), number=(n,)) for n in range(40)]
    search = SearchConfig(extra=5)
    full = search_all(Decoder([model], FORBIDDEN), jobs, search)
    half = search_all(
        Decoder([copy.deepcopy(model).narrow(torch.float16)], FORBIDDEN), jobs, search
    )
    differences = [abs(a[0].score - b[0].score) for a, b in zip(half, full, strict=True)]
    assert median(differences) < 0.02


def test_training_lowers_the_loss(tiny_files: tuple[Path, Path], tmp_path: Path) -> None:
    sizes = {"d_ff": "24", "h": "1", "d_k": "16", "d_v": "16", "N": "2"}
    schedule = {"steps": "60", "validate_bleu": "5", "warmup": "20", "lr_scale": "2"}
    settings = TINY | sizes | schedule
    with threads_kept():
        out = tmp_path / "run"
        train(*tiny_files, out=out, settings=settings, preset="recurrent-small", device="cuda")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0] - 0.5
