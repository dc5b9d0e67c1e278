"""The peer huggingface: a MarianMTModel. B sentences, S and T tokens per row, V vocabulary."""

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.interop.export.huggingface import marian_config
from transduce.subwords import PAD

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

    changes = {"forced_eos_token_id": None, "use_cache": False}  # both are only for decoding
    return MarianMTModel(  # type: ignore[no-any-return]
        MarianConfig.from_dict(marian_config(config) | changes)
    )
