"""Search finds what exhaustive search finds, and a batch changes nothing."""

import itertools
import math
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import FORBIDDEN, toy_model

from models import pairs_of, search, sentence, small_model
from transduce.batching.packed import Ints
from transduce.config import SearchConfig
from transduce.decoding.search import log_probabilities
from transduce.model.transformer import Transformer
from transduce.subwords import EOS
from transduce.translation.types import Hypothesis, length_penalty


def scored(model: Transformer, source: Ints, outputs: list[list[int]]) -> list[float]:
    pairs = [(source, np.array([*output, EOS])) for output in outputs]
    return [sum(values) for values in log_probabilities([model], pairs)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_the_space_finds_what_exhaustive_search_finds(
    seed: int, alpha: float
) -> None:
    model, source = toy_model(seed), sentence(2, seed, 7)
    words, longest = [4, 5, 6], 4
    outputs = [
        list(output)
        for length in range(longest)
        for output in itertools.product(words, repeat=length)
    ]
    config = SearchConfig(beam=len(outputs), nbest=5, alpha=alpha, extra=longest - len(source))
    totals = scored(model, source, outputs)
    # The longest outputs are forced to end, as in the search.
    by_score = sorted(
        (
            Hypothesis.of(output, total, config)
            for output, total in zip(outputs, totals, strict=True)
        ),
        key=lambda hypothesis: -hypothesis.score,
    )
    (found,) = search(model, [source], config, forbidden=FORBIDDEN)
    assert [output.tokens for output in found] == [output.tokens for output in by_score[:5]]
    for ours, exact in zip(found, by_score, strict=False):
        assert ours.score == pytest.approx(exact.score, abs=1e-4)


def greedy_by_hand(model: Transformer, source: Ints, limit: int) -> list[int]:
    output: list[int] = []
    while len(output) + 1 < limit:
        best, choice = -math.inf, EOS
        for word in [EOS, *range(4, model.config.target_vocabulary)]:
            pair = (source, np.array([*output, word]))
            value = log_probabilities([model], [pair])[0][-1]
            if value > best:
                best, choice = value, word
        if choice == EOS:
            break
        output.append(choice)
    return output


@pytest.mark.parametrize("seed", range(5))
def test_beam_1_is_greedy(seed: int) -> None:
    model, source = toy_model(seed, 9), sentence(5, seed, 9)
    (found,) = search(model, [source], SearchConfig(beam=1, extra=6), forbidden=FORBIDDEN)
    assert found[0].tokens == greedy_by_hand(model, source, 11)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_a_batch_of_any_size_and_order_gives_the_same_translations(
    lengths: list[int], beam: int, random: Random
) -> None:
    model = toy_model(1, 20)
    sources = [sentence(length, number, 20) for number, length in enumerate(lengths)]
    config = SearchConfig(beam=beam, nbest=beam, extra=8)
    alone = [search(model, [source], config, forbidden=FORBIDDEN)[0] for source in sources]
    order = list(range(len(sources)))
    random.shuffle(order)
    together = search(model, [sources[i] for i in order], config, forbidden=FORBIDDEN)
    for position, i in enumerate(order):
        assert [output.tokens for output in together[position]] == [
            output.tokens for output in alone[i]
        ]
        for a, b in zip(together[position], alone[i], strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-4)


def test_scores_are_those_of_teacher_forcing_over_the_papers_penalty() -> None:
    model, source = toy_model(3, 20), sentence(6, 3, 20)
    config = SearchConfig(beam=4, nbest=4)
    (found,) = search(model, [source], config, forbidden=FORBIDDEN)
    assert found == sorted(found, key=lambda output: -output.score)
    for output, total in zip(
        found, scored(model, source, [output.tokens for output in found]), strict=True
    ):
        assert output.log_probability == pytest.approx(total, abs=1e-4)
        length = len(output.tokens) + 1  # </s> counted once
        assert output.score == pytest.approx(total / ((5 + length) / 6) ** 0.6, abs=1e-4)


def test_the_penalty_is_the_papers_and_the_power_is_an_option() -> None:
    assert length_penalty(7, SearchConfig(alpha=0.6)) == pytest.approx(2**0.6)
    assert length_penalty(7, SearchConfig(alpha=0.6, penalty="power")) == pytest.approx(7**0.6)
    assert length_penalty(100, SearchConfig(alpha=0.0)) == 1.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_stopping_early_never_discards_a_hypothesis_that_could_still_win(
    seed: int, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without early stopping the hypotheses are the same."""
    model = toy_model(seed, 12)
    sources = [sentence(length, length + seed, 12) for length in (3, 6, 8)]
    config = SearchConfig(beam=4, alpha=alpha, extra=8)
    early = search(model, sources, config, forbidden=FORBIDDEN)
    # No bound: every live hypothesis could still win.
    monkeypatch.setattr(
        "transduce.decoding.search.best_possible", lambda totals, longest: totals * 0
    )
    late = search(model, sources, config, forbidden=FORBIDDEN)
    assert [[output.tokens for output in found] for found in early] == [
        [output.tokens for output in found] for found in late
    ]


def test_an_output_is_at_most_extra_tokens_longer_than_the_source() -> None:
    model = toy_model(0, 12)
    with torch.no_grad():  # the model never ends: every other word is likelier
        model.output[EOS] = -model.output[4:].sum(0)
    sources = [sentence(length, length, 12) for length in (1, 4, 9)]
    for found, source in zip(
        search(model, sources, SearchConfig(extra=3), forbidden=FORBIDDEN), sources, strict=True
    ):
        assert 0 <= len(found[0].tokens) + 1 <= len(source) + 3


def test_forbidden_words_are_never_generated() -> None:
    model = toy_model(2, 12)
    forbidden = [*FORBIDDEN, 5, 6, 7]
    for config in (SearchConfig(nbest=4), SearchConfig(sample=True, nbest=8)):
        (found,) = search(model, [sentence(6, 1, 12)], config, forbidden=forbidden)
        assert not {*forbidden} & {word for output in found for word in output.tokens}


def test_a_prefix_is_kept_and_the_rest_is_the_best_after_it() -> None:
    model, source = toy_model(4, 12), sentence(6, 4, 12)
    config = SearchConfig(beam=1, extra=8)
    plain, forced = search(
        model, [source, source], config, forbidden=FORBIDDEN, prefixes=[[], [7, 9, 4]]
    )
    assert forced[0].tokens[:3] == [7, 9, 4]
    (again,) = search(model, [source], config, forbidden=FORBIDDEN, prefixes=[plain[0].tokens[:2]])
    assert again[0].tokens == plain[0].tokens
    assert forced[0].log_probability == pytest.approx(
        scored(model, source, [forced[0].tokens])[0], abs=1e-4
    )


def test_samples_follow_the_seed_and_not_the_batch() -> None:
    model = toy_model(5, 20)
    sources = [sentence(length, length, 20) for length in (3, 8, 5)]
    config = SearchConfig(sample=True, nbest=3, draw=7)
    together = search(model, sources, config, forbidden=FORBIDDEN, numbers=[(10,), (11,), (12,)])
    for number, source, found in zip((10, 11, 12), sources, together, strict=True):
        (alone,) = search(model, [source], config, forbidden=FORBIDDEN, numbers=[(number,)])
        assert [output.tokens for output in alone] == [output.tokens for output in found]
    other = search(
        model, sources, config.replace(draw=8), forbidden=FORBIDDEN, numbers=[(10,), (11,), (12,)]
    )
    assert [[output.tokens for output in found] for found in other] != [
        [output.tokens for output in found] for found in together
    ]


def test_samples_have_the_models_distribution() -> None:
    """The first word of many draws is distributed as the model says."""
    model, source = toy_model(6, 8), sentence(3, 6, 8)
    config = SearchConfig(sample=True, nbest=4000, extra=5)
    (found,) = search(model, [source], config, forbidden=FORBIDDEN)
    firsts = [(*output.tokens, EOS)[0] for output in found]
    allowed = [EOS, 4, 5, 6, 7]
    exact = np.exp([log_probabilities([model], [(source, np.array([w]))])[0][0] for w in allowed])
    counted = np.array([firsts.count(word) for word in allowed]) / len(firsts)
    assert counted == pytest.approx(exact / exact.sum(), abs=0.03)


def test_top_k_1_and_a_tiny_top_p_are_greedy() -> None:
    model, source = toy_model(7, 20), sentence(5, 7, 20)
    (greedy,) = search(model, [source], SearchConfig(beam=1), forbidden=FORBIDDEN)
    for choice in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        config = SearchConfig(sample=True, **choice)
        (drawn,) = search(model, [source], config, forbidden=FORBIDDEN)
        assert drawn[0].tokens == greedy[0].tokens


def test_top_p_draws_from_the_nucleus_only() -> None:
    model, source = toy_model(8, 8), sentence(3, 8, 8)
    allowed = [EOS, 4, 5, 6, 7]
    log_p = [log_probabilities([model], [(source, np.array([w]))])[0][0] for w in allowed]
    ranked = sorted(zip(np.exp(log_p) / np.exp(log_p).sum(), allowed, strict=True), reverse=True)
    nucleus, mass = set(), 0.0
    for probability, word in ranked:
        if mass < 0.5:
            nucleus.add(word)
        mass += probability
    config = SearchConfig(sample=True, nbest=500, top_p=0.5, extra=4)
    (found,) = search(model, [source], config, forbidden=FORBIDDEN)
    assert {(*output.tokens, EOS)[0] for output in found} == nucleus


def test_scoring_does_not_depend_on_the_batch() -> None:
    model = small_model(9)
    pairs = pairs_of([(3, 5), (8, 2), (5, 5), (1, 1)])
    together = log_probabilities([model], pairs)
    for pair, values in zip(pairs, together, strict=True):
        assert values == pytest.approx(log_probabilities([model], [pair])[0], abs=1e-4)
        assert len(values) == len(pair[1])
