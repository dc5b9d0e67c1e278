"""What decoding remembers. S sentences, k hypotheses of each, R = S * k rows, N layers, H heads.

Keys and values never move once written. All hypotheses of a sentence share what any of them has
written, step by step, and `ancestors` says for each of them in whose row each step of its past
lies; when a search reorders its hypotheses it reorders that table alone. A row of the cache holds
the keys of all heads and then their values, as the projections give them.

On the CPU the shared keys meet all queries of the sentence in one fused kernel, with a mask for
those of others; on a GPU our own kernel leaves them out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce import kernels
from transduce.attention import attention
from transduce.config import ModelConfig

GRAIN = 16  # steps by which a cache that can grow does so, at the least


class Cache:
    """The keys and values of one model, for so many sentences side by side."""

    def __init__(
        self,
        config: ModelConfig,
        slots: int,
        hypotheses: int,
        room: tuple[int, int],
        like: Tensor,
    ) -> None:
        """Make an empty cache, with room for so many tokens of a source and steps of an output."""
        self.config, self.k = config, hypotheses
        row = config.h * (config.d_k + config.d_v)
        N, device = config.depth_of_decoder, like.device
        self.source = like.new_zeros(N, slots, room[0], row)
        self.own = like.new_zeros(N, slots, room[1], hypotheses, row)
        ints = {"dtype": torch.int32, "device": device}
        self.source_lengths = torch.zeros(slots, **ints)
        self.lengths = torch.zeros(slots, **ints)  # steps made
        self.ancestors = torch.full((slots, hypotheses, room[1]), -1, **ints)
        self.hypotheses = torch.arange(hypotheses, **ints)
        self.pasts = [Own(self, layer) for layer in range(N)], [Source(self, n) for n in range(N)]
        # Of the step that is being made:
        self.used = room  # no source or output is longer
        self.places = self.lengths  # of the new keys
        self.own_mask: Tensor | None = None
        self.source_mask: Tensor | None = None

    def put(self, slots: Tensor, lengths: Tensor, places: Tensor, rows: Tensor) -> None:
        """Begin new sentences in some slots.

        `rows` (N, T, row) are the keys and values of their sources, `places` (T,) where each goes:
        slot * room + position.
        """
        self.source.flatten(1, 2).index_copy_(1, places, rows)
        self.source_lengths.index_copy_(0, slots, lengths)
        self.lengths.index_fill_(0, slots, 0)
        self.ancestors.index_fill_(0, slots, -1)

    def grow(self, source: int, steps: int) -> None:
        """Have room for so many tokens of a source and so many steps."""
        missing = source - self.source.size(2)
        if missing > 0:
            self.source = F.pad(self.source, (0, 0, 0, missing))
        missing = steps - self.own.size(2)
        if missing > 0:
            missing = max(missing, self.own.size(2) // 2, GRAIN)  # so that copies are rare
            self.own = F.pad(self.own, (0, 0, 0, 0, 0, missing))
            self.ancestors = F.pad(self.ancestors, (0, missing), value=-1)

    def keep(self, slots: Tensor) -> None:
        """Go on with some of the slots."""
        self.source, self.own = self.source[:, slots], self.own[:, slots]
        self.source_lengths, self.lengths = self.source_lengths[slots], self.lengths[slots]
        self.ancestors = self.ancestors[slots]

    def begin_step(self, source: int, steps: int) -> None:
        """Make ready for a step, where no source and no output (with it) is longer than told."""
        now = self.lengths.long()
        self.ancestors.scatter_(
            2,
            now[:, None, None].expand(-1, self.k, 1),
            self.hypotheses[None, :, None].expand(len(now), -1, 1),
        )
        if kernels.usable(self.own):
            return
        self.used = source, steps
        rows = torch.arange(len(now), device=now.device) * self.own.size(2) + now
        self.places = (rows[:, None] * self.k + self.hypotheses).flatten()
        seen = self.ancestors[:, :, :steps, None] == self.hypotheses  # (S, k, steps, k)
        self.own_mask = _additive(seen.flatten(2).unsqueeze(1), self.own.dtype)
        real = torch.arange(source, device=now.device) < self.source_lengths[:, None]
        self.source_mask = _additive(real[:, None, None], self.own.dtype)

    def end_step(self, parents: Tensor, made: Tensor) -> None:
        """Let hypotheses go on from others of their sentence (S, k), where it was made (S,)."""
        chosen = parents[..., None].expand_as(self.ancestors)
        self.ancestors.copy_(self.ancestors.gather(1, chosen))
        self.lengths += made


def _additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask into what is added to the scores: once for all layers."""
    mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return mask.masked_fill_(~allowed, -torch.inf)


@dataclass(slots=True)
class Own:
    """The past of a layer's self-attention; each call adds a step to it."""

    cache: Cache
    layer: int

    def attend(self, projected: Tensor) -> Tensor:
        """Let each hypothesis see its own past and itself. (R, H * (2 d_k + d_v)) -> (R, …)."""
        cache, config = self.cache, self.cache.config
        rows = cache.own[self.layer]  # (S, room, k, row)
        if kernels.usable(projected):
            from transduce.kernels import decoding

            return decoding.own(
                projected, rows, cache.ancestors, cache.lengths, config.h, config.d_k
            )
        width = config.h * config.d_k
        rows.flatten(0, 2).index_copy_(0, cache.places, projected[:, width:])
        rows = rows[:, : cache.used[1]].flatten(1, 2)
        return _attend(projected[:, :width], rows, config, cache.k, cache.own_mask)


@dataclass(slots=True)
class Source:
    """What a layer's cross-attention sees."""

    cache: Cache
    layer: int

    def attend(self, projected: Tensor) -> Tensor:
        """Let each hypothesis see the source of its sentence. (R, H * d_k) -> (R, H * d_v)."""
        cache, config = self.cache, self.cache.config
        rows = cache.source[self.layer]  # (S, room, row)
        if kernels.usable(projected):
            from transduce.kernels import decoding

            return decoding.source(projected, rows, cache.source_lengths, config.h, config.d_k)
        rows = rows[:, : cache.used[0]]
        return _attend(projected, rows, config, cache.k, cache.source_mask)


def _attend(q: Tensor, rows: Tensor, config: ModelConfig, k: int, mask: Tensor | None) -> Tensor:
    """Let the k queries of a sentence see its rows. (R, H * d_k), (S, K, row) -> (R, H * d_v)."""
    keys, values = rows.split([config.h * config.d_k, config.h * config.d_v], dim=-1)
    heads = [part.unflatten(-1, (config.h, -1)).transpose(1, 2) for part in (keys, values)]
    queries = q.view(-1, k, config.h, config.d_k).transpose(1, 2)  # (S, H, k, C)
    return attention(queries, *heads, allowed=mask).transpose(1, 2).reshape(len(q), -1)
