"""The peer huggingface: its MarianMTModel. B sentences, S and T tokens of a row, V words."""

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.subwords import BOS, EOS, PAD

NAME = "huggingface"
IMPORTS = ("transformers.models.marian.modeling_marian",)  # what `import transformers` puts off


class Model(nn.Module):
    """A MarianMTModel as a peer is called."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.marian = marian(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits. (B, S), (B, T) -> (B, T, V)."""
        # No mask for the target: none of its tokens sees the padding behind it, and without a mask
        # the peer's attention is faster.
        found = self.marian(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target,
        )
        return found.logits  # type: ignore[no-any-return]


def marian(config: ModelConfig) -> torch.nn.Module:
    """Return an untrained MarianMTModel of this shape.

    What it learns differs from ours in the biases of its attention projections alone.
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
            use_cache=False,  # of use in decoding alone; filling it would cost the peer time
        )
    )
