"""Many sentences through a search: finished ones leave, waiting ones take their slots.

So the batch stays full whatever the lengths. On the CPU, slots that no sentence waits for are
closed. On a GPU shapes never change: a step is recorded once as a CUDA graph (recording.py), and
the result of a step is read while the next one runs.

Any number of threads may search with one decoder: each search has its own state.
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
from transduce.decoding.search import NONE, Beams, Constrain
from transduce.decoding.workspaces import Workspace, Workspaces
from transduce.model.base import Transducer
from transduce.model.ops import graphs
from transduce.system.devices import widest_float
from transduce.translation.types import Hypothesis, Ints, Job, output_limit

SHARE = 8  # waiting sentences enter when 1 slot in 8 is free: encoding several is faster
AHEAD = 256  # sentences that a GPU encodes at once
FEW = 16  # fewest slots on a GPU, so that small searches share one recorded step


class Decoder:
    """One or several models that decode together; their weights must not change."""

    def __init__(
        self,
        models: Sequence[Transducer],
        forbidden: Sequence[int],
        *,
        constrain: Constrain | None = None,
        record: bool = True,
    ) -> None:
        """Decode with `models`; with `record`, decode steps on a GPU become CUDA graphs."""
        self.models = models
        self.device = models[0].output.device
        self.static_shapes = self.device.type == "cuda"
        self.workspaces = Workspaces(models, forbidden, constrain, record=record)

    @torch.inference_mode()
    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's index and its `nbest` hypotheses, best first, as jobs are finished.

        A job has no hypotheses if its log-probabilities are NaN: a value overflowed.
        """
        if not config.sample:
            yield from self._search(jobs, config, batch)
            return
        # Draws are independent, so each is searched as a sentence of its own.
        drawn: dict[int, list[Hypothesis]] = {}
        each = [
            dataclasses.replace(job, number=(*job.number, draw))
            for job in jobs
            for draw in range(config.nbest)
        ]
        left = dict.fromkeys(range(len(jobs)), config.nbest)
        for place, found in self._search(each, config.replace(nbest=1), batch):
            job = place // config.nbest
            left[job] -= 1
            drawn.setdefault(job, []).extend(found)
            if not left[job]:
                outputs = sorted(drawn.pop(job), key=lambda one: -one.score)
                yield job, outputs if len(outputs) == config.nbest else []

    def _search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        if not jobs:
            return
        graphs.use(self.device)
        # Longest first: sentences of similar length end together.
        order = sorted(range(len(jobs)), key=lambda index: -len(jobs[index].source))
        jobs = [jobs[index] for index in order]
        longest = min(model.config.max_positions for model in self.models)
        limits = np.array([output_limit(job, config, longest) for job in jobs])
        lengths = np.array([len(job.source) for job in jobs])
        room = int(lengths.max()), int(limits.max()) + 1
        workspace = self.workspaces.take(config, self._slots(len(jobs), batch), room)
        try:
            intake = _Intake(self.models, jobs, limits, config)
            slots = _Slots(workspace.beams, self.static_shapes)
            for number, hypotheses in self._steps(slots, intake, workspace):
                yield order[number], hypotheses
        finally:
            self.workspaces.give(workspace)

    def _slots(self, jobs: int, batch: int) -> int:
        """Return how many sentences are searched side by side.

        On a GPU a power of 2, so that searches of similar size share a recorded step.
        """
        if not self.static_shapes:
            return min(batch, jobs)
        return max(FEW, min(batch, 1 << (min(batch, jobs) - 1).bit_length()))

    def _steps(
        self, slots: "_Slots", intake: "_Intake", workspace: Workspace
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Fill slots and make steps until all jobs are done."""
        while True:
            graphs.use(self.device)  # the caller may have changed it between two results
            vacant = slots.vacant()
            enough = len(vacant) * SHARE >= len(slots.held)
            if enough and intake.waiting:
                slots.place(intake, vacant)
            elif enough and not self.static_shapes:
                slots.close(vacant)
            if not slots.busy:
                break
            if workspace.graph is not None:
                workspace.graph.replay()
            else:
                slots.beams.step(*slots.used())
            yield from slots.made()
        yield from slots.rest()


class _Intake:
    """Jobs that wait for a slot: encoded in order, some at a time."""

    def __init__(
        self, models: Sequence[Transducer], jobs: Sequence[Job], limits: Ints, config: SearchConfig
    ) -> None:
        self.models, self.jobs, self.limits, self.config = models, jobs, limits, config
        self.next = 0  # the first job without a slot
        self.encoded = 0  # number of jobs that are encoded
        self.rows: list[Tensor] = []  # keys and values of the encoded jobs, by model: (N, T, row)
        self.begins: dict[int, int] = {}  # first row of each encoded job

    @property
    def waiting(self) -> int:
        """How many jobs have no slot yet."""
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
        self.begins = dict(zip(by_length, begins.tolist(), strict=True))
        device = self.models[0].output.device
        if all(
            model.supports_packed and model.kernels.usable(model.output) for model in self.models
        ):
            first, last = np.repeat(begins, lengths), np.repeat(begins + lengths, lengths)
            arrays = np.stack([np.concatenate(sources), positions(lengths), first, last])
            tokens, places, *ends = torch.from_numpy(arrays.astype(np.int32)).to(device).unbind()
            run = PackedTokens(tokens, places, KeyRanges(*ends, *ends))
        else:
            run = pack(sources).to(device)
        self.rows = [model.project_memory(model.encode(run)) for model in self.models]


@dataclass(slots=True)
class _Parcel:
    """State of some sentences, being copied from the device."""

    jobs: Ints
    tensors: list[Tensor]
    event: Any  # torch.cuda.Event


class _Slots:
    """The job in each slot, and how many steps it has made."""

    def __init__(self, beams: Beams, static_shapes: bool) -> None:
        slots = len(beams.live)
        self.beams, self.static_shapes = beams, static_shapes
        self.device = beams.live.device
        self.held: Ints = np.full(slots, -1)  # the job in each slot
        self.steps: Ints = np.zeros(slots, dtype=np.int64)  # that this job has made
        self.sources: Ints = np.zeros(slots, dtype=np.int64)  # lengths
        self.parcels: list[_Parcel] = []
        self.seen: _Parcel | None = None  # which slots were alive after the previous step

    @property
    def busy(self) -> bool:
        """Whether any slot has a job."""
        return bool((self.held >= 0).any())

    def vacant(self) -> Ints:
        """Return the slots without a job."""
        return np.flatnonzero(self.held < 0)

    def used(self) -> tuple[int, int]:
        """Return the longest source, and the most steps, the next one included."""
        held = self.held >= 0
        source, steps = int(self.sources[held].max()), int(self.steps[held].max()) + 1
        if not self.static_shapes:
            for cache in self.beams.caches:  # steps of finished jobs are there too
                cache.grow(source, int(self.steps.max()) + 1)
        return source, steps

    def place(self, intake: _Intake, vacant: Ints) -> None:
        """Put waiting jobs into vacant slots."""
        beams = self.beams
        jobs = intake.take(len(vacant), AHEAD if self.static_shapes else 0)
        slots = vacant[: len(jobs)]
        sources = np.array([len(intake.jobs[i].source) for i in jobs])
        self.held[slots], self.steps[slots], self.sources[slots] = jobs, 0, sources
        if not self.static_shapes:
            for cache in beams.caches:
                cache.grow(int(sources.max()), 1)
        within = positions(sources)
        taken = np.repeat([intake.begins[i] for i in jobs], sources) + within
        limits = intake.limits[jobs.start : jobs.stop]
        forced = np.full((len(jobs), beams.forced.size(1)), NONE)
        draws = np.zeros((len(jobs), beams.draws.size(1)))
        classes = np.full((len(jobs), beams.room[0] if beams.constraint else 0), NONE)
        for row, i in enumerate(jobs):
            job = intake.jobs[i]
            prefix = job.prefix[: limits[row]]
            forced[row, : len(prefix)] = prefix
            if beams.constraint:
                classes[row, : len(job.classes)] = job.classes
            if intake.config.sample:
                random = np.random.default_rng([intake.config.draw, *job.number])
                draws[row, : limits[row]] = random.random(int(limits[row]))
        at = self._send(slots)
        beams.begin(at, *map(self._send, (limits, classes, forced, draws)))
        lengths = self._send(sources.astype(np.int32))
        places = self._send(np.repeat(slots, sources)), self._send(within)
        tokens = self._send(taken)
        for cache, rows in zip(beams.caches, intake.rows, strict=True):
            cache.put(at, lengths, places, rows[:, tokens])

    def close(self, vacant: Ints) -> None:
        """Remove the vacant slots."""
        if not len(vacant):
            return
        kept = np.flatnonzero(self.held >= 0)
        self.held, self.steps, self.sources = (
            array[kept] for array in (self.held, self.steps, self.sources)
        )
        self.beams.keep(self._send(kept))

    def made(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Count a step; yield the jobs that are finished."""
        self.steps += self.held >= 0
        seen: _Parcel | None = self._fetch(self.held.copy(), [self.beams.live])
        if self.static_shapes:
            seen, self.seen = self.seen, seen
        if seen is not None:
            yield from self._collect(seen)

    def _collect(self, seen: _Parcel) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Start copying the outputs of finished jobs; yield those that have arrived."""
        (live,) = self._open(seen)
        # On a GPU `seen` is one step old: a slot may have another job by now.
        done = np.flatnonzero(~live.numpy() & (self.held >= 0) & (self.held == seen.jobs))
        if self.static_shapes:
            count = len(self.held)
            if len(done) * SHARE * 2 < count and not self._last(done):
                done = done[:0]
        if len(done):
            at = self._send(done)
            beams = self.beams
            kept = [beams.ended[at], beams.ended_count[at], beams.history[at], beams.totals[at]]
            self.parcels.append(self._fetch(self.held[done], kept))
            self.held[done] = -1
        while self.parcels and (not self.static_shapes or self.parcels[0].event.query()):
            yield from self._outputs(self.parcels.pop(0))

    def _last(self, done: Ints) -> bool:
        """Tell whether no other job is left."""
        return len(done) == int((self.held >= 0).sum())

    def rest(self) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the outputs that are still being copied."""
        for parcel in self.parcels:
            yield from self._outputs(parcel)

    def _outputs(self, parcel: _Parcel) -> Iterator[tuple[int, list[Hypothesis]]]:
        found = self.beams.found(*self._open(parcel))
        yield from zip(parcel.jobs.tolist(), found, strict=True)

    def _send(self, array: npt.NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.static_shapes:
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(
            self.device, widest_float(self.device) if tensor.is_floating_point() else None
        )

    def _fetch(self, jobs: Ints, tensors: list[Tensor]) -> _Parcel:
        if not self.static_shapes:
            return _Parcel(jobs, [tensor.cpu() for tensor in tensors], None)
        copies = []
        for tensor in tensors:
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            copies.append(copy.copy_(tensor, non_blocking=True))
        event = torch.cuda.Event()
        event.record()
        return _Parcel(jobs, copies, event)

    def _open(self, parcel: _Parcel) -> list[Tensor]:
        if parcel.event is not None:
            parcel.event.synchronize()
        return parcel.tensors
