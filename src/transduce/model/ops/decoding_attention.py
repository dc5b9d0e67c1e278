"""Attention over the cache in decoding steps, by our Triton kernels.

The equivalent in torch operations is in model/cache.py, with the masks that it needs.
"""

from torch import Tensor

from transduce.config import ModelConfig
from transduce.model.ops.kernels import Kernels


def kernels_attend(config: ModelConfig, kernels: Kernels, like: Tensor) -> bool:
    """Return whether our kernels compute attention over a cache of tensors like this one."""
    return kernels.usable(like) and config.uses_dot_products


def attend_past(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    ancestors: Tensor,
    lengths: Tensor,
    window: int | None,
) -> Tensor:
    """Add the keys and values of a step to the cache; let each hypothesis attend to its past."""
    from transduce.model.ops.triton import decoding

    return decoding.attend_past(qkv, keys, values, ancestors, lengths, window=window)


def attend_source(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Let each hypothesis attend to its source."""
    from transduce.model.ops.triton import decoding

    return decoding.attend_source(q, keys, values, lengths)
