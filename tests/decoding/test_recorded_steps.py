"""Decoding as on a GPU: static shapes, recorded steps, a pool of workspaces."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_search import CONFIGS, FORBIDDEN, WORDS, assert_same, mixed, never_ending, toy_model

from models import sentence
from transduce.batching.packed import Ints
from transduce.config import SearchConfig
from transduce.decoding import scheduler
from transduce.decoding.scheduler import Decoder
from transduce.decoding.search import Beams
from transduce.decoding.workspaces import MAX_IDLE, Pool, Workspace, Workspaces
from transduce.model.ops import graphs
from transduce.model.ops.triton import decoding as kernels_of_decoding
from transduce.model.transformer import Transformer
from transduce.translation.types import Hypothesis, Job


class FakeGraph:
    """A fake CUDA graph: replays a step."""

    def __init__(self, run: Callable[[], None]) -> None:
        run()  # captured with all slots vacant
        self.replay = run


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[FakeGraph]:
    """Search on the CPU as on a GPU: static shapes, recorded steps, results one step late."""
    captured: list[FakeGraph] = []

    def capture(run: Callable[[], None]) -> FakeGraph:
        captured.append(FakeGraph(run))
        return captured[-1]

    def fetch(_: Any, jobs: Ints, tensors: list[Tensor]) -> scheduler._Copy:
        looks = itertools.count()  # nothing has arrived at the first look
        event = SimpleNamespace(query=lambda: next(looks) > 0, synchronize=lambda: None)
        return scheduler._Copy(jobs, [tensor.clone() for tensor in tensors], event)

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(graphs, "empty_cache", lambda: None)
    monkeypatch.setattr(scheduler._Slots, "_send", lambda _, array: torch.from_numpy(array.copy()))
    monkeypatch.setattr(scheduler._Slots, "_fetch", fetch)
    monkeypatch.setattr(Workspaces, "_slots_in_memory", lambda *_: 16)
    monkeypatch.setattr(Workspaces, "_idle_budget", lambda _: 2**30)
    monkeypatch.setattr(scheduler, "ENCODE_AHEAD", 5)
    return captured


def static_decoder(models: list[Transformer]) -> Decoder:
    """A decoder that searches as on a GPU."""
    decoder = Decoder(models, FORBIDDEN)
    decoder.static_shapes = decoder.workspaces.static_shapes = True
    decoder.workspaces.record = True
    return decoder


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "greedy", "sample"])
@pytest.mark.parametrize("batch", [1, 3, 16, 100])
def test_recorded_steps_find_the_same_hypotheses(
    batch: int, config: SearchConfig, recorded: list[FakeGraph]
) -> None:
    models = [toy_model(1, WORDS), toy_model(2, WORDS)]
    jobs = [Job(source, (), (number,)) for number, source in enumerate(mixed(20))]
    found = list(static_decoder(models).search(jobs, config, batch))
    expected = dict(Decoder(models, FORBIDDEN).search(jobs, config, 4))
    assert sorted(place for place, _ in found) == list(range(20))
    for place, ours in found:
        assert_same(ours, expected[place])


@pytest.mark.parametrize("batch", [1, 16])
def test_recorded_steps_find_the_same_outputs_with_required_phrases(
    batch: int, recorded: list[FakeGraph]
) -> None:
    models, config = [toy_model(1, WORDS), toy_model(2, WORDS)], SearchConfig(nbest=2, extra=12)
    phrases = [(((5, 6),),), (((7,), (8, 9)), ((4, 4, 5),)), ()]
    jobs = [Job(source, required=phrases[number % 3]) for number, source in enumerate(mixed(20))]
    decoder = static_decoder(models)
    found = dict(decoder.search(jobs, config, batch))
    expected = dict(Decoder(models, FORBIDDEN).search(jobs, config, 4))
    for place, theirs in expected.items():
        assert_same(found[place], theirs)
    assert len(recorded) == 2, "one with phrases, one without"
    list(decoder.search(jobs, config, batch))
    assert len(recorded) == 2


def test_a_recorded_step_serves_other_searches_of_its_kind(recorded: list[FakeGraph]) -> None:
    model, config = toy_model(1, WORDS), CONFIGS[0]
    decoder, jobs = static_decoder([model]), [Job(source) for source in mixed(40)]
    for some in (jobs, jobs[20:], jobs[:20]):  # of which 16 fit
        list(decoder.search(some, config, 40))
    list(decoder.search(jobs, config.replace(draw=5, extra=9), 40))
    assert len(recorded) == 1
    list(decoder.search(jobs[:2], config, 40))  # the recorded step has too many slots
    list(decoder.search(jobs[:2], config.replace(beam=2), 40))
    assert len(recorded) == 3


def test_alternating_searches_record_each_shape_once(
    recorded: list[FakeGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspaces, "_slots_in_memory", lambda *_: 64)
    model = toy_model(1, WORDS)
    decoder, jobs = static_decoder([model]), [Job(source) for source in mixed(60)]
    for _ in range(3):
        for count, beam in itertools.product((20, 60), (4, 5)):
            list(decoder.search(jobs[:count], SearchConfig(beam=beam, extra=6), 64))
    assert len(recorded) == 4


def test_a_search_of_few_sentences_rounds_its_slots_up_but_never_beyond_the_batch(
    recorded: list[FakeGraph],
) -> None:
    decoder = static_decoder([toy_model(1, WORDS)])
    cases = {(1, 512): 16, (17, 512): 32, (200, 512): 256, (900, 512): 512, (900, 300): 300}
    for (jobs, batch), slots in cases.items():
        assert decoder._slots(jobs, batch) == slots


def workspace(slots: int, size: int = 1, **config: Any) -> Workspace:
    """A workspace with a graph that is never replayed."""
    search_config = SearchConfig(**({"extra": 6} | config))
    beams = Beams([toy_model(1, WORDS)], search_config, FORBIDDEN, slots, (64, 64), (64, 64))
    return Workspace(beams, slots, size, object())


def test_the_pool_drops_the_least_recently_used_beyond_its_budget() -> None:
    pool, config = Pool(), SearchConfig(extra=6)
    small, middle, large = (workspace(slots, size=10 * slots) for slots in (16, 64, 256))
    for idle in (small, middle, large):
        pool.give(idle, budget=10_000)
    assert pool.take(config, 16, (64, 64)) is small
    pool.give(small, budget=10_000)
    pool.give(workspace(1024, size=3000), budget=6000)  # drops the middle one, unused for longest
    assert pool.take(config, 64, (64, 64)) is None
    assert pool.take(config, 256, (64, 64)) is large
    assert pool.take(config, 256, (64, 64)) is None, "one search at a time"
    for beam in range(1, MAX_IDLE + 4):
        pool.give(workspace(16, beam=beam), budget=10_000)
    assert len(pool) == MAX_IDLE
    pool.give(workspace(16, size=99_999), budget=10_000)
    assert len(pool) == 1, "the last one is kept however large"


def test_the_pool_gives_the_smallest_workspace_that_fits() -> None:
    pool, config = Pool(), SearchConfig(extra=6)
    for slots in (64, 32, 48):
        pool.give(workspace(slots), budget=100)
    found = pool.take(config, 32, (64, 64))
    assert found is not None
    assert found.requested == 32
    assert pool.take(config, 32, (65, 64)) is None, "its sources are too short"
    assert pool.take(config.replace(beam=5), 32, (64, 64)) is None


def test_idle_workspaces_are_dropped_for_a_new_shape(
    recorded: list[FakeGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, jobs = static_decoder([toy_model(1, WORDS)]), [Job(source) for source in mixed(60)]
    pool = decoder.workspaces.pool
    monkeypatch.setattr(Workspaces, "_slots_in_memory", lambda *_: 64 - 30 * len(pool))
    for beam in (2, 3):
        list(decoder.search(jobs[:2], SearchConfig(beam=beam, extra=6), 64))
    assert len(pool) == 2
    list(decoder.search(jobs, SearchConfig(beam=4, extra=6), 64))  # 64 slots: all the memory
    assert len(pool) == 1


def test_threads_that_share_a_decoder_find_what_one_thread_finds(recorded: list[FakeGraph]) -> None:
    model = toy_model(1, WORDS)
    decoder, jobs = static_decoder([model]), [Job(source) for source in mixed(24)]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, CONFIGS[0], 4))
    together = threading.Barrier(3)

    def searching() -> list[tuple[int, list[Hypothesis]]]:
        together.wait()
        return [found for _ in range(4) for found in decoder.search(jobs, CONFIGS[0], 8)]

    with ThreadPoolExecutor(3) as threads:
        for found in [threads.submit(searching) for _ in range(3)]:
            for place, ours in found.result():
                assert_same(ours, expected[place])
    assert len(recorded) <= 3


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "greedy", "sample"])
def test_an_abandoned_search_does_not_affect_the_next(
    config: SearchConfig, recorded: list[FakeGraph]
) -> None:
    model = toy_model(1, WORDS)
    decoder, jobs = (
        static_decoder([model]),
        [Job(source, (), (n,)) for n, source in enumerate(mixed(24))],
    )
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    for read in (0, 1, 5):
        reading = decoder.search(jobs, config, 8)
        for _ in range(read):
            next(reading)
        reading.close()  # type: ignore[attr-defined]
        for some in (jobs, jobs[3:5]):
            for place, ours in decoder.search(some, config, 8):
                assert_same(ours, expected[some[place].number[0]])
    assert len(recorded) <= 2


def test_two_searches_may_take_turns(recorded: list[FakeGraph]) -> None:
    model, config = toy_model(1, WORDS), CONFIGS[0]
    decoder, jobs = static_decoder([model]), [Job(source) for source in mixed(24)]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    list(decoder.search(jobs, config, 4))
    both = [decoder.search(jobs, config, 4), decoder.search(jobs[::-1], config, 4)]
    for (one, ours), (other, theirs) in zip(*both, strict=True):
        assert_same(ours, expected[one])
        assert_same(theirs, expected[23 - other])


def test_a_recorded_sentence_may_reach_the_last_position(recorded: list[FakeGraph]) -> None:
    model = never_ending(max_len=64, positions="learned")
    jobs = [Job(sentence(length, length)) for length in (64, 60, 5, 5, 5, 5)]
    found = dict(static_decoder([model]).search(jobs, SearchConfig(beam=2, extra=8), 4))
    assert [len(found[place][0].tokens) + 1 for place in range(6)] == [64, 64, 13, 13, 13, 13]


def test_every_thread_searches_on_the_gpu_of_the_model(
    recorded: list[FakeGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new thread begins with the first GPU as its current device."""
    chosen: list[tuple[str, torch.device]] = []
    monkeypatch.setattr(
        torch.cuda,
        "set_device",
        lambda device: chosen.append((threading.current_thread().name, device)),
    )
    decoder, second = static_decoder([toy_model(1, WORDS)]), torch.device("cuda", 1)
    decoder.device = second
    jobs = [Job(source) for source in mixed(3)]
    thread = threading.Thread(target=lambda: list(decoder.search(jobs, CONFIGS[0], 8)), name="t")
    thread.start()
    thread.join()
    assert {*chosen} == {("t", second)}


