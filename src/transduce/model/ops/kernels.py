"""The choice between our Triton kernels and torch's operations, which each model makes for itself.

Every operation with a Triton kernel has an equivalent in torch operations, for machines without
Triton or without a CUDA GPU.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.errors import summarize_error
from transduce.model.ops import graphs

INSTALLED = find_spec("triton") is not None
TOKENS = 128  # in a trial: a multiple of 16, as in training, so Triton compiles each kernel once


class Kernels:
    """Whether one model uses our Triton kernels. All modules of the model share this object."""

    def __init__(self) -> None:
        self.enabled = INSTALLED

    def usable(self, x: Tensor) -> bool:
        """Return whether to use our kernels for this tensor."""
        return self.enabled and x.device.type == "cuda"

    def select(
        self, config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
    ) -> str:
        """Enable our kernels if they work for a model on a device; if not, return the reason."""
        self.enabled = False
        if not INSTALLED:
            return "Triton is not installed: torch's kernels are used, which is slower"
        try:
            with graphs.LOCK:  # one thread at a time compiles
                try_out(config, dtype, device, training=training)
        except Exception as error:  # whatever compilers and drivers raise
            return (
                "our kernels do not work here, torch's are used, which is slower: "
                f"{summarize_error(error)}"
            )
        self.enabled = True
        return ""


def try_out(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    """Run each kernel that a model uses, with its sizes and precision."""
    if config.architecture == "transformer":
        _try_rows(config, dtype, device, training=training)
        if config.uses_dot_products:
            _try_attention(config, dtype, device, training=training)
            _try_queries_keys(config, dtype, device, training=training)
    elif config.architecture == "bytenet":
        _try_norms(config, dtype, device, training=training)
    if training:
        _try_softmax(config.target_vocabulary, dtype, device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _try_rows(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    from transduce.model.ops.triton import rows

    x = torch.ones(TOKENS, config.d_model, dtype=dtype, device=device)
    weight = torch.ones(config.d_model, device=device)
    seed = torch.ones(1, dtype=torch.int64, device=device)
    P_drop = config.P_drop if training else 0.0
    rms = config.norm == "rms"
    bias = None if rms else weight
    out, total, statistics = rows.residual_forward(x, x, weight, bias, seed, P_drop, 1e-5)
    if training:
        for d_total in (None, out) if config.pre_norm else (None,):
            rows.residual_backward(
                out, total, statistics, weight, seed, P_drop, d_total=d_total, rms=rms
            )
    if config.pre_norm:
        _, statistics = rows.norm_forward(x, weight, bias, 1e-5, relu=False)
        if training:
            rows.norm_backward(out, x, statistics, weight, bias, relu=False)
    inner = torch.ones(TOKENS, config.d_ff, dtype=dtype, device=device)
    if config.gated:
        halves = torch.cat([inner, inner], dim=-1)
        rows.gate_forward(halves, config.activation)
        if training:
            rows.gate_backward(inner, halves, config.activation)
    elif training:
        rows.relu_backward(inner, inner)


def _try_norms(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    from transduce.model.ops.triton import rows

    for width in {config.d_model, config.d_ff}:
        x = torch.ones(TOKENS, width, dtype=dtype, device=device)
        weight = torch.ones(width, device=device)
        out, statistics = rows.norm_forward(x, weight, weight, 1e-5, relu=True)
        if training:
            rows.norm_backward(out, x, statistics, weight, weight, relu=True)


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


def _try_queries_keys(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, *, training: bool
) -> None:
    from transduce.model.ops.triton import queries_keys

    h, d_k, d_v = config.h, config.d_k, config.d_v
    positions = torch.zeros(TOKENS, dtype=torch.int64, device=device)
    rotary = torch.ones(1, d_k, device=device) if config.positions == "rotary" else None
    # Self-attention; queries and keys of cross-attention.
    for kinds, table, rest in ((2, rotary, h * d_v), (1, None, 0), (1, None, h * d_v)):
        gain = torch.ones(kinds * d_k, device=device) if config.qk_norm else None
        if gain is not None or table is not None:
            size = kinds * h, d_k
            x = torch.ones(TOKENS, kinds * h * d_k + rest, dtype=dtype, device=device)
            out = queries_keys.forward(x, size, gain, table, positions, 1e-5)
            if training:
                queries_keys.backward(out, x, size, gain, table, positions, 1e-5)


def _try_softmax(vocabulary: int, dtype: torch.dtype, device: torch.device) -> None:
    from transduce.model.ops.triton import rows

    words = -(-vocabulary // 64) * 64
    labels = torch.zeros(16, dtype=torch.int32, device=device)
    rows.softmax(torch.ones(16, words, dtype=dtype, device=device), vocabulary, labels, 0.1, 0)
