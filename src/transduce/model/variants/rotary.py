"""Rotary positions (Su et al. 2021). T tokens, H heads."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.positions import sinusoids


class Rotary(nn.Module):
    """Rotates queries and keys according to their positions.

    Channels 2i and 2i + 1 of a head are rotated by the angle pos / 10000^(2i/d_k), so that the
    product of a query and a key depends on their distance, not on their absolute positions.

    Differs: the paper adds positional encodings to the embeddings (3.5). Here positions enter
    through the self-attention of both stacks, and nothing is added to the embeddings.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table: Tensor  # (positions, d_k): sines and cosines of the angles, in pairs
        table = sinusoids(config.max_positions, config.d_k, torch).float()
        self.register_buffer("table", table, persistent=False)
        self.h = config.h

    def forward(self, qkv: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries and keys, in float32. (T, H * (2 d_k + d_v)) -> the same."""
        angles = F.embedding(positions, self.table).unflatten(-1, (-1, 2))  # (T, d_k / 2, 2)
        sin, cos = angles[:, None].unbind(-1)  # (T, 1, d_k / 2)
        qk, v = qkv.tensor_split([2 * self.h * self.table.size(1)], dim=-1)
        x, y = qk.unflatten(-1, (2 * self.h, -1, 2)).unbind(-1)  # (T, 2 H, d_k / 2)
        rotated = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1)
        return torch.cat([rotated.flatten(1).to(qkv.dtype), v], dim=-1)
