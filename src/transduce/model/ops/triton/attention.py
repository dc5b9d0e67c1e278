"""Attention over packed tokens (paper 3.2.1). T tokens, H heads, C channels per head.

A tile is a few dozen neighbouring tokens, whatever sentences they belong to: short sentences share
one, long ones take several. Each query attends to one range of keys, and one range of queries
attends to each key. Ranges grow along the tokens, so a tile needs only the keys from the beginning
of its first token's range to the end of its last token's.

Statistics and sums are float32; the softmax uses powers of 2, which the hardware computes. There
are no atomics: the same input gives the same bits.
"""

import triton
import triton.language as tl
from torch import Tensor

LOG2_E = 1.4426950408889634


def forward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, first: Tensor, last: Tensor
) -> None:
    """Write Eq. 1 to `out`, and the logarithm (base 2) of each softmax's divisor to `lse`.

    q, k, v, out: (T, H, C), contiguous except for the stride of T; lse: (H, T); first, last: (T,).
    """
    queries, heads, channels = q.shape
    tile = _tile(channels, v.size(2))
    _forward[heads, triton.cdiv(queries, tile["ROWS"])](
        *(q, k, v, out, lse, first, last),
        *(q.stride(0), k.stride(0), v.stride(0), out.stride(0)),
        queries,
        channels**-0.5 * LOG2_E,
        C=channels,
        C_V=v.size(2),
        **tile,
        **_precision(q),
    )


def backward(
    d_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    ranges: tuple[Tensor, Tensor, Tensor, Tensor],
    d_q: Tensor,
    d_k: Tensor,
    d_v: Tensor,
) -> None:
    """Write the gradients of q, k and v; `ranges` are first, last, seen_first, seen_last."""
    first, last, seen_first, seen_last = ranges
    queries, heads, channels = q.shape
    keys = k.size(0)
    tile = _tile(channels, v.size(2))
    delta = lse.new_empty(lse.shape)  # (H, T) sum of d_out * out
    sizes = {"C": channels, "C_V": v.size(2)} | tile | _precision(q)
    strides = (q.stride(0), k.stride(0), v.stride(0), d_out.stride(0))
    _backward_queries[heads, triton.cdiv(queries, tile["ROWS"])](
        *(q, k, v, out, d_out, lse, delta, first, last, d_q),
        *(*strides, out.stride(0), d_q.stride(0)),
        *(queries, channels**-0.5),
        **sizes,
    )
    _backward_keys[heads, triton.cdiv(keys, tile["ROWS"])](
        *(q, k, v, d_out, lse, delta, seen_first, seen_last, d_k, d_v),
        *(*strides, d_k.stride(0), d_v.stride(0)),
        *(queries, keys, channels**-0.5),
        **sizes,
    )


def _tile(channels: int, channels_v: int) -> dict[str, int]:
    """Return the shape of a tile, chosen by measurements on an H200 (docs/log.md)."""
    wide = max(channels, channels_v)
    rows, columns, warps, stages = (64, 32, 4, 3) if wide <= 128 else (32, 32, 8, 2)
    return {
        "ROWS": rows,
        "COLUMNS": columns,
        # Tensor cores need powers of 2, at least 16.
        "WIDTH": max(16, triton.next_power_of_2(channels)),
        "WIDTH_V": max(16, triton.next_power_of_2(channels_v)),
        "num_warps": warps,
        "num_stages": stages,
    }


def _precision(q: Tensor) -> dict[str, str]:
    """Multiply float32 without rounding: by default Triton rounds it to 10 bits (TF32)."""
    return {"PRECISION": "ieee" if q.itemsize == 4 else "tf32"}


@triton.jit
def _ranges(FIRST, LAST, begin, rows, limit, ROWS: tl.constexpr):
    """Load the ranges of a tile's tokens, and the beginning and end of all of them together."""
    inside = begin + rows < limit
    first = tl.load(FIRST + begin + rows, mask=inside, other=0)[:, None]
    last = tl.load(LAST + begin + rows, mask=inside, other=0)[:, None]
    lowest = tl.load(FIRST + begin)
    highest = tl.load(LAST + tl.minimum(begin + ROWS, limit) - 1)
    return first, last, lowest, highest


@triton.jit
def _load(BASE, begin, stride, head, limit, rows, channels, C: tl.constexpr):
    """Load a tile of (rows, channels) of one head."""
    tokens = begin + rows
    at = BASE + tokens.to(tl.int64)[:, None] * stride + head * C + channels[None, :]
    return tl.load(at, mask=(tokens < limit)[:, None] & (channels < C)[None, :], other=0.0)


@triton.jit
def _store(BASE, tile, begin, stride, head, limit, rows, channels, C: tl.constexpr):
    tokens = begin + rows
    at = BASE + tokens.to(tl.int64)[:, None] * stride + head * C + channels[None, :]
    value = tile.to(BASE.dtype.element_ty)
    tl.store(at, value, mask=(tokens < limit)[:, None] & (channels < C)[None, :])


