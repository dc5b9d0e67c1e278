"""Sentences that share a search, its slots and its cache find what each would find alone."""

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import FORBIDDEN, toy_model
from torch import Tensor

from models import filled_cache, pairs_of, search, sentence, small_model
from plain_beam_search import plain_search
from transduce.batching.packed import Ints
from transduce.config import SearchConfig
from transduce.decoding import scheduler as decoding
from transduce.decoding import workspaces as recording
from transduce.decoding.scheduler import Decoder
from transduce.decoding.search import Beams, largest, log_probabilities
from transduce.decoding.workspaces import KEPT, Pool, Workspace, Workspaces
from transduce.model.attention import DotProduct, Heads
from transduce.model.cache import GRAIN, Cache
from transduce.model.ops import graphs
from transduce.model.transformer import Transformer
from transduce.subwords import EOS
from transduce.translation.types import Hypothesis, Job

WORDS = 20
CONFIGS = [
    SearchConfig(beam=3, nbest=2, extra=6),
    SearchConfig(beam=1, extra=6),
    SearchConfig(sample=True, nbest=2, extra=6),
]


def never_ending(seed: int = 0, **changes: Any) -> Transformer:
    """A model whose outputs all reach their limits."""
    model = small_model(seed, logits_bias=True, **changes)
    with torch.no_grad():
        assert model.logits_bias is not None
        model.logits_bias[EOS] = -50
    return model


def assert_same(ours: Sequence[Hypothesis], theirs: Sequence[Hypothesis]) -> None:
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


# --- The rules -----------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seeds=st.lists(st.integers(0, 50), min_size=1, max_size=2, unique=True),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    beam=st.integers(1, 6),
    penalty=st.sampled_from(["paper", "power"]),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    data=st.data(),
)
def test_searching_with_caches_and_side_by_side_is_the_plain_search(
    seeds: list[int], lengths: list[int], beam: int, penalty: Any, alpha: float, data: Any
) -> None:
    models = [toy_model(seed, 9) for seed in seeds]
    config = SearchConfig(
        beam=beam,
        nbest=data.draw(st.integers(1, beam), "nbest"),
        penalty=penalty,
        alpha=alpha,
        extra=data.draw(st.integers(1, 4), "extra"),
    )
    sources = [sentence(length, seed, 9) for seed, length in enumerate(lengths)]
    words = st.lists(st.integers(4, 8), max_size=5)
    prefixes = [data.draw(words, "prefix") for _ in sources]
    found = search(
        models,
        sources,
        config,
        forbidden=FORBIDDEN,
        prefixes=prefixes,
        batch=data.draw(st.integers(1, 4), "batch"),
    )
    for source, prefix, ours in zip(sources, prefixes, found, strict=True):
        assert_same(ours, plain_search(models, source, config, forbidden=FORBIDDEN, prefix=prefix))


def test_a_beam_may_be_wider_than_the_vocabulary() -> None:
    model, source = toy_model(1, 6), sentence(4, 1, 6)
    config = SearchConfig(beam=30, nbest=30, extra=3)
    (found,) = search(model, [source], config, forbidden=FORBIDDEN)
    assert_same(found, plain_search([model], source, config, forbidden=FORBIDDEN))


def test_nothing_need_be_forbidden() -> None:
    model, source = toy_model(2, 9), sentence(4, 1, 9)
    config = SearchConfig(extra=3)
    (found,) = search(model, [source], config, forbidden=[])
    assert_same(found, plain_search([model], source, config, forbidden=[]))


def test_no_jobs_have_no_outputs() -> None:
    decoder = Decoder([small_model()], FORBIDDEN)
    for config in (SearchConfig(), SearchConfig(sample=True, nbest=3)):
        assert list(decoder.search([], config, 4)) == []


# --- Limits --------------------------------------------------------------------------------------


def test_the_shortest_limit_leaves_room_for_the_end_alone() -> None:
    model = never_ending(max_len=2, positions="learned")
    (found,) = search(model, [sentence(1, 1)], SearchConfig(nbest=4), forbidden=FORBIDDEN)
    assert [len(one.tokens) for one in found] == [1] * 4


