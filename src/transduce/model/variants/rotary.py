"""Rotary positions (Su et al. 2021). T tokens, H heads."""

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model.ops.kernels import Kernels
from transduce.model.positions import sinusoids
from transduce.model.variants.qk_norm import QKNorm


class Rotary(QKNorm):
    """Rotates queries and keys according to their positions; with `qk_norm`, normalises them first.

    Channels 2i and 2i + 1 of a head are rotated by the angle pos / 10000^(2i/d_k), so that the
    product of a query and a key depends on their distance, not on their absolute positions.

    Differs: the paper adds positional encodings to the embeddings (3.5). Here positions enter
    through the self-attention of both stacks, and nothing is added to the embeddings.
    """

    table: Tensor  # (positions, d_k): sines and cosines of the angles, in pairs

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__(config, 2, kernels)
        self.table = sinusoids(config.max_positions, config.d_k, torch).float()
