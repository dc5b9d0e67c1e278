"""Our GPU kernels, written in Triton: fused row operations, attention, the smoothed softmax.

Every caller has an equivalent in torch operations, for machines without Triton or without a GPU.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model.ops import graphs

TOKENS = 128  # of a trial; a multiple of 16, as in training, so that no kernel is compiled twice

_installed = find_spec("triton") is not None
_working = _installed


def usable(x: Tensor) -> bool:
    """Tell whether kernels can work on this tensor."""
    return x.device.type == "cuda" and _working


def installed() -> bool:
    """Tell whether there is a Triton to make kernels with."""
    return _installed


def working() -> bool:
    """Tell whether kernels are switched on."""
    return _working


def switch(*, on: bool) -> None:
    """Use our kernels, or torch's, from now on."""
    global _working  # noqa: PLW0603
    _working = on and _installed


def try_out(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    """Run each kernel that a model uses, with its sizes and precision; raise any failure."""
    if config.architecture == "transformer":
        _try_rows(config, dtype, device, training=training)
        if config.attention == "dot-product":
            _try_attention(config, dtype, device, training=training)
    elif config.architecture == "bytenet":
        _try_norms(config, dtype, device, training=training)
    if training:
        _try_softmax(config.target_vocabulary, dtype, device)
    if device.type == "cuda":
        with graphs.LOCK:
            torch.cuda.synchronize(device)


def _try_rows(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    from transduce.model.ops.triton import rows

    x = torch.ones(TOKENS, config.d_model, dtype=dtype, device=device)
    weight = torch.ones(config.d_model, device=device)
    seed = torch.ones(1, dtype=torch.int64, device=device)
    P_drop = config.P_drop if training else 0.0
    out, total, statistics = rows.residual_forward(x, x, weight, weight, seed, P_drop, 1e-5)
    if training:
        rows.residual_backward(out, total, statistics, weight, seed, P_drop)
        inner = torch.ones(TOKENS, config.d_ff, dtype=dtype, device=device)
        rows.relu_backward(inner, inner)


def _try_norms(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    from transduce.model.ops.triton import rows

    for width in {config.d_model, config.d_ff}:
        x = torch.ones(TOKENS, width, dtype=dtype, device=device)
        weight = torch.ones(width, device=device)
        out, statistics = rows.norm_relu_forward(x, weight, weight, 1e-5)
        if training:
            rows.norm_relu_backward(out, x, statistics, weight, weight)


def _try_attention(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    from transduce.model.ops.triton import attention

    h, sizes = config.h, (config.d_k, config.d_k, config.d_v)
    qkv = torch.ones(TOKENS, h * sum(sizes), dtype=dtype, device=device)

    def heads(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = x.split([h * size for size in sizes], dim=-1)
        return q.unflatten(-1, (h, -1)), k.unflatten(-1, (h, -1)), v.unflatten(-1, (h, -1))

    first = torch.zeros(TOKENS, dtype=torch.int32, device=device)
    last = torch.full_like(first, TOKENS)
    out = qkv.new_empty(TOKENS, h, config.d_v)
    lse = torch.empty(h, TOKENS, device=device)
    attention.forward(*heads(qkv), out, lse, first, last)
    if training:
        ranges = first, last, first, last
        gradients = heads(torch.empty_like(qkv))
        attention.backward(out, *heads(qkv), out, lse, ranges, *gradients)


def _try_softmax(vocabulary: int, dtype: torch.dtype, device: torch.device) -> None:
    from transduce.model.ops.triton import rows

    words = -(-vocabulary // 64) * 64
    labels = torch.zeros(16, dtype=torch.int32, device=device)
    rows.softmax(torch.ones(16, words, dtype=dtype, device=device), vocabulary, labels, 0.1, 0)