@pytest.mark.parametrize("length", [10, 11, 12, 30])
def test_a_prefix_is_kept_as_far_as_there_are_positions(length: int) -> None:
    model = small_model(max_len=12, positions="learned")
    prefix = sentence(length + 1, 5)[:-1].tolist()
    (found,) = search(
        model, [sentence(3, 1)], SearchConfig(), forbidden=FORBIDDEN, prefixes=[prefix]
    )
    assert found[0].tokens[:length] == prefix[:11]


@pytest.mark.parametrize("longest", [12, GRAIN, GRAIN + 1, 2 * GRAIN])
def test_a_sentence_at_the_last_position_may_wait_for_younger_ones(longest: int) -> None:
    """It is as long as an output can be and keeps its slot; nothing is written behind its end."""
    model = never_ending(max_len=longest, positions="learned")
    config = SearchConfig(beam=2, extra=3)
    # One in sixteen is not enough to close slots, or to fill them again.
    lengths = [longest, *[4] * 15, *[longest - 3] * 15]
    sources = [sentence(length, number) for number, length in enumerate(lengths)]
    together = search(model, sources, config, forbidden=FORBIDDEN, batch=16)
    assert [len(found[0].tokens) + 1 for found in together] == [longest, *[7] * 15, *[longest] * 15]
    for source, found in zip(sources[::8], together[::8], strict=True):
        assert_same(found, search(model, [source], config, forbidden=FORBIDDEN)[0])


# --- Slots ---------------------------------------------------------------------------------------


class Watched(Beams):
    """Beams that tell how many slots each step had, and how many began."""

    steps: list[int]
    begun: list[int]

    def begin(
        self, slots: Tensor, limits: Tensor, sizes: Tensor, forced: Tensor, draws: Tensor
    ) -> None:
        self.begun.append(len(slots))
        super().begin(slots, limits, sizes, forced, draws)

    def step(self, source: int, steps: int) -> None:
        self.steps.append(len(self.live))
        super().step(source, steps)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    """The slots of every step, and of every beginning, of the searches of a test."""
    monkeypatch.setattr(Watched, "steps", [], raising=False)
    monkeypatch.setattr(Watched, "begun", [], raising=False)
    monkeypatch.setattr(recording, "Beams", Watched)
    return Watched


def mixed(count: int) -> list[Ints]:
    """Sources of very different lengths, in no order."""
    return [sentence(1 + (7 * number) % 23, number, WORDS) for number in range(count)]


@pytest.mark.parametrize("batch", [1, 2, 7, 8, 50])
def test_more_jobs_than_slots_are_each_done_once_and_as_alone(
    batch: int, watched: type[Watched]
) -> None:
    model, config = toy_model(1, WORDS), SearchConfig(beam=3, nbest=2, extra=6)
    jobs = [Job(source) for source in mixed(24)]
    found = list(Decoder([model], FORBIDDEN).search(jobs, config, batch))
    assert sorted(place for place, _ in found) == list(range(24))
    assert max(watched.steps) == min(batch, 24)
    assert sum(watched.begun) == 24
    for place, ours in found:
        (alone,) = search(model, [jobs[place].source], config, forbidden=FORBIDDEN)
        assert_same(ours, alone)


def test_slots_are_filled_again_and_closed_when_nobody_waits(watched: type[Watched]) -> None:
    model = never_ending(source_vocabulary=WORDS, target_vocabulary=WORDS)
    lengths = [30, 20, 4, 4, 4, 4, 4, 4]  # in 4 slots, two of which are filled again twice
    sources = [sentence(length, number, WORDS) for number, length in enumerate(lengths)]
    search(model, sources, SearchConfig(beam=1, extra=1), forbidden=FORBIDDEN, batch=4)
    assert watched.begun == [4, 2, 2]
    assert watched.steps == [4] * 15 + [2] * 6 + [1] * 10


