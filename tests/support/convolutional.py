"""Small convolutional models for tests, and a reference convolution."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models import SMALL
from transduce.config import ModelConfig
from transduce.model.architecture import MODELS, build
from transduce.model.base import Transducer

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "convs2s": {"N": 3, "d_ff": 24, "positions": "learned"},
    "bytenet": {"N": 6, "d_ff": 16, "positions": "none"},
    "neural-gpu": {"d_ff": 32, "positions": "none"},
}
PACKED = [name for name in ARCHITECTURES if MODELS[name].supports_packed]


def small(architecture: str, seed: int = 0, **changes: Any) -> Transducer:
    """Return a small model with random weights, ready for evaluation; no bias is 0."""
    torch.manual_seed(seed)
    sizes = SMALL | ARCHITECTURES[architecture] | {"architecture": architecture} | changes
    model = build(ModelConfig(**sizes)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model


def convolved(
    x: Tensor, weight: Tensor, bias: Tensor, taps: tuple[int, ...], dilation: int
) -> Tensor:
    """Convolve one sentence with torch. (T, C) -> (T, outputs)."""
    kernel = weight.unflatten(1, (len(taps), -1)).transpose(1, 2)  # (outputs, C, k)
    padded = F.pad(x.T[None], (-taps[0], taps[-1]))
    return F.conv1d(padded, kernel, bias, dilation=dilation)[0].T
