"""The peer torch: nn.Transformer with embeddings, positions and output projection.

B sentences, S and T tokens per row, V vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.model.positions import sinusoids
from transduce.subwords import PAD

NAME = "torch"
IMPORTS = ()


class Model(nn.Module):
    """Embeddings, positions, nn.Transformer and logits, with one shared matrix (paper 3.4).

    Its parameters are ours plus the biases of the attention projections.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.target_vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions: Tensor
        table: Tensor = sinusoids(config.max_len, config.d_model, torch).float()
        self.register_buffer("positions", table)
        self.scale = math.sqrt(config.d_model)
        self.dropout = nn.Dropout(config.P_drop)
        self.transformer = transformer(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits. (B, S), (B, T) -> (B, T, V)."""
        padding = source == PAD  # (B, S)
        longest = target.size(1)
        future = torch.ones(longest, longest, dtype=torch.bool, device=target.device).triu(1)
        # No padding mask for the target: no real token attends to the padding after it, and
        # with a causal mask alone torch chooses a faster kernel.
        x = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )  # (B, T, d_model)
        return F.linear(x, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the scaled embeddings plus the positions. (B, T) -> (B, T, d_model)."""
        x = self.embedding(tokens) * self.scale + self.positions[: tokens.size(1)]
        return self.dropout(x)  # type: ignore[no-any-return]


def transformer(config: ModelConfig) -> nn.Transformer:
    """Return nn.Transformer of this shape, with our dropout and without final norms."""
    model = nn.Transformer(
        config.d_model,
        config.h,
        config.N,
        config.decoder_layers,
        config.d_ff,
        dropout=config.P_drop,
        batch_first=True,
        norm_first=False,
    )
    model.encoder.norm = model.decoder.norm = None
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = config.attention_dropout
        elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout.p = config.relu_dropout
    return model
