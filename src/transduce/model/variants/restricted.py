"""Restricted self-attention (paper 4): each token attends to the r tokens around it.

B sentences, H heads, n tokens, C channels. The work grows as r n: packed batches narrow the range
of each query (`narrow`); for rows of equally long sentences, each block of queries attends only
to the keys around it (`restricted`).
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.batching.packed import KeyRanges, LengthGroups
from transduce.model.attention import Heads
from transduce.model.contexts.grouped import GroupedSelf

BLOCK = 32  # minimum number of queries in a block


def span(r: int, *, causal: bool = False) -> tuple[int, int]:
    """Return how many tokens before and after itself a token attends to (paper 4).

    Differs: the paper says "centred"; an even r has one more token before than after. With
    `causal`, there are no tokens after.
    """
    return r // 2, 0 if causal else (r - 1) // 2


def narrow(ranges: KeyRanges, r: int) -> KeyRanges:
    """Narrow the ranges of self-attention to the r tokens around each query."""
    before, after = span(r)
    token = torch.arange(len(ranges.first), dtype=ranges.first.dtype, device=ranges.first.device)
    return KeyRanges(
        torch.maximum(ranges.first, token - before),
        torch.minimum(ranges.last, token + after + 1),
        torch.maximum(ranges.seen_first, token - after),
        torch.minimum(ranges.seen_last, token + before + 1),
    )


class RestrictedSelf(GroupedSelf):
    """Self-attention over groups of equally long sentences, within a neighbourhood."""

    def __init__(
        self, groups: LengthGroups, positions: Tensor, neighbourhood: int, *, causal: bool
    ) -> None:
        super().__init__(groups, positions, causal=causal)
        self.neighbourhood = neighbourhood

    def attend_group(self, q: Tensor, k: Tensor, v: Tensor, heads: Heads) -> Tensor:
        """Let each token attend to its neighbourhood. (B, H, n, C) -> (B, H, n, C)."""
        return restricted(q, k, v, self.neighbourhood, causal=self.causal, dropout=heads.dropout)

    def allowed(self, n: int, device: torch.device) -> Tensor:
        """Return which tokens of its sentence each token may attend to. (n, n)."""
        return neighbours(n, self.neighbourhood, causal=self.causal, device=device)


def restricted(
    q: Tensor, k: Tensor, v: Tensor, r: int, *, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Eq. 1 where each token attends only to its neighbourhood. (B, H, n, C) -> (B, H, n, C)."""
    n = q.size(2)
    before, after = span(r, causal=causal)
    if before >= n - 1 and (causal or after >= n - 1):  # the whole sentence
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout)
    block = max(r, BLOCK)
    window = before + block + after  # keys per block
    if n <= window:
        allowed = neighbours(n, r, causal=causal, device=q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
    blocks = -(-n // block)
    rest = blocks * block - n
    q_ = F.pad(q, (0, 0, 0, rest)).flatten(0, 1).unflatten(1, (blocks, block))
    k_, v_ = (
        F.pad(x, (0, 0, before, rest + after)).flatten(0, 1).unfold(1, window, block).mT
        for x in (k, v)
    )  # (B * H, blocks, window, C)
    allowed = _allowed(n, blocks, (before, block, after), q.device)
    y = F.scaled_dot_product_attention(q_, k_, v_, attn_mask=allowed, dropout_p=dropout)
    return y.flatten(1, 2)[:, :n].unflatten(0, q.shape[:2])  # type: ignore[no-any-return]


def neighbours(n: int, r: int, *, causal: bool, device: torch.device) -> Tensor:
    """Return which tokens of its sentence each token may attend to. (n, n)."""
    before, after = span(r, causal=causal)
    token = torch.arange(n, device=device)
    distance = token - token[:, None]  # from query to key
    return (distance >= -before) & (distance <= after)


def _allowed(n: int, blocks: int, sizes: tuple[int, int, int], device: torch.device) -> Tensor:
    """Return which keys of its window each query may attend to. (blocks, block, window)."""
    before, block, after = sizes
    begins = torch.arange(blocks, device=device)[:, None, None] * block
    query = torch.arange(block, device=device)[:, None]
    key = torch.arange(before + block + after, device=device)
    inside = (key >= query) & (key <= query + before + after)
    query, key = begins + query, begins - before + key  # positions in the sentence
    # Padding in the last block attends to padding: a softmax over no keys has no gradient.
    return inside & (key >= 0) & ((key < n) | (query >= n))
