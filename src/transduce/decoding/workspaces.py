"""Workspaces: reusable search state, on a GPU with a decode step recorded as a CUDA graph.

A search takes a workspace and gives it back when it ends. No two searches use the same workspace at
the same time, so any number of threads may share one decoder.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from transduce.config import SearchConfig
from transduce.decoding.lexical import PhraseBeams
from transduce.decoding.search import Beams, Constrain
from transduce.errors import is_out_of_memory, summarize_error
from transduce.model.base import Transducer
from transduce.model.cache import GRAIN
from transduce.model.ops import graphs

LENGTH_MULTIPLE = 64  # the lengths of a recorded step are rounded up to a multiple of this
MEMORY_SHARE = 0.5  # fraction of the free GPU memory that the caches of a search may take
IDLE_SHARE = 0.25  # fraction of the GPU memory that idle workspaces may take
MAX_IDLE = 8  # maximum number of idle workspaces
RETRY_SECONDS = 10.0  # wait before retrying a failed capture; doubled after each failure

logger = logging.getLogger("transduce")
Capacity = tuple[int, int]  # maximum source tokens, maximum output steps
NO_PHRASES = 0, 0  # required phrases and their tokens: see lexical.py


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """The beams of a search, and one step as a CUDA graph if it was captured."""

    beams: Beams
    requested: int  # slots; the beams have fewer if memory was short
    size: int  # bytes, estimated
    graph: Any = None  # torch.cuda.CUDAGraph

    def fits(
        self,
        config: SearchConfig,
        slots: int,
        capacity: Capacity,
        phrases: Capacity = NO_PHRASES,
    ) -> bool:
        """Return whether a search can use these beams."""
        if self.beams.phrases != phrases:
            return False
        source, steps = self.beams.capacity
        large_enough = source >= capacity[0] and steps >= capacity[1]
        recorded = self.beams.config
        # No step depends on `draw` and `extra`.
        same = recorded == config.replace(draw=recorded.draw, extra=recorded.extra)
        return same and large_enough and slots <= self.requested <= 2 * slots


class Pool:
    """Idle workspaces, the least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Workspace] = []

    def __len__(self) -> int:
        """Return how many workspaces are idle."""
        return len(self._idle)

    def take(
        self,
        config: SearchConfig,
        slots: int,
        capacity: Capacity,
        phrases: Capacity = NO_PHRASES,
    ) -> Workspace | None:
        """Remove and return the smallest workspace that fits a search, if there is one."""
        with self._lock:
            fitting = [
                space for space in self._idle if space.fits(config, slots, capacity, phrases)
            ]
            if not fitting:
                return None
            chosen = min(fitting, key=lambda space: (space.requested, space.beams.capacity))
            self._idle.remove(chosen)
            return chosen

    def give(self, workspace: Workspace, budget: int) -> None:
        """Add a workspace; drop the least recently used ones while the total exceeds `budget`."""
        with self._lock:
            self._idle.append(workspace)
            while len(self._idle) > 1 and (
                len(self._idle) > MAX_IDLE or sum(idle.size for idle in self._idle) > budget
            ):
                del self._idle[0]

    def drop(self) -> bool:
        """Drop the least recently used workspace; return whether there was one."""
        with self._lock:
            dropped = self._idle[:1]
            del self._idle[:1]
            return bool(dropped)


