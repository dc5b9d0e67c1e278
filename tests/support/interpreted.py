"""Our Triton kernels on a CPU, run by Triton's interpreter; bf16 is tested on a GPU only."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from models import pairs_of, part_of
from transduce.batching.packed import Batch
from transduce.batching.static import pack
from transduce.model.ops import packed_attention
from transduce.model.ops.kernels import Kernels

EXACT = {torch.float32: 1e-6, torch.float16: 1e-3}  # of the norm
# Short sentences share a tile of 64 tokens; two are longer than one, and end within another.
LENGTHS = [(9, 7), (3, 12), (2, 2), (70, 15), (5, 9), (11, 80)]
PLACES = 112, 144


def packed_batch() -> Batch:
    """Return a batch of sentences of `LENGTHS`, padded to `PLACES` tokens."""
    return pack(part_of(pairs_of(LENGTHS)), np.arange(len(LENGTHS)), PLACES)


class Interpreted(Kernels):
    """Kernels that Triton's interpreter runs on the CPU."""

    def usable(self, x: Tensor) -> bool:
        return True


INTERPRETED = Interpreted()


def interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the kernels of all models, on the CPU."""
    monkeypatch.setattr(Kernels, "usable", lambda *_: True)
    monkeypatch.setattr(packed_attention, "_uses_triton", lambda _: True)


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return NaN everywhere, so that elements that are never written show."""
    return torch.full(shape, math.nan, dtype=dtype)