def test_a_decoder_may_search_again_with_other_settings() -> None:
    model = toy_model(3, WORDS)
    decoder, sources = Decoder([model], FORBIDDEN), mixed(9)
    jobs = [Job(source) for source in sources]
    for config in CONFIGS:
        for some in (jobs, jobs[:2], jobs[3:]):
            found = dict(decoder.search(some, config, 4))
            for place, job in enumerate(some):
                assert_same(found[place], dict(decoder.search([job], config, 1))[0])


def test_a_search_is_in_inference_mode_and_its_reader_is_not() -> None:
    decoder = Decoder([small_model()], FORBIDDEN)
    for _ in decoder.search([Job(source) for source in mixed(3)], SearchConfig(beam=1), 1):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()


def test_draws_of_one_sentence_are_sentences_of_their_own() -> None:
    model = small_model(source_vocabulary=WORDS, target_vocabulary=WORDS)
    config = SearchConfig(sample=True, nbest=5, extra=6)
    jobs = [Job(source, (5, 6), (number,)) for number, source in enumerate(mixed(4))]
    found = dict(Decoder([model], FORBIDDEN).search(jobs, config, 3))
    for place, job in enumerate(jobs):
        each = [Job(job.source, job.prefix, (*job.number, draw)) for draw in range(5)]
        # One draw of a job with a longer name is what the first of so many is.
        drawn = [
            dict(Decoder([model], FORBIDDEN)._search([one], config.replace(nbest=1), 1))[0][0]
            for one in each
        ]
        assert_same(found[place], sorted(drawn, key=lambda one: -one.score))
        assert all(one.tokens[:2] == [5, 6] for one in found[place])
    assert len({tuple(one.tokens) for ours in found.values() for one in ours}) > 15


# --- The way of a GPU ----------------------------------------------------------------------------


class Played:
    """A step that is played again as one recorded by CUDA, which no CPU can."""

    def __init__(self, run: Callable[[], None]) -> None:
        run()  # with no sentence in any slot
        self.replay = run


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Played]:
    """Let the CPU go the way of a GPU: one shape, recorded steps, what came of them a step late."""
    made: list[Played] = []

    def capture(run: Callable[[], None]) -> Played:
        made.append(Played(run))
        return made[-1]

    def fetch(_: Any, jobs: Ints, tensors: list[Tensor]) -> decoding._Parcel:
        looks = itertools.count()  # nothing has come at the first look
        event = SimpleNamespace(query=lambda: next(looks) > 0, synchronize=lambda: None)
        return decoding._Parcel(jobs, [tensor.clone() for tensor in tensors], event)

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(graphs, "empty_cache", lambda: None)
    monkeypatch.setattr(decoding._Slots, "_send", lambda _, array: torch.from_numpy(array.copy()))
    monkeypatch.setattr(decoding._Slots, "_fetch", fetch)
    monkeypatch.setattr(Workspaces, "_fitting", lambda *_: 16)
    monkeypatch.setattr(Workspaces, "_budget", lambda _: 2**30)
    monkeypatch.setattr(decoding, "AHEAD", 5)
    return made


def still(models: list[Transformer]) -> Decoder:
    """A decoder that goes the way of a GPU."""
    decoder = Decoder(models, FORBIDDEN)
    decoder.static_shapes = decoder.workspaces.static_shapes = True
    decoder.workspaces.record = True
    return decoder


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "greedy", "sample"])
@pytest.mark.parametrize("batch", [1, 3, 16, 100])
def test_recorded_steps_find_the_same(
    batch: int, config: SearchConfig, recorded: list[Played]
) -> None:
    models = [toy_model(1, WORDS), toy_model(2, WORDS)]
    jobs = [Job(source, (), (number,)) for number, source in enumerate(mixed(20))]
    found = list(still(models).search(jobs, config, batch))
    expected = dict(Decoder(models, FORBIDDEN).search(jobs, config, 4))
    assert sorted(place for place, _ in found) == list(range(20))
    for place, ours in found:
        assert_same(ours, expected[place])


