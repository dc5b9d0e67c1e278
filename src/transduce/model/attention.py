"""Attention (paper 3.2). B sentences, H heads, Q queries, K keys, C channels, T tokens in a batch.

`attention` is Eq. 1, the reference that every other implementation is tested against. The modules
project tokens to queries, keys and values; an attention context then computes attention within each
sentence. (It is not the context vector of Bahdanau et al., an average of values.) Nothing else
connects tokens: the rest of the model is position-wise.

Contexts: `contexts/grouped` (any device), `contexts/packed` (GPU with our kernels), `cache`
(decoding) and `contexts/recorded` (keeps the weights).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.linear import Linear
from transduce.model.variants.additive import Additive, additive_vectors
from transduce.model.variants.qk_norm import QKNorm
from transduce.model.variants.rotary import Rotary


def attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Average the values, weighted by how well each key matches the query.

    Paper: 3.2.1, Eq. 1, softmax(Q K^T / sqrt(d_k)) V.
    The model does not call it: contexts compute the same result with faster kernels.
    (B, H, Q, C), (B, H, K, C), (B, H, K, C), (B, H, Q, K) -> (B, H, Q, C).
    """
    scores = q @ k.mT / math.sqrt(q.size(-1))  # (B, H, Q, K)
    # Every query needs at least one key, or its softmax is NaN.
    scores = scores.masked_fill(~allowed, -torch.inf)
    return scores.softmax(dim=-1) @ v  # (B, H, Q, C)


class Scoring(Protocol):
    """Scores how well keys match queries: `DotProduct`, or `Additive` in variants/.

    Attention maps call `scores`; decoding on a CPU calls `masked_scores`; the rest calls `attend`.
    """

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores of all query-key pairs. (B, H, Q, C), (B, H, K, C) -> (B, H, Q, K)."""

    def masked_scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        """Return the scores plus a mask of 0 and -inf, (B * H, 1 or Q, K).

        (B * H, Q, C), (B * H, K, C) -> (B * H, Q, K).
        """

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, causal: bool, dropout: float
    ) -> Tensor:
        """Average the values, weighted by the softmax of the scores.

        `mask`, (B, 1, 1, K), is false for padding; `causal` hides later tokens.
        (B, H, Q, C), (B, H, K, C), (B, H, K, C) -> (B, H, Q, C).
        """


class DotProduct:
    """Scaled dot products (paper 3.2.1), with torch's fused kernels for whole sentences."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return Q K^T / sqrt(d_k)."""
        return q @ k.mT / math.sqrt(q.size(-1))

    def masked_scores(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        """Return Q K^T / sqrt(d_k) + mask, in one product."""
        return torch.baddbmm(mask, q, k.mT, alpha=k.size(-1) ** -0.5)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, causal: bool, dropout: float
    ) -> Tensor:
        """Eq. 1, fused."""
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout
        )


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of an attention module, described for its context (paper 3.2.2)."""

    h: int
    d_k: int
    d_v: int
    dropout: float  # applied to the attention weights; 0 in evaluation
    scoring: Scoring

    def split(self, x: Tensor, *channels: int) -> list[Tensor]:
        """Split concatenated projections. (T, H * sum) -> each (T, H, C), no copy."""
        parts = x.split([self.h * C for C in channels], dim=-1)
        return [part.unflatten(-1, (self.h, -1)) for part in parts]


class SelfContext(Protocol):
    """Which tokens attend to each other in self-attention; causality is fixed at creation."""

    @property
    def positions(self) -> Tensor:
        """The position of each token in its sentence, from 0. (T,)."""

    def attend(self, qkv: Tensor, heads: Heads) -> Tensor:
        """Let each token attend to its sentence. (T, H * (2 d_k + d_v)) -> (T, H * d_v)."""


class CrossContext(Protocol):
    """Which source tokens each target token attends to."""

    def attend(
        self,
        q: Tensor,
        project: Callable[[Tensor], Tensor],
        memory: Tensor | None,
        heads: Heads,
    ) -> Tensor:
        """Let each query attend to its source. (T, H * d_k) -> (T, H * d_v).

        `project` maps the encoder's output, `memory`, to keys and values (T, H * (d_k + d_v)). A
        context with cached keys and values ignores both.
        """


class MultiHead(nn.Module):
    """Base class of self-attention and cross-attention: sizes and settings of the heads."""

    v_a: nn.Parameter | None  # (H, d_k) the vectors of additive attention

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v = config.h, config.d_k, config.d_v
        self.key_channels, self.value_channels = config.h * config.d_k, config.h * config.d_v
        self.attention, self.scaled = config.attention, config.scaled
        self.dropout = config.attention_dropout

    @property
    def heads(self) -> Heads:
        """The heads, with dropout in training only."""
        dropout = self.dropout if self.training else 0.0
        scoring: Scoring
        match self.attention:
            case "dot-product":
                scoring = DotProduct()
            case "additive":
                assert self.v_a is not None
                scoring = Additive(self.v_a)
        return Heads(self.h, self.d_k, self.d_v, dropout, scoring)

    def unscale(self, projected: Tensor) -> Tensor:
        """Multiply the queries, the first channels, by sqrt(d_k) to cancel the scaling of Eq. 1."""
        q, rest = projected.tensor_split([self.key_channels], dim=-1)
        return torch.cat([q * math.sqrt(self.d_k), rest], dim=-1)


class SelfAttention(MultiHead):
    """Multi-head attention of a sentence to itself (paper 3.2.2, 3.2.3)."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__(config)
        d_model, bias = config.d_model, config.attention_bias
        # Three matrices stored as one, for a single product; each is initialised separately.
        blocks = [self.key_channels, self.key_channels, self.value_channels]
        self.W_QKV = Linear(d_model, sum(blocks), bias=bias, blocks=blocks)
        self.W_O = Linear(self.value_channels, d_model, bias=bias)
        self.v_a = additive_vectors(config)
        self.qk_norm = QKNorm(config, 2, kernels) if config.qk_norm else None
        if config.positions == "rotary":
            self.qk_norm = Rotary(config, kernels)  # normalises too, if configured

    @property
    def W_Q(self) -> Tensor:  # noqa: N802  (the paper's name)
        """The query projection of all heads. (H * d_k, d_model)."""
        return self.W_QKV.block(0)

    @property
    def W_K(self) -> Tensor:  # noqa: N802  (the paper's name)
        """The key projection of all heads. (H * d_k, d_model)."""
        return self.W_QKV.block(1)

    @property
    def W_V(self) -> Tensor:  # noqa: N802  (the paper's name)
        """The value projection of all heads. (H * d_v, d_model)."""
        return self.W_QKV.block(2)

    def forward(self, x: Tensor, context: SelfContext) -> Tensor:
        """Let each token attend to its sentence. (T, d_model) -> (T, d_model)."""
        return self.W_O(context.attend(self.project(x, context), self.heads))  # type: ignore[no-any-return]

    def project(self, x: Tensor, context: SelfContext) -> Tensor:
        """Return queries, keys and values side by side. (T, d_model) -> (T, H * (2 d_k + d_v))."""
        qkv: Tensor = self.W_QKV(x)
        if self.qk_norm is not None:
            qkv = self.qk_norm(qkv, context.positions)
        return qkv if self.scaled else self.unscale(qkv)


