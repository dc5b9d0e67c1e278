"""Embeddings and positional encodings (paper 3.4, 3.5). T tokens."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.ops.dropout import dropout_factors
from transduce.model.positions import sinusoids


class Embedding(nn.Module):
    """The input of a stack: scaled embeddings plus positional encodings (paper 3.4, 3.5, 5.4)."""

    def __init__(self, matrix: nn.Parameter, config: ModelConfig) -> None:
        super().__init__()
        self.matrix = matrix
        self.scale = math.sqrt(config.d_model)
        self.P_drop = config.P_drop
        self.dtype = torch.float32  # of the output, and so of all later computation
        self.positions: Tensor | None = None
        if config.positions == "learned":
            learned = torch.empty(config.max_positions, config.d_model)
            self.positions = nn.Parameter(nn.init.normal_(learned, std=config.d_model**-0.5))
        elif config.positions == "sinusoidal":
            del self.positions
            table: Tensor = sinusoids(config.max_positions, config.d_model, torch).float()
            self.register_buffer("positions", table, persistent=False)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the scaled embeddings plus the positions. (T,) -> (T, d_model)."""
        x = F.embedding(tokens, self.matrix) * self.scale
        if self.positions is not None:
            x = x + F.embedding(positions, self.positions)
        x = x * dropout_factors(x, self.P_drop) if self.training and self.P_drop else x
        return x.to(self.dtype)
