"""The measurements for Table 1: the cost of each layer, and its longest paths."""

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from transduce.bench import hardware
from transduce.config import ModelConfig
from transduce.errors import BadSetting, is_out_of_memory
from transduce.experiments.path_lengths import path_length
from transduce.experiments.statistics import Power, fit_largest
from transduce.experiments.table1_layers import (
    ATTENTION,
    LEAST_PASSES,
    TABLE_1,
    Cost,
    Kind,
    Sizes,
    count_operations,
    make_pass,
    measure_cost,
    operations,
)
from transduce.model.ops.kernels import Kernels
from transduce.settings.base import MAXIMUM
from transduce.system.devices import choose_device
from transduce.system.progress import Advance, Progress

BATCH = {"cuda": 32, "cpu": 1}  # sentences: enough to keep a GPU busy at every n
LONGEST_PATH = 256  # positions
FITTED = ("seconds", "forward", "backward", "memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The sizes to measure."""

    n: tuple[int, ...]
    d: tuple[int, ...] = (512, 1024)
    k: int = 3
    r: int = 32
    batch: int | None = None  # None: chosen for the device
    seconds: float = 80.0  # for all timings together

    def check(self) -> None:
        """Refuse sizes that cannot be measured."""
        width, kernel, longest = (MAXIMUM[name] for name in ("d_model", "kernel", "max_len"))
        for n in self.n:
            _require(2 <= n <= 1 << 20, f"--n {n}", f"2 to {1 << 20:,} tokens")
        for d in self.d:
            even = 2 <= d <= width and d % 2 == 0
            _require(even, f"--d {d}", f"an even number, at most {width:,}")
        _require(2 <= self.k <= kernel, f"--k {self.k}", f"a width of 2 to {kernel:,}")
        neighbourhood = f"3 to {longest:,} tokens, so that it extends in both directions"
        _require(3 <= self.r <= longest, f"--r {self.r}", neighbourhood)
        _require(0 < self.seconds < math.inf, f"--seconds {self.seconds:g}", "more than 0")
        if self.batch is not None:
            most = 1 << 16
            _require(1 <= self.batch <= most, f"--batch {self.batch}", f"1 to {most:,} sentences")


def _require(condition: bool, found: str, expected: str) -> None:
    if not condition:
        raise BadSetting(f"{found:.60}: expected {expected}")


@dataclass(slots=True)
class LayerCosts:
    """The cost of one layer at one width, by n."""

    kind: Kind
    projected: bool  # includes attention's position-wise projections
    d: int
    costs: dict[int, Cost] = field(default_factory=dict)  # by n
    ended: Literal["", "time", "memory"] = ""  # what ran out before the last n

    @property
    def name(self) -> str:
        """Its name in tables and pictures."""
        return f"{self.kind}{' + projections' if self.projected else ''}"

    def power(self, what: str) -> Power | None:
        """Fit how time (seconds, forward, backward) or memory grows with large n."""
        values = [float(getattr(cost, what)) for cost in self.costs.values()]
        return fit_largest(list(self.costs), values)


@dataclass(slots=True)
class Paths:
    """The longest paths of one kind of layer, by n."""

    name: str
    said: str  # the paper's O()
    n: list[int]
    lengths: list[int]


@dataclass(slots=True)
class Operations:
    """Operations of a forward pass, by formula and as torch counts them."""

    kind: Kind
    n: list[int]
    formula: list[int]
    torch: list[int]


@dataclass(slots=True)
class Measured:
    """All measurements."""

    plan: Plan
    device: str
    batch: int
    precision: str
    packed: bool  # whether attention uses our packed kernels
    rows: list[LayerCosts]
    paths: list[Paths]
    operations: list[Operations]
    machine: dict[str, Any]

    @property
    def attention(self) -> str:
        """Which kernels compute attention."""
        return "our packed kernels" if self.packed else "torch's fused kernels"

    def sizes(self, d: int, n: int) -> Sizes:
        """Return the sizes of a layer."""
        k, r = self.plan.k, self.plan.r
        return Sizes(n=n, d=d, k=k, r=r, batch=self.batch, packed=self.packed)

    def to_json(self) -> dict[str, Any]:
        """Return all numbers."""
        return {
            "plan": asdict(self.plan),
            "batch": self.batch,
            "precision": self.precision,
            "attention": self.attention,
            "machine": self.machine,
            "rows": [
                {
                    "layer": row.kind,
                    "projections": row.projected,
                    "d": row.d,
                    "ended": row.ended,
                    "cells": self._cells(row),
                    "exponents": {what: _power_json(row.power(what)) for what in FITTED},
                }
                for row in self.rows
            ],
            "paths": [asdict(paths) for paths in self.paths],
            "operations": [asdict(counts) for counts in self.operations],
        }

    def _cells(self, row: LayerCosts) -> list[dict[str, float]]:
        cells = []
        for n, cost in row.costs.items():
            count = operations(row.kind, self.sizes(row.d, n), projected=row.projected)
            cells.append({"n": n, **cost._asdict(), "operations": count})
        return cells


def _power_json(power: Power | None) -> dict[str, float | None] | None:
    if power is None:
        return None
    return {name: None if math.isnan(value) else value for name, value in asdict(power).items()}


def measure_table1(plan: Plan, device: str, progress: Progress) -> Measured:
    """Measure the costs and paths of all layers."""
    plan.check()
    where = choose_device(device, progress.say, mps=False)
    packed = where.type == "cuda" and _kernels_work(where, progress)
    measured = Measured(
        plan=plan,
        device=where.type,
        batch=plan.batch or BATCH.get(where.type, 1),
        precision="bf16" if where.type == "cuda" else "float32",
        packed=packed,
        rows=[
            LayerCosts(kind, projected, d)
            for d in plan.d
            for kind in TABLE_1
            for projected in ([False, True] if kind in ATTENTION else [False])
        ],
        paths=measure_paths(plan, progress),
        operations=all_operations(plan),
        machine=hardware.describe(where.type, torch.get_num_threads(), ["torch"]),
    )
    measure_rows(measured, where, progress)
    if not any(row.costs for row in measured.rows):
        raise BadSetting("no layer fits in memory: choose a smaller --n, --d or --batch")
    return measured


def _kernels_work(device: torch.device, progress: Progress) -> bool:
    problem = Kernels().select(ModelConfig(), torch.bfloat16, device, training=True)
    if problem:
        progress.say(problem)
    return not problem


def measure_rows(measured: Measured, device: torch.device, progress: Progress) -> None:
    """Measure all rows, each within its share of the remaining time."""
    # The slowest layer comes last and gets the time that the others leave.
    rows = sorted(measured.rows, key=lambda row: row.kind == "recurrent")
    end = time.monotonic() + measured.plan.seconds
    with progress.track("layers", len(rows) * len(measured.plan.n), "sizes") as advance:
        for number, row in enumerate(rows):
            share = (end - time.monotonic()) / (len(rows) - number)
            _measure_row(row, measured, device, share, advance)
            advance(len(measured.plan.n) - len(row.costs))


def _measure_row(
    row: LayerCosts, measured: Measured, device: torch.device, seconds: float, advance: Advance
) -> None:
    """Measure a row until time or memory runs out."""
    dtype = torch.bfloat16 if measured.precision == "bf16" else torch.float32
    torch.manual_seed(1)
    start = 0.0
    for n in measured.plan.n:
        if row.costs:
            before, cost = list(row.costs.items())[-1]
            growth = (n / before) ** TABLE_1[row.kind].n
            expected = cost.seconds * growth * (LEAST_PASSES + 2)
            if time.monotonic() + expected > start + seconds:
                row.ended = "time"
                return
        try:
            sizes = measured.sizes(row.d, n)
            layer = make_pass(row.kind, sizes, device, dtype, projected=row.projected)
            row.costs[n] = measure_cost(layer)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            row.ended = "memory"
            return
        start = start or time.monotonic()  # the first n also compiles kernels
        advance(1)


def measure_paths(plan: Plan, progress: Progress) -> list[Paths]:
    """Measure the longest paths of every kind of layer."""
    longest = min(LONGEST_PATH, max(plan.n))
    ns = [n for n in plan.n if n <= longest] or [longest]
    kinds: list[tuple[str, Kind, str, bool]] = [
        *((kind, kind, paper.path, False) for kind, paper in TABLE_1.items()),
        ("convolutional, dilated", "convolutional", "log_k n", True),
    ]
    measured = []
    with progress.track("paths", len(kinds) * len(ns), "stacks") as advance:
        for name, kind, said, dilated in kinds:
            contiguous = kind == "convolutional" and not dilated
            paths = Paths(name, "n/k" if contiguous else said, ns, [])
            for n in ns:
                paths.lengths.append(path_length(kind, n, k=plan.k, r=plan.r, dilated=dilated))
                advance(1)
            measured.append(paths)
    return measured


def all_operations(plan: Plan) -> list[Operations]:
    """Count the operations for one sentence, at two values of n larger than the neighbourhood."""
    beyond = max(64, 2 ** math.ceil(math.log2(2 * plan.r)))
    counted = []
    for kind in TABLE_1:
        shortest = 16 if kind == "recurrent" else beyond  # torch counts recurrent steps slowly
        all_sizes = [Sizes(n=n, d=plan.d[0], k=plan.k, r=plan.r) for n in (shortest, 2 * shortest)]
        counted.append(
            Operations(
                kind,
                [sizes.n for sizes in all_sizes],
                [operations(kind, sizes) for sizes in all_sizes],
                [count_operations(kind, sizes) for sizes in all_sizes],
            )
        )
    return counted
