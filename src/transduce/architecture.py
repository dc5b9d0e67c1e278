"""Which model a configuration describes."""

import torch

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.transducer import Transducer


def build(config: ModelConfig) -> Transducer:
    """Make a model, with its first weights drawn."""
    return Transformer(config)


def count_parameters(config: ModelConfig) -> int:
    """Return how many weights a model has, without making it."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())
