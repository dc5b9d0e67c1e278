"""The FLOPs of a step: by hand, and by torch's own counter."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models import SMALL, pairs_of
from transduce.bench import pytorch
from transduce.bench.flops import flops
from transduce.bench.peer import Padded
from transduce.config import ModelConfig
from transduce.model.transformer import Transformer


def test_the_flops_of_the_base_model_equal_a_count_by_hand() -> None:
    """All its matrices are 512 x 512 or 512 x 2,048, except those of the vocabulary."""
    square, wide, words = 512 * 512, 512 * 2048, 512 * 37_000
    of_source, of_target = Transformer.weights_per_token(ModelConfig())
    assert of_source == 6 * (4 * square + 2 * wide) + 6 * 2 * square == 22_020_096
    assert of_target == 6 * (6 * square + 2 * wide) + words == 40_964_096
    assert flops(ModelConfig(), 100, 10) == 6 * (100 * of_source + 10 * of_target)


def test_heads_narrower_than_the_model_count_with_their_own_width() -> None:
    """Row B-dk16: queries and keys of 8 x 16, values of 8 x 64."""
    of_source, _ = Transformer.weights_per_token(ModelConfig(N=1, d_k=16))
    narrow, square, wide = 512 * 128, 512 * 512, 512 * 2048
    assert of_source == (2 * narrow + 2 * square + 2 * wide) + (narrow + square)


@pytest.mark.parametrize("changes", [{}, {"N": 1, "N_decoder": 3}])
def test_flops_of_the_transformer_equal_those_that_torch_counts(changes: dict[str, Any]) -> None:
    """Matrix products of the peer, forward and backward; attention has its own operators."""
    config = ModelConfig(**(SMALL | changes))
    batch = Padded.from_pairs(pairs_of([(7, 5)] * 3))
    model = pytorch.Model(config)
    with FlopCounterMode(display=False) as counter:
        model(batch.source, batch.target).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    products = sum(counts[kind] for kind in (torch.ops.aten.mm, torch.ops.aten.addmm))
    assert products == flops(config, source_tokens=3 * 7, target_tokens=3 * 5)
