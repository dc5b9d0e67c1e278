"""Several threads on one GPU, recorded steps, overflow, and captures that fail."""

import copy
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import threads_kept, tiny_pairs
from gpu_steps import gradient_of, gradient_step_on, search_all

from models import sentence, small_model
from transduce.config import SearchConfig
from transduce.decoding import workspaces
from transduce.decoding.scheduler import Decoder
from transduce.errors import BadRun
from transduce.model.ops import graphs
from transduce.model.transformer import Transformer
from transduce.system.devices import choose_device
from transduce.translation.engines.pytorch import TorchEngine
from transduce.translation.translator import Translator
from transduce.translation.types import Hypothesis, Job

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

FORBIDDEN = [0, 1, 3]
SEARCH = SearchConfig(extra=10)
JOBS = [Job(sentence(2 + 7 * n % 40, n), number=(n,)) for n in range(200)]
Found = list[list[int]]  # the tokens of each job's best output


@pytest.fixture(autouse=True)
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep the graphs that are captured."""
    graphs_captured: list[Any] = []
    capture = graphs.capture

    def recording(run: Callable[[], None], pool: Any = None) -> Any:
        graphs_captured.append(capture(run, pool))
        return graphs_captured[-1]

    monkeypatch.setattr(graphs, "capture", recording)
    return graphs_captured


def peaked(seed: int) -> Transformer:
    """A model whose choices do not depend on rounding."""
    model = small_model(seed)
    with torch.no_grad():
        model.output.mul_(4)
    return model


def best(found: list[list[Hypothesis]]) -> Found:
    return [outputs[0].tokens for outputs in found]


def searching(decoder: Decoder, expected: Found, seconds: float, seed: int) -> int:
    """Search batches of 1 to 200 sentences for a while; return how many batches."""
    random, batches = np.random.default_rng(seed), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        chosen = random.permutation(len(JOBS))[: random.integers(1, len(JOBS) + 1)].tolist()
        chosen.sort(key=lambda number: -len(JOBS[number].source))
        found = search_all(decoder, [JOBS[number] for number in chosen], SEARCH, 512)
        assert best(found) == [expected[number] for number in chosen]
        batches += 1
    return batches


@pytest.mark.parametrize("models", [2, 1])
def test_two_threads_find_what_one_finds(
    models: int, captured: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With two models or with one; steps are recorded while the other thread searches."""
    on_cpu = [peaked(seed) for seed in range(models)]
    expected = [best(search_all(Decoder([model], FORBIDDEN), JOBS, SEARCH, 64)) for model in on_cpu]
    decoders = [Decoder([copy.deepcopy(model).cuda()], FORBIDDEN) for model in on_cpu]
    search_all(Decoder(decoders[0].models, FORBIDDEN, record=False), JOBS, SEARCH, 64)  # compiles
    with ThreadPoolExecutor(2) as threads:
        both = [
            threads.submit(
                searching, decoders[thread % models], expected[thread % models], 10.0, thread
            )
            for thread in range(2)
        ]
        assert all(thread.result() > 10 for thread in both)
    assert caplog.messages == []
    shapes = 5  # 16 to 256 slots; two threads may need each at once
    assert shapes < len(captured) <= 2 * shapes
    assert all(len(decoder.workspaces.pool) for decoder in decoders)


def test_each_size_and_beam_is_recorded_once(captured: list[Any]) -> None:
    model = peaked(1)
    decoder, plain = Decoder([model.cuda()], FORBIDDEN), Decoder([model], FORBIDDEN, record=False)
    shapes = list(itertools.product((20, 60), (4, 5)))
    expected = {
        (count, beam): best(search_all(plain, JOBS[:count], SEARCH.replace(beam=beam), 512))
        for count, beam in shapes
    }
    for _ in range(5):
        for count, beam in shapes:
            found = search_all(decoder, JOBS[:count], SEARCH.replace(beam=beam), 512)
            assert best(found) == expected[count, beam]
    assert len(captured) == len(shapes)


