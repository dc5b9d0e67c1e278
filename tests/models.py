"""Small models and batches that several tests share."""

from typing import Any

import numpy as np
import torch

from transduce.batches import Batch, Ints, make_batch
from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.subwords import EOS

SMALL = {
    "N": 2,
    "d_model": 32,
    "d_ff": 64,
    "h": 4,
    "d_k": 8,
    "d_v": 8,
    "source_vocabulary": 50,
    "target_vocabulary": 50,
}


def small_model(seed: int = 0, **changes: Any) -> Transformer:
    """Return a small model with random weights, ready for evaluation."""
    torch.manual_seed(seed)
    return Transformer(ModelConfig(**(SMALL | changes))).eval()


def sentence(length: int, seed: int, vocabulary: int = 50) -> Ints:
    """Return random words and </s>, `length` tokens in all."""
    random = np.random.default_rng(seed)
    return np.append(random.integers(4, vocabulary, length - 1), EOS)


def pairs_of(lengths: list[tuple[int, int]]) -> list[tuple[Ints, Ints]]:
    """Return random pairs of these lengths."""
    return [
        (sentence(source, 2 * number), sentence(target, 2 * number + 1))
        for number, (source, target) in enumerate(lengths)
    ]


def logits_by_sentence(model: Transformer, batch: Batch) -> list[torch.Tensor]:
    """Return the logits of each pair of a batch, in the order in which the pairs were given."""
    logits = model.logits(model(batch))
    lengths = [length for sentences, length in batch.target.view.groups for _ in range(sentences)]
    parts = logits.split(lengths)
    return [parts[place] for place in np.argsort(batch.order)]


def batch_of(*lengths: tuple[int, int]) -> Batch:
    """Return a batch of random pairs of these lengths."""
    return make_batch(pairs_of(list(lengths)))
