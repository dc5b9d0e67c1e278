"""Beam search and sampling of many sentences side by side; tests/support has the plain search."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy_search import CONFIGS, FORBIDDEN, WORDS, assert_same, mixed, never_ending, toy_model

from models import pairs_of, search, sentence, small_model
from plain_beam_search import plain_search
from transduce.config import SearchConfig
from transduce.decoding import workspaces
from transduce.decoding.scheduler import Decoder
from transduce.decoding.search import Beams, fast_topk, log_probabilities
from transduce.model.cache import GRAIN
from transduce.subwords import EOS
from transduce.translation.types import Hypothesis, Job

# --- The rules ------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seeds=st.lists(st.integers(0, 50), min_size=1, max_size=2, unique=True),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    beam=st.integers(1, 6),
    penalty=st.sampled_from(["paper", "power"]),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    data=st.data(),
)
def test_the_batched_search_finds_what_the_plain_search_finds(
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


def test_no_word_needs_to_be_forbidden() -> None:
    model, source = toy_model(2, 9), sentence(4, 1, 9)
    config = SearchConfig(extra=3)
    (found,) = search(model, [source], config, forbidden=[])
    assert_same(found, plain_search([model], source, config, forbidden=[]))


def test_a_search_without_jobs_yields_nothing() -> None:
    decoder = Decoder([small_model()], FORBIDDEN)
    for config in (SearchConfig(), SearchConfig(sample=True, nbest=3)):
        assert list(decoder.search([], config, 4)) == []


# --- Limits ---------------------------------------------------------------------------------------


def test_the_shortest_limit_allows_one_word_and_the_end() -> None:
    model = never_ending(max_len=2, positions="learned")
    (found,) = search(model, [sentence(1, 1)], SearchConfig(nbest=4), forbidden=FORBIDDEN)
    assert [len(output.tokens) for output in found] == [1] * 4


@pytest.mark.parametrize("length", [10, 11, 12, 30])
def test_a_prefix_is_cut_at_the_last_position(length: int) -> None:
    model = small_model(max_len=12, positions="learned")
    prefix = sentence(length + 1, 5)[:-1].tolist()
    (found,) = search(
        model, [sentence(3, 1)], SearchConfig(), forbidden=FORBIDDEN, prefixes=[prefix]
    )
    assert found[0].tokens[:length] == prefix[:11]


@pytest.mark.parametrize("longest", [12, GRAIN, GRAIN + 1, 2 * GRAIN])
def test_a_sentence_at_the_last_position_may_stay_in_its_slot(longest: int) -> None:
    """It is as long as an output can be; nothing is written beyond its end."""
    model = never_ending(max_len=longest, positions="learned")
    config = SearchConfig(beam=2, extra=3)
    # One vacant slot of sixteen is too few to remove or fill slots.
    lengths = [longest, *[4] * 15, *[longest - 3] * 15]
    sources = [sentence(length, number) for number, length in enumerate(lengths)]
    together = search(model, sources, config, forbidden=FORBIDDEN, batch=16)
    assert [len(found[0].tokens) + 1 for found in together] == [longest, *[7] * 15, *[longest] * 15]
    for source, found in zip(sources[::8], together[::8], strict=True):
        assert_same(found, search(model, [source], config, forbidden=FORBIDDEN)[0])


# --- Slots ----------------------------------------------------------------------------------------


class CountingBeams(Beams):
    """Beams that count the slots of each step, and the sentences that begin."""

    steps: list[int]
    started: list[int]

    def begin(
        self, slots: Tensor, limits: Tensor, sizes: Tensor, forced: Tensor, draws: Tensor
    ) -> None:
        self.started.append(len(slots))
        super().begin(slots, limits, sizes, forced, draws)

    def step(self, source: int, steps: int) -> None:
        self.steps.append(len(self.live))
        super().step(source, steps)


@pytest.fixture
def counting_beams(monkeypatch: pytest.MonkeyPatch) -> type[CountingBeams]:
    """Count the slots of all searches of a test."""
    monkeypatch.setattr(CountingBeams, "steps", [], raising=False)
    monkeypatch.setattr(CountingBeams, "started", [], raising=False)
    monkeypatch.setattr(workspaces, "Beams", CountingBeams)
    return CountingBeams


@pytest.mark.parametrize("batch", [1, 2, 7, 8, 50])
def test_every_job_is_done_once_and_as_if_searched_alone(
    batch: int, counting_beams: type[CountingBeams]
) -> None:
    model, config = toy_model(1, WORDS), SearchConfig(beam=3, nbest=2, extra=6)
    jobs = [Job(source) for source in mixed(24)]
    found = list(Decoder([model], FORBIDDEN).search(jobs, config, batch))
    assert sorted(place for place, _ in found) == list(range(24))
    assert max(counting_beams.steps) == min(batch, 24)
    assert sum(counting_beams.started) == 24
    for place, ours in found:
        (alone,) = search(model, [jobs[place].source], config, forbidden=FORBIDDEN)
        assert_same(ours, alone)


def test_slots_are_filled_again_and_removed_when_no_sentence_waits(
    counting_beams: type[CountingBeams],
) -> None:
    model = never_ending(source_vocabulary=WORDS, target_vocabulary=WORDS)
    lengths = [30, 20, 4, 4, 4, 4, 4, 4]  # in 4 slots, two of which are filled again twice
    sources = [sentence(length, number, WORDS) for number, length in enumerate(lengths)]
    search(model, sources, SearchConfig(beam=1, extra=1), forbidden=FORBIDDEN, batch=4)
    assert counting_beams.started == [4, 2, 2]
    assert counting_beams.steps == [4] * 15 + [2] * 6 + [1] * 10


def test_a_decoder_may_search_again_with_other_settings() -> None:
    model = toy_model(3, WORDS)
    decoder, sources = Decoder([model], FORBIDDEN), mixed(9)
    jobs = [Job(source) for source in sources]
    for config in CONFIGS:
        for some in (jobs, jobs[:2], jobs[3:]):
            found = dict(decoder.search(some, config, 4))
            for place, job in enumerate(some):
                assert_same(found[place], dict(decoder.search([job], config, 1))[0])


def test_a_search_is_in_inference_mode_but_its_caller_is_not() -> None:
    decoder = Decoder([small_model()], FORBIDDEN)
    for _ in decoder.search([Job(source) for source in mixed(3)], SearchConfig(beam=1), 1):
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()


def test_samples_of_one_sentence_are_independent_searches() -> None:
    model = small_model(source_vocabulary=WORDS, target_vocabulary=WORDS)
    config = SearchConfig(sample=True, nbest=5, extra=6)
    jobs = [Job(source, (5, 6), (number,)) for number, source in enumerate(mixed(4))]
    found = dict(Decoder([model], FORBIDDEN).search(jobs, config, 3))
    for place, job in enumerate(jobs):
        each = [Job(job.source, job.prefix, (*job.number, draw)) for draw in range(5)]
        # A sample of a job is a search with the number of the sample appended.
        drawn = [
            dict(Decoder([model], FORBIDDEN)._search([sample], config.replace(nbest=1), 1))[0][0]
            for sample in each
        ]
        assert_same(found[place], sorted(drawn, key=lambda output: -output.score))
        assert all(output.tokens[:2] == [5, 6] for output in found[place])
    assert len({tuple(output.tokens) for ours in found.values() for output in ours}) > 15


# --- fast_topk ------------------------------------------------------------------------------------


@given(
    rows=st.integers(1, 4),
    words=st.integers(1, 700),
    k=st.integers(1, 12),
    kinds=st.integers(2, 2000),
    seed=st.integers(0, 999),
)
def test_fast_topk_returns_what_topk_returns(
    rows: int, words: int, k: int, kinds: int, seed: int
) -> None:
    """With ties, rows of -inf only, and any number of words."""
    torch.manual_seed(seed)
    x = torch.randint(kinds, (rows, words)).float()
    x[torch.rand(rows, words) < torch.rand(())] = -torch.inf
    x[0] = -torch.inf if seed % 3 == 0 else x[0]
    values, indices = fast_topk(x, k)
    assert torch.equal(values, x.topk(min(k, words)).values)
    assert torch.equal(x.gather(1, indices), values)
    assert all(len({*row}) == len(row) for row in indices.tolist())


# --- Packed and narrow models ---------------------------------------------------------------------


PAIRS = pairs_of([(3 + n, 2 + 2 * n) for n in range(6)])


@pytest.mark.parametrize("logits_bias", [False, True])
def test_a_packed_model_searches_and_scores_as_before(logits_bias: bool) -> None:
    shape: dict[str, Any] = {"logits_bias": logits_bias, "attention_bias": logits_bias}
    model, config = small_model(3, **shape), SearchConfig(nbest=4, extra=5)
    jobs = [Job(source) for source, _ in PAIRS]

    def search_and_score() -> tuple[list[list[float]], dict[int, list[Hypothesis]]]:
        outputs = dict(Decoder([model], FORBIDDEN).search(jobs, config, 3))
        return log_probabilities([model], PAIRS), outputs

    scores, outputs = search_and_score()
    model.pack()
    packed_scores, packed_outputs = search_and_score()
    for packed, plain in zip(packed_scores, scores, strict=True):
        assert packed == pytest.approx(plain, abs=1e-5)
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
    for narrow, full in zip(log_probabilities([model], PAIRS), before, strict=True):
        assert narrow == pytest.approx(full, abs=0.1)
    source = sentence(5, 5)
    (found,) = search(model, [source], SearchConfig(beam=2, extra=4), forbidden=FORBIDDEN)
    (again,) = log_probabilities([model], [(source, np.array([*found[0].tokens, EOS]))])
    assert found[0].log_probability == pytest.approx(sum(again), abs=0.1)


# --- Prefixes -------------------------------------------------------------------------------------


def test_an_output_continues_after_a_prefix_longer_than_the_source() -> None:
    model = never_ending(max_len=64)
    prefix = sentence(31, 5)[:-1].tolist()
    for extra, length in ((1, 31), (8, 38), (50, 80)):
        config = SearchConfig(beam=2, extra=extra)
        (found,) = search(model, [sentence(3, 1)], config, forbidden=FORBIDDEN, prefixes=[prefix])
        assert found[0].tokens[:30] == prefix
        assert len(found[0].tokens) + 1 == length


# --- Values that are not finite -------------------------------------------------------------------


def test_an_overflow_during_the_search_leaves_a_sentence_without_hypotheses() -> None:
    """Hypotheses that ended before it do not count: the search was not complete."""
    model = small_model(1, logits_bias=True)
    config = SearchConfig(beam=4, nbest=4, extra=8)
    jobs = [Job(sentence(5, seed)) for seed in range(9)]
    assert model.logits_bias is not None
    assert model.target_embedding.positions is not None
    with torch.no_grad():
        model.logits_bias[EOS] = 3.0
    before = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    assert all(min(len(output.tokens) for output in outputs) < 3 for outputs in before.values())
    with torch.no_grad():
        model.target_embedding.positions[3] = torch.nan
    found = dict(Decoder([model], FORBIDDEN).search(jobs, config, 4))
    reached = {
        n for n, outputs in before.items() if max(len(output.tokens) for output in outputs) > 3
    }
    assert len(reached) > 3
    assert all(found[n] == [] for n in reached)
