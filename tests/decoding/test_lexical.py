"""Outputs contain every required phrase, and nothing changes where none is required."""

import itertools
import math
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import FORBIDDEN, WORDS, assert_same, mixed, never_ending, toy_model

from models import sentence
from transduce.config import SearchConfig
from transduce.decoding.lexical import (
    LEAST_BEAM,
    MAX_PHRASES,
    MAX_TOKENS,
    Phrase,
    PhraseBeams,
    allocate,
    phrase_capacity,
    phrase_tables,
    usable_phrases,
)
from transduce.decoding.scheduler import Decoder
from transduce.decoding.search import Beams, log_probabilities
from transduce.model.transformer import Transformer
from transduce.subwords import EOS
from transduce.translation.types import Hypothesis, Job


def occurrences(tokens: list[int], phrase: Phrase) -> int:
    """How often a phrase occurs without overlap: the earliest end first."""
    count, begin = 0, 0
    for end in range(1, len(tokens) + 1):
        if any(
            end - len(one) >= begin and tuple(tokens[end - len(one) : end]) == one for one in phrase
        ):
            count, begin = count + 1, end
    return count


def has_all(tokens: list[int], required: tuple[Phrase, ...]) -> bool:
    groups = {frozenset(phrase): phrase for phrase in required}
    needed = [frozenset(phrase) for phrase in required]
    return all(occurrences(tokens, groups[key]) >= needed.count(key) for key in groups)


def random_phrases(random: Random, words: int) -> tuple[Phrase, ...]:
    phrases: list[Phrase] = [
        tuple(
            tuple(random.randrange(4, words) for _ in range(random.randint(1, 3)))
            for _ in range(random.randint(1, 2))
        )
        for _ in range(random.randint(1, 3))
    ]
    if random.random() < 0.2:
        phrases.append(phrases[0])
    return tuple(phrases)


def jobs_with_phrases(count: int, words: int = WORDS) -> list[Job]:
    random = Random(count)
    return [
        Job(source, number=(number,), required=random_phrases(random, words))
        for number, source in enumerate(mixed(count))
    ]


def searched(
    models: Transformer | list[Transformer], jobs: list[Job], config: SearchConfig, batch: int = 32
) -> list[list[Hypothesis]]:
    models = models if isinstance(models, list) else [models]
    found = dict(Decoder(models, FORBIDDEN).search(jobs, config, batch))
    return [found[number] for number in range(len(jobs))]


