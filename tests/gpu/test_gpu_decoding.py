"""Decoding on a GPU, the convolutional baselines there, and Table 1."""

import copy
from statistics import median
from typing import Any

import pytest
import torch
from convolutional import ARCHITECTURES, small
from gpu_steps import KINDS, PAIRS, SENTENCES, assert_same, gradient_of, search_all

from models import part_of, sentence, small_model
from reference import distance
from transduce.config import SearchConfig, TrainConfig
from transduce.decoding.scheduler import Decoder
from transduce.experiments.table1 import table1
from transduce.experiments.table1_measurement import Plan
from transduce.subwords import EOS
from transduce.system.devices import choose_device
from transduce.system.progress import Silent
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.translation.types import Job

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


# --- Decoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [{"nbest": 4}, {"beam": 1}, {"beam": 5}, {"sample": True}], ids=str
)
@pytest.mark.parametrize("way", ["recorded", "plain", "without kernels"])
@pytest.mark.parametrize("changes", [{}, *KINDS], ids=str)
def test_decoding_finds_what_the_cpu_finds(
    config: dict[str, Any], way: str, changes: dict[str, Any]
) -> None:
    """Twice, with more sentences than slots, so that slots and recorded steps are reused."""
    model = small_model(3, **changes)
    model.kernels.enabled = way != "without kernels"
    with torch.no_grad():
        model.output.mul_(4)
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    jobs.sort(key=lambda job: -len(job.source))
    search = SearchConfig(extra=10, **config)
    expected = search_all(Decoder([model], [0, 1, 3]), jobs, search, 16)
    decoder = Decoder([copy.deepcopy(model).cuda()], [0, 1, 3], record=way == "recorded")
    for _ in range(2):
        found = search_all(decoder, jobs, search, 16)
        for ours, theirs in zip(found, expected, strict=True):
            assert [output.tokens for output in ours] == [output.tokens for output in theirs]
            for output, same in zip(ours, theirs, strict=True):
                assert output.score == pytest.approx(same.score, abs=1e-3)


def test_decoding_in_half_precision_scores_as_in_full() -> None:
    model = small_model(4).cuda()
    jobs = [Job(sentence(20, n), number=(n,)) for n in range(40)]
    search = SearchConfig(extra=5)
    full = search_all(Decoder([model], [0, 1, 3]), jobs, search, 64)
    half = search_all(
        Decoder([copy.deepcopy(model).narrow(torch.float16)], [0, 1, 3]), jobs, search, 64
    )
    for ours, theirs in zip(half, full, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, abs=0.02)


def test_an_abandoned_search_does_not_affect_the_next() -> None:
    model = small_model(3).cuda()
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    search = SearchConfig(extra=10)
    expected = search_all(Decoder([model], [0, 1, 3]), jobs, search, 16)
    decoder = Decoder([model], [0, 1, 3])
    first, second = decoder.search(jobs, search, 16), decoder.search(jobs, search, 16)
    next(first)
    assert [output.tokens for output in dict(second)[7]] == [
        output.tokens for output in expected[7]
    ]
    next(first)
    del first, second
    for ours, theirs in zip(search_all(decoder, jobs, search, 16), expected, strict=True):
        assert [output.tokens for output in ours] == [output.tokens for output in theirs]


@pytest.mark.parametrize("record", [True, False])
def test_an_output_may_reach_the_last_position(record: bool) -> None:
    model = small_model(max_len=64, positions="learned", logits_bias=True).cuda()
    with torch.no_grad():
        assert model.logits_bias is not None
        model.logits_bias[EOS] = -50
    jobs = [Job(sentence(length, length)) for length in (64, 60, 5, 5, 5, 5)]
    decoder = Decoder([model.narrow(torch.float16)], [0, 1, 3], record=record)
    found = search_all(decoder, jobs, SearchConfig(beam=2, extra=8), 4)
    assert [len(outputs[0].tokens) + 1 for outputs in found] == [64, 64, 13, 13, 13, 13]


# --- The convolutional baselines ------------------------------------------------------------------


def baseline(architecture: str, device: str = "cuda", **recipe: Any) -> GradientStep:
    model = small(architecture, P_drop=0.0, d_model=64, d_ff=64, max_len=64).train().to(device)
    config = TrainConfig(batch_tokens=3000, **recipe)
    messages: list[str] = []
    gradient_step = GradientStep(model, config, part_of(PAIRS), Processes(), messages.append)
    assert messages == []
    return gradient_step


@pytest.mark.parametrize(
    ("architecture", "precision", "tolerance"),
    [
        *(("convs2s", "float32", 1e-3), ("convs2s", "bf16", 1e-1)),
        *(("bytenet", "float32", 1e-3), ("bytenet", "bf16", 3e-1)),  # three norms a block
    ],
)
def test_a_recorded_pass_of_a_baseline_has_the_gradients_of_the_cpu(
    architecture: str, precision: str, tolerance: float
) -> None:
    """For several updates; the first one is recorded."""
    gradient_step, plain = (
        baseline(architecture, precision=precision),
        baseline(architecture, "cpu"),
    )
    assert gradient_step.path == f"packed, {precision}, CUDA graph"
    for sentences in (SENTENCES, SENTENCES[:30], SENTENCES[20:]):
        sums, *gradients = gradient_of(plain, sentences)
        found, *others = gradient_of(gradient_step, sentences)
        assert distance(found, sums) < 5e-3
        assert_same(others, gradients, tolerance)
    assert gradient_step.graphs is not None


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_decoding_with_a_baseline_finds_what_the_cpu_finds(architecture: str, beam: int) -> None:
    model = small(architecture, 3)
    with torch.no_grad():
        model.output.mul_(4)
    jobs = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(50)]
    jobs.sort(key=lambda job: -len(job.source))
    search = SearchConfig(extra=10, beam=beam)
    expected = search_all(Decoder([model], [0, 1, 3]), jobs, search, 16)
    decoder = Decoder([copy.deepcopy(model).cuda()], [0, 1, 3])
    for _ in range(2):
        for ours, theirs in zip(search_all(decoder, jobs, search, 16), expected, strict=True):
            assert [output.tokens for output in ours] == [output.tokens for output in theirs]
    assert len(decoder.workspaces.pool) == 1
    narrow = Decoder([copy.deepcopy(model).cuda().narrow(torch.float16)], [0, 1, 3])
    # With random weights, near ties are sometimes decided differently.
    half = search_all(narrow, jobs, search, 16)
    assert median(abs(a[0].score - b[0].score) for a, b in zip(half, expected, strict=True)) < 0.1


# --- Table 1 --------------------------------------------------------------------------------------


def test_the_layers_of_table_1_are_measured() -> None:
    """The work of restricted attention grows as n; all attention uses our kernels."""
    finding = table1(Plan(n=(512, 2048, 8192), d=(512,), seconds=60), "cuda", Silent())
    assert finding.data["attention"] == "our packed kernels"
    rows = {(row["layer"], row["projections"]): row for row in finding.data["rows"]}
    assert all(len(row["cells"]) == 3 for row in rows.values())
    for row in rows.values():
        assert all(cell["forward"] > 0 and cell["memory"] > 0 for cell in row["cells"])
    assert rows["restricted", False]["exponents"]["seconds"]["exponent"] < 1.25
    assert rows["self-attention", False]["exponents"]["seconds"]["exponent"] > 1.6
