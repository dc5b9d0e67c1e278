"""FLOPs of a training step, counted from the model's matrices."""

import numpy as np

from transduce.config import ModelConfig
from transduce.corpus.token_files import Ints, Split
from transduce.model.architecture import MODELS


def flops(config: ModelConfig, source_tokens: int, target_tokens: int, by_length: int = 0) -> int:
    """Return the FLOPs of the matrix products of a step, forward and backward, on real tokens.

    Each weight costs 2 FLOPs per token forward and 4 backward. Attention scores and padding are not
    counted: they are overhead of the implementation that computes them. `by_length` are the weights
    of `weights_by_length`.
    """
    source_weights, target_weights = MODELS[config.architecture].weights_per_token(config)
    return 6 * (source_tokens * source_weights + target_tokens * target_weights + by_length)


def weights_by_length(config: ModelConfig, part: Split, sentences: Ints | None = None) -> int:
    """Return the weights applied because of the lengths of some pairs (default: all)."""
    if sentences is None:
        sentences = np.arange(len(part))
    lengths = part.source.lengths_of(sentences), part.target.lengths_of(sentences)
    return MODELS[config.architecture].weights_by_length(config, *lengths)
