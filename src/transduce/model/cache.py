"""Attention contexts for decoding, with cached keys and values.

S sentences in slots, k hypotheses each, R = S * k rows, N layers, H heads, C channels.

Keys and values never move once written. For each step, a sentence has one entry per hypothesis,
and all its hypotheses share these entries. `ancestors` says for each hypothesis and step which
hypothesis wrote its entry; when a search reorders hypotheses, only that table is reordered.

On the CPU, one product multiplies the queries of a sentence with all of its entries, and a mask
hides the entries of other hypotheses. On a GPU, our kernel skips them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.attention import CrossContext, Heads, SelfContext
from transduce.model.ops.decoding_attention import attend_past, attend_source, kernels_attend
from transduce.model.ops.kernels import Kernels
from transduce.model.variants.restricted import span

GRAIN = 16  # minimum number of steps by which a cache grows


class Cache:
    """A decoder's cached keys and values: of the source sentences, and of the target so far."""

    def __init__(
        self,
        config: ModelConfig,
        slots: int,
        hypotheses: int,
        capacity: tuple[int, int],
        like: Tensor,
        kernels: Kernels,
    ) -> None:
        """Create an empty cache; `capacity` is the number of source tokens and of output steps."""
        self.config, self.k = config, hypotheses
        N, device = config.decoder_layers, like.device
        self.sizes = [config.h * config.d_k, config.h * config.d_v]
        r = config.neighbourhood
        self.window = None if r is None else span(r, causal=True)[0]  # earlier steps in view
        self.uses_kernels = kernels_attend(config, kernels, like)  # fixed during a search
        source_shape = (N, slots, config.h, capacity[0])
        target_shape = (N, slots, config.h, capacity[1], hypotheses)
        # Keys, then values.
        self.source = [like.new_zeros(*source_shape, C) for C in (config.d_k, config.d_v)]
        self.target = [like.new_zeros(*target_shape, C) for C in (config.d_k, config.d_v)]
        ints: dict[str, Any] = {"dtype": torch.int32, "device": device}
        self.source_lengths = torch.ones(slots, **ints)  # at least 1: a softmax needs a key
        self.lengths = torch.zeros(slots, **ints)  # steps so far
        self.ancestors = torch.full((slots, hypotheses, capacity[1]), -1, **ints)
        self.hypotheses = torch.arange(hypotheses, **ints)
        # State of the current step:
        self.used = capacity  # longest source and longest output
        self.now = self.lengths
        self.slots = torch.arange(slots, device=device)
        self.target_mask = self.source_mask = like

    def put(
        self, slots: Tensor, lengths: Tensor, places: tuple[Tensor, Tensor], rows: Tensor
    ) -> None:
        """Begin new sentences in some slots.

        `rows` (N, T, H * (d_k + d_v)) are the keys and values of their sources; `places` are the
        slot of each token and its position in the sentence.
        """
        slot, position = places
        for cached, part in zip(self.source, rows.split(self.sizes, dim=-1), strict=True):
            heads = part.unflatten(-1, (self.config.h, -1))  # (N, T, H, C)
            cached[:, slot, :, position] = heads.transpose(0, 1)  # indices come first
        self.source_lengths.index_copy_(0, slots, lengths)
        self.lengths.index_fill_(0, slots, 0)
        self.ancestors.index_fill_(0, slots, -1)

    def grow(self, source: int, steps: int) -> None:
        """Grow to a capacity of at least `source` source tokens and `steps` output steps."""
        missing = source - self.source[0].size(3)
        if missing > 0:
            self.source = [F.pad(part, (0, 0, 0, missing)) for part in self.source]
        missing = steps - self.target[0].size(3)
        if missing > 0:
            missing = max(missing, self.target[0].size(3) // 2, GRAIN)  # so that copies are rare
            self.target = [F.pad(part, (0, 0, 0, 0, 0, missing)) for part in self.target]
            self.ancestors = F.pad(self.ancestors, (0, missing), value=-1)

    def keep(self, slots: Tensor) -> None:
        """Remove all other slots."""
        self.source = [part[:, slots] for part in self.source]
        self.target = [part[:, slots] for part in self.target]
        self.source_lengths, self.lengths = self.source_lengths[slots], self.lengths[slots]
        self.ancestors, self.slots = self.ancestors[slots], self.slots[: len(slots)]

    def begin_step(self, source: int, steps: int) -> None:
        """Prepare a step; no source is longer than `source`, no output longer than `steps`."""
        now = self.lengths.long()
        self.ancestors.scatter_(
            2,
            now[:, None, None].expand(-1, self.k, 1),
            self.hypotheses[None, :, None].expand(len(now), -1, 1),
        )
        if self.uses_kernels:
            return
        self.used, self.now = (source, steps), now
        visible = self.ancestors[:, :, :steps, None] == self.hypotheses  # (S, k, steps, k)
        if self.window is not None:
            step = torch.arange(steps, device=now.device)
            last = now.clamp(max=steps - 1)  # a softmax needs a key, even in a vacant slot
            visible &= (step >= last[:, None] - self.window)[:, None, :, None]
        self.target_mask = self._mask(visible.flatten(2))
        real = torch.arange(source, device=now.device) < self.source_lengths[:, None]
        self.source_mask = self._mask(real[:, None])

    def _mask(self, allowed: Tensor) -> Tensor:
        """Return the additive mask for the scores, repeated for each head; all layers share it."""
        mask = torch.zeros(allowed.shape, dtype=self.target[0].dtype, device=allowed.device)
        mask.masked_fill_(~allowed, -torch.inf)
        return mask.repeat_interleave(self.config.h, dim=0)  # (S * H, 1 or k, keys)

    def contexts(self, positions: Tensor) -> list[tuple[SelfContext, CrossContext]]:
        """Return each layer's contexts for a step; `positions` (R,) are those of its tokens.

        Self-attention adds the keys and values of its layer to the cache, once per step.
        """
        layers = range(self.config.decoder_layers)
        if self.uses_kernels:
            return [(KernelSelf(self, n, positions), KernelCross(self, n)) for n in layers]
        return [(CachedSelf(self, n, positions), CachedCross(self, n)) for n in layers]

    def end_step(self, parents: Tensor, live: Tensor) -> None:
        """Make each hypothesis continue its parent (S, k); advance the live slots (S,)."""
        chosen = parents[..., None].expand_as(self.ancestors)
        self.ancestors.copy_(self.ancestors.gather(1, chosen))
        self.lengths += live


@dataclass(frozen=True, slots=True)
class CachedSelf:
    """Self-attention of a layer to its cached keys and values, by matrix products and a mask."""

    cache: Cache
    layer: int
    positions: Tensor  # (R,)

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each hypothesis attend to its past and itself.

        (R, H * (2 d_k + d_v)) -> (R, H * d_v).
        """
        cache = self.cache
        keys, values = (part[self.layer] for part in cache.target)  # (S, H, capacity, k, C)
        q, *new = heads.split(qkv, heads.d_k, heads.d_k, heads.d_v)
        for cached, part in zip((keys, values), new, strict=True):
            by_slot = part.unflatten(0, (-1, cache.k))  # (S, k, H, C)
            cached[cache.slots, :, cache.now] = by_slot.transpose(1, 2)
        used = cache.used[1] * cache.k
        keys, values = (part.flatten(0, 1).flatten(1, 2)[:, :used] for part in (keys, values))
        return attend_few(q, keys, values, cache.target_mask, heads)


@dataclass(frozen=True, slots=True)
class CachedCross:
    """Cross-attention of a layer to the cached keys and values of the sources."""

    cache: Cache
    layer: int

    def attend(
        self, q: Tensor, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> Tensor:
        """Let each hypothesis attend to its source. (R, H * d_k) -> (R, H * d_v)."""
        cache = self.cache
        keys, values = (part[self.layer].flatten(0, 1)[:, : cache.used[0]] for part in cache.source)
        return attend_few(q.unflatten(-1, (heads.h, -1)), keys, values, cache.source_mask, heads)


def attend_few(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, heads: Heads) -> Tensor:
    """Eq. 1 for the few queries of each sentence in a decoding step, on the CPU.

    Fused kernels are designed for many queries; for a beam of 4, plain products take half the time.
    (R, H, C), (S * H, K, C), and a mask that is added to the scores -> (R, H * C).
    """
    S = len(k) // heads.h
    rows = q.unflatten(0, (S, -1)).transpose(1, 2).flatten(0, 1)  # (S * H, Q, C)
    weights = heads.scoring.masked_scores(rows, k, mask).softmax(-1)
    y = torch.bmm(weights, v).unflatten(0, (S, heads.h))  # (S, H, Q, C)
    return y.transpose(1, 2).reshape(len(q), -1)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class KernelSelf:
    """Self-attention of a layer to its cached keys and values, by our GPU kernel."""

    cache: Cache
    layer: int
    positions: Tensor  # (R,)

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each hypothesis attend to its past and itself.

        (R, H * (2 d_k + d_v)) -> (R, H * d_v).
        """
        cache = self.cache
        keys, values = (part[self.layer] for part in cache.target)  # (S, H, capacity, k, C)
        return attend_past(qkv, keys, values, cache.ancestors, cache.lengths, cache.window)


@dataclass(frozen=True, slots=True)
class KernelCross:
    """Cross-attention of a layer to the cached keys and values of the sources, by our kernel."""

    cache: Cache
    layer: int

    def attend(
        self, q: Tensor, project: Callable[[Tensor], Tensor], memory: Tensor | None, heads: Heads
    ) -> Tensor:
        """Let each hypothesis attend to its source. (R, H * d_k) -> (R, H * d_v)."""
        keys, values = (part[self.layer] for part in self.cache.source)  # (S, H, capacity, C)
        return attend_source(q, keys, values, self.cache.source_lengths)