def test_a_recorded_step_serves_other_searches_of_its_kind(recorded: list[Played]) -> None:
    model, config = toy_model(1, WORDS), CONFIGS[0]
    decoder, jobs = still([model]), [Job(source) for source in mixed(40)]
    for some in (jobs, jobs[20:], jobs[:20]):  # of which 16 fit
        list(decoder.search(some, config, 40))
    list(decoder.search(jobs, config.replace(draw=5, extra=9), 40))
    assert len(recorded) == 1
    list(decoder.search(jobs[:2], config, 40))  # far too many slots for so few
    list(decoder.search(jobs[:2], config.replace(beam=2), 40))
    assert len(recorded) == 3


def test_searches_of_several_shapes_by_turns_record_each_shape_once(
    recorded: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspaces, "_fitting", lambda *_: 64)
    model = toy_model(1, WORDS)
    decoder, jobs = still([model]), [Job(source) for source in mixed(60)]
    for _ in range(3):
        for count, beam in itertools.product((20, 60), (4, 5)):
            list(decoder.search(jobs[:count], SearchConfig(beam=beam, extra=6), 64))
    assert len(recorded) == 4


def test_a_search_of_few_sentences_rounds_its_slots_up_but_never_beyond_the_batch(
    recorded: list[Played],
) -> None:
    decoder = still([toy_model(1, WORDS)])
    cases = {(1, 512): 16, (17, 512): 32, (200, 512): 256, (900, 512): 512, (900, 300): 300}
    for (jobs, batch), slots in cases.items():
        assert decoder._slots(jobs, batch) == slots


def workspace(slots: int, size: int = 1, **config: Any) -> Workspace:
    """A workspace with a graph that is never replayed."""
    search_config = SearchConfig(**({"extra": 6} | config))
    beams = Beams([toy_model(1, WORDS)], search_config, FORBIDDEN, slots, (64, 64), (64, 64))
    return Workspace(beams, slots, size, object())


def test_the_pool_keeps_what_was_used_last_within_its_budget() -> None:
    pool, config = Pool(), SearchConfig(extra=6)
    small, middle, large = (workspace(slots, size=10 * slots) for slots in (16, 64, 256))
    for one in (small, middle, large):
        pool.give(one, budget=10_000)
    assert pool.take(config, 16, (64, 64)) is small
    pool.give(small, budget=10_000)
    pool.give(workspace(1024, size=3000), budget=6000)  # drops the middle one, unused for longest
    assert pool.take(config, 64, (64, 64)) is None
    assert pool.take(config, 256, (64, 64)) is large
    assert pool.take(config, 256, (64, 64)) is None, "one search at a time"
    for beam in range(1, KEPT + 4):
        pool.give(workspace(16, beam=beam), budget=10_000)
    assert len(pool) == KEPT
    pool.give(workspace(16, size=99_999), budget=10_000)
    assert len(pool) == 1, "the last one is kept however large"


def test_the_pool_gives_the_smallest_workspace_that_serves() -> None:
    pool, config = Pool(), SearchConfig(extra=6)
    for slots in (64, 32, 48):
        pool.give(workspace(slots), budget=100)
    found = pool.take(config, 32, (64, 64))
    assert found is not None
    assert found.wanted == 32
    assert pool.take(config, 32, (65, 64)) is None, "its sources are too short"
    assert pool.take(config.replace(beam=5), 32, (64, 64)) is None


