"""Which model a configuration describes."""

import torch

from transduce.config import ModelConfig
from transduce.model.base import Transducer
from transduce.model.baselines.bytenet import ByteNet
from transduce.model.baselines.convs2s import ConvS2S
from transduce.model.baselines.recurrent import Recurrent
from transduce.model.transformer import Transformer

MODELS: dict[str, type[Transducer]] = {
    "transformer": Transformer,
    "convs2s": ConvS2S,
    "bytenet": ByteNet,
    "recurrent": Recurrent,
}


def build(config: ModelConfig) -> Transducer:
    """Make a model, with its first weights drawn."""
    return MODELS[config.architecture](config)


def count_parameters(config: ModelConfig) -> int:
    """Return how many weights a model has, without making it."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())
