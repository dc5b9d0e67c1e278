"""Dropout (paper 5.4) with fast random bits on the CPU."""

import torch
from torch import Tensor
from torch.nn import functional as F


def dropout(x: Tensor, P_drop: float) -> Tensor:
    """Zero elements of `x` with probability P_drop; scale the others by 1 / (1 - P_drop)."""
    if not P_drop:
        return x
    return x * dropout_factors(x, P_drop) if x.device.type == "cpu" else F.dropout(x, P_drop)


def dropout_factors(x: Tensor, P_drop: float) -> Tensor:
    """Return a factor for each element of `x`: 0 with probability P_drop, else 1 / (1 - P_drop).

    Differs: on the CPU each draw takes 16 random bits, so P_drop is rounded to a multiple of
    1 / 65,536. torch's own Bernoulli draws take five times as long there.
    """
    if x.device.type != "cpu":
        return F.dropout(torch.ones_like(x), P_drop)
    threshold = min(65_535, round(P_drop * 65_536))
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    chosen = bits.view(torch.int16)[: x.numel()].view(x.shape) >= threshold - 32_768
    return chosen.to(x.dtype).mul_(65_536 / (65_536 - threshold))