def test_memory_for_a_new_shape_is_taken_from_idle_ones(
    recorded: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, jobs = still([toy_model(1, WORDS)]), [Job(source) for source in mixed(60)]
    pool = decoder.workspaces.pool
    monkeypatch.setattr(Workspaces, "_fitting", lambda *_: 64 - 30 * len(pool))
    for beam in (2, 3):
        list(decoder.search(jobs[:2], SearchConfig(beam=beam, extra=6), 64))
    assert len(pool) == 2
    list(decoder.search(jobs, SearchConfig(beam=4, extra=6), 64))  # 64 slots: all the memory
    assert len(pool) == 1


def test_threads_that_share_a_decoder_find_what_one_thread_finds(recorded: list[Played]) -> None:
    model = toy_model(1, WORDS)
    decoder, jobs = still([model]), [Job(source) for source in mixed(24)]
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
def test_a_search_that_was_given_up_leaves_nothing_to_the_next(
    config: SearchConfig, recorded: list[Played]
) -> None:
    model = toy_model(1, WORDS)
    decoder, jobs = still([model]), [Job(source, (), (n,)) for n, source in enumerate(mixed(24))]
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


def test_two_searches_may_take_turns(recorded: list[Played]) -> None:
    model, config = toy_model(1, WORDS), CONFIGS[0]
    decoder, jobs = still([model]), [Job(source) for source in mixed(24)]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    list(decoder.search(jobs, config, 4))  # which has left its slots to others
    both = [decoder.search(jobs, config, 4), decoder.search(jobs[::-1], config, 4)]
    for (one, ours), (other, theirs) in zip(*both, strict=True):
        assert_same(ours, expected[one])
        assert_same(theirs, expected[23 - other])


def test_a_recorded_sentence_may_reach_the_last_position(recorded: list[Played]) -> None:
    model = never_ending(max_len=64, positions="learned")
    jobs = [Job(sentence(length, length)) for length in (64, 60, 5, 5, 5, 5)]
    found = dict(still([model]).search(jobs, SearchConfig(beam=2, extra=8), 4))
    assert [len(found[place][0].tokens) + 1 for place in range(6)] == [64, 64, 13, 13, 13, 13]


# --- The largest ---------------------------------------------------------------------------------


@given(
    rows=st.integers(1, 4),
    words=st.integers(1, 700),
    k=st.integers(1, 12),
    kinds=st.integers(2, 2000),
    seed=st.integers(0, 999),
)
def test_the_largest_are_those_of_topk(
    rows: int, words: int, k: int, kinds: int, seed: int
) -> None:
    """With ties, rows that have nothing but -inf, and any number of words."""
    torch.manual_seed(seed)
    x = torch.randint(kinds, (rows, words)).float()
    x[torch.rand(rows, words) < torch.rand(())] = -torch.inf
    x[0] = -torch.inf if seed % 3 == 0 else x[0]
    values, places = largest(x, k)
    assert torch.equal(values, x.topk(min(k, words)).values)
    assert torch.equal(x.gather(1, places), values)
    assert all(len({*row}) == len(row) for row in places.tolist())


# --- The cache -----------------------------------------------------------------------------------


HEADS = Heads(4, 8, 8, 0.0, DotProduct())  # those of `small_model`


def contents(cache: Cache) -> list[Tensor]:
    """All that a cache remembers."""
    return [*cache.source, *cache.own, cache.source_lengths, cache.lengths, cache.ancestors]


def used_cache() -> Cache:
    """A cache of three sources after four steps, in which hypotheses went on from others."""
    model = small_model()
    cache = filled_cache(model, [sentence(length, length) for length in (2, 4, 5)], 3, 8)
    for _ in range(4):
        cache.begin_step(5, 4)
        for own, _ in cache.contexts(torch.zeros(9)):
            own.attend(torch.randn(9, 3 * 32), HEADS)
        cache.end_step(torch.randint(3, (3, 3)), torch.tensor([True, True, False]))
    return cache


@torch.inference_mode()
def test_a_cache_that_grows_keeps_what_it_has() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before = [one.clone() for one in contents(cache)]
    cache.grow(3, 2)  # it has room
    assert [one.shape for one in contents(cache)] == [one.shape for one in before]
    cache.grow(9, 11)
    for one, other in zip(contents(cache), before, strict=True):
        assert torch.equal(one[tuple(map(slice, other.shape))], other)
    assert cache.source[0].size(3) == 9
    assert cache.own[0].size(3) == cache.ancestors.size(2) == 8 + GRAIN
    assert (cache.ancestors[..., 8:] == -1).all()


@torch.inference_mode()
def test_slots_that_are_kept_keep_what_they_have() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before, kept = [one.clone() for one in contents(cache)], torch.tensor([0, 2])
    cache.keep(kept)
    for number, (one, other) in enumerate(zip(contents(cache), before, strict=True)):
        assert torch.equal(one, other[:, kept] if number < 4 else other[kept])
    cache.begin_step(5, 5)
    cache.contexts(torch.zeros(6))[0][0].attend(torch.randn(6, 3 * 32), HEADS)


@torch.inference_mode()
def test_a_new_sentence_changes_no_slot_but_its_own() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before = [one.clone() for one in contents(cache)]
    slot = torch.tensor([1])
    places = torch.tensor([1, 1, 1]), torch.arange(3)
    cache.put(slot, torch.tensor([3], dtype=torch.int32), places, torch.randn(2, 3, 64))
    others = torch.tensor([0, 2])
    for number, (one, other) in enumerate(zip(contents(cache), before, strict=True)):
        of = (slice(None), others) if number < 4 else (others,)
        assert torch.equal(one[of], other[of])
    assert (cache.source_lengths[1].item(), cache.lengths[1].item()) == (3, 0)
    assert (cache.ancestors[1] == -1).all()


# --- Packed and narrow models --------------------------------------------------------------------


PAIRS = pairs_of([(3 + n, 2 + 2 * n) for n in range(6)])


@pytest.mark.parametrize("logits_bias", [False, True])
def test_a_packed_model_searches_and_scores_as_before(logits_bias: bool) -> None:
    shape: dict[str, Any] = {"logits_bias": logits_bias, "attention_bias": logits_bias}
    model, config = small_model(3, **shape), SearchConfig(nbest=4, extra=5)
    jobs = [Job(source) for source, _ in PAIRS]

    def found() -> tuple[list[list[float]], dict[int, list[Hypothesis]]]:
        outputs = dict(Decoder([model], FORBIDDEN).search(jobs, config, 3))
        return log_probabilities([model], PAIRS), outputs

    scores, outputs = found()
    model.pack()
    packed_scores, packed_outputs = found()
    for one, other in zip(packed_scores, scores, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    for place, ours in outputs.items():
        assert_same(packed_outputs[place], ours)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tie", ["all", "none"])
def test_a_narrow_model_scores_and_searches_nearly_as_before(tie: Any, dtype: torch.dtype) -> None:
    model = small_model(3, logits_bias=True, attention_bias=True, tie=tie)
    torch.nn.init.normal_(model.logits_bias)  # type: ignore[arg-type]
    before = log_probabilities([model], PAIRS)
    model.narrow(dtype)
    assert model.dtype == dtype
    assert {model.output.dtype, model.decoder[0].feed_forward.W_1.weight.dtype} == {dtype}  # type: ignore[union-attr]
    for one, other in zip(log_probabilities([model], PAIRS), before, strict=True):
        assert one == pytest.approx(other, abs=0.1)
    source = sentence(5, 5)
    (found,) = search(model, [source], SearchConfig(beam=2, extra=4), forbidden=FORBIDDEN)
    (again,) = log_probabilities([model], [(source, np.array([*found[0].tokens, EOS]))])
    assert found[0].log_probability == pytest.approx(sum(again), abs=0.1)


def test_every_thread_searches_on_the_gpu_of_the_model(
    recorded: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads begin with the first GPU, whatever the one that loaded the model has chosen."""
    chosen: list[tuple[str, torch.device]] = []
    monkeypatch.setattr(
        torch.cuda,
        "set_device",
        lambda device: chosen.append((threading.current_thread().name, device)),
    )
    decoder, second = still([toy_model(1, WORDS)]), torch.device("cuda", 1)
    decoder.device = second
    jobs = [Job(source) for source in mixed(3)]
    thread = threading.Thread(target=lambda: list(decoder.search(jobs, CONFIGS[0], 8)), name="t")
    thread.start()
    thread.join()
    assert {*chosen} == {("t", second)}


def test_a_capture_that_fails_is_said_and_tried_again_later(
    recorded: list[Played], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, capture = [100.0], graphs.capture

    def fail(_: Callable[[], None]) -> Played:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("transduce.decoding.workspaces.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(graphs, "capture", fail)
    model = toy_model(1, WORDS)
    decoder, jobs = still([model]), [Job(source) for source in mixed(20)]
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


def test_kernels_that_fail_for_a_beam_leave_it_to_torch_and_say_so(
    recorded: list[Played], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton's OutOfResources is no RuntimeError."""

    class OutOfResources(Exception):
        pass

    def fail(*_: object, **__: object) -> Tensor:
        raise OutOfResources("shared memory, Required: 270336, Hardware limit: 232448")

    model = toy_model(1, WORDS)
    decoder, jobs = still([model]), [Job(source) for source in mixed(20)]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, CONFIGS[0], 4))
    # On the CPU only the attention over the cache can go by a kernel.
    monkeypatch.setattr(model.kernels, "usable", lambda x: x is model.output or x.numel() == 0)
    from transduce.model.ops.triton import decoding as kernels_of_decoding

    monkeypatch.setattr(kernels_of_decoding, "own", fail)
    for _ in range(2):
        for place, ours in decoder.search(jobs, CONFIGS[0], 8):
            assert_same(ours, expected[place])
    assert decoder.workspaces.without_kernels == {3}
    (line,) = caplog.messages
    assert line == (
        "our kernels do not work for attention with beam 3, torch's are used, which is slower: "
        "OutOfResources: shared memory, Required: 270336, Hardware limit: 232448"
    )


# --- Values that are not finite ------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "greedy", "sample"])
@pytest.mark.parametrize("way", ["cpu", "gpu"])
def test_a_sentence_whose_values_overflow_has_no_outputs_and_no_other_has_wrong_ones(
    config: SearchConfig, way: str, recorded: list[Played]
) -> None:
    """One that follows it in its slot may have none either: the cache keeps what overflowed."""
    model = toy_model(1, WORDS)
    jobs = [Job(source, (), (n,)) for n, source in enumerate(mixed(12))]
    expected = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    assert model.source_embedding.positions is not None
    with torch.no_grad():  # the longest reach a position that breaks them
        longest = max(len(job.source) for job in jobs)
        model.source_embedding.positions[longest - 1] = torch.inf
    decoder = still([model]) if way == "gpu" else Decoder([model], FORBIDDEN)
    found = dict(decoder.search(jobs, config, 4))
    assert len(found) == 12
    broken = {place for place, job in enumerate(jobs) if len(job.source) == longest}
    without = {place for place, outputs in found.items() if not outputs}
    assert broken <= without
    assert len(without) < len(jobs)
    for place in found.keys() - without:
        assert_same(found[place], expected[place])


def test_an_overflow_in_the_midst_of_an_output_leaves_the_sentence_without_any() -> None:
    """Hypotheses that ended before it are no result: the search was not complete."""
    model = small_model(1, logits_bias=True)
    config = SearchConfig(beam=4, nbest=4, extra=8)
    jobs = [Job(sentence(5, seed)) for seed in range(9)]
    assert model.logits_bias is not None
    assert model.target_embedding.positions is not None
    with torch.no_grad():
        model.logits_bias[EOS] = 3.0
    before = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    assert all(min(len(one.tokens) for one in outputs) < 3 for outputs in before.values())
    with torch.no_grad():
        model.target_embedding.positions[3] = torch.nan
    found = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    reached = {n for n, outputs in before.items() if max(len(one.tokens) for one in outputs) > 3}
    assert len(reached) > 3
    assert all(found[n] == [] for n in reached)


# --- Prefixes ------------------------------------------------------------------------------------


def test_an_output_goes_on_after_a_prefix_that_is_longer_than_the_source() -> None:
    model = never_ending(max_len=64)
    prefix = sentence(31, 5)[:-1].tolist()
    for extra, length in ((1, 31), (8, 38), (50, 80)):
        config = SearchConfig(beam=2, extra=extra)
        (found,) = search(model, [sentence(3, 1)], config, forbidden=FORBIDDEN, prefixes=[prefix])
        assert found[0].tokens[:30] == prefix
        assert len(found[0].tokens) + 1 == length
