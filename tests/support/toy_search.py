"""Toy models and helpers of the tests of decoding."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from models import sentence, small_model
from transduce.batching.packed import Ints
from transduce.config import SearchConfig
from transduce.model.transformer import Transformer
from transduce.subwords import BOS, EOS, PAD, UNK
from transduce.translation.types import Hypothesis

FORBIDDEN = [PAD, BOS, UNK]
WORDS = 20
CONFIGS = [
    SearchConfig(beam=3, nbest=2, extra=6),
    SearchConfig(beam=1, extra=6),
    SearchConfig(sample=True, nbest=2, extra=6),
]


def toy_model(seed: int, vocabulary: int = 7) -> Transformer:
    """A model with few words and clear preferences."""
    model = small_model(seed, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    with torch.no_grad():
        model.output.mul_(4)
    return model


def never_ending(seed: int = 0, **changes: Any) -> Transformer:
    """A model whose outputs all reach their limits."""
    model = small_model(seed, logits_bias=True, **changes)
    with torch.no_grad():
        assert model.logits_bias is not None
        model.logits_bias[EOS] = -50
    return model


def assert_same(ours: Sequence[Hypothesis], theirs: Sequence[Hypothesis]) -> None:
    assert [output.tokens for output in ours] == [output.tokens for output in theirs]
    for output, expected in zip(ours, theirs, strict=True):
        assert output.score == pytest.approx(expected.score, abs=1e-4)
        assert output.log_probability == pytest.approx(expected.log_probability, abs=1e-4)


def mixed(count: int) -> list[Ints]:
    """Sources of very different lengths, not sorted."""
    return [sentence(1 + (7 * number) % 23, number, WORDS) for number in range(count)]
