"""Kernels that compute a row at a time: residual, norm, ReLU, softmax. T rows.

Sums are float32. There are no atomics: the same input gives the same bits.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

QUAD = 4  # rows that share a draw: the generator yields four numbers at a time
_WORDS = {"COLUMNS": 8192, "LANE": 8, "num_warps": 8}  # per pass of the softmax over the logits
PROGRAMS = 1024  # programs that sum over rows; more than a GPU runs at once


def residual_forward(
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    seed: Tensor,
    P_drop: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Norm(x + Dropout(y)), the sum, and its mean and 1 / deviation (2, T).

    The norm is LayerNorm, or RMSNorm if there is no bias: its mean is not defined.
    """
    rows, D = x.shape
    out, total = torch.empty_like(x), torch.empty_like(x)
    statistics = x.new_empty(2, rows, dtype=torch.float32)
    _norm_forward[(triton.cdiv(rows, QUAD),)](
        *(x, y, weight, weight if bias is None else bias, seed, out, total, statistics, rows, eps),
        RESIDUAL=True,
        RELU=False,
        RMS=bias is None,
        **_drop(P_drop),
        **_row(D),
    )
    return out, total, statistics


def residual_backward(
    d_out: Tensor,
    total: Tensor,
    statistics: Tensor,
    weight: Tensor,
    seed: Tensor,
    P_drop: float,
    *,
    d_total: Tensor | None = None,
    rms: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the gradients of x, y, weight and bias; `d_total` is that of the sum, if it is used.

    With `rms`, the norm is RMSNorm, which has no bias.
    """
    rows, D = total.shape
    d_x = torch.empty_like(total)
    d_y = torch.empty_like(total) if P_drop else d_x
    programs = min(PROGRAMS, triton.cdiv(rows, QUAD))
    sums = total.new_empty(1 if rms else 2, programs, D, dtype=torch.float32)
    _norm_backward[(programs,)](
        *(d_out, d_out if d_total is None else d_total, total, statistics, weight, weight, seed),
        *(d_x, d_y, sums, rows, programs),
        STREAM=d_total is not None,
        RELU=False,
        RMS=rms,
        **_drop(P_drop),
        **_row(D),
    )
    d_weight, *d_bias = sums.sum(1).unbind()
    return d_x, d_y, d_weight, d_bias[0] if d_bias else None


def norm_forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, *, relu: bool
) -> tuple[Tensor, Tensor]:
    """Return Norm(x), and the mean and 1 / deviation of each row (2, T).

    With `relu`, negative outputs become 0. Without a bias, the norm is RMSNorm.
    """
    rows, D = x.shape
    out, statistics = torch.empty_like(x), x.new_empty(2, rows, dtype=torch.float32)
    _norm_forward[(triton.cdiv(rows, QUAD),)](
        *(x, x, weight, weight if bias is None else bias, weight, out, out, statistics, rows, eps),
        RESIDUAL=False,
        RELU=relu,
        RMS=bias is None,
        **_drop(0.0),
        **_row(D),
    )
    return out, statistics


def norm_backward(
    d_out: Tensor,
    x: Tensor,
    statistics: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    relu: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the gradients of x, weight and bias."""
    rows, D = x.shape
    d_x = torch.empty_like(x)
    programs = min(PROGRAMS, triton.cdiv(rows, QUAD))
    sums = x.new_empty(1 if bias is None else 2, programs, D, dtype=torch.float32)
    _norm_backward[(programs,)](
        *(d_out, d_out, x, statistics, weight, weight if bias is None else bias, weight),
        *(d_x, d_x, sums, rows, programs),
        STREAM=False,
        RELU=relu,
        RMS=bias is None,
        **_drop(0.0),
        **_row(D),
    )
    d_weight, *d_bias = sums.sum(1).unbind()
    return d_x, d_weight, d_bias[0] if d_bias else None


def relu_backward(d_out: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return ReLU's gradient, and its sum over the rows: the gradient of the bias before it."""
    rows, D = out.shape
    d_x = torch.empty_like(out)
    programs = min(PROGRAMS // 4, rows)
    sums = out.new_empty(programs, D, dtype=torch.float32)
    columns = 1024
    _relu_backward[programs, triton.cdiv(D, columns)](
        *(d_out, out, d_x, sums, rows, programs), D=D, COLUMNS=columns, num_warps=4
    )
    return d_x, sums.sum(0)


def gate_forward(x: Tensor, activation: str) -> Tensor:
    """Return act(a) * b, where a and b are the halves of `x`. (T, 2 D) -> (T, D)."""
    rows, D = len(x), x.size(1) // 2
    out = x.new_empty(rows, D)
    columns = min(1024, triton.next_power_of_2(D))
    _gate_forward[rows, triton.cdiv(D, columns)](
        *(x, out), ACTIVATION=activation, D=D, COLUMNS=columns, num_warps=4
    )
    return out


def gate_backward(d_out: Tensor, x: Tensor, activation: str) -> Tensor:
    """Return the gradient of `x`. (T, D), (T, 2 D) -> (T, 2 D)."""
    rows, D = d_out.shape
    d_x = torch.empty_like(x)
    columns = min(1024, triton.next_power_of_2(D))
    _gate_backward[rows, triton.cdiv(D, columns)](
        *(d_out, x, d_x), ACTIVATION=activation, D=D, COLUMNS=columns, num_warps=4
    )
    return d_x


def softmax(z: Tensor, V: int, labels: Tensor, eps_ls: float, pad: int) -> Tensor:
    """Replace logits by the gradient of their smoothed loss; only the first V are words.

    Returns the smoothed loss and the negative log-likelihood. (T, words), (T,) -> (T, 2).
    """
    rows, words = z.shape
    losses = z.new_empty(rows, 2, dtype=torch.float32)
    _softmax[(rows,)](
        *(z, labels, losses, words, eps_ls, eps_ls / (V - 1)),
        V=V,
        PAD=pad,
        **_WORDS,
    )
    return losses


def _row(D: int) -> dict[str, int]:
    width = triton.next_power_of_2(D)
    return {"D": D, "WIDTH": width, "num_warps": min(8, max(1, width // 256))}


def _drop(P_drop: float) -> dict[str, float]:
    return {"THRESHOLD": round(P_drop * 2**31), "SCALE": 1 / (1 - P_drop)}


@triton.jit
def _draw(SEED, index, THRESHOLD: tl.constexpr):
    """Draw four random numbers for each index; 7 rounds of Philox pass all tests of randomness."""
    if THRESHOLD > 0:
        seed = tl.load(SEED)
        a, b, c, d = tl.randint4x(seed, index, n_rounds=7)
    else:
        a, b, c, d = index, index, index, index
    return a, b, c, d


@triton.jit
def _factor(bits, THRESHOLD: tl.constexpr, SCALE: tl.constexpr):
    """Return 0 for dropped elements, else `SCALE`; 31 random bits decide."""
    return tl.where((bits & 0x7FFFFFFF) >= THRESHOLD, SCALE, 0.0)


@triton.jit
def _norm_forward(
    X, Y, WEIGHT, BIAS, SEED, OUT, TOTAL, STATISTICS, rows, eps,
    RESIDUAL: tl.constexpr, RELU: tl.constexpr, RMS: tl.constexpr,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Norm(x + Dropout(y)) if RESIDUAL, else Norm(x): y, SEED and TOTAL are unused."""
    quad, columns = tl.program_id(0), tl.arange(0, WIDTH)
    inside = columns < D
    weight = tl.load(WEIGHT + columns, mask=inside, other=0.0)
    bias = tl.load(BIAS + columns, mask=inside, other=0.0)
    draws = _draw(SEED, quad * WIDTH + columns, THRESHOLD)
    for i in tl.static_range(4):
        row = quad * 4 + i + tl.zeros([1], tl.int32)
        here = row < rows
        at = row.to(tl.int64) * D + columns
        mask = inside & here
        x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
        if RESIDUAL:
            y = tl.load(Y + at, mask=mask, other=0.0).to(tl.float32)
            if THRESHOLD > 0:
                y *= _factor(draws[i], THRESHOLD, SCALE)
            x += y
            tl.store(TOTAL + at, x.to(TOTAL.dtype.element_ty), mask=mask)
        if RMS:
            centred = x
        else:
            mean = tl.sum(x, 0) / D
            centred = tl.where(inside, x - mean, 0.0)
            tl.store(STATISTICS + row, mean, mask=here)
        inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / D + eps)
        out = centred * inverse * weight
        if not RMS:
            out += bias
        if RELU:
            out = tl.maximum(out, 0.0)
        tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=mask)
        tl.store(STATISTICS + rows + row, inverse, mask=here)


@triton.jit
def _norm_backward(
    D_OUT, D_TOTAL, X, STATISTICS, WEIGHT, BIAS, SEED, D_X, D_Y, SUMS, rows, programs,
    STREAM: tl.constexpr, RELU: tl.constexpr, RMS: tl.constexpr,
    THRESHOLD: tl.constexpr, SCALE: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients of `_norm_forward`; X is what was normalised, with STREAM D_TOTAL its gradient."""
    program, columns = tl.program_id(0), tl.arange(0, WIDTH)
    inside = columns < D
    weight = tl.load(WEIGHT + columns, mask=inside, other=0.0)
    bias = tl.load(BIAS + columns, mask=inside, other=0.0)
    d_weight = tl.zeros([WIDTH], tl.float32)
    d_bias = tl.zeros([WIDTH], tl.float32)
    for quad in range(program, tl.cdiv(rows, 4), programs):
        draws = _draw(SEED, quad * WIDTH + columns, THRESHOLD)
        for i in tl.static_range(4):
            row = quad * 4 + i + tl.zeros([1], tl.int32)
            here = row < rows
            at = row.to(tl.int64) * D + columns
            mask = inside & here
            d_out = tl.load(D_OUT + at, mask=mask, other=0.0).to(tl.float32)
            x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
            inverse = tl.load(STATISTICS + rows + row, mask=here, other=0.0)
            if RMS:
                normed = x * inverse
            else:
                mean = tl.load(STATISTICS + row, mask=here, other=0.0)
                normed = tl.where(mask, (x - mean) * inverse, 0.0)
            if RELU:
                d_out = tl.where(normed * weight + bias > 0, d_out, 0.0)
            d_weight += d_out * normed
            d_normed = d_out * weight
            along = tl.sum(d_normed * normed, 0) / D
            if RMS:
                d_x = inverse * (d_normed - normed * along)
            else:
                d_bias += d_out
                d_x = inverse * (d_normed - tl.sum(d_normed, 0) / D - normed * along)
            if STREAM:
                d_x += tl.load(D_TOTAL + at, mask=mask, other=0.0).to(tl.float32)
            tl.store(D_X + at, d_x.to(D_X.dtype.element_ty), mask=mask)
            if THRESHOLD > 0:
                d_y = d_x * _factor(draws[i], THRESHOLD, SCALE)
                tl.store(D_Y + at, d_y.to(D_Y.dtype.element_ty), mask=mask)
    tl.store(SUMS + program * D + columns, d_weight, mask=inside)
    if not RMS:
        tl.store(SUMS + (programs + program) * D + columns, d_bias, mask=inside)


@triton.jit
def _relu_backward(D_OUT, OUT, D_X, SUMS, rows, programs, D: tl.constexpr, COLUMNS: tl.constexpr):
    program, columns = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < D
    total = tl.zeros([COLUMNS], tl.float32)
    for row in range(program, rows, programs):
        at = (row + tl.zeros([COLUMNS], tl.int64)) * D + columns
        out = tl.load(OUT + at, mask=inside, other=0.0)
        d_out = tl.load(D_OUT + at, mask=inside, other=0.0)
        d_x = tl.where(out > 0, d_out, 0.0)
        tl.store(D_X + at, d_x, mask=inside)
        total += d_x.to(tl.float32)
    tl.store(SUMS + program * D + columns, total, mask=inside)


@triton.jit
def _activate(a, ACTIVATION: tl.constexpr):
    """Return act(a) and its derivative."""
    if ACTIVATION == "relu":
        active = tl.maximum(a, 0.0)
        slope = tl.where(a > 0, 1.0, 0.0)
    elif ACTIVATION == "swish":
        sigmoid = tl.sigmoid(a)
        active = a * sigmoid
        slope = sigmoid + active * (1.0 - sigmoid)
    else:  # gelu: a Phi(a)
        below = 0.5 + 0.5 * tl.erf(a * 0.7071067811865476)
        active = a * below
        slope = below + a * tl.exp(-0.5 * a * a) * 0.3989422804014327
    return active, slope


@triton.jit
def _gate_forward(X, OUT, ACTIVATION: tl.constexpr, D: tl.constexpr, COLUMNS: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < D
    a = tl.load(X + 2 * row * D + columns, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(X + (2 * row + 1) * D + columns, mask=inside, other=0.0).to(tl.float32)
    active, _ = _activate(a, ACTIVATION)
    tl.store(OUT + row * D + columns, (active * b).to(OUT.dtype.element_ty), mask=inside)


@triton.jit
def _gate_backward(
    D_OUT, X, D_X, ACTIVATION: tl.constexpr, D: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < D
    at = 2 * row * D + columns  # of a; b follows D columns later
    a = tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(X + at + D, mask=inside, other=0.0).to(tl.float32)
    d_out = tl.load(D_OUT + row * D + columns, mask=inside, other=0.0).to(tl.float32)
    active, slope = _activate(a, ACTIVATION)
    tl.store(D_X + at, (d_out * b * slope).to(D_X.dtype.element_ty), mask=inside)
    tl.store(D_X + at + D, (d_out * active).to(D_X.dtype.element_ty), mask=inside)


@triton.jit
def _softmax(
    Z, LABELS, LOSSES, words, eps_ls, uniform,
    V: tl.constexpr, PAD: tl.constexpr, COLUMNS: tl.constexpr, LANE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    label = tl.load(LABELS + row)
    z_row = Z + row.to(tl.int64) * words
    # Each thread loads LANE neighbours at a time and keeps one maximum and two sums; the threads
    # combine theirs once, at the end of the row.
    columns = tl.arange(0, COLUMNS // LANE)[:, None] * LANE + tl.arange(0, LANE)[None, :]
    z_correct = tl.load(z_row + label).to(tl.float32)
    z_pad = tl.load(z_row + PAD).to(tl.float32)
    top = tl.full([COLUMNS // LANE], -1e30, tl.float32)  # finite: a thread may see no word
    total = tl.zeros([COLUMNS // LANE], tl.float32)
    z_sum = tl.zeros([COLUMNS // LANE], tl.float32)
    for at in range(0, words, COLUMNS):
        word = at + columns
        inside = word < V
        z = tl.load(z_row + word, mask=word < words, other=0.0).to(tl.float32)
        z = tl.where(inside, z, -1e30)
        above = tl.maximum(top, tl.max(z, 1))
        p = tl.where(inside, tl.exp(z - above[:, None]), 0.0)
        total = total * tl.exp(top - above) + tl.sum(p, 1)
        z_sum += tl.sum(tl.where(inside, z, 0.0), 1)
        top = above
    highest = tl.max(top, 0)
    lse = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    real = label != PAD
    smoothed = lse - (1.0 - eps_ls) * z_correct - uniform * (tl.sum(z_sum, 0) - z_pad)
    tl.store(LOSSES + 2 * row, tl.where(real, smoothed, 0.0))
    tl.store(LOSSES + 2 * row + 1, tl.where(real, lse - z_correct, 0.0))
    for at in range(0, words, COLUMNS):
        word = at + columns
        z = tl.load(z_row + word, mask=word < words, other=0.0).to(tl.float32)
        q = tl.where(word == PAD, 0.0, uniform) + tl.where(word == label, 1.0 - eps_ls, 0.0)
        gradient = tl.where(real & (word < V), tl.exp(z - lse) - q, 0.0)
        tl.store(z_row + word, gradient.to(Z.dtype.element_ty), mask=word < words)