def test_a_failed_capture_is_logged_and_tried_again_later(
    recorded: list[FakeGraph], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, capture = [100.0], graphs.capture

    def fail(_: Callable[[], None]) -> FakeGraph:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("transduce.decoding.workspaces.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(graphs, "capture", fail)
    model = toy_model(1, WORDS)
    decoder, jobs = static_decoder([model]), [Job(source) for source in mixed(20)]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, CONFIGS[0], 4))

    def assert_finds() -> None:
        found = dict(decoder.search(jobs, CONFIGS[0], 8))
        assert len(found) == 20
        for place, ours in found.items():
            assert_same(ours, expected[place])

    for seconds, failures in ((0.0, 1), (9.9, 1), (0.2, 2), (19.0, 2), (2.0, 3)):
        clock[0] += seconds
        assert_finds()
        assert len(caplog.messages) == failures
    assert caplog.messages[1] == (
        "CUDA graph capture failed; decoding is slower until it is tried again in 20 s: "
        "RuntimeError: operation not permitted when stream is capturing"
    )
    monkeypatch.setattr(graphs, "capture", capture)
    clock[0] += 41
    assert_finds()
    assert len(recorded) == 1
    assert decoder.workspaces.failures == 0
    assert len(caplog.messages) == 3


def test_kernels_that_fail_for_a_beam_size_are_replaced_by_torch_and_logged(
    recorded: list[FakeGraph], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton's OutOfResources is not a RuntimeError."""

    class OutOfResources(Exception):
        pass

    def fail(*_: object, **__: object) -> Tensor:
        raise OutOfResources("shared memory, Required: 270336, Hardware limit: 232448")

    model = toy_model(1, WORDS)
    decoder, jobs = static_decoder([model]), [Job(source) for source in mixed(20)]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, CONFIGS[0], 4))
    # On the CPU only attention over the cache can use a kernel.
    monkeypatch.setattr(model.kernels, "usable", lambda x: x is model.output or x.numel() == 0)

    monkeypatch.setattr(kernels_of_decoding, "attend_past", fail)
    for _ in range(2):
        for place, ours in decoder.search(jobs, CONFIGS[0], 8):
            assert_same(ours, expected[place])
    assert decoder.workspaces.without_kernels == {3}
    (line,) = caplog.messages
    assert line == (
        "our kernels do not work for attention with beam 3, torch's are used, which is slower: "
        "OutOfResources: shared memory, Required: 270336, Hardware limit: 232448"
    )


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "greedy", "sample"])
@pytest.mark.parametrize("way", ["cpu", "gpu"])
def test_a_sentence_whose_values_overflow_has_no_hypotheses_and_others_have_theirs(
    config: SearchConfig, way: str, recorded: list[FakeGraph]
) -> None:
    """The next sentence in its slot may have none either: the cache keeps non-finite values."""
    model = toy_model(1, WORDS)
    jobs = [Job(source, (), (n,)) for n, source in enumerate(mixed(12))]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    assert model.source_embedding.positions is not None
    with torch.no_grad():  # the longest reach a position that breaks them
        longest = max(len(job.source) for job in jobs)
        model.source_embedding.positions[longest - 1] = torch.inf
    decoder = static_decoder([model]) if way == "gpu" else Decoder([model], FORBIDDEN)
    found = dict(decoder.search(jobs, config, 4))
    assert len(found) == 12
    broken = {place for place, job in enumerate(jobs) if len(job.source) == longest}
    without = {place for place, outputs in found.items() if not outputs}
    assert broken <= without
    assert len(without) < len(jobs)
    for place in found.keys() - without:
        assert_same(found[place], expected[place])
