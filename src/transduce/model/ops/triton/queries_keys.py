"""Norm and rotation of queries and keys (ops/queries_keys.py). T tokens.

A program computes one token at a time. Sums are float32. There are no atomics: the same input
gives the same bits.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 1024  # programs that sum over tokens; more than a GPU runs at once


def forward(
    x: Tensor,
    size: tuple[int, int],
    gain: Tensor | None,
    table: Tensor | None,
    positions: Tensor | None,
    eps: float,
) -> Tensor:
    """Normalise and rotate the first heads of each row; copy the other channels."""
    out = torch.empty_like(x)
    _forward[(len(x),)](
        *(x, *_or(x, gain, table, positions), out, eps), **_constants(x, size, gain, table)
    )
    return out


def backward(
    d_out: Tensor,
    x: Tensor | None,
    size: tuple[int, int],
    gain: Tensor | None,
    table: Tensor | None,
    positions: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of x and gain; `x` is needed only with `gain`."""
    d_x = torch.empty_like(d_out)
    rows, (heads, d_k) = len(d_out), size
    programs = rows if gain is None else min(PROGRAMS, rows)
    sums = d_out.new_empty(programs if gain is not None else 0, heads, d_k, dtype=torch.float32)
    _backward[(programs,)](
        *(d_out, *_or(d_out, x, gain, table, positions), d_x, sums, rows, programs, eps),
        **_constants(d_out, size, gain, table),
    )
    if gain is None:
        return d_x, None
    return d_x, sums.unflatten(1, (gain.numel() // d_k, -1)).sum((0, 2)).flatten()


def _or(other: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    """Replace absent tensors, which the kernels do not read."""
    return [other if tensor is None else tensor for tensor in tensors]


def _constants(
    x: Tensor, size: tuple[int, int], gain: Tensor | None, table: Tensor | None
) -> dict[str, Any]:
    heads, d_k = size
    rest = x.size(1) - heads * d_k
    heads_width, width = triton.next_power_of_2(heads), max(2, triton.next_power_of_2(d_k))
    return {
        "NORM": gain is not None,
        "ROTATE": table is not None,
        "HEADS": heads,
        "D_K": d_k,
        "PER_KIND": heads if gain is None else heads * d_k // gain.numel(),
        "REST": rest,
        "HEADS_WIDTH": heads_width,
        "WIDTH": width,
        "REST_WIDTH": triton.next_power_of_2(max(1, rest)),
        "num_warps": min(8, max(1, heads_width * width // 256)),
    }


@triton.jit
def _turn(
    y, TABLE, POSITIONS, row,
    D_K: tl.constexpr, HEADS_WIDTH: tl.constexpr, WIDTH: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """Rotate the heads of a token to its position, or back."""
    pair = tl.arange(0, WIDTH // 2)
    position = tl.load(POSITIONS + row).to(tl.int64)
    at = TABLE + position * D_K + 2 * pair
    sin = tl.load(at, mask=2 * pair < D_K, other=0.0)[None, :]
    cos = tl.load(at + 1, mask=2 * pair < D_K, other=0.0)[None, :]
    if BACK:
        sin = -sin
    a, b = tl.split(tl.reshape(y, [HEADS_WIDTH, WIDTH // 2, 2]))
    return tl.reshape(tl.join(a * cos - b * sin, a * sin + b * cos), [HEADS_WIDTH, WIDTH])


@triton.jit
def _forward(
    X, GAIN, TABLE, POSITIONS, OUT, eps, NORM: tl.constexpr, ROTATE: tl.constexpr,
    HEADS: tl.constexpr, D_K: tl.constexpr, PER_KIND: tl.constexpr, REST: tl.constexpr,
    HEADS_WIDTH: tl.constexpr, WIDTH: tl.constexpr, REST_WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head, channel = tl.arange(0, HEADS_WIDTH)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (head < HEADS) & (channel < D_K)
    at = row * (HEADS * D_K + REST) + head * D_K + channel
    y = tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        inverse = 1.0 / tl.sqrt(tl.sum(y * y, 1) / D_K + eps)
        gain = tl.load(GAIN + head // PER_KIND * D_K + channel, mask=inside, other=0.0)
        y = y * inverse[:, None] * gain
    if ROTATE:
        y = _turn(y, TABLE, POSITIONS, row, D_K, HEADS_WIDTH, WIDTH, BACK=False)
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=inside)
    if REST > 0:
        other = tl.arange(0, REST_WIDTH)
        at_rest = row * (HEADS * D_K + REST) + HEADS * D_K + other
        values = tl.load(X + at_rest, mask=other < REST, other=0.0)
        tl.store(OUT + at_rest, values, mask=other < REST)


@triton.jit
def _backward(
    D_OUT, X, GAIN, TABLE, POSITIONS, D_X, SUMS, rows, programs, eps,
    NORM: tl.constexpr, ROTATE: tl.constexpr, HEADS: tl.constexpr, D_K: tl.constexpr,
    PER_KIND: tl.constexpr, REST: tl.constexpr, HEADS_WIDTH: tl.constexpr, WIDTH: tl.constexpr,
    REST_WIDTH: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    head, channel = tl.arange(0, HEADS_WIDTH)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (head < HEADS) & (channel < D_K)
    if NORM:
        gain = tl.load(GAIN + head // PER_KIND * D_K + channel, mask=inside, other=0.0)
        d_gain = tl.zeros([HEADS_WIDTH, WIDTH], tl.float32)
    for number in range(program, rows, programs):
        row = number + tl.zeros([1], tl.int64)
        at = row[:, None] * (HEADS * D_K + REST) + head * D_K + channel
        d_y = tl.load(D_OUT + at, mask=inside, other=0.0).to(tl.float32)
        if ROTATE:
            d_y = _turn(d_y, TABLE, POSITIONS, row, D_K, HEADS_WIDTH, WIDTH, BACK=True)
        if NORM:
            x = tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
            inverse = 1.0 / tl.sqrt(tl.sum(x * x, 1) / D_K + eps)
            normed = x * inverse[:, None]
            d_gain += d_y * normed
            d_y *= gain
            along = tl.sum(d_y * normed, 1) / D_K
            d_y = inverse[:, None] * (d_y - normed * along[:, None])
        tl.store(D_X + at, d_y.to(D_X.dtype.element_ty), mask=inside)
        if REST > 0:
            other = tl.arange(0, REST_WIDTH)
            at_rest = row * (HEADS * D_K + REST) + HEADS * D_K + other
            values = tl.load(D_OUT + at_rest, mask=other < REST, other=0.0)
            tl.store(D_X + at_rest, values, mask=other < REST)
    if NORM:
        at = program * HEADS * D_K + head * D_K + channel
        tl.store(SUMS + at, d_gain, mask=inside)
