"""The attention context for a batch: grouped or packed, depending on the layout of its tokens."""

from transduce.batching.packed import KeyRanges, LengthGroups, PackedTokens, SourceRows
from transduce.model.attention import CrossContext, SelfContext
from transduce.model.contexts.grouped import GroupedCross, GroupedSelf
from transduce.model.contexts.packed import PackedCross, PackedSelf
from transduce.model.variants.restricted import RestrictedSelf, narrow


def self_context(
    tokens: PackedTokens, *, causal: bool, neighbourhood: int | None = None
) -> SelfContext:
    """Return the context of self-attention, restricted to a neighbourhood if one is given."""
    match tokens.segments:
        case LengthGroups():
            return grouped_self(tokens, causal=causal, neighbourhood=neighbourhood)
        case KeyRanges() as ranges:  # the ranges of a target are already causal
            ranges = ranges if neighbourhood is None else narrow(ranges, neighbourhood)
            return PackedSelf(ranges, tokens.positions)


def grouped_self(
    tokens: PackedTokens, *, causal: bool, neighbourhood: int | None = None
) -> GroupedSelf:
    """Return the context of self-attention over groups of equally long sentences."""
    assert isinstance(tokens.segments, LengthGroups)
    if neighbourhood is None:
        return GroupedSelf(tokens.segments, tokens.positions, causal=causal)
    return RestrictedSelf(tokens.segments, tokens.positions, neighbourhood, causal=causal)


def cross_context(cross: SourceRows | KeyRanges) -> CrossContext:
    """Return the context of cross-attention."""
    match cross:
        case SourceRows():
            return GroupedCross(cross)
        case KeyRanges():
            return PackedCross(cross)
