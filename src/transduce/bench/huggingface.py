"""The peer huggingface: a MarianMTModel. B sentences, S and T tokens per row, V vocabulary."""

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.subwords import BOS, EOS, PAD

NAME = "huggingface"
IMPORTS = ("transformers.models.marian.modeling_marian",)  # transformers imports it lazily


class Model(nn.Module):
    """A MarianMTModel with the interface of a peer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.marian = marian(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits. (B, S), (B, T) -> (B, T, V)."""
        # No padding mask for the target: no real token attends to the padding after it, and
        # attention without a mask is faster.
        output = self.marian(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target,
        )
        return output.logits  # type: ignore[no-any-return]


def marian(config: ModelConfig) -> torch.nn.Module:
    """Return an untrained MarianMTModel of this shape.

    Its parameters are ours plus the biases of the attention projections.
    """
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(  # type: ignore[no-any-return]
        MarianConfig(
            vocab_size=config.target_vocabulary,
            max_position_embeddings=config.max_len,
            d_model=config.d_model,
            encoder_layers=config.N,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.h,
            decoder_attention_heads=config.h,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            dropout=config.P_drop,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.relu_dropout,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            use_cache=False,  # only useful in decoding
        )
    )
