"""Small tensors of every kind that a run folder stores."""

import torch
from torch import Tensor

TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).view(2, 3),
    "half": torch.tensor([1.5, -0.0, float("inf"), float("nan")], dtype=torch.float16),
    "count": torch.tensor(7),
    "random": torch.arange(5, dtype=torch.uint8),
    "nothing": torch.empty(0, 4),
}


def equal_bits(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Compare names, types, shapes and bits."""
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].contiguous().flatten().view(torch.uint8).tolist()
        == right[name].contiguous().flatten().view(torch.uint8).tolist()
        for name in left
    )
