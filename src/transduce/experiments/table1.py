"""Table 1, measured: what a layer costs, and how far apart positions are for it."""

import math
import time
from dataclasses import asdict
from typing import Any

import torch

from transduce.bench import hardware
from transduce.config import ModelConfig
from transduce.errors import BadSetting, is_out_of_memory
from transduce.experiments.costs import Counted, Measured, Paths, Plan, Row
from transduce.experiments.drawing import pictures
from transduce.experiments.findings import Finding
from transduce.experiments.fits import Power
from transduce.experiments.measuring import FEWEST, passed
from transduce.experiments.path_lengths import path
from transduce.experiments.table1_layers import (
    ATTENTION,
    TABLE_1,
    Kind,
    Sizes,
    counted,
    layer_of,
    made,
    operations,
)
from transduce.experiments.table1_report import draw, notes, tables
from transduce.model.ops.kernels import Kernels
from transduce.system.devices import choose_device
from transduce.system.progress import Advance, Progress

BATCH = {"cuda": 32, "cpu": 1}  # sentences, so that a GPU has something to do at every n
PATHS = 256  # positions that paths are measured between, at the most
WHAT = ("seconds", "forward", "backward", "memory")
SAID = (
    "A self-attention layer takes O(n^2 d) operations, a recurrent one O(n d^2), a convolutional "
    "one O(k n d^2), restricted self-attention O(r n d); the recurrent one O(n) of them one after "
    "the other. The longest path between two positions is O(1), O(n), O(log_k n) with dilated "
    "kernels (O(n/k) with contiguous ones) and O(n/r)."
)


def table1(plan: Plan, device: str, progress: Progress) -> Finding:
    """Measure every layer, count, fit, and lay it beside the paper's table."""
    plan.check()
    where = choose_device(device, progress.say, mps=False)
    packed = where.type == "cuda" and _kernels_work(where, progress)
    found = Measured(
        plan,
        where.type,
        plan.batch or BATCH.get(where.type, 1),
        "bf16" if where.type == "cuda" else "float32",
        packed,
        rows_of(plan),
        measured_paths(plan, progress),
        operations_of(plan),
        hardware.describe(where.type, torch.get_num_threads(), ["torch"]),
    )
    measure(found, where, progress)
    if not any(row.passes for row in found.rows):
        raise BadSetting("no layer fits into memory: choose a smaller --n, --d or --batch")
    drawn = pictures(
        "Left: time of a layer, forward and backward, over n, and the powers of n that large n "
        "show. Right: the longest path between two positions.",
        lambda: draw(found),
    )
    return Finding(
        name="table1",
        title="Table 1: what a layer costs, and how long its paths are",
        said=SAID,
        tables=tables(found),
        pictures=drawn.pictures,
        notes=(*notes(found), *drawn.notes),
        data=data_of(found),
    )


def _kernels_work(device: torch.device, progress: Progress) -> bool:
    problem = Kernels().select(ModelConfig(), torch.bfloat16, device, training=True)
    if problem:
        progress.say(problem)
    return not problem


def rows_of(plan: Plan) -> list[Row]:
    """Return the rows in the paper's order, nothing measured yet."""
    return [
        Row(kind, projected, d)
        for d in plan.d
        for kind in TABLE_1
        for projected in ([False, True] if kind in ATTENTION else [False])
    ]


def measure(found: Measured, device: torch.device, progress: Progress) -> None:
    """Measure all rows, each within its share of the time that is left."""
    # Those that take longest come last, and have what others leave.
    rows = sorted(found.rows, key=lambda row: row.kind == "recurrent")
    end = time.monotonic() + found.plan.seconds
    with progress.track("layers", len(rows) * len(found.plan.n), "sizes") as advance:
        for number, row in enumerate(rows):
            share = (end - time.monotonic()) / (len(rows) - number)
            _measure(row, found, device, share, advance)
            advance(len(found.plan.n) - len(row.n))


