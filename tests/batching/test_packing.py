"""Packed batches: of one shape, full, and equivalent to grouped batches without padding."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models import pairs_of, part_of, realistic, small_model
from transduce.batching.layouts import GroupedLayout
from transduce.batching.packed import Batch, Ints, KeyRanges, make_batch, unflatten
from transduce.batching.static import PackedLayout, pack
from transduce.corpus.token_files import Side, Split
from transduce.corpus.updates import POOL, DataPosition, Updates
from transduce.model.loss import loss
from transduce.model.transformer import Transformer
from transduce.subwords import BOS, PAD

LONGEST = 30

lengths_strategy = st.lists(
    st.tuples(st.integers(2, LONGEST), st.integers(2, LONGEST)), min_size=1, max_size=60
)


def part_with(lengths: list[tuple[int, int]]) -> Split:
    """Sentences of these lengths, all of the same word."""
    sides = (np.array([pair[side] for pair in lengths]) for side in (0, 1))
    return Split(*(Side(np.full(side.sum(), 7, "<u2"), np.r_[0, side.cumsum()]) for side in sides))


def tokens_of(layout: PackedLayout, update: Ints) -> tuple[int, int]:
    source, target = layout.part.source, layout.part.target
    return int(source.lengths_of(update).sum()), int(target.lengths_of(update).sum())


def fullness(layout: PackedLayout, updates: list[Ints]) -> list[float]:
    """How full the emptier side of each update is, the emptiest update first."""
    shares = (np.array(tokens_of(layout, update)) / layout.limits for update in updates)
    return sorted(float(share.min()) for share in shares)


def same(ours: Batch, theirs: Batch) -> bool:
    """Whether two packed batches are equal in all their parts."""
    return all(
        torch.equal(tensor, other)
        for tensor, other in zip(tensors(ours), tensors(theirs), strict=True)
    ) and (ours.used, ours.order.tolist()) == (theirs.used, theirs.order.tolist())


def tensors(batch: Batch) -> list[Tensor]:
    all_tensors = [batch.labels]
    for side in (batch.source, batch.target):
        all_tensors += [side.tokens, side.positions]
    for ranges in (batch.source.segments, batch.target.segments, batch.cross):
        assert isinstance(ranges, KeyRanges)
        all_tensors += ranges
    return all_tensors


# --- Updates -----------------------------------------------------------------------------------


@given(lengths_strategy, st.integers(8, 300), st.integers(0, 5))
def test_every_pair_is_in_one_update_and_no_side_is_too_large(
    lengths: list[tuple[int, int]], batch_tokens: int, seed: int
) -> None:
    layout = PackedLayout(part_with(lengths), batch_tokens, longest=LONGEST)
    updates = layout.updates(np.random.default_rng(seed))
    assert sorted(np.concatenate(updates).tolist()) == list(range(len(lengths)))
    assert max(layout.limits) <= max(batch_tokens, LONGEST)
    for update in updates:
        source, target = tokens_of(layout, update)
        assert source <= layout.limits[0]
        assert target <= layout.limits[1]


def test_both_sides_are_full_with_the_lengths_of_real_text() -> None:
    """Except the last two updates of a pool, where the remaining sentences do not balance."""
    small = PackedLayout(part_with(realistic(20_000)), 4_000, longest=256)
    full = fullness(small, small.updates(np.random.default_rng(0)))
    assert np.mean(full[2:]) > 0.99
    assert full[2] > 0.96  # the longest sentences leave the largest gaps

    large = PackedLayout(part_with(realistic(200_000)), 25_000, longest=256)
    full = fullness(large, large.updates(np.random.default_rng(0)))
    pools = 2
    assert len(full) > POOL
    assert full[2 * pools] > 0.99


def test_the_side_with_fewer_tokens_has_a_smaller_capacity() -> None:
    lengths = [(source, max(2, target // 2)) for source, target in realistic(20_000)]
    layout = PackedLayout(part_with(lengths), 25_000, longest=256)
    assert layout.places[0] == pytest.approx(25_000, rel=0.01)
    assert layout.places[1] == pytest.approx(layout.places[0] / 2, rel=0.05)
    full = fullness(layout, layout.updates(np.random.default_rng(0)))
    assert full[2] > 0.99


def test_sentences_of_similar_length_are_in_one_update() -> None:
    layout = PackedLayout(part_with(realistic(20_000)), 4_000, longest=256)
    updates = layout.updates(np.random.default_rng(0))
    spread = np.mean([layout.part.source.lengths_of(update).std() for update in updates])
    assert spread < 0.35 * layout.part.source.lengths.std()


def test_updates_depend_on_the_seed_and_not_on_the_number_of_micro_batches() -> None:
    part = part_with(realistic(3_000))

    def stream(seed: int, count: int, position: DataPosition) -> list[list[int]]:
        layout = PackedLayout(part, 2_000, count, longest=256)
        updates = Updates(lambda _, random: layout.updates(random), seed=seed, position=position)
        return [update.tolist() for update in itertools.islice(updates, 60)]

    whole = stream(1, 1, DataPosition())
    assert stream(1, 1, DataPosition()) == stream(1, 3, DataPosition()) == whole
    assert stream(1, 1, DataPosition(0, 20))[:40] == whole[20:]
    assert stream(2, 1, DataPosition()) != whole
    epoch = PackedLayout(part, 2_000, longest=256).updates(np.random.default_rng([1, 0]))
    assert whole[: len(epoch)] != whole[len(epoch) : 2 * len(epoch)]
    assert len(epoch) < 60


# --- Batches -----------------------------------------------------------------------------------


@given(lengths_strategy, st.integers(30, 300), st.integers(1, 4))
def test_micro_batches_have_one_shape_and_are_together_the_update(
    lengths: list[tuple[int, int]], batch_tokens: int, count: int
) -> None:
    layout = PackedLayout(part_of(pairs_of(lengths)), batch_tokens, count, longest=LONGEST)
    for update in layout.updates(np.random.default_rng(0)):
        micro_batches = layout.micro_batches(update)
        assert np.concatenate(micro_batches).tolist() == update.tolist()
        batches = [layout.batch(part) for part in micro_batches]
        assert {batch.places for batch in batches} == {layout.places}
        assert {len(batch.flat) for batch in batches if batch.flat is not None} == {
            6 * layout.places[0] + 9 * layout.places[1]
        }
        assert sum(batch.target_tokens for batch in batches) == tokens_of(layout, update)[1]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_requested_number_of_micro_batches_suffices(count: int) -> None:
    layout = PackedLayout(part_with(realistic(20_000)), 25_000, count, longest=256)
    updates = layout.updates(np.random.default_rng(0))
    assert max(len(layout.micro_batches(update)) for update in updates) == count
    for places, limit in zip(layout.places, layout.limits, strict=True):
        assert limit <= count * places <= 1.02 * limit + 2 * 128 * count


@pytest.mark.parametrize("batch_tokens", [1, 100, 1_000, 5_000])
def test_the_longest_sentence_fits(batch_tokens: int) -> None:
    for count in (1, 7):
        layout = PackedLayout(
            part_of(pairs_of([(256, 2), (3, 256)])), batch_tokens, count, longest=256
        )
        assert min(layout.places) >= 256
        batches = [layout.batch(np.array([number])) for number in (0, 1)]
        assert [batch.used for batch in batches] == [(256, 2), (3, 256)]


@pytest.mark.parametrize(("batch_tokens", "tile"), [(50_000, 128), (25_000, 64), (1_000, 8)])
def test_capacities_are_whole_tiles_and_close_to_batch_tokens(batch_tokens: int, tile: int) -> None:
    part = part_with(realistic(2_000))
    for count in (1, 3):
        layout = PackedLayout(part, batch_tokens, count, longest=256)
        assert all(places % tile == 0 for places in layout.places)
        assert 0.99 * batch_tokens < max(layout.limits) <= batch_tokens


@given(lengths_strategy, st.integers(0, 40), st.integers(0, 40))
def test_a_packed_batch_has_all_tokens_and_shifts_the_target_by_one(
    lengths: list[tuple[int, int]], spare: int, more: int
) -> None:
    pairs = pairs_of(lengths)
    order = np.random.default_rng(0).permutation(len(pairs))
    used = sum(source for source, _ in lengths), sum(target for _, target in lengths)
    batch = pack(part_of(pairs), order, (used[0] + spare, used[1] + more))
    assert batch.used == used
    assert batch.target_tokens == used[1]
    assert batch.order.tolist() == order.tolist()

    sources, targets = ([pairs[i][side].tolist() for i in order] for side in (0, 1))
    shifted = [[BOS, *target[:-1]] for target in targets]
    for tensor, sentences, padding in (
        (batch.source.tokens, sources, PAD),
        (batch.source.positions, [range(len(source)) for source in sources], 0),
        (batch.target.tokens, shifted, PAD),
        (batch.target.positions, [range(len(target)) for target in targets], 0),
        (batch.labels, targets, PAD),
    ):
        flat = list(itertools.chain(*sentences))
        assert tensor.tolist() == flat + [padding] * (len(tensor) - len(flat))


def keys_of(ranges: KeyRanges) -> Tensor:
    """Which keys each query sees. (queries, keys)."""
    key = torch.arange(len(ranges.seen_first))
    return (key >= ranges.first[:, None]) & (key < ranges.last[:, None])


def queries_of(ranges: KeyRanges) -> Tensor:
    """Which queries see each key. (queries, keys)."""
    query = torch.arange(len(ranges.first))[:, None]
    return (query >= ranges.seen_first) & (query < ranges.seen_last)


@given(lengths_strategy, st.integers(0, 9), st.integers(0, 9))
def test_a_token_sees_its_own_sentence_and_nothing_else(
    lengths: list[tuple[int, int]], spare: int, more: int
) -> None:
    """Paper 3.2.3: a source token its sentence; a target token no later one, and its source."""
    source, target = (np.array([pair[side] for pair in lengths]) for side in (0, 1))
    places = int(source.sum()) + spare, int(target.sum()) + more
    batch = pack(part_of(pairs_of(lengths)), np.arange(len(lengths)), places)
    # The number of each token's sentence; -1 for padding.
    of_source, of_target = (
        torch.from_numpy(np.append(np.repeat(np.arange(len(side)), side), [-1] * free))
        for side, free in (
            (source, spare),
            (target, more),
        )
    )

    def same_sentence(queries: Tensor, keys: Tensor) -> Tensor:
        return (queries[:, None] == keys) & (queries[:, None] >= 0)

    expected = (
        (batch.source.segments, same_sentence(of_source, of_source)),
        (batch.target.segments, same_sentence(of_target, of_target).tril()),
        (batch.cross, same_sentence(of_target, of_source)),
    )
    for ranges, allowed in expected:
        assert isinstance(ranges, KeyRanges)
        assert torch.equal(keys_of(ranges), allowed)
        assert torch.equal(queries_of(ranges), allowed)
        for bound in ranges:
            assert (bound.diff() >= 0).all()  # so a tile of queries sees one range of keys


def test_a_packed_batch_is_one_tensor_and_moves_as_one() -> None:
    batch = pack(part_of(pairs_of([(3, 4), (5, 2)])), np.array([1, 0]), (16, 24))
    assert batch.flat is not None
    assert batch.flat.dtype == torch.int32
    owner = batch.flat.untyped_storage().data_ptr()
    assert all(tensor.untyped_storage().data_ptr() == owner for tensor in tensors(batch))
    assert same(unflatten(batch.flat.clone(), batch.places, batch.order, batch.used), batch)
    assert same(batch.to(torch.device("cpu")), batch)
    moved = batch.to(torch.device("meta"))
    assert all(tensor.device.type == "meta" for tensor in tensors(moved))
    assert (moved.used, moved.places) == (batch.used, batch.places) == ((8, 6), (16, 24))


@pytest.mark.parametrize("count", [1, 3])
def test_evaluation_has_every_sentence_once_in_the_shape_of_training(count: int) -> None:
    lengths = [(2 + i % 7, 2 + (i * i) % 11) for i in range(97)]
    layout = PackedLayout(part_of(pairs_of(lengths[:50])), 120, count, longest=LONGEST)
    batches = list(layout.evaluation_batches(part_of(pairs_of(lengths))))
    assert Counter(i for batch in batches for i in batch.order.tolist()) == Counter(range(97))
    assert {batch.places for batch in batches} == {layout.places}
    assert sum(batch.target_tokens for batch in batches) == sum(target for _, target in lengths)


# --- The model on packed batches ----------------------------------------------------------------

MIXED = [(9, 7), (3, 12), (2, 2), (17, 15), (5, 9), (11, 4), (3, 12)]
SHAPES = [{}, {"d_k": 4}, {"d_v": 12}, {"d_k": 5, "d_v": 3, "h": 3}, {"tie": "none"}]


def sums_and_gradients(
    model: Transformer, batches: list[Batch]
) -> tuple[list[float], list[Tensor]]:
    """The sums of both losses over some batches, and the gradients of the first."""
    model.zero_grad()
    sums = [0.0, 0.0]
    for batch in batches:
        smoothed, nll = loss(model(batch), model.output, batch.labels, 0.1)
        smoothed.backward()
        sums = [sums[0] + smoothed.item(), sums[1] + nll.item()]
    gradients = [parameter.grad for parameter in model.parameters()]
    return sums, [gradient.clone() for gradient in gradients if gradient is not None]


def assert_same(model: Transformer, ours: list[Batch], theirs: list[Batch]) -> None:
    sums, gradients = sums_and_gradients(model, ours)
    expected, exact = sums_and_gradients(model, theirs)
    assert sums == pytest.approx(expected, rel=1e-6)
    assert len(gradients) == len(exact) == len(list(model.parameters()))
    for gradient, other in zip(gradients, exact, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-5 * float(other.norm()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_packed_and_grouped_batches_have_the_same_loss_and_gradients(
    shape: dict[str, int],
) -> None:
    model = small_model(P_drop=0.0, **shape).train()
    pairs = pairs_of(MIXED)
    packed = pack(part_of(pairs), np.arange(len(pairs)), (64, 72))
    assert_same(model, [packed], [make_batch(pairs)])


@pytest.mark.parametrize("places", [(50, 61), (51, 61), (50, 62), (64, 128), (300, 61)])
def test_the_amount_of_padding_changes_nothing(places: tuple[int, int]) -> None:
    model, part = small_model(P_drop=0.0, d_v=4).train(), part_of(pairs_of(MIXED))
    exactly, order = (50, 61), np.arange(len(MIXED))
    assert pack(part, order, places).used == exactly
    assert_same(model, [pack(part, order, places)], [pack(part, order, exactly)])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", [PackedLayout, GroupedLayout])
def test_the_number_of_micro_batches_changes_nothing(kind: type, count: int) -> None:
    lengths = MIXED * 3
    model, part = small_model(P_drop=0.0, d_k=4).train(), part_of(pairs_of(lengths))
    named = {"longest": LONGEST} if kind is PackedLayout else {}
    layout = kind(part, 200, count, **named)
    update = np.random.default_rng(0).permutation(len(lengths))
    batches = [layout.batch(part) for part in layout.micro_batches(update)]
    assert len(batches) == count
    assert_same(model, batches, [make_batch(pairs_of(lengths))])


def test_the_tokens_of_padding_have_no_influence() -> None:
    model, part = small_model(P_drop=0.0).train(), part_of(pairs_of(MIXED))
    plain, other = (pack(part, np.arange(len(MIXED)), (64, 80)) for _ in range(2))
    other.source.tokens[other.used[0] :] = 9
    other.target.tokens[other.used[1] :] = 11
    other.source.positions[other.used[0] :] = 5
    assert_same(model, [other], [plain])
