"""The layers of both stacks (paper 3.1, 3.3). T tokens in a packed batch."""

from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import CrossAttention, CrossContext, SelfAttention, SelfContext
from transduce.model.ops.dropout import dropout
from transduce.model.ops.fused import (
    ACTIVATIONS,
    gate,
    linear_relu,
    residual_norm,
    residual_sum_and_norm,
)
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.linear import Linear
from transduce.model.variants.rms_norm import RMSNorm


class FeedForward(nn.Module):
    """Eq. 2, max(0, x W1 + b1) W2 + b2, at each position separately (paper 3.3).

    Differs: imported models may use an activation other than max(0, x). With `gated`, the inner
    values are act(x W_1) * x W_3, and there are no biases; W_1 and W_3 are stored as one matrix.
    """

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        blocks = [config.d_ff] * (2 if config.gated else 1)
        bias = not config.gated
        self.W_1 = Linear(config.d_model, sum(blocks), bias=bias, blocks=blocks)
        self.W_2 = Linear(config.d_ff, config.d_model, bias=bias)
        self.relu_dropout = config.relu_dropout
        self.activation, self.gated = config.activation, config.gated

    def forward(self, x: Tensor) -> Tensor:
        """Transform each token. (T, d_model) -> (T, d_model)."""
        if self.gated:
            inner = gate(self.W_1(x), self.activation, self.kernels)
        elif self.activation == "relu":
            inner = linear_relu(x, self.W_1.weight, self.W_1.bias, self.kernels)
        else:
            inner = ACTIVATIONS[self.activation](self.W_1(x))
        inner = dropout(inner, self.relu_dropout if self.training else 0.0)
        return self.W_2(inner)  # type: ignore[no-any-return]


def make_norm(config: ModelConfig) -> nn.LayerNorm:
    """Make the configured norm; `ops/fused` applies it."""
    return RMSNorm(config.d_model) if config.norm == "rms" else nn.LayerNorm(config.d_model)


class Residual(nn.Module):
    """The connection around every sub-layer: LayerNorm(x + Dropout(Sublayer(x))) (3.1, 5.4)."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.norm = make_norm(config)
        self.P_drop = config.P_drop

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Add a sub-layer's output `y` to its input `x`. (T, d_model)."""
        P_drop = self.P_drop if self.training else 0.0
        weight, bias, eps = self.norm.weight, self.norm.bias, self.norm.eps
        return residual_norm(x, y, weight, bias, P_drop, eps, self.kernels)

    def sum_and_norm(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return x + Dropout(y) and its norm, for `variants/pre_norm`. (T, d_model)."""
        P_drop = self.P_drop if self.training else 0.0
        weight, bias, eps = self.norm.weight, self.norm.bias, self.norm.eps
        return residual_sum_and_norm(x, y, weight, bias, P_drop, eps, self.kernels)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network (paper 3.1)."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
        self.after_self = Residual(config, kernels)
        self.after_feed = Residual(config, kernels)

    def residual_outputs(self) -> list[Linear]:
        """Return the matrices whose outputs are added to the residual stream."""
        return [self.self_attention.W_O, self.feed_forward.W_2]

    def forward(self, x: Tensor, context: SelfContext) -> Tensor:
        """Transform the tokens of a batch. (T, d_model) -> (T, d_model)."""
        x = self.after_self(x, self.self_attention(x, context))
        return self.after_feed(x, self.feed_forward(x))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the source, a feed-forward network (paper 3.1)."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config, kernels)
        self.cross_attention = CrossAttention(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
        self.after_self = Residual(config, kernels)
        self.after_cross = Residual(config, kernels)
        self.after_feed = Residual(config, kernels)

    def residual_outputs(self) -> list[Linear]:
        """Return the matrices whose outputs are added to the residual stream."""
        return [self.self_attention.W_O, self.cross_attention.W_O, self.feed_forward.W_2]

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        self_context: SelfContext,
        cross_context: CrossContext,
    ) -> Tensor:
        """Transform the tokens of a batch or of a decoding step. (T, d_model) -> (T, d_model)."""
        x = self.after_self(x, self.self_attention(x, self_context))
        x = self.after_cross(x, self.cross_attention(x, memory, cross_context))
        return self.after_feed(x, self.feed_forward(x))  # type: ignore[no-any-return]