def test_a_run_loaded_on_the_gpu_translates_as_on_the_cpu(
    learnt_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [source for source, _ in tiny_pairs(40, seed=7)]
    with threads_kept():
        translator = Translator.load(learnt_run, device="cpu", engine="torch")
        expected = translator.translate(texts, split=False)
    found = Translator.load(learnt_run, device="cuda").translate(texts, split=False)
    same = [pair for pair in zip(found, expected, strict=True) if pair[0].text == pair[1].text]
    assert len(same) >= 32  # of 40; in float16 near ties fall either way
    for ours, theirs in same:
        assert ours.candidates[0].score == pytest.approx(theirs.candidates[0].score, abs=0.05)
    assert caplog.messages == []


def test_kernels_that_fail_when_a_run_is_loaded_are_replaced_and_one_line_says_so(
    learnt_run: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("ptxas fatal\nno sm_99\n")

    monkeypatch.setattr("transduce.model.ops.triton.rows.residual_forward", fail)
    texts = [source for source, _ in tiny_pairs(10, seed=7)]
    translator = Translator.load(learnt_run, device="cuda")
    assert len(translator.translate(texts, split=False)) == 10
    assert caplog.messages == [
        "our kernels do not work here, torch's are used, which is slower: ValueError: no sm_99"
    ]


# --- Captures that fail --------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the next captures fail, as when another thread synchronises the device."""
    capture, left = graphs.capture, [times]

    def broken(run: Callable[[], None], pool: Any = None) -> Any:
        def disturbed() -> None:
            run()
            if left[0]:
                left[0] -= 1
                torch.cuda.synchronize()

        return capture(disturbed, pool)

    monkeypatch.setattr(graphs, "capture", broken)


def test_a_failed_capture_is_retried_and_no_sentence_is_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workspaces, "RETRY_SECONDS", 0.0)
    model = peaked(2)
    decoder, plain = Decoder([model.cuda()], FORBIDDEN), Decoder([model], FORBIDDEN, record=False)
    expected = best(search_all(plain, JOBS, SEARCH, 64))
    failing(monkeypatch, 2)
    for attempt in range(4):
        assert best(search_all(decoder, JOBS, SEARCH, 64)) == expected
        assert len(decoder.workspaces.pool) == (attempt > 1)
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("CUDA graph capture failed; decoding is slower until ")
    graphs.empty_cache()  # an open memory pool would refuse


def test_a_failed_capture_does_not_affect_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Losses, gradients and dropout are unchanged, in that update and the next."""
    messages: list[str] = []
    plain, gradient_step = (gradient_step_on(P_drop=0.1, messages=messages) for _ in range(2))
    plain.graphed = False
    failing(monkeypatch, 1)
    for _ in range(2):
        ours, theirs = gradient_of(gradient_step), gradient_of(plain)
        assert torch.equal(ours[0], theirs[0])
        for tensor, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(tensor, expected, rtol=1e-3, atol=1e-6)
        after = torch.cuda.get_rng_state()
        gradient_of(gradient_step)
        assert torch.equal(torch.cuda.get_rng_state(), after)
    assert not gradient_step.graphed
    assert len(messages) == 1
    assert messages[0].startswith("CUDA graphs do not work here, which is slower: ")


# --- Overflow ------------------------------------------------------------------------------------


def overflowing() -> Transformer:
    """A model whose activations exceed the range of float16, but not its weights."""
    model = peaked(3)
    with torch.no_grad():
        model.encoder[0].feed_forward.W_1.weight.mul_(1e5)  # type: ignore[union-attr, operator]
    return model


def test_values_that_overflow_float16_are_computed_in_bf16(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = overflowing()
    exact = TorchEngine([copy.deepcopy(model)], FORBIDDEN)
    half = TorchEngine([model.cuda().narrow(torch.float16)], FORBIDDEN)
    jobs = JOBS[:50]
    expected, found = (dict(engine.search(jobs, SEARCH, 64)) for engine in (exact, half))
    assert found.keys() == expected.keys()
    same = [found[n][0].tokens == expected[n][0].tokens for n in range(50)]
    assert sum(same) > 25, "bf16 decides near ties in its own way"
    assert caplog.messages == [
        "values exceed the range of float16: the sentences concerned are computed in bf16"
    ]
    pairs = [(job.source, np.array([5, 6, 7, 2])) for job in jobs[:5]]
    for ours, theirs in zip(half.score(pairs), exact.score(pairs), strict=True):
        assert ours == pytest.approx(theirs, abs=0.3)
    assert all(np.isfinite(weights).all() for weights in half.align(pairs))


def test_values_that_overflow_float32_are_an_error() -> None:
    model = peaked(3).cuda()
    with torch.no_grad():
        model.output[7] = torch.nan
    with pytest.raises(BadRun, match="not finite"):
        list(TorchEngine([model], FORBIDDEN).search(JOBS[:3], SEARCH, 64))


def test_threads_wait_for_each_other_only_to_capture() -> None:
    """A recorded search continues while another thread holds the lock of captures."""
    decoder = Decoder([peaked(1).cuda()], FORBIDDEN)
    expected = best(search_all(decoder, JOBS[:20], SEARCH, 64))
    held, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with graphs.LOCK:
            held.set()
            assert ended.wait(60)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(hold)
        held.wait()
        try:
            assert best(search_all(decoder, JOBS[:20], SEARCH, 64)) == expected
        finally:
            ended.set()
        holding.result()
