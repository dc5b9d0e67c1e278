"""How many FLOPs a step of training is worth, whatever a side spends on it."""

from collections.abc import Callable

from transduce.config import ModelConfig
from transduce.model.baselines import bytenet, convs2s, recurrent


def flops(model: ModelConfig, source_tokens: int, target_tokens: int) -> int:
    """Return the FLOPs of the matrix products of a step, forward and backward, on real tokens.

    A weight costs a token 2 forward and 4 backward. Attention scores are left out, and so is what
    padding costs: they are overhead to the side that has them.
    """
    return 6 * PRODUCTS[model.architecture](model, source_tokens, target_tokens)


def products(model: ModelConfig, source_tokens: int, target_tokens: int) -> int:
    """Return the multiplications of the Transformer's weights with so many tokens, forward."""
    of_source, of_target = weights_met(model)
    return source_tokens * of_source + target_tokens * of_target


def weights_met(model: ModelConfig) -> tuple[int, int]:
    """Return how many weights a source token is multiplied with, and a target token."""
    W_Q = model.d_model * model.h * model.d_k
    W_KV = model.d_model * model.h * (model.d_k + model.d_v)
    W_O = model.h * model.d_v * model.d_model
    feed_forward = 2 * model.d_model * model.d_ff
    layer = W_Q + W_KV + W_O + feed_forward
    of_source = model.N * layer + model.decoder_layers * W_KV  # those of cross-attention
    of_target = model.decoder_layers * (layer + W_Q + W_O)
    return of_source, of_target + model.d_model * model.target_vocabulary


PRODUCTS: dict[str, Callable[[ModelConfig, int, int], int]] = {
    "transformer": products,
    "recurrent": recurrent.products,
    "convs2s": convs2s.products,
    "bytenet": bytenet.products,
}
