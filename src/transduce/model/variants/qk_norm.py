"""RMSNorm of queries and keys (Henry et al. 2020). T tokens, H heads."""

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.queries_keys import norm_rotate


class QKNorm(nn.Module):
    """Normalises each head's queries and keys, with learned gains that all heads share.

    Differs: the paper bounds dot products only by 1 / sqrt(d_k) (3.2.1).
    """

    table: Tensor | None  # of `Rotary`

    def __init__(self, config: ModelConfig, kinds: int, kernels: Kernels) -> None:
        """`kinds` is 2 for queries and keys, which are the first channels, or 1 for either."""
        super().__init__()
        self.kernels = kernels
        self.heads, self.d_k = kinds * config.h, config.d_k
        gain = nn.Parameter(torch.ones(kinds * config.d_k)) if config.qk_norm else None
        self.gain = gain
        self.register_buffer("table", None, persistent=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Normalise queries and keys; values follow unchanged. (T, H * C) -> the same."""
        size = self.heads, self.d_k
        return norm_rotate(x, size, self.gain, self.table, positions, self.kernels)
