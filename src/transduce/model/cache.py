"""What decoding remembers. S sentences, k hypotheses of each, R = S * k rows, N layers, H heads.

Keys and values never move once written. All hypotheses of a sentence share what any of them has
written, step by step, and `ancestors` says for each of them in whose row each step of its past
lies; when a search reorders its hypotheses it reorders that table alone.

On the CPU the shared keys meet all queries of the sentence in one product, with a mask for those of
others; on a GPU our own kernel leaves them out.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.batching.packed import reach
from transduce.config import ModelConfig
from transduce.model.attention import attend_few

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
        *,
        by_kernels: bool = False,
    ) -> None:
        """Make an empty cache, with room for so many tokens of a source and steps of an output.

        `by_kernels` has our Triton kernels attend, which know dot products only.
        """
        self.config, self.k = config, hypotheses
        N, device = config.decoder_layers, like.device
        self.sizes = [config.h * config.d_k, config.h * config.d_v]
        r = config.neighbourhood
        self.near = None if r is None else reach(r, causal=True)[0]  # steps of the past that count
        self.by_kernels = by_kernels
        of_source, of_own = (N, slots, config.h, room[0]), (N, slots, config.h, room[1], hypotheses)
        # Keys, then values.
        self.source = [like.new_zeros(*of_source, C) for C in (config.d_k, config.d_v)]
        self.own = [like.new_zeros(*of_own, C) for C in (config.d_k, config.d_v)]
        ints: dict[str, Any] = {"dtype": torch.int32, "device": device}
        self.source_lengths = torch.ones(slots, **ints)  # no query may have nothing to see
        self.lengths = torch.zeros(slots, **ints)  # steps made
        self.ancestors = torch.full((slots, hypotheses, room[1]), -1, **ints)
        self.hypotheses = torch.arange(hypotheses, **ints)
        self.pasts = [Own(self, layer) for layer in range(N)], [Source(self, n) for n in range(N)]
        # Of the step that is being made:
        self.used = room  # no source or output is longer
        self.now = self.lengths
        self.every = torch.arange(slots, device=device)
        self.own_mask = self.source_mask = like

    def put(
        self, slots: Tensor, lengths: Tensor, places: tuple[Tensor, Tensor], rows: Tensor
    ) -> None:
        """Begin new sentences in some slots.

        `rows` (N, T, H * C) are the projections of their sources, keys and then values; `places`
        tell where each goes: its slot, and its position in the sentence.
        """
        slot, position = places
        for cached, part in zip(self.source, rows.split(self.sizes, dim=-1), strict=True):
            heads = part.unflatten(-1, (self.config.h, -1))  # (N, T, H, C)
            cached[:, slot, :, position] = heads.transpose(0, 1)  # indices come first
        self.source_lengths.index_copy_(0, slots, lengths)
        self.lengths.index_fill_(0, slots, 0)
        self.ancestors.index_fill_(0, slots, -1)

    def grow(self, source: int, steps: int) -> None:
        """Have room for so many tokens of a source and so many steps."""
        missing = source - self.source[0].size(3)
        if missing > 0:
            self.source = [F.pad(part, (0, 0, 0, missing)) for part in self.source]
        missing = steps - self.own[0].size(3)
        if missing > 0:
            missing = max(missing, self.own[0].size(3) // 2, GRAIN)  # so that copies are rare
            self.own = [F.pad(part, (0, 0, 0, 0, 0, missing)) for part in self.own]
            self.ancestors = F.pad(self.ancestors, (0, missing), value=-1)

    def keep(self, slots: Tensor) -> None:
        """Go on with some of the slots."""
        self.source = [part[:, slots] for part in self.source]
        self.own = [part[:, slots] for part in self.own]
        self.source_lengths, self.lengths = self.source_lengths[slots], self.lengths[slots]
        self.ancestors, self.every = self.ancestors[slots], self.every[: len(slots)]

    def begin_step(self, source: int, steps: int) -> None:
        """Make ready for a step, where no source and no output (with it) is longer than told."""
        now = self.lengths.long()
        self.ancestors.scatter_(
            2,
            now[:, None, None].expand(-1, self.k, 1),
            self.hypotheses[None, :, None].expand(len(now), -1, 1),
        )
        if self.by_kernels:
            return
        self.used, self.now = (source, steps), now
        seen = self.ancestors[:, :, :steps, None] == self.hypotheses  # (S, k, steps, k)
        if self.near is not None:
            places = torch.arange(steps, device=now.device)
            last = now.clamp(
                max=steps - 1
            )  # a slot that waits for its next sentence sees something
            seen &= (places >= last[:, None] - self.near)[:, None, :, None]
        self.own_mask = self._mask(seen.flatten(2))
        real = torch.arange(source, device=now.device) < self.source_lengths[:, None]
        self.source_mask = self._mask(real[:, None])

    def _mask(self, allowed: Tensor) -> Tensor:
        """Turn a mask into what is added to all heads' scores: once for all layers."""
        mask = torch.zeros(allowed.shape, dtype=self.own[0].dtype, device=allowed.device)
        mask.masked_fill_(~allowed, -torch.inf)
        return mask.repeat_interleave(self.config.h, dim=0)  # (S * H, 1 or k, keys)

    def end_step(self, parents: Tensor, made: Tensor) -> None:
        """Let hypotheses go on from others of their sentence (S, k), where it was made (S,)."""
        chosen = parents[..., None].expand_as(self.ancestors)
        self.ancestors.copy_(self.ancestors.gather(1, chosen))
        self.lengths += made


@dataclass(slots=True)
class Own:
    """The past of a layer's self-attention; each call adds a step to it."""

    cache: Cache
    layer: int

    def attend(self, projected: Tensor, v_a: Tensor | None = None) -> Tensor:
        """Let each hypothesis see its own past and itself. (R, H * (2 d_k + d_v)) -> (R, …)."""
        cache = self.cache
        keys, values = (part[self.layer] for part in cache.own)  # (S, H, room, k, C)
        if cache.by_kernels:
            from transduce.model.ops.triton import decoding

            return decoding.own(
                projected, keys, values, cache.ancestors, cache.lengths, near=cache.near
            )
        q, *new = projected.split([cache.sizes[0], *cache.sizes], dim=-1)
        for cached, part in zip((keys, values), new, strict=True):
            heads = part.unflatten(0, (-1, cache.k)).unflatten(-1, (cache.config.h, -1))
            cached[cache.every, :, cache.now] = heads.transpose(1, 2)
        used = cache.used[1] * cache.k
        keys, values = (part.flatten(0, 1).flatten(1, 2)[:, :used] for part in (keys, values))
        return attend_few(q, keys, values, cache.own_mask, cache.config.h, v_a)


@dataclass(slots=True)
class Source:
    """What a layer's cross-attention sees."""

    cache: Cache
    layer: int

    def attend(self, projected: Tensor, v_a: Tensor | None = None) -> Tensor:
        """Let each hypothesis see the source of its sentence. (R, H * d_k) -> (R, H * d_v)."""
        cache = self.cache
        keys, values = (part[self.layer] for part in cache.source)  # (S, H, room, C)
        if cache.by_kernels:
            from transduce.model.ops.triton import decoding

            return decoding.source(projected, keys, values, cache.source_lengths)
        keys, values = (part.flatten(0, 1)[:, : cache.used[0]] for part in (keys, values))
        return attend_few(projected, keys, values, cache.source_mask, cache.config.h, v_a)