def exhaustive(
    model: Transformer, job: Job, words: list[int], config: SearchConfig, limit: int
) -> list[Hypothesis]:
    """All outputs with the prefix and the phrases, best first."""
    outputs = [
        [*job.prefix, *rest]
        for length in range(limit - len(job.prefix))
        for rest in itertools.product(words, repeat=length)
        if has_all([*job.prefix, *rest], job.required)
    ]
    pairs = [(job.source, np.array([*output, EOS])) for output in outputs]
    totals = [sum(values) for values in log_probabilities([model], pairs)]
    scored = [
        Hypothesis.of(output, total, config) for output, total in zip(outputs, totals, strict=True)
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize(
    ("prefix", "required"),
    [
        ((), (((5,),),)),
        ((), (((5, 4),), ((6,),))),
        ((), (((4, 4),), ((4, 4),))),
        ((), (((5, 6, 5),), ((5, 5),))),
        ((), (((5, 6), (6, 4)), ((4,),))),
        ((), (((6, 6), (6,)), ((6, 6), (6,)))),
        ((6, 5), (((5, 4),), ((6, 5),))),
    ],
)
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_as_wide_as_the_space_finds_the_best_outputs_with_the_phrases(
    alpha: float, prefix: tuple[int, ...], required: tuple[Phrase, ...]
) -> None:
    model, source = toy_model(2), sentence(2, 2, 7)
    job, limit = Job(source, prefix, required=required), 6
    base = max(len(source), len(prefix))
    config = SearchConfig(beam=400, nbest=3, alpha=alpha, extra=limit - base)
    (found,) = searched(model, [job], config)
    expected = exhaustive(model, job, [4, 5, 6], config, limit)
    assert_same(found[: len(expected)], expected[:3])


@pytest.mark.parametrize("config", [SearchConfig(beam=1, extra=8), SearchConfig(beam=4, extra=20)])
def test_outputs_contain_every_phrase(config: SearchConfig) -> None:
    jobs = jobs_with_phrases(100)
    free = searched(toy_model(1, WORDS), [Job(job.source) for job in jobs], config)
    found = searched(toy_model(1, WORDS), jobs, config)
    assert all(
        has_all(best.tokens, job.required) for (best, *_), job in zip(found, jobs, strict=True)
    )
    without = sum(
        has_all(best.tokens, job.required) for (best, *_), job in zip(free, jobs, strict=True)
    )
    assert without < 20, "the phrases are in most outputs anyway"


def test_all_of_the_best_outputs_contain_every_phrase() -> None:
    jobs, config = jobs_with_phrases(40), SearchConfig(beam=4, nbest=3, extra=30)
    for job, found in zip(jobs, searched(toy_model(3, WORDS), jobs, config), strict=True):
        assert len(found) == len({tuple(one.tokens) for one in found}) == 3
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert all(has_all(one.tokens, job.required) for one in found)


def test_scores_are_the_log_probabilities_of_the_outputs() -> None:
    models = [toy_model(1, WORDS), toy_model(2, WORDS)]
    jobs = jobs_with_phrases(12)
    config = SearchConfig(beam=4, nbest=2, extra=12)
    for job, found in zip(jobs, searched(models, jobs, config), strict=True):
        pairs = [(job.source, np.array([*one.tokens, EOS])) for one in found]
        for one, values in zip(found, log_probabilities(models, pairs), strict=True):
            assert one.log_probability == pytest.approx(sum(values), abs=1e-3)


def test_a_phrase_in_the_prefix_counts_and_others_come_after_it() -> None:
    job = Job(sentence(5, 1, WORDS), prefix=(7, 8, 9), required=(((8, 9),), ((9, 12),)))
    (found,) = searched(toy_model(1, WORDS), [job], SearchConfig(beam=4, extra=10))
    assert found[0].tokens[:4] == [7, 8, 9, 12]
    job = Job(job.source, job.prefix, required=(((8, 9),),))
    free = searched(toy_model(1, WORDS), [Job(job.source, job.prefix)], SearchConfig(beam=8))
    assert_same(searched(toy_model(1, WORDS), [job], SearchConfig(beam=8))[0], free[0])


def test_an_output_without_all_phrases_ends_at_the_limit() -> None:
    job = Job(sentence(2, 1, WORDS), required=(((8, 9),), ((10, 11),)))
    (found,) = searched(toy_model(1, WORDS), [job], SearchConfig(beam=4, nbest=2, extra=1))
    assert all(len(one.tokens) == 2 for one in found)
    assert occurrences(found[0].tokens, ((8, 9),)) + occurrences(found[0].tokens, ((10, 11),)) == 1
    (found,) = searched(never_ending(), [job], SearchConfig(extra=6))
    assert has_all(found[0].tokens, job.required)


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_other_sentences_of_the_batch_change_nothing(batch: int) -> None:
    model, config = toy_model(1, WORDS), SearchConfig(beam=4, nbest=2, extra=12)
    jobs = jobs_with_phrases(20)
    alone = [searched(model, [job], config)[0] for job in jobs]
    for ours, expected in zip(searched(model, jobs, config, batch), alone, strict=True):
        assert_same(ours, expected)


def test_sentences_without_phrases_are_searched_with_the_same_bits() -> None:
    model, config = toy_model(1, WORDS), SearchConfig(beam=4, nbest=3, extra=12)
    free = [Job(source) for source in mixed(20)]
    expected = searched(model, free, config)
    both = [job for pair in zip(free, jobs_with_phrases(20), strict=True) for job in pair]
    assert searched(model, both, config)[::2] == expected
    empty = [Job(job.source, required=((), ((),), ((EOS,),), ((FORBIDDEN[0], 5),))) for job in free]
    assert searched(model, empty, config) == expected


def test_samples_are_drawn_as_if_nothing_were_required() -> None:
    model, config = toy_model(1, WORDS), SearchConfig(sample=True, nbest=2, extra=6)
    jobs = jobs_with_phrases(6)
    free = [Job(job.source, number=job.number) for job in jobs]
    assert searched(model, jobs, config) == searched(model, free, config)


def test_a_value_that_overflows_gives_no_hypotheses() -> None:
    model = toy_model(1, WORDS)
    with torch.no_grad():
        model.output[5] = math.nan
    assert searched(model, jobs_with_phrases(3), SearchConfig(extra=6)) == [[], [], []]


def test_phrases_that_do_not_fit_are_left_out() -> None:
    single = [((token,),) for token in range(4, 40)]
    assert usable_phrases(single, FORBIDDEN) == tuple(single[:MAX_PHRASES])
    long, short = ((*range(4, 4 + MAX_TOKENS),),), ((5,),)
    assert usable_phrases([((4,),), long, short], FORBIDDEN) == (((4,),), short)
    assert usable_phrases([long, long, short], FORBIDDEN) == (long, long)
    assert usable_phrases([((FORBIDDEN[0],), (6, 5), (4,))], FORBIDDEN) == (((4,), (6, 5)),)
    assert phrase_capacity([[long, long], [short, short]], static=False) == (1, MAX_TOKENS)
    assert phrase_capacity([[short, ((4, 4),)]], static=True) == (4, 16)


def test_equal_phrases_are_those_with_the_same_alternatives_in_any_order() -> None:
    required = usable_phrases([((5,), (4, 6)), ((4, 6), (5,))], FORBIDDEN)
    tokens, phrases = phrase_tables([required], phrase_capacity([required], static=False))
    assert phrases.tolist() == [[[2, 1]]]
    assert tokens.tolist() == [[[4, 0, 1], [6, 0, 0], [5, 0, 0]]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_the_state_of_a_hypothesis_agrees_with_its_tokens(seed: int) -> None:
    """What the tensors say is missing, against counting in the list of tokens."""
    random = Random(seed)
    words = 7  # few words, so that phrases overlap
    required = usable_phrases(random_phrases(random, words), FORBIDDEN)
    capacity = phrase_capacity([required], static=bool(seed % 2))
    beams = PhraseBeams(
        [toy_model(1)], SearchConfig(beam=1), FORBIDDEN, 1, (4, 4), (4, 4), None, capacity
    )
    slot = torch.zeros(1, dtype=torch.int64)
    beams.require(slot, *map(torch.from_numpy, phrase_tables([required], capacity)))
    tokens: list[int] = []
    for _ in range(12):
        tokens.append(random.randrange(4, words))
        state = beams._after(torch.tensor([[tokens[-1]]]), slot[None])
        for name, value in zip(("reached", "contained", "missing"), state, strict=True):
            getattr(beams, name).copy_(value)
        assert (int(beams.missing) == 0) == has_all(tokens, required)
        assert int(beams.missing) == least_missing(tokens, required)


def least_missing(tokens: list[int], required: tuple[Phrase, ...]) -> int:
    total, begun = 0, 0
    for phrase in set(required):
        shortest = min(map(len, phrase))
        lacking = max(0, required.count(phrase) - occurrences(tokens, phrase))
        total += lacking * shortest
        before = next(  # where its last occurrence ends
            end
            for end in range(len(tokens) + 1)
            if occurrences(tokens[:end], phrase) == occurrences(tokens, phrase)
        )
        for one in phrase if lacking else ():
            for length in range(1, len(one)):
                if length <= len(tokens) - before and tuple(tokens[-length:]) == one[:length]:
                    begun = max(begun, shortest - (len(one) - length))
    return total - begun


def test_places_go_to_the_best_of_each_bank_first() -> None:
    totals = torch.tensor([[-1.0, -2.0, -3.0, -9.0, -8.0, -4.0, -math.inf, -20.0]])
    missing = torch.tensor([[2, 2, 2, 0, 0, 1, 0, 5]])
    chosen = [allocate(totals, missing, k, 1)[0].tolist() for k in (1, 3, 4, 6, 8)]
    assert chosen == [
        *([4], [4, 0, 5], [4, 0, 5, 7], [4, 0, 5, 7, 1, 3]),
        [4, 0, 5, 7, 1, 3, 2, 6],
    ]
    assert allocate(totals, missing, 4, 3)[0].tolist() == [4, 3, 5, 0]


def test_a_hypothesis_with_nan_keeps_a_place() -> None:
    totals = torch.tensor([[-1.0, -2.0, math.nan, -3.0, -4.0]])
    assert 2 in allocate(totals, torch.tensor([[0, 0, 3, 1, 2]]), 2, 1)[0].tolist()


def test_outputs_with_every_phrase_are_kept_before_better_ones_that_end_at_the_limit() -> None:
    beams = PhraseBeams(
        [toy_model(1)], SearchConfig(beam=2, nbest=2), FORBIDDEN, 1, (4, 4), (4, 4), None, (1, 1)
    )
    slot = torch.zeros(1, dtype=torch.int64)
    beams.begin(slot, slot + 4, slot[:, None], beams.forced.clone(), beams.draws.clone())
    both, parents = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[0, 1]])
    for totals, missing in (([-8.0, -9.0], 0), ([-1.0, -2.0], 1)):
        beams.missing.fill_(missing)
        beams._store_ended(both, torch.tensor([totals]), slot + 2, parents)
    assert int(beams.ended_count) == 2
    assert beams.ended[0, :2, [0, 3]].tolist() == [[-8, 0], [-9, 0]]


def test_the_beam_has_a_place_for_several_banks() -> None:
    widths: list[int] = []

    class Watched(Decoder):
        def _slots(self, jobs: int, batch: int) -> int:
            take = self.workspaces._make_beams

            def make(*needs: object) -> Beams:
                beams = take(*needs)  # type: ignore[arg-type]
                widths.append(beams.k)
                return beams

            self.workspaces._make_beams = make  # type: ignore[method-assign,assignment]
            return super()._slots(jobs, batch)

    jobs = jobs_with_phrases(3)
    list(Watched([toy_model(1, WORDS)], FORBIDDEN).search(jobs, SearchConfig(beam=2), 4))
    assert widths == [LEAST_BEAM]
