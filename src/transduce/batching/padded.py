"""From padded tensors to packed batches. B sentences, S and T padded lengths."""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from transduce.batching.packed import Batch, Ints, PackedTokens, make_batch
from transduce.config import ModelConfig
from transduce.errors import BadInput
from transduce.subwords import PAD


def packed_batch(source: Tensor, target: Tensor, config: ModelConfig) -> tuple[Batch, Tensor]:
    """Pack source (B, S) and decoder input (B, T), both padded with 0.

    Returns the batch, and the index of each packed target token in the flattened (B, T).
    """
    sources = _sentences(source, "source", config.source_vocabulary, config.max_positions)
    targets = _sentences(target, "target", config.target_vocabulary, config.max_positions)
    if len(sources) != len(targets):
        raise BadInput(f"source has {len(sources):,} sentences but target has {len(targets):,}")
    batch = make_batch(list(zip(sources, targets, strict=True)))
    # make_batch treats the tokens as labels and shifts them; here they are the decoder's input.
    inputs = PackedTokens(batch.labels, batch.target.positions, batch.target.segments)
    batch = dataclasses.replace(batch, target=inputs)
    rows = np.repeat(batch.order, [len(targets[i]) for i in batch.order])
    places = torch.from_numpy(rows) * target.size(1) + inputs.positions
    return batch.to(source.device), places.to(source.device)


def _sentences(tokens: Tensor, name: str, vocabulary: int, longest: int) -> list[Ints]:
    """Return the tokens of each row without its padding."""
    if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise BadInput(
            f"{name} is a tensor of {tokens.dtype} with shape {tuple(tokens.shape)}: expected "
            "token ids in two dimensions, (sentences, tokens)"
        )
    rows: Ints = tokens.detach().cpu().numpy().astype(np.int64)
    if not rows.size:
        raise BadInput(f"{name} has no tokens: its shape is {tuple(tokens.shape)}")
    if rows.min() < 0 or rows.max() >= vocabulary:
        raise BadInput(
            f"{name} has token ids from {rows.min():,} to {rows.max():,}: expected 0 (padding) to "
            f"{vocabulary - 1:,}, as the model's vocabulary has {vocabulary:,} tokens"
        )
    lengths = (rows != PAD).sum(1)
    expected = np.arange(rows.shape[1]) < lengths[:, None]
    for number, row in enumerate((rows != PAD) != expected):
        if row.any() or not lengths[number]:
            raise BadInput(
                f"row {number} of {name} is empty or has 0 before its last token: expected token "
                "ids, then 0 as padding"
            )
    if lengths.max() > longest:
        raise BadInput(
            f"{name} has a sentence of {lengths.max():,} tokens: expected at most {longest:,}; "
            "max_len sets it"
        )
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
