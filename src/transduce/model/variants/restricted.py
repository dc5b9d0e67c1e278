"""Restricted self-attention (paper 4): each token sees r tokens around its own.

B sentences, H heads, n tokens, C channels. Packed batches use `KeyRanges.around` instead; here
sentences of equal length lie in rows, and the work still grows as r n: each block of queries meets
only the few keys around it.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.batching.packed import reach

BLOCK = 32  # queries of a block at the least


def restricted(
    q: Tensor, k: Tensor, v: Tensor, r: int, *, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Eq. 1 where each token sees its neighbourhood alone. (B, H, n, C) -> (B, H, n, C)."""
    n = q.size(2)
    before, after = reach(r, causal=causal)
    if before >= n - 1 and (causal or after >= n - 1):  # all of it
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout)
    block = max(r, BLOCK)
    window = before + block + after  # keys that a block meets
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
    """Tell which tokens of a sentence each of them sees. (n, n)."""
    before, after = reach(r, causal=causal)
    own = torch.arange(n, device=device)
    away = own - own[:, None]  # of a key from a query
    return (away >= -before) & (away <= after)


def _allowed(n: int, blocks: int, sizes: tuple[int, int, int], device: torch.device) -> Tensor:
    """Tell what each query of a block sees of its window. (blocks, block, window)."""
    before, block, after = sizes
    begins = torch.arange(blocks, device=device)[:, None, None] * block
    query = torch.arange(block, device=device)[:, None]
    key = torch.arange(before + block + after, device=device)
    near = (key >= query) & (key <= query + before + after)
    query, key = begins + query, begins - before + key  # in the sentence
    # What fills the last block sees its like: a softmax over nothing has no gradient.
    return near & (key >= 0) & ((key < n) | (query >= n))