@triton.jit
def _forward(
    Q, K, V, OUT, LSE, FIRST, LAST, q_stride, k_stride, v_stride, out_stride, queries, scale,
    C: tl.constexpr, C_V: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0), tl.program_id(1) * ROWS
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    c, c_v = tl.arange(0, WIDTH), tl.arange(0, WIDTH_V)
    inside = begin + rows < queries
    first, last, lowest, highest = _ranges(FIRST, LAST, begin, rows, queries, ROWS)
    q = _load(Q, begin, q_stride, head, queries, rows, c, C)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, WIDTH_V], tl.float32)
    for at in range(lowest, highest, COLUMNS):
        k = _load(K, at, k_stride, head, highest, columns, c, C)
        v = _load(V, at, v_stride, head, highest, columns, c_v, C_V)
        seen = (at + columns)[None, :]
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale  # (ROWS, COLUMNS)
        s = tl.where((seen >= first) & (seen < last), s, -float("inf"))
        above = tl.maximum(top, tl.max(s, 1))
        base = tl.where(above == -float("inf"), 0.0, above)  # a row that has seen no key yet
        p = tl.exp2(s - base[:, None])
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(p, 1)
        out = out * shrink[:, None]
        out = tl.dot(p.to(v.dtype), v, out, input_precision=PRECISION)
        top = above
    empty = total == 0.0  # padding
    total = tl.where(empty, 1.0, total)
    _store(OUT, out / total[:, None], begin, out_stride, head, queries, rows, c_v, C_V)
    lse = tl.where(empty, 0.0, top) + tl.log2(total)
    tl.store(LSE + head * queries + begin + rows, lse, mask=inside)


@triton.jit
def _backward_queries(
    Q, K, V, OUT, D_OUT, LSE, DELTA, FIRST, LAST, D_Q,
    q_stride, k_stride, v_stride, d_out_stride, out_stride, d_q_stride, queries, scale,
    C: tl.constexpr, C_V: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0), tl.program_id(1) * ROWS
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    c, c_v = tl.arange(0, WIDTH), tl.arange(0, WIDTH_V)
    inside = begin + rows < queries
    first, last, lowest, highest = _ranges(FIRST, LAST, begin, rows, queries, ROWS)
    q = _load(Q, begin, q_stride, head, queries, rows, c, C)
    d_out = _load(D_OUT, begin, d_out_stride, head, queries, rows, c_v, C_V)
    out = _load(OUT, begin, out_stride, head, queries, rows, c_v, C_V)
    lse = tl.load(LSE + head * queries + begin + rows, mask=inside, other=0.0)
    delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), 1)
    tl.store(DELTA + head * queries + begin + rows, delta, mask=inside)
    d_q = tl.zeros([ROWS, WIDTH], tl.float32)
    for at in range(lowest, highest, COLUMNS):
        k = _load(K, at, k_stride, head, highest, columns, c, C)
        v = _load(V, at, v_stride, head, highest, columns, c_v, C_V)
        seen = (at + columns)[None, :]
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * 1.4426950408889634)
        p = tl.where((seen >= first) & (seen < last), tl.exp2(s - lse[:, None]), 0.0)
        d_p = tl.dot(d_out, tl.trans(v), input_precision=PRECISION)
        d_s = p * (d_p - delta[:, None])
        d_q = tl.dot(d_s.to(k.dtype), k, d_q, input_precision=PRECISION)
    _store(D_Q, d_q * scale, begin, d_q_stride, head, queries, rows, c, C)


@triton.jit
def _backward_keys(
    Q, K, V, D_OUT, LSE, DELTA, SEEN_FIRST, SEEN_LAST, D_K, D_V,
    q_stride, k_stride, v_stride, d_out_stride, d_k_stride, d_v_stride, queries, keys, scale,
    C: tl.constexpr, C_V: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0), tl.program_id(1) * ROWS  # rows are keys, columns queries
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    c, c_v = tl.arange(0, WIDTH), tl.arange(0, WIDTH_V)
    first, last, lowest, highest = _ranges(SEEN_FIRST, SEEN_LAST, begin, rows, keys, ROWS)
    k = _load(K, begin, k_stride, head, keys, rows, c, C)
    v = _load(V, begin, v_stride, head, keys, rows, c_v, C_V)
    d_k = tl.zeros([ROWS, WIDTH], tl.float32)
    d_v = tl.zeros([ROWS, WIDTH_V], tl.float32)
    for at in range(lowest, highest, COLUMNS):
        q = _load(Q, at, q_stride, head, highest, columns, c, C)
        d_out = _load(D_OUT, at, d_out_stride, head, highest, columns, c_v, C_V)
        query = at + columns
        lse = tl.load(LSE + head * queries + query, mask=query < highest, other=0.0)[None, :]
        delta = tl.load(DELTA + head * queries + query, mask=query < highest, other=0.0)[None, :]
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * 1.4426950408889634)
        sees = (query[None, :] >= first) & (query[None, :] < last)
        p = tl.where(sees, tl.exp2(s - lse), 0.0)  # (keys, queries)
        d_v = tl.dot(p.to(d_out.dtype), d_out, d_v, input_precision=PRECISION)
        d_p = tl.dot(v, tl.trans(d_out), input_precision=PRECISION)
        d_s = p * (d_p - delta)
        d_k = tl.dot(d_s.to(q.dtype), q, d_k, input_precision=PRECISION)
    _store(D_K, d_k * scale, begin, d_k_stride, head, keys, rows, c, C)
    _store(D_V, d_v, begin, d_v_stride, head, keys, rows, c_v, C_V)