class CrossAttention(MultiHead):
    """Multi-head attention of the decoder over the encoder's output (paper 3.2.2, 3.2.3)."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__(config)
        d_model, bias = config.d_model, config.attention_bias
        blocks = [self.key_channels, self.value_channels]  # as in self-attention
        self.W_Q = Linear(d_model, self.key_channels, bias=bias)
        self.W_KV = Linear(d_model, sum(blocks), bias=bias, blocks=blocks)
        self.W_O = Linear(self.value_channels, d_model, bias=bias)
        self.v_a = additive_vectors(config)
        self.q_norm = QKNorm(config, 1, kernels) if config.qk_norm else None
        self.k_norm = QKNorm(config, 1, kernels) if config.qk_norm else None

    @property
    def W_K(self) -> Tensor:  # noqa: N802  (the paper's name)
        """The key projection of all heads. (H * d_k, d_model)."""
        return self.W_KV.block(0)

    @property
    def W_V(self) -> Tensor:  # noqa: N802  (the paper's name)
        """The value projection of all heads. (H * d_v, d_model)."""
        return self.W_KV.block(1)

    def forward(self, x: Tensor, memory: Tensor | None, context: CrossContext) -> Tensor:
        """Let each target token attend to its whole source. (T, d_model) -> (T, d_model)."""
        q: Tensor = self.W_Q(x)
        q = q if self.q_norm is None else self.q_norm(q)
        q = q if self.scaled else self.unscale(q)
        return self.W_O(context.attend(q, self.project_memory, memory, self.heads))  # type: ignore[no-any-return]

    def project_memory(self, memory: Tensor) -> Tensor:
        """Return the keys and values of the encoder's output. -> (T, H * (d_k + d_v))."""
        kv: Tensor = self.W_KV(memory)
        return kv if self.k_norm is None else self.k_norm(kv)