class Workspaces:
    """Makes workspaces for searches, and keeps those that have a recorded step."""

    def __init__(
        self,
        models: Sequence[Transducer],
        forbidden: Sequence[int],
        constrain: Constrain | None,
        *,
        record: bool,
    ) -> None:
        self.models, self.forbidden, self.constrain = models, forbidden, constrain
        self.device = models[0].output.device
        self.static_shapes = self.device.type == "cuda"
        self.record = record and self.static_shapes
        self.pool = Pool()
        self.failures = 0  # failed captures since the last success
        self.retry_at = 0.0  # monotonic time of the next capture attempt after a failure
        self.without_kernels: set[int] = set()  # beam sizes for which our attention kernels fail

    def take(
        self,
        config: SearchConfig,
        slots: int,
        capacity: Capacity,
        phrases: Capacity = NO_PHRASES,
    ) -> Workspace:
        """Return a workspace that no other search uses, with about this many slots."""
        source, steps = capacity
        if not self.static_shapes:
            cached = source, min(steps, GRAIN)
            beams = self._make_beams(config, slots, capacity, cached, phrases)
            return Workspace(beams, slots, 0)
        capacity = _round_up(source), _round_up(steps)
        idle = self.pool.take(config, slots, capacity, phrases) if self.record else None
        if idle is not None:
            return idle
        try:
            return self._make(config, slots, capacity, phrases)
        except RuntimeError as error:
            if not is_out_of_memory(error) or not self.pool.drop():
                raise
        while self.pool.drop():
            pass
        graphs.empty_cache()
        return self._make(config, slots, capacity, phrases)

    def give(self, workspace: Workspace) -> None:
        """Keep a workspace for later searches if it has a recorded step."""
        if workspace.graph is not None:
            self.pool.give(workspace, self._idle_budget())

    def _make(
        self, config: SearchConfig, slots: int, capacity: Capacity, phrases: Capacity
    ) -> Workspace:
        """Make a workspace, with a recorded step if the capture succeeds."""
        fitting = self._fit_slots(config, slots, capacity)
        beams = self._make_tested_beams(config, fitting, capacity, phrases)
        size = len(beams.live) * self._bytes_per_slot(config, capacity)
        if not self.record or time.monotonic() < self.retry_at:
            return Workspace(beams, slots, size)
        try:
            graph = graphs.capture(lambda: beams.step(*beams.capacity))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            wait = RETRY_SECONDS * 2**self.failures
            self.failures, self.retry_at = self.failures + 1, time.monotonic() + wait
            logger.warning(
                "CUDA graph capture failed; decoding is slower until it is tried again in %.0f s: "
                "%s",
                *(wait, summarize_error(error)),
            )
            return Workspace(beams, slots, size)
        self.failures = 0
        return Workspace(beams, slots, size, graph)

    def _make_tested_beams(
        self, config: SearchConfig, slots: int, capacity: Capacity, phrases: Capacity
    ) -> Beams:
        """Make beams, and run a step on empty slots, which compiles the kernels.

        If our kernels fail, torch's are used: first for attention with this beam size only, then
        for everything.
        """
        while True:
            beams = self._make_beams(config, slots, capacity, capacity, phrases)
            uses_kernels = any(cache.uses_kernels for cache in beams.caches)
            try:
                with graphs.LOCK:  # only one thread may compile at a time
                    beams.step(*beams.capacity)
            except Exception as error:  # whatever compilers and drivers raise
                in_use = [
                    model.kernels for model in self.models if model.kernels.usable(model.output)
                ]
                if is_out_of_memory(error) or not in_use:
                    raise
                logger.warning(
                    "our kernels do not work for %s, torch's are used, which is slower: %s",
                    f"attention with beam {beams.k}" if uses_kernels else "decoding",
                    summarize_error(error),
                )
                if uses_kernels:
                    self.without_kernels.add(beams.k)
                else:
                    for kernels in in_use:
                        kernels.enabled = False
                continue
            return beams

    def _make_beams(
        self,
        config: SearchConfig,
        slots: int,
        capacity: Capacity,
        cached: Capacity,
        phrases: Capacity,
    ) -> Beams:
        needs = self.models, config, self.forbidden, slots, capacity, cached, self.constrain
        beams = Beams(*needs) if phrases == NO_PHRASES else PhraseBeams(*needs, phrases)
        if beams.k in self.without_kernels:
            for cache in beams.caches:
                cache.uses_kernels = False
        return beams

    def _fit_slots(self, config: SearchConfig, slots: int, capacity: Capacity) -> int:
        """Return how many of `slots` fit into memory, dropping idle workspaces if necessary."""
        fitting = self._slots_in_memory(config, capacity)
        dropped = True
        while fitting < slots and dropped:
            dropped = self.pool.drop()
            graphs.empty_cache()
            fitting = self._slots_in_memory(config, capacity)
        return min(slots, fitting)

    def _slots_in_memory(self, config: SearchConfig, capacity: Capacity) -> int:
        """Return how many slots fit into the free GPU memory."""
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(1, int(free * MEMORY_SHARE) // self._bytes_per_slot(config, capacity))

    def _bytes_per_slot(self, config: SearchConfig, capacity: Capacity) -> int:
        k = 1 if config.sample else config.beam
        return sum(
            model.cache_size(k, capacity) * model.dtype.itemsize
            + 3 * 4 * k * model.config.target_vocabulary
            for model in self.models
        )

    def _idle_budget(self) -> int:
        """Return how many bytes idle workspaces may take."""
        return int(torch.cuda.get_device_properties(self.device).total_memory * IDLE_SHARE)


def _round_up(length: int) -> int:
    return -(-length // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
