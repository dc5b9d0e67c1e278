"""The attention weights of a Transformer: maps of all layers, and alignment from the last layer.

T tokens, N layers, H heads.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.batching.packed import Batch, SourceRows
from transduce.model.attention import CrossContext
from transduce.model.contexts.grouped import GroupedCross
from transduce.model.contexts.recorded import RecordedCross, RecordedSelf
from transduce.model.contexts.selection import grouped_self
from transduce.model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """The attention weights of every layer and head for a pair of sentences, and the output."""

    encoder: Tensor  # (N, H, source, source)
    decoder: Tensor  # (N, H, target, target)
    cross: Tensor  # (N, H, target, source)
    output: Tensor  # (target, d_model) of the decoder, as `forward` returns it


def attention_maps(model: Transformer, batch: Batch) -> AttentionMaps:
    """Pass a batch of one pair through the model and keep all attention weights."""
    assert len(batch.order) == 1
    assert isinstance(batch.cross, SourceRows)
    r = model.config.neighbourhood
    encoder = RecordedSelf(grouped_self(batch.source, causal=False, neighbourhood=r))
    decoder = RecordedSelf(grouped_self(batch.target, causal=True, neighbourhood=r))
    cross = RecordedCross(GroupedCross(batch.cross))
    memory = model.run_encoder(batch.source, encoder)
    contexts = [(decoder, cross)] * len(model.decoder)
    output = model.run_decoder(model.embed_target(batch.target), memory, contexts)
    return AttentionMaps(
        _stack(encoder.weights), _stack(decoder.weights), _stack(cross.weights), output
    )


def _stack(layers: list[list[Tensor]]) -> Tensor:
    """Stack the weights recorded for one sentence. -> (N, H, queries, keys)."""
    return torch.cat([group for (group,) in layers])


def source_weights(model: Transformer, batch: Batch) -> list[Tensor]:
    """Return the cross-attention of the last layer for each sentence, in the order of `batch`.

    Averaged over the heads. (target, K) each; columns beyond a sentence's source are 0.
    """
    assert isinstance(batch.cross, SourceRows)
    target = batch.target
    decoder = grouped_self(target, causal=True, neighbourhood=model.config.neighbourhood)
    cross = GroupedCross(batch.cross)
    last = RecordedCross(cross)
    lower: list[CrossContext] = [cross] * (len(model.decoder) - 1)
    contexts = [(decoder, context) for context in (*lower, last)]
    model.run_decoder(model.embed_target(target), model.encode(batch.source), contexts)
    (groups,) = last.weights
    return [sentence for group in groups for sentence in group.mean(1)]
