"""Settings of attention, norms and feed-forward networks that tests try on every path."""

from typing import Any

import torch
from torch import Tensor

MODERN: dict[str, Any] = {
    "pre_norm": True,
    "norm": "rms",
    "gated": True,
    "activation": "swish",
    "qk_norm": True,
    "positions": "rotary",
}
DOT_PRODUCTS: list[dict[str, Any]] = [
    {"scaled": False},
    {"neighbourhood": 1},
    {"neighbourhood": 4},
    {"neighbourhood": 5, "scaled": False},
    {"positions": "rotary"},
    {"positions": "rotary", "neighbourhood": 4, "scaled": False},
]
NORMS: list[dict[str, Any]] = [
    {"qk_norm": True, "scaled": False},
    {"pre_norm": True},
    {"norm": "rms", "gated": True},
    MODERN,
]
SETTINGS: list[dict[str, Any]] = [
    *DOT_PRODUCTS,
    *NORMS,
    {"attention": "additive"},
    {"attention": "additive", "d_k": 5, "attention_bias": True},
]


def seen_by(n: int, r: int | None, *, causal: bool) -> Tensor:
    """Return which key each query sees, token by token. (n, n)."""
    seen = torch.zeros(n, n, dtype=torch.bool)
    for query in range(n):
        for key in range(n):
            near = r is None or query - r // 2 <= key <= query + (r - 1) // 2
            seen[query, key] = near and (key <= query or not causal)
    return seen