def _measure(
    row: Row, found: Measured, device: torch.device, seconds: float, advance: Advance
) -> None:
    """Measure a row, as far as time and memory go."""
    dtype = torch.bfloat16 if found.precision == "bf16" else torch.float32
    torch.manual_seed(1)
    layer = layer_of(row.kind, _sizes(found, row.d, found.plan.n[0]), device)
    begin = 0.0
    for n in found.plan.n:
        if row.passes:
            growth = (n / row.n[-1]) ** TABLE_1[row.kind].n
            coming = row.passes[-1].seconds * growth * (FEWEST + 2)
            if time.monotonic() + coming > begin + seconds:
                row.ended = "time"
                return
        try:
            sizes = _sizes(found, row.d, n)
            measured = passed(made(layer, sizes, dtype, projected=row.projected))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            row.ended = "memory"
            return
        begin = begin or time.monotonic()  # after the first, for which kernels are compiled
        row.passes.append(measured)
        row.n.append(n)
        advance(1)


def _sizes(found: Measured, d: int, n: int) -> Sizes:
    return Sizes(n=n, d=d, k=found.plan.k, r=found.plan.r, batch=found.batch, packed=found.packed)


def measured_paths(plan: Plan, progress: Progress) -> list[Paths]:
    """Measure the longest paths of every kind of layer."""
    most = min(PATHS, max(plan.n))
    ns = [n for n in plan.n if n <= most] or [most]
    kinds: list[tuple[str, Kind, str, bool]] = [
        *((kind, kind, said.path, False) for kind, said in TABLE_1.items()),
        ("convolutional, dilated", "convolutional", "log_k n", True),
    ]
    found = []
    with progress.track("paths", len(kinds) * len(ns), "stacks") as advance:
        for name, kind, said, dilated in kinds:
            contiguous = kind == "convolutional" and not dilated
            one = Paths(name, "n/k" if contiguous else said, ns, [])
            for n in ns:
                one.lengths.append(path(kind, n, k=plan.k, r=plan.r, dilated=dilated))
                advance(1)
            found.append(one)
    return found


def operations_of(plan: Plan) -> list[Counted]:
    """Count the operations of a sentence, at two n beyond the neighbourhood."""
    beyond = max(64, 2 ** math.ceil(math.log2(2 * plan.r)))
    found = []
    for kind in TABLE_1:
        least = 16 if kind == "recurrent" else beyond  # torch counts it step by step, slowly
        sizes = [Sizes(n=n, d=plan.d[0], k=plan.k, r=plan.r) for n in (least, 2 * least)]
        found.append(
            Counted(
                kind,
                [one.n for one in sizes],
                [operations(kind, one) for one in sizes],
                [counted(kind, one) for one in sizes],
            )
        )
    return found


def data_of(found: Measured) -> dict[str, Any]:
    """Return all numbers for the file."""
    return {
        "plan": asdict(found.plan),
        "batch": found.batch,
        "precision": found.precision,
        "attention": found.attention,
        "machine": found.machine,
        "rows": [
            {
                "layer": row.kind,
                "projections": row.projected,
                "d": row.d,
                "ended": row.ended,
                "cells": _cells(row, found),
                "exponents": {what: _power(row.power(what)) for what in WHAT},
            }
            for row in found.rows
        ],
        "paths": [asdict(one) for one in found.paths],
        "operations": [asdict(one) for one in found.counted],
    }


def _cells(row: Row, found: Measured) -> list[dict[str, float]]:
    return [
        {
            "n": n,
            **one._asdict(),
            "operations": operations(row.kind, _sizes(found, row.d, n), projected=row.projected),
        }
        for n, one in zip(row.n, row.passes, strict=True)
    ]


def _power(power: Power | None) -> dict[str, float | None] | None:
    if power is None:
        return None
    return {name: None if math.isnan(one) else one for name, one in asdict(power).items()}
