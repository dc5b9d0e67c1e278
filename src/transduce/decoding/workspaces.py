"""Workspaces: the state of a search; on a GPU with a decode step as a CUDA graph, for reuse.

A search takes a workspace and gives it back when it ends. No two searches use one at the same time,
so any number of threads may search with one decoder.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from transduce.config import SearchConfig
from transduce.decoding.search import Beams, Constrain
from transduce.errors import is_out_of_memory, summarize_error
from transduce.model.base import Transducer
from transduce.model.cache import GRAIN, Cache
from transduce.model.ops import graphs

ROUND = 64  # lengths of a recorded step are rounded up to multiples of it
MEMORY = 0.5  # part of the free GPU memory that the caches of a search may take
POOLED = 0.25  # part of a GPU's memory that idle workspaces may take
KEPT = 8  # most idle workspaces
RETRY = 10.0  # seconds after which a failed capture is tried again, doubled after each failure

logger = logging.getLogger("transduce")
Room = tuple[int, int]  # tokens of a source, steps of an output


@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """The beams of a search, and one step of them as a CUDA graph if it was captured."""

    beams: Beams
    wanted: int  # slots requested; the beams have fewer if memory did not suffice
    size: int  # bytes, estimated
    graph: Any = None  # torch.cuda.CUDAGraph

    def serves(self, config: SearchConfig, slots: int, room: Room) -> bool:
        """Tell whether a search can use these beams."""
        enough = all(has >= needed for has, needed in zip(self.beams.room, room, strict=True))
        own = self.beams.config
        same = own == config.replace(draw=own.draw, extra=own.extra)  # no step depends on these
        return same and enough and slots <= self.wanted <= 2 * slots


class Pool:
    """Workspaces that no search uses, the least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Workspace] = []

    def __len__(self) -> int:
        """Return how many workspaces are idle."""
        return len(self._idle)

    def take(self, config: SearchConfig, slots: int, room: Room) -> Workspace | None:
        """Remove and return the smallest workspace that serves a search, if there is one."""
        with self._lock:
            serving = [one for one in self._idle if one.serves(config, slots, room)]
            if not serving:
                return None
            chosen = min(serving, key=lambda one: (one.wanted, one.beams.room))
            self._idle.remove(chosen)
            return chosen

    def give(self, workspace: Workspace, budget: int) -> None:
        """Keep a workspace; drop those unused for longest, so that all take `budget` bytes."""
        with self._lock:
            self._idle.append(workspace)
            while len(self._idle) > 1 and (
                len(self._idle) > KEPT or sum(one.size for one in self._idle) > budget
            ):
                del self._idle[0]

    def drop(self) -> bool:
        """Drop the workspace unused for longest; tell whether there was one."""
        with self._lock:
            dropped = self._idle[:1]
            del self._idle[:1]
            return bool(dropped)


class Workspaces:
    """Makes the workspaces of searches, and keeps those that have a recorded step."""

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
        self.failures = 0  # captures that failed since one succeeded
        self.retry_at = 0.0  # monotonic time before which no capture is tried
        self.without_kernels: set[int] = set()  # beam sizes for which our attention kernels fail

    def take(self, config: SearchConfig, slots: int, room: Room) -> Workspace:
        """Return a workspace that no other search uses, with about this many slots."""
        if not self.static_shapes:
            beams = self._made(config, slots, room, (room[0], min(room[1], GRAIN)))
            return Workspace(beams, slots, 0)
        room = -(-room[0] // ROUND) * ROUND, -(-room[1] // ROUND) * ROUND
        found = self.pool.take(config, slots, room) if self.record else None
        if found is not None:
            return found
        try:
            return self._new(config, slots, room)
        except RuntimeError as error:
            if not is_out_of_memory(error) or not self.pool.drop():
                raise
        while self.pool.drop():
            pass
        graphs.empty_cache()
        return self._new(config, slots, room)

    def give(self, workspace: Workspace) -> None:
        """Keep a workspace for later searches if it has a recorded step."""
        if workspace.graph is not None:
            self.pool.give(workspace, self._budget())

    def _new(self, config: SearchConfig, slots: int, room: Room) -> Workspace:
        """Make a workspace, with a recorded step if the capture succeeds."""
        beams = self._proven(config, self._fitted(config, slots, room), room)
        size = len(beams.live) * self._each(config, room)
        if not self.record or time.monotonic() < self.retry_at:
            return Workspace(beams, slots, size)
        try:
            graph = graphs.capture(lambda: beams.step(*beams.room))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            wait = RETRY * 2**self.failures
            self.failures, self.retry_at = self.failures + 1, time.monotonic() + wait
            logger.warning(
                "CUDA graph capture failed; decoding is slower until it is tried again in %.0f s: "
                "%s",
                *(wait, summarize_error(error)),
            )
            return Workspace(beams, slots, size)
        self.failures = 0
        return Workspace(beams, slots, size, graph)

    def _proven(self, config: SearchConfig, slots: int, room: Room) -> Beams:
        """Make beams, and run a step on empty slots, which compiles the kernels.

        If our kernels fail, torch's are used: first for attention with this beam size only, then
        for everything.
        """
        k = 1 if config.sample else config.beam
        while True:
            beams = self._made(config, slots, room, room)
            attends = any(isinstance(cache, Cache) and cache.by_kernels for cache in beams.caches)
            try:
                with graphs.LOCK:  # one thread at a time compiles
                    beams.step(*beams.room)
            except Exception as error:  # whatever compilers and drivers raise
                ours = [
                    model.kernels for model in self.models if model.kernels.usable(model.output)
                ]
                if is_out_of_memory(error) or not ours:
                    raise
                part = f"attention with beam {k}" if attends else "decoding"
                logger.warning(
                    "our kernels do not work for %s, torch's are used, which is slower: %s",
                    *(part, summarize_error(error)),
                )
                if attends:
                    self.without_kernels.add(k)
                else:
                    for kernels in ours:
                        kernels.enabled = False
                continue
            return beams

    def _made(self, config: SearchConfig, slots: int, room: Room, cached: Room) -> Beams:
        beams = Beams(self.models, config, self.forbidden, slots, room, cached, self.constrain)
        for cache in beams.caches:
            if isinstance(cache, Cache) and beams.k in self.without_kernels:
                cache.by_kernels = False
        return beams

    def _fitted(self, config: SearchConfig, slots: int, room: Room) -> int:
        """Return how many of the slots fit into memory; idle workspaces make way for them."""
        fitting = self._fitting(config, room)
        dropped = True
        while fitting < slots and dropped:
            dropped = self.pool.drop()
            graphs.empty_cache()
            fitting = self._fitting(config, room)
        return min(slots, fitting)

    def _fitting(self, config: SearchConfig, room: Room) -> int:
        """Return how many sentences the memory of the GPU holds."""
        free, _ = torch.cuda.mem_get_info(self.device)
        return max(1, int(free * MEMORY) // self._each(config, room))

    def _each(self, config: SearchConfig, room: Room) -> int:
        """Return about how many bytes a sentence takes."""
        k = 1 if config.sample else config.beam
        return sum(
            model.cache_size(k, room) * model.dtype.itemsize
            + 3 * 4 * k * model.config.target_vocabulary
            for model in self.models
        )

    def _budget(self) -> int:
        """Return how many bytes idle workspaces may take."""
        return int(torch.cuda.get_device_properties(self.device).total_memory * POOLED)
