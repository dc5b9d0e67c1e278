"""Packed batches have one shape, are full, and mean the same as batches without filler."""

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
from transduce.corpus import updates as batches
from transduce.corpus.token_files import Side, Split
from transduce.corpus.updates import DataPosition, Updates
from transduce.model.loss import loss
from transduce.model.transformer import Transformer
from transduce.subwords import BOS, PAD

LONGEST = 30

lengths_strategy = st.lists(
    st.tuples(st.integers(2, LONGEST), st.integers(2, LONGEST)), min_size=1, max_size=60
)


def part_with(lengths: list[tuple[int, int]]) -> Split:
    """A part of sentences whose words do not matter."""
    sides = (np.array([pair[side] for pair in lengths]) for side in (0, 1))
    return Split(*(Side(np.full(side.sum(), 7, "<u2"), np.r_[0, side.cumsum()]) for side in sides))


def tokens_of(layout: PackedLayout, update: Ints) -> tuple[int, int]:
    return int(layout.source[update].sum()), int(layout.target[update].sum())


def fullness(layout: PackedLayout, updates: list[Ints]) -> list[float]:
    """How full the emptier side of each update is, the emptiest update first."""
    shares = (np.array(tokens_of(layout, update)) / layout.limits for update in updates)
    return sorted(float(share.min()) for share in shares)


def same(ours: Batch, theirs: Batch) -> bool:
    """Whether two packed batches are equal in all their parts."""
    return all(
        torch.equal(one, other) for one, other in zip(tensors(ours), tensors(theirs), strict=True)
    ) and (ours.used, ours.order.tolist()) == (theirs.used, theirs.order.tolist())


def tensors(batch: Batch) -> list[Tensor]:
    found = [batch.labels]
    for run in (batch.source, batch.target):
        found += [run.tokens, run.positions]
    for view in (batch.source.segments, batch.target.segments, batch.cross):
        assert isinstance(view, KeyRanges)
        found += view
    return found


# --- What stands in an update ------------------------------------------------------------------


