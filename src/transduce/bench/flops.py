"""FLOPs of a training step, counted from the model's matrices."""

from transduce.config import ModelConfig
from transduce.model.architecture import MODELS


def flops(config: ModelConfig, source_tokens: int, target_tokens: int) -> int:
    """Return the FLOPs of the matrix products of a step, forward and backward, on real tokens.

    Each weight costs 2 FLOPs per token forward and 4 backward. Attention scores and padding are not
    counted: they are overhead of the implementation that computes them.
    """
    source_weights, target_weights = MODELS[config.architecture].weights_per_token(config)
    return 6 * (source_tokens * source_weights + target_tokens * target_weights)
