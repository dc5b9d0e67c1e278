"""Build the model that a configuration describes."""

import torch

from transduce.config import ModelConfig
from transduce.model.base import Transducer
from transduce.model.baselines.bytenet import ByteNet
from transduce.model.baselines.convs2s import ConvS2S
from transduce.model.baselines.neural_gpu import NeuralGPU
from transduce.model.baselines.recurrent import Recurrent
from transduce.model.transformer import Transformer

MODELS: dict[str, type[Transducer]] = {
    model.architecture: model for model in (Transformer, Recurrent, ConvS2S, ByteNet, NeuralGPU)
}


def build(config: ModelConfig) -> Transducer:
    """Return a model with random weights."""
    return MODELS[config.architecture](config)


def count_parameters(config: ModelConfig) -> int:
    """Return the number of weights in a model, without allocating them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())
