"""Embeddings and positional encodings (paper 3.4, 3.5). T tokens."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.ops.dropout import dropout
from transduce.model.positions import sinusoids


class Embedding(nn.Module):
    """The input of a stack: scaled embeddings plus positional encodings (paper 3.4, 3.5, 5.4)."""

    positions: Tensor | None  # (max_positions, d_model) added at each position

    def __init__(self, matrix: nn.Parameter, config: ModelConfig) -> None:
        super().__init__()
        self.matrix = matrix
        self.scale = math.sqrt(config.d_model)
        self.P_drop = config.P_drop
        self.dtype = torch.float32  # of the output, and so of all later computation
        size = config.max_positions, config.d_model
        if config.positions == "learned":
            learned = nn.init.normal_(torch.empty(size), std=config.d_model**-0.5)
            self.positions = nn.Parameter(learned)
        else:
            table = sinusoids(*size, torch).float() if config.positions == "sinusoidal" else None
            self.register_buffer("positions", table, persistent=False)

    def forward(self, tokens: Tensor, positions: Tensor, kept: Tensor | None = None) -> Tensor:
        """Return the scaled embeddings plus the positions. (T,) -> (T, d_model).

        Where `kept` (T,) is false, the embedding is replaced by 0; the position remains.
        """
        x = F.embedding(tokens, self.matrix) * self.scale
        if kept is not None:
            x = x * kept[:, None]
        if self.positions is not None:
            x = x + F.embedding(positions, self.positions)
        return dropout(x, self.P_drop if self.training else 0.0).to(self.dtype)
