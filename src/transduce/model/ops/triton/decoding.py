"""Attention over the cache in decoding steps (model/cache.py).

S sentences, k hypotheses each, H heads, C channels per head, L steps or source tokens that the
cache has capacity for. A program computes one head of one sentence and reads each key once for all
its queries. Lengths are read on the GPU, so that one recorded step serves sentences of any length.
Sums are float32.
"""

import triton
import triton.language as tl
from torch import Tensor

from transduce.model.ops.triton.attention import LOG2_E

KEYS = 64  # keys that a program reads at a time


def attend_past(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    ancestors: Tensor,
    lengths: Tensor,
    *,
    window: int | None = None,
) -> Tensor:
    """Write the step's keys and values to the cache, and let each hypothesis attend to its past.

    With `window`, it attends only to that many earlier steps.

    qkv: (S * k, H * (2 d_k + d_v)); keys, values: (S, H, L, k, C); ancestors: (S, k, L);
    lengths: (S,). -> (S * k, H * d_v).
    """
    S, h, capacity, k, d_k = keys.shape
    d_v = values.size(-1)
    out = qkv.new_empty(len(qkv), h * d_v)
    _attend_past[S, h](
        *(qkv, keys, values, ancestors, lengths, out, qkv.stride(0)),
        *(capacity, k, capacity if window is None else window, d_k**-0.5 * LOG2_E),
        **_sizes(k, d_k, d_v, qkv),
    )
    return out


def attend_source(q: Tensor, keys: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Let hypotheses attend to their source. (S * k, H * d_k), (S, H, L, C), (S,) -> (S * k, …)."""
    S, h, capacity, d_k = keys.shape
    d_v, k = values.size(-1), len(q) // S
    out = q.new_empty(len(q), h * d_v)
    _attend_source[S, h](
        *(q, keys, values, lengths, out, q.stride(0), capacity, k, d_k**-0.5 * LOG2_E),
        **_sizes(k, d_k, d_v, q),
    )
    return out


def _sizes(k: int, d_k: int, d_v: int, q: Tensor) -> dict[str, int | str]:
    return {
        # Tensor cores need powers of 2, at least 16.
        "QUERIES": max(16, triton.next_power_of_2(k)),
        "C": d_k,
        "C_V": d_v,
        "WIDTH": max(16, triton.next_power_of_2(d_k)),
        "WIDTH_V": max(16, triton.next_power_of_2(d_v)),
        "KEYS": KEYS if max(d_k, d_v) <= 128 else 32,
        "PRECISION": "ieee" if q.itemsize == 4 else "tf32",
        "num_warps": 4,
    }


@triton.jit
def _tile(BASE, rows, stride, begin, channels, inside, C: tl.constexpr):
    """Load (rows, channels) of the head whose first column is `begin`."""
    at = BASE + rows.to(tl.int64)[:, None] * stride + begin + channels[None, :]
    return tl.load(at, mask=inside[:, None] & (channels < C)[None, :], other=0.0)


@triton.jit
def _add_keys(s, v, top, total, out, PRECISION: tl.constexpr):
    """Add keys to a running softmax: its largest score, divisor and weighted sum of values."""
    above = tl.maximum(top, tl.max(s, 1))
    base = tl.where(above == -float("inf"), 0.0, above)
    p = tl.exp2(s - base[:, None])
    shrink = tl.exp2(top - base)
    out = tl.dot(p.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)
    return above, total * shrink + tl.sum(p, 1), out


@triton.jit
def _attend_past(
    QKV, KEYS_OF, VALUES_OF, ANCESTORS, LENGTHS, OUT, stride, capacity, k, window, scale,
    QUERIES: tl.constexpr, C: tl.constexpr, C_V: tl.constexpr, WIDTH: tl.constexpr,
    WIDTH_V: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sentence, head, h = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    length = tl.load(LENGTHS + sentence)
    i, n = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    c, c_v = tl.arange(0, WIDTH), tl.arange(0, WIDTH_V)
    mine = i < k
    tokens = sentence * k + i
    q = _tile(QKV, tokens, stride, head * C, c, mine, C)
    new_k = _tile(QKV, tokens, stride, h * C + head * C, c, mine, C)
    new_v = _tile(QKV, tokens, stride, 2 * h * C + head * C_V, c_v, mine, C_V)
    first = (sentence * h + head) * capacity * k  # row of this head
    now = (first + length * k + i)[:, None]
    tl.store(KEYS_OF + now * C + c[None, :], new_k, mask=mine[:, None] & (c < C)[None, :])
    tl.store(VALUES_OF + now * C_V + c_v[None, :], new_v, mask=mine[:, None] & (c_v < C_V)[None, :])
    # Among this step's keys, a hypothesis attends only to its own.
    top = tl.sum(q.to(tl.float32) * new_k.to(tl.float32), 1) * scale
    total = tl.full([QUERIES], 1.0, tl.float32)
    out = new_v.to(tl.float32)
    for begin in range(tl.maximum(length - window, 0) * k, length * k, KEYS):
        key = begin + n
        inside = key < length * k
        step = key // k
        keys = _tile(KEYS_OF, first + key, C, 0, c, inside, C)
        values = _tile(VALUES_OF, first + key, C_V, 0, c_v, inside, C_V)
        writer = tl.load(
            ANCESTORS + tokens[:, None] * capacity + step[None, :],
            mask=mine[:, None] & inside[None, :], other=-1,
        )  # fmt: skip
        s = tl.dot(q, tl.trans(keys), input_precision=PRECISION) * scale
        s = tl.where(writer == (key % k)[None, :], s, -float("inf"))
        top, total, out = _add_keys(s, values, top, total, out, PRECISION)
    at = OUT + tokens[:, None] * (h * C_V) + head * C_V + c_v[None, :]
    result = (out / total[:, None]).to(OUT.dtype.element_ty)
    tl.store(at, result, mask=mine[:, None] & (c_v < C_V)[None, :])


@triton.jit
def _attend_source(
    Q, KEYS_OF, VALUES_OF, LENGTHS, OUT, stride, capacity, k, scale,
    QUERIES: tl.constexpr, C: tl.constexpr, C_V: tl.constexpr, WIDTH: tl.constexpr,
    WIDTH_V: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sentence, head, h = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    length = tl.load(LENGTHS + sentence)
    i, n = tl.arange(0, QUERIES), tl.arange(0, KEYS)
    c, c_v = tl.arange(0, WIDTH), tl.arange(0, WIDTH_V)
    mine = i < k
    tokens = sentence * k + i
    first = (sentence * h + head) * capacity
    q = _tile(Q, tokens, stride, head * C, c, mine, C)
    top = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    out = tl.zeros([QUERIES, WIDTH_V], tl.float32)
    for begin in range(0, length, KEYS):
        key = begin + n
        inside = key < length
        keys = _tile(KEYS_OF, first + key, C, 0, c, inside, C)
        values = _tile(VALUES_OF, first + key, C_V, 0, c_v, inside, C_V)
        s = tl.dot(q, tl.trans(keys), input_precision=PRECISION) * scale
        s = tl.where(inside[None, :], s, -float("inf"))
        top, total, out = _add_keys(s, values, top, total, out, PRECISION)
    at = OUT + tokens[:, None] * (h * C_V) + head * C_V + c_v[None, :]
    result = (out / total[:, None]).to(OUT.dtype.element_ty)
    tl.store(at, result, mask=mine[:, None] & (c_v < C_V)[None, :])
