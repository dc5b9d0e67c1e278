"""An ensemble searches with the mean of the probabilities of its models."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from toy_search import FORBIDDEN, toy_model

from models import search, sentence
from transduce.batching.packed import make_batch
from transduce.config import SearchConfig
from transduce.decoding.search import log_probabilities
from transduce.errors import BadRun
from transduce.model.attention_maps import attention_maps
from transduce.model.transformer import Transformer
from transduce.subwords import EOS
from transduce.translation.engines.pytorch import TorchEngine, _fits
from transduce.translation.types import Job

SOURCES = [sentence(length, length, 12) for length in (3, 8, 5)]
CONFIGS = [SearchConfig(nbest=4), SearchConfig(sample=True, nbest=3), SearchConfig(beam=1)]


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "sample", "greedy"])
def test_an_ensemble_of_one_model_twice_is_that_model(config: SearchConfig) -> None:
    model = toy_model(1, 12)
    alone = search(model, SOURCES, config, forbidden=FORBIDDEN)
    twice = search([model, model], SOURCES, config, forbidden=FORBIDDEN)
    for ours, expected in zip(twice, alone, strict=True):
        assert [output.tokens for output in ours] == [output.tokens for output in expected]
        assert [output.score for output in ours] == pytest.approx(
            [output.score for output in expected], abs=1e-4
        )


def mean_by_hand(models: Sequence[Transformer], source: object, tokens: list[int]) -> list[float]:
    pair = (np.array(source), np.array([*tokens, EOS]))
    each = [np.exp(log_probabilities([model], [pair])[0]) for model in models]
    return np.log(np.mean(each, axis=0)).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "sample", "greedy"])
def test_scores_are_those_of_the_mean_of_the_probabilities(config: SearchConfig) -> None:
    models = [toy_model(2, 12), toy_model(3, 12), toy_model(4, 12)]
    found = search(models, SOURCES, config, forbidden=FORBIDDEN)
    for source, outputs in zip(SOURCES, found, strict=True):
        for output in outputs:
            expected = sum(mean_by_hand(models, source, output.tokens))
            assert output.log_probability == pytest.approx(expected, abs=1e-4)


def test_models_of_different_sizes_and_limits_search_together() -> None:
    from models import small_model

    words = {"source_vocabulary": 12, "target_vocabulary": 12}
    models = [small_model(0, max_len=6, **words), small_model(1, d_model=16, N=1, **words)]
    config = SearchConfig(beam=2, extra=1000)
    for order in (models, models[::-1]):
        for outputs in search(order, SOURCES, config, forbidden=FORBIDDEN):
            assert len(outputs[0].tokens) < models[0].config.max_positions


def test_the_engine_scores_and_aligns_by_the_mean() -> None:
    models = [toy_model(5, 12), toy_model(6, 12)]
    engine = TorchEngine(models, FORBIDDEN)
    assert engine.name == "2 models with torch on cpu"
    jobs = [Job(source) for source in SOURCES]
    pairs = []
    for place, best in engine.search(jobs, SearchConfig(beam=2), 2):
        pairs.append((SOURCES[place], np.array([*best[0].tokens, EOS])))
    for (source, target), of_tokens in zip(pairs, engine.score(pairs), strict=True):
        assert of_tokens == pytest.approx(
            mean_by_hand(models, source, target[:-1].tolist()), abs=1e-4
        )
    each = [TorchEngine([model], FORBIDDEN).align(pairs) for model in models]
    for mean, first, second in zip(engine.align(pairs), *each, strict=True):
        assert mean == pytest.approx((first + second) / 2, abs=1e-5)
        assert mean.sum(1) == pytest.approx(1, abs=1e-5)


def test_alignments_are_the_cross_attention_of_the_last_layer() -> None:
    model = toy_model(7, 12)
    pairs = [(a, b) for a in SOURCES for b in SOURCES]
    for pair, found in zip(pairs, TorchEngine([model], FORBIDDEN).align(pairs), strict=True):
        with torch.inference_mode():
            cross = attention_maps(model, make_batch([pair])).cross  # (N, H, target, source)
        assert found.shape == (len(pair[1]), len(pair[0]))
        assert found == pytest.approx(cross[-1].mean(0).numpy(), abs=1e-5)


# --- Values that exceed the range of float16 ----------------------------------------------------


def overflowing(inner: float = 1e5) -> Transformer:
    """A model whose activations exceed the range of float16, but not its weights."""
    model = toy_model(3, 12)
    with torch.no_grad():
        model.output.mul_(4)
        model.encoder[0].feed_forward.W_1.weight.mul_(inner)  # type: ignore[union-attr, operator]
    return model


@pytest.mark.parametrize("config", CONFIGS, ids=["beam", "sample", "greedy"])
def test_sentences_that_overflow_float16_are_computed_in_float32_and_one_line_says_so(
    config: SearchConfig, caplog: pytest.LogCaptureFixture
) -> None:
    exact = TorchEngine([overflowing()], FORBIDDEN)
    engine = TorchEngine([overflowing().narrow(torch.float16)], FORBIDDEN)
    jobs = [Job(source, (), (n,)) for n, source in enumerate(SOURCES)]
    for _ in range(2):
        found, expected = (dict(each.search(jobs, config, 2)) for each in (engine, exact))
        assert {n: len(outputs) for n, outputs in found.items()} == dict.fromkeys(
            range(3), config.nbest
        )
        if not config.sample:
            assert [found[n][0].tokens for n in range(3)] == [
                expected[n][0].tokens for n in range(3)
            ]
    pairs = [(source, np.array([5, 6, EOS])) for source in SOURCES]
    for ours, theirs in zip(engine.score(pairs), exact.score(pairs), strict=True):
        assert ours == pytest.approx(theirs, abs=0.1)
    for weights, theirs_too in zip(engine.align(pairs), exact.align(pairs), strict=True):
        assert weights == pytest.approx(theirs_too, abs=0.05)
    assert caplog.messages == [
        "values exceed the range of float16: the sentences concerned are computed in float32"
    ]


def test_values_that_are_not_finite_in_float32_are_an_error() -> None:
    model = toy_model(3, 12)
    with torch.no_grad():
        model.output[7] = torch.nan
    engine = TorchEngine([model], FORBIDDEN)
    pairs = [(SOURCES[0], np.array([5, 6, EOS]))]
    for attempt in (
        lambda: list(engine.search([Job(SOURCES[0])], CONFIGS[0], 2)),
        lambda: engine.score(pairs),
    ):
        with pytest.raises(BadRun, match=r"not finite \(NaN or infinity\) in float32"):
            attempt()


def test_weights_beyond_float16_are_detected() -> None:
    assert _fits(overflowing(), torch.float16)
    assert not _fits(overflowing(1e7), torch.float16)
    assert _fits(overflowing(1e7), torch.bfloat16)
