"""Continuous batching: sentences leave the batch when finished, and waiting ones take their slots.

The batch stays full, whatever the sentence lengths. On the CPU, vacant slots are removed when no
sentence is waiting. On a GPU, shapes never change: a step is recorded once as a CUDA graph
(workspaces.py), and the result of a step is read while the next one runs.

Any number of threads may share one decoder: each search has its own state.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.batching.packed import KeyRanges, PackedTokens, pack, positions
from transduce.config import SearchConfig
from transduce.decoding.lexical import (
    LEAST_BEAM,
    PhraseBeams,
    phrase_capacity,
    phrase_tables,
    usable_phrases,
)
from transduce.decoding.search import NONE, Beams, Constrain
from transduce.decoding.workspaces import Workspace, Workspaces
from transduce.model.base import Transducer
from transduce.model.ops import graphs
from transduce.system.devices import widest_float
from transduce.translation.types import Hypothesis, Ints, Job, output_limit

REFILL = 8  # refill when 1 slot in 8 is vacant: encoding several sentences at once is faster
ENCODE_AHEAD = 256  # sentences encoded at once on a GPU
MIN_SLOTS = 16  # on a GPU, so that small searches share one recorded step

Result = tuple[int, list[Hypothesis]]  # a job's index and its hypotheses


class Decoder:
    """Decodes with one model or an ensemble; the weights must not change."""

    def __init__(
        self,
        models: Sequence[Transducer],
        forbidden: Sequence[int],
        *,
        constrain: Constrain | None = None,
        record: bool = True,
    ) -> None:
        """Decode with `models`; with `record`, decode steps on a GPU become CUDA graphs."""
        self.models, self.forbidden = models, forbidden
        self.device = models[0].output.device
        self.static_shapes = self.device.type == "cuda"
        self.workspaces = Workspaces(models, forbidden, constrain, record=record)

    @torch.inference_mode()
    def search(self, jobs: Sequence[Job], config: SearchConfig, batch: int) -> Iterator[Result]:
        """Yield each job's index and its `nbest` hypotheses, best first, as jobs finish.

        A job has no hypotheses if its log-probabilities are NaN: a value overflowed. Samples are
        drawn as if no phrases were required.
        """
        if not config.sample:
            yield from self._with_phrases_apart(jobs, config, batch)
            return
        # Samples are independent: each is searched as a separate sentence.
        samples = [
            dataclasses.replace(job, number=(*job.number, draw))
            for job in jobs
            for draw in range(config.nbest)
        ]
        sampled: dict[int, list[Hypothesis]] = {}
        remaining = dict.fromkeys(range(len(jobs)), config.nbest)
        for index, hypotheses in self._search(samples, config.replace(nbest=1), batch):
            job = index // config.nbest
            remaining[job] -= 1
            sampled.setdefault(job, []).extend(hypotheses)
            if not remaining[job]:
                best_first = sorted(sampled.pop(job), key=lambda hypothesis: -hypothesis.score)
                yield job, best_first if len(best_first) == config.nbest else []

    def _with_phrases_apart(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[Result]:
        """Search first the jobs that require nothing, then those that require phrases."""
        required = {
            index: phrases
            for index, job in enumerate(jobs)
            if (phrases := usable_phrases(job.required, self.forbidden))
        }
        if not required:
            yield from self._search(jobs, config, batch)
            return
        free = [index for index in range(len(jobs)) if index not in required]
        for index, hypotheses in self._search([jobs[index] for index in free], config, batch):
            yield free[index], hypotheses
        numbers = list(required)
        constrained = [
            dataclasses.replace(jobs[index], required=phrases)
            for index, phrases in required.items()
        ]
        capacity = phrase_capacity(list(required.values()), static=self.static_shapes)
        config = config.replace(beam=max(config.beam, LEAST_BEAM, 2 * config.nbest))
        for index, hypotheses in self._search(constrained, config, batch, capacity):
            yield numbers[index], hypotheses

    def _search(
        self,
        jobs: Sequence[Job],
        config: SearchConfig,
        batch: int,
        phrases: tuple[int, int] = (0, 0),
    ) -> Iterator[Result]:
        if not jobs:
            return
        graphs.use(self.device)
        # Longest first: sentences of similar length end together.
        order = sorted(range(len(jobs)), key=lambda index: -len(jobs[index].source))
        jobs = [jobs[index] for index in order]
        max_positions = min(model.config.max_positions for model in self.models)
        limits = np.array([output_limit(job, config, max_positions) for job in jobs])
        capacity = max(len(job.source) for job in jobs), int(limits.max()) + 1
        slots_needed = self._slots(len(jobs), batch)
        workspace = self.workspaces.take(config, slots_needed, capacity, phrases)
        try:
            queue = _Queue(self.models, jobs, limits, config)
            slots = _Slots(workspace.beams, self.static_shapes)
            for number, hypotheses in self._run(slots, queue, workspace):
                yield order[number], hypotheses
        finally:
            self.workspaces.give(workspace)

    def _slots(self, jobs: int, batch: int) -> int:
        """Return how many sentences are searched side by side.

        On a GPU this is a power of 2, so that searches of similar size share a recorded step.
        """
        if not self.static_shapes:
            return min(batch, jobs)
        return max(MIN_SLOTS, min(batch, 1 << (min(batch, jobs) - 1).bit_length()))

    def _run(self, slots: "_Slots", queue: "_Queue", workspace: Workspace) -> Iterator[Result]:
        """Fill slots and run steps until all jobs are done."""
        while True:
            graphs.use(self.device)  # the caller may have changed the device between two results
            vacant = slots.vacant()
            enough = len(vacant) * REFILL >= len(slots.jobs)
            if enough and queue.waiting:
                slots.fill(queue, vacant)
            elif enough and not self.static_shapes:
                slots.remove(vacant)
            if not slots.busy:
                break
            if workspace.graph is not None:
                workspace.graph.replay()
            else:
                slots.beams.step(*slots.longest())
            yield from slots.finished()
        yield from slots.remaining()


class _Queue:
    """Jobs waiting for a slot; they are encoded in order, several at a time."""

    def __init__(
        self, models: Sequence[Transducer], jobs: Sequence[Job], limits: Ints, config: SearchConfig
    ) -> None:
        self.models, self.jobs, self.limits, self.config = models, jobs, limits, config
        self.next = 0  # the first job without a slot
        self.encoded = 0  # number of jobs encoded so far
        self.rows: list[Tensor] = []  # encoded keys and values, one tensor per model: (N, T, row)
        self.first_row: dict[int, int] = {}  # each encoded job's first row in `rows`

    @property
    def waiting(self) -> int:
        """The number of jobs without a slot."""
        return len(self.jobs) - self.next

    def take(self, most: int, ahead: int) -> range:
        """Return the next jobs, at most `most`; if none is encoded, encode `ahead` or more."""
        if self.next == self.encoded:
            self._encode(min(self.waiting, max(most, ahead)))
        taken = range(self.next, min(self.next + most, self.encoded))
        self.next = taken.stop
        return taken

    def _encode(self, count: int) -> None:
        self.encoded = self.next + count
        by_length = sorted(range(self.next, self.encoded), key=lambda i: len(self.jobs[i].source))
        sources = [self.jobs[i].source for i in by_length]
        lengths = np.array([len(source) for source in sources])
        begins = lengths.cumsum() - lengths
        self.first_row = dict(zip(by_length, begins.tolist(), strict=True))
        device = self.models[0].output.device
        if all(
            model.supports_packed and model.kernels.usable(model.output) for model in self.models
        ):
            first, last = np.repeat(begins, lengths), np.repeat(begins + lengths, lengths)
            arrays = np.stack([np.concatenate(sources), positions(lengths), first, last])
            tokens, within, *ends = torch.from_numpy(arrays.astype(np.int32)).to(device).unbind()
            packed = PackedTokens(tokens, within, KeyRanges(*ends, *ends))
        else:
            packed = pack(sources).to(device)
        self.rows = [model.project_memory(model.encode(packed)) for model in self.models]


@dataclass(slots=True)
class _Copy:
    """The state of some sentences, being copied from the device."""

    jobs: Ints
    tensors: list[Tensor]
    event: Any  # torch.cuda.Event


class _Slots:
    """The job in each slot, and how many steps it has run."""

    def __init__(self, beams: Beams, static_shapes: bool) -> None:
        slots = len(beams.live)
        self.beams, self.static_shapes = beams, static_shapes
        self.device = beams.live.device
        self.jobs: Ints = np.full(slots, -1)  # -1: vacant
        self.steps: Ints = np.zeros(slots, dtype=np.int64)  # run by each job
        self.source_lengths: Ints = np.zeros(slots, dtype=np.int64)
        self.copies: list[_Copy] = []
        self.previous: _Copy | None = None  # which slots were live after the previous step

    @property
    def busy(self) -> bool:
        """Whether any slot has a job."""
        return bool((self.jobs >= 0).any())

    def vacant(self) -> Ints:
        """Return the slots without a job."""
        return np.flatnonzero(self.jobs < 0)

    def longest(self) -> tuple[int, int]:
        """Return the longest source length, and the largest step count including the next step."""
        busy = self.jobs >= 0
        source, steps = int(self.source_lengths[busy].max()), int(self.steps[busy].max()) + 1
        if not self.static_shapes:
            for cache in self.beams.caches:  # the caches still hold the steps of finished jobs
                cache.grow(source, int(self.steps.max()) + 1)
        return source, steps

    def fill(self, queue: _Queue, vacant: Ints) -> None:
        """Put waiting jobs into vacant slots."""
        beams = self.beams
        jobs = queue.take(len(vacant), ENCODE_AHEAD if self.static_shapes else 0)
        slots = vacant[: len(jobs)]
        lengths = np.array([len(queue.jobs[i].source) for i in jobs])
        self.jobs[slots], self.steps[slots], self.source_lengths[slots] = jobs, 0, lengths
        if not self.static_shapes:
            for cache in beams.caches:
                cache.grow(int(lengths.max()), 1)
        within = positions(lengths)
        rows = np.repeat([queue.first_row[i] for i in jobs], lengths) + within
        limits = queue.limits[jobs.start : jobs.stop]
        forced = np.full((len(jobs), beams.forced.size(1)), NONE)
        draws = np.zeros((len(jobs), beams.draws.size(1)))
        classes = np.full((len(jobs), beams.capacity[0] if beams.constraint else 0), NONE)
        for row, i in enumerate(jobs):
            job = queue.jobs[i]
            prefix = job.prefix[: limits[row]]
            forced[row, : len(prefix)] = prefix
            if beams.constraint:
                classes[row, : len(job.classes)] = job.classes
            if queue.config.sample:
                random = np.random.default_rng([queue.config.draw, *job.number])
                draws[row, : limits[row]] = random.random(int(limits[row]))
        device_slots = self._send(slots)
        beams.begin(device_slots, *map(self._send, (limits, classes, forced, draws)))
        if isinstance(beams, PhraseBeams):
            required = [queue.jobs[i].required for i in jobs]
            beams.require(device_slots, *map(self._send, phrase_tables(required, beams.phrases)))
        device_lengths = self._send(lengths.astype(np.int32))
        places = self._send(np.repeat(slots, lengths)), self._send(within)
        device_rows = self._send(rows)
        for cache, projected in zip(beams.caches, queue.rows, strict=True):
            cache.put(device_slots, device_lengths, places, projected[:, device_rows])

    def remove(self, vacant: Ints) -> None:
        """Remove the vacant slots."""
        if not len(vacant):
            return
        busy = np.flatnonzero(self.jobs >= 0)
        self.jobs, self.steps, self.source_lengths = (
            array[busy] for array in (self.jobs, self.steps, self.source_lengths)
        )
        self.beams.keep(self._send(busy))

    def finished(self) -> Iterator[Result]:
        """Count a step; yield the results of finished jobs."""
        self.steps += self.jobs >= 0
        live: _Copy | None = self._fetch(self.jobs.copy(), [self.beams.live])
        if self.static_shapes:
            live, self.previous = self.previous, live
        if live is not None:
            yield from self._collect(live)

    def _collect(self, copy: _Copy) -> Iterator[Result]:
        """Start copying the outputs of finished jobs; yield those that have arrived."""
        (live,) = self._wait(copy)
        # On a GPU `live` is one step old: a slot may hold a different job by now.
        done = np.flatnonzero(~live.numpy() & (self.jobs >= 0) & (self.jobs == copy.jobs))
        if self.static_shapes:
            all_done = len(done) == int((self.jobs >= 0).sum())
            if len(done) * REFILL * 2 < len(self.jobs) and not all_done:
                done = done[:0]
        if len(done):
            slots, beams = self._send(done), self.beams
            state = (beams.ended, beams.ended_count, beams.history, beams.totals)
            self.copies.append(self._fetch(self.jobs[done], [tensor[slots] for tensor in state]))
            self.jobs[done] = -1
        while self.copies and (not self.static_shapes or self.copies[0].event.query()):
            yield from self._results(self.copies.pop(0))

    def remaining(self) -> Iterator[Result]:
        """Yield the outputs that are still being copied."""
        for copy in self.copies:
            yield from self._results(copy)

    def _results(self, copy: _Copy) -> Iterator[Result]:
        hypotheses = self.beams.hypotheses(*self._wait(copy))
        yield from zip(copy.jobs.tolist(), hypotheses, strict=True)

    def _send(self, array: npt.NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.static_shapes:
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(
            self.device, widest_float(self.device) if tensor.is_floating_point() else None
        )

    def _fetch(self, jobs: Ints, tensors: list[Tensor]) -> _Copy:
        if not self.static_shapes:
            return _Copy(jobs, [tensor.cpu() for tensor in tensors], None)
        copies = []
        for tensor in tensors:
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copies.append(copy.copy_(tensor, non_blocking=True))
        event = torch.cuda.Event()
        event.record()
        return _Copy(jobs, copies, event)

    def _wait(self, copy: _Copy) -> list[Tensor]:
        if copy.event is not None:
            copy.event.synchronize()
        return copy.tensors