@given(lengths_strategy, st.integers(8, 300), st.integers(0, 5))
def test_every_pair_stands_in_one_update_and_no_side_is_overfull(
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


def test_both_sides_are_full_on_lengths_as_in_real_text() -> None:
    """All but the end of a pool, where what is left over does not balance: its last two."""
    small = PackedLayout(part_with(realistic(20_000)), 4_000, longest=256)
    full = fullness(small, small.updates(np.random.default_rng(0)))
    assert np.mean(full[2:]) > 0.99
    assert full[2] > 0.96  # the longest sentences leave most

    large = PackedLayout(part_with(realistic(200_000)), 25_000, longest=256)
    full = fullness(large, large.updates(np.random.default_rng(0)))
    pools = 2
    assert len(full) > batches.POOL
    assert full[2 * pools] > 0.99


def test_the_side_with_fewer_tokens_has_fewer_places_so_that_both_are_full() -> None:
    lengths = [(source, max(2, target // 2)) for source, target in realistic(20_000)]
    layout = PackedLayout(part_with(lengths), 25_000, longest=256)
    assert layout.places[0] == pytest.approx(25_000, rel=0.01)
    assert layout.places[1] == pytest.approx(layout.places[0] / 2, rel=0.05)
    full = fullness(layout, layout.updates(np.random.default_rng(0)))
    assert full[2] > 0.99


def test_similar_lengths_stand_together() -> None:
    layout = PackedLayout(part_with(realistic(20_000)), 4_000, longest=256)
    updates = layout.updates(np.random.default_rng(0))
    spread = np.mean([layout.source[update].std() for update in updates])
    assert spread < 0.35 * layout.source.std()


def test_updates_are_shuffled_anew_from_the_seed_and_do_not_depend_on_pieces() -> None:
    part = part_with(realistic(3_000))

    def stream(seed: int, pieces: int, position: DataPosition) -> list[list[int]]:
        layout = PackedLayout(part, 2_000, pieces, longest=256)
        updates = Updates(layout.updates, seed=seed, position=position)
        return [update.tolist() for update in itertools.islice(updates, 60)]

    whole = stream(1, 1, DataPosition())
    assert stream(1, 1, DataPosition()) == stream(1, 3, DataPosition()) == whole
    assert stream(1, 1, DataPosition(0, 20))[:40] == whole[20:]
    assert stream(2, 1, DataPosition()) != whole
    epoch = PackedLayout(part, 2_000, longest=256).updates(np.random.default_rng([1, 0]))
    assert whole[: len(epoch)] != whole[len(epoch) : 2 * len(epoch)]
    assert len(epoch) < 60


# --- How an update is laid out -----------------------------------------------------------------


@given(lengths_strategy, st.integers(30, 300), st.integers(1, 4))
def test_pieces_have_one_shape_and_are_together_the_update(
    lengths: list[tuple[int, int]], batch_tokens: int, count: int
) -> None:
    layout = PackedLayout(part_of(pairs_of(lengths)), batch_tokens, count, longest=LONGEST)
    for update in layout.updates(np.random.default_rng(0)):
        pieces = layout.micro_batches(update)
        assert np.concatenate(pieces).tolist() == update.tolist()
        found = [layout.batch(piece) for piece in pieces]
        assert {batch.places for batch in found} == {layout.places}
        assert {len(batch.flat) for batch in found if batch.flat is not None} == {
            6 * layout.places[0] + 9 * layout.places[1]
        }
        assert sum(batch.target_tokens for batch in found) == tokens_of(layout, update)[1]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_as_many_pieces_as_asked_for_suffice_and_each_has_its_share_of_places(count: int) -> None:
    layout = PackedLayout(part_with(realistic(20_000)), 25_000, count, longest=256)
    updates = layout.updates(np.random.default_rng(0))
    assert max(len(layout.micro_batches(update)) for update in updates) == count
    for places, limit in zip(layout.places, layout.limits, strict=True):
        assert limit <= count * places <= 1.02 * limit + 2 * 128 * count


@pytest.mark.parametrize("batch_tokens", [1, 100, 1_000, 5_000])
def test_the_longest_sentence_finds_room(batch_tokens: int) -> None:
    for count in (1, 7):
        layout = PackedLayout(
            part_of(pairs_of([(256, 2), (3, 256)])), batch_tokens, count, longest=256
        )
        assert min(layout.places) >= 256
        found = [layout.batch(np.array([number])) for number in (0, 1)]
        assert [batch.used for batch in found] == [(256, 2), (3, 256)]


@pytest.mark.parametrize(("batch_tokens", "tile"), [(50_000, 128), (25_000, 64), (1_000, 8)])
def test_places_come_in_tiles_and_are_hardly_fewer_than_asked_for(
    batch_tokens: int, tile: int
) -> None:
    part = part_with(realistic(2_000))
    for count in (1, 3):
        layout = PackedLayout(part, batch_tokens, count, longest=256)
        assert all(places % tile == 0 for places in layout.places)
        assert 0.99 * batch_tokens < max(layout.limits) <= batch_tokens


@given(lengths_strategy, st.integers(0, 40), st.integers(0, 40))
def test_a_batch_loses_nothing_and_shifts_the_target_by_one(
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
    for tensor, sentences, filler in (
        (batch.source.tokens, sources, PAD),
        (batch.source.positions, [range(len(one)) for one in sources], 0),
        (batch.target.tokens, shifted, PAD),
        (batch.target.positions, [range(len(one)) for one in targets], 0),
        (batch.labels, targets, PAD),
    ):
        flat = list(itertools.chain(*sentences))
        assert tensor.tolist() == flat + [filler] * (len(tensor) - len(flat))


def seen_by(view: KeyRanges) -> Tensor:
    """Which key each query sees. (queries, keys)."""
    at = torch.arange(len(view.seen_first))
    return (at >= view.first[:, None]) & (at < view.last[:, None])


def sees(view: KeyRanges) -> Tensor:
    """Which query sees each key. (queries, keys)."""
    at = torch.arange(len(view.first))[:, None]
    return (at >= view.seen_first) & (at < view.seen_last)


@given(lengths_strategy, st.integers(0, 9), st.integers(0, 9))
def test_a_token_sees_its_own_sentence_and_nothing_else(
    lengths: list[tuple[int, int]], spare: int, more: int
) -> None:
    """Paper 3.2.3: the source its sentence, the target no future, and its own source."""
    source, target = (np.array([pair[side] for pair in lengths]) for side in (0, 1))
    places = int(source.sum()) + spare, int(target.sum()) + more
    batch = pack(part_of(pairs_of(lengths)), np.arange(len(lengths)), places)
    of_source, of_target = (
        torch.from_numpy(np.append(np.repeat(np.arange(len(side)), side), [-1] * free))
        for side, free in ((source, spare), (target, more))  # each place's sentence; -1: filler
    )

    def alike(queries: Tensor, keys: Tensor) -> Tensor:
        return (queries[:, None] == keys) & (queries[:, None] >= 0)

    expected = (
        (batch.source.segments, alike(of_source, of_source)),
        (batch.target.segments, alike(of_target, of_target).tril()),
        (batch.cross, alike(of_target, of_source)),
    )
    for view, meets in expected:
        assert isinstance(view, KeyRanges)
        assert torch.equal(seen_by(view), meets)
        assert torch.equal(sees(view), meets)  # the same, seen from the keys
        for one in view:
            assert (one.diff() >= 0).all()  # so a tile meets one run of keys


def test_a_batch_is_one_tensor_that_travels_whole() -> None:
    batch = pack(part_of(pairs_of([(3, 4), (5, 2)])), np.array([1, 0]), (16, 24))
    assert batch.flat is not None
    assert batch.flat.dtype == torch.int32
    owner = batch.flat.untyped_storage().data_ptr()
    assert all(one.untyped_storage().data_ptr() == owner for one in tensors(batch))
    assert same(unflatten(batch.flat.clone(), batch.places, batch.order, batch.used), batch)
    assert same(batch.to(torch.device("cpu")), batch)
    moved = batch.to(torch.device("meta"))
    assert all(one.device.type == "meta" for one in tensors(moved))
    assert (moved.used, moved.places) == (batch.used, batch.places) == ((8, 6), (16, 24))


@pytest.mark.parametrize("count", [1, 3])
def test_evaluation_passes_once_over_everything_in_the_shape_of_training(count: int) -> None:
    lengths = [(2 + i % 7, 2 + (i * i) % 11) for i in range(97)]
    layout = PackedLayout(part_of(pairs_of(lengths[:50])), 120, count, longest=LONGEST)
    found = list(layout.evaluation_batches(part_of(pairs_of(lengths))))
    assert Counter(i for batch in found for i in batch.order.tolist()) == Counter(range(97))
    assert {batch.places for batch in found} == {layout.places}
    assert sum(batch.target_tokens for batch in found) == sum(target for _, target in lengths)


# --- What it means to the model ----------------------------------------------------------------

MIXED = [(9, 7), (3, 12), (2, 2), (17, 15), (5, 9), (11, 4), (3, 12)]
SHAPES = [{}, {"d_k": 4}, {"d_v": 12}, {"d_k": 5, "d_v": 3, "h": 3}, {"tie": "none"}]


def sums_and_gradients(model: Transformer, found: list[Batch]) -> tuple[list[float], list[Tensor]]:
    """The sums of both losses over some batches, and the gradients of the first."""
    model.zero_grad()
    sums = [0.0, 0.0]
    for batch in found:
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
    for one, other in zip(gradients, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.norm()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_packed_and_grouped_batches_have_the_same_loss_and_gradients(
    shape: dict[str, int],
) -> None:
    model = small_model(P_drop=0.0, **shape).train()
    pairs = pairs_of(MIXED)
    packed = pack(part_of(pairs), np.arange(len(pairs)), (64, 72))
    assert_same(model, [packed], [make_batch(pairs)])


@pytest.mark.parametrize("places", [(50, 61), (51, 61), (50, 62), (64, 128), (300, 61)])
def test_the_amount_of_filler_changes_nothing(places: tuple[int, int]) -> None:
    model, part = small_model(P_drop=0.0, d_v=4).train(), part_of(pairs_of(MIXED))
    exactly, order = (50, 61), np.arange(len(MIXED))
    assert pack(part, order, places).used == exactly
    assert_same(model, [pack(part, order, places)], [pack(part, order, exactly)])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", [PackedLayout, GroupedLayout])
def test_the_number_of_pieces_changes_nothing(kind: type, count: int) -> None:
    lengths = MIXED * 3
    model, part = small_model(P_drop=0.0, d_k=4).train(), part_of(pairs_of(lengths))
    named = {"longest": LONGEST} if kind is PackedLayout else {}
    layout = kind(part, 200, count, **named)
    update = np.random.default_rng(0).permutation(len(lengths))
    found = [layout.batch(piece) for piece in layout.micro_batches(update)]
    assert len(found) == count
    assert_same(model, found, [make_batch(pairs_of(lengths))])


def test_what_stands_in_the_filler_is_of_no_consequence() -> None:
    model, part = small_model(P_drop=0.0).train(), part_of(pairs_of(MIXED))
    plain, other = (pack(part, np.arange(len(MIXED)), (64, 80)) for _ in range(2))
    other.source.tokens[other.used[0] :] = 9
    other.target.tokens[other.used[1] :] = 11
    other.source.positions[other.used[0] :] = 5
    assert_same(model, [other], [plain])
