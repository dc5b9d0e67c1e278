"""Grouped batches: full, complete, and independent of the number of micro-batches."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models import pairs_of, part_of
from transduce.batching.layouts import GroupedLayout
from transduce.batching.packed import Batch, Ints, LengthGroups, SourceRows, make_batch
from transduce.batching.static import PackedLayout
from transduce.corpus.token_files import Split
from transduce.corpus.updates import DataPosition, Updates, group
from transduce.subwords import BOS, EOS


def numbered(lengths: list[tuple[int, int]]) -> Split:
    """Sentences whose words encode their number."""

    def side(number: int, length: int) -> Ints:
        return np.append(np.full(length - 1, 4 + number), EOS)

    return part_of([tuple(side(i, n) for n in pair) for i, pair in enumerate(lengths)])  # type: ignore[misc]


def numbers(batch: Batch) -> list[int]:
    """The numbers of a batch's sentences, read from their first words."""
    starts = batch.target.positions == 0
    return (batch.labels[starts] - 4).tolist()


LENGTHS = [(2 + i % 7, 2 + (i * i) % 11) for i in range(97)]

lengths_strategy = st.lists(
    st.tuples(st.integers(2, 30), st.integers(2, 30)), min_size=1, max_size=60
)


@settings(max_examples=50, deadline=None)
@given(lengths_strategy, st.integers(8, 120), st.integers(0, 5))
def test_every_pair_is_in_one_batch_and_no_batch_is_too_large(
    lengths: list[tuple[int, int]], batch_tokens: int, seed: int
) -> None:
    source, target = np.array(lengths).T
    groups = group(source, target, batch_tokens, np.random.default_rng(seed))
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    for indices in groups:
        fullest = max(source[indices].sum(), target[indices].sum())
        assert fullest <= batch_tokens or len(indices) == 1


@settings(max_examples=30, deadline=None)
@given(lengths_strategy)
def test_a_batch_has_all_tokens_and_shifts_the_target_by_one(
    lengths: list[tuple[int, int]],
) -> None:
    pairs = pairs_of(lengths)
    batch = make_batch(pairs)
    assert batch.source.tokens.numel() == sum(source for source, _ in lengths)
    assert batch.target_tokens == sum(target for _, target in lengths)
    begin = 0
    for number in batch.order:
        target = pairs[number][1]
        end = begin + len(target)
        assert batch.labels[begin:end].tolist() == target.tolist()
        assert batch.target.tokens[begin:end].tolist() == [BOS, *target[:-1].tolist()]
        assert batch.target.positions[begin:end].tolist() == list(range(len(target)))
        begin = end


def test_sentences_of_similar_length_are_batched_together() -> None:
    random = np.random.default_rng(0)
    source, target = random.integers(2, 60, (2, 5000))
    groups = group(source, target, 1000, np.random.default_rng(1))
    spread = np.mean([np.ptp(target[indices]) for indices in groups])
    assert spread < 3  # of 58


def stream_of(seed: int, position: DataPosition = DataPosition(), count: int = 1) -> Updates:  # noqa: B008  (frozen)
    layout = GroupedLayout(numbered(LENGTHS), 60, count)
    return Updates(lambda _, random: layout.updates(random), seed=seed, position=position)


def test_every_epoch_has_another_order_that_depends_on_the_seed() -> None:
    def epochs(seed: int) -> list[list[int]]:
        updates = stream_of(seed)
        return [
            [n for _ in range(updates.per_epoch()) for n in next(updates).tolist()]
            for _ in range(2)
        ]

    first, second = epochs(1)
    assert sorted(first) == sorted(second) == list(range(97))
    assert first != second
    assert epochs(1) == [first, second]
    assert epochs(2)[0] != first


def test_updates_resume_exactly_at_any_data_position() -> None:
    whole = stream_of(3)
    stream, positions = [], []
    for _ in range(3 * whole.per_epoch()):
        positions.append(whole.position)
        stream.append(next(whole).tolist())
    assert positions[-1].epoch == 2
    for start in range(0, len(stream), 7):
        resumed = stream_of(3, positions[start])
        rest = [update.tolist() for update in itertools.islice(resumed, len(stream) - start)]
        assert rest == stream[start:]


def test_a_data_position_beyond_the_end_of_an_epoch_is_the_next_epoch() -> None:
    """A run resumes on another device, whose layout makes fewer updates."""
    count = stream_of(1).per_epoch()
    expected = next(stream_of(1, DataPosition(1, 0))).tolist()
    for beyond in (count, count + 3):
        updates = stream_of(1, DataPosition(0, beyond))
        assert next(updates).tolist() == expected
        assert updates.position == DataPosition(1, 1)
    assert stream_of(1, DataPosition(0, count - 1)).position == DataPosition(0, count - 1)


def test_a_grouped_layout_can_use_the_updates_of_another_layout() -> None:
    split = numbered(LENGTHS)
    packed = PackedLayout(split, 60, longest=30)
    same, other, alone = (
        [update.tolist() for update in layout.updates(np.random.default_rng(0))]
        for layout in (
            GroupedLayout(split, 60, updates_of=packed),
            packed,
            GroupedLayout(split, 60),
        )
    )
    assert same == other
    assert same != alone


@pytest.mark.parametrize("count", [2, 5])
def test_updates_do_not_depend_on_the_number_of_micro_batches(count: int) -> None:
    cut, whole = stream_of(1, count=count), stream_of(1)
    for _ in range(2 * whole.per_epoch()):
        assert next(cut).tolist() == next(whole).tolist()


@settings(max_examples=50, deadline=None)
@given(lengths_strategy, st.integers(1, 8))
def test_micro_batches_are_of_similar_size_and_together_the_update(
    lengths: list[tuple[int, int]], count: int
) -> None:
    layout = GroupedLayout(numbered(lengths), 10_000, count)
    update = np.arange(len(lengths))
    micro_batches = layout.micro_batches(update)
    assert np.concatenate(micro_batches).tolist() == update.tolist()
    assert 1 <= len(micro_batches) <= count
    assert min(map(len, micro_batches)) >= 1
    longer = np.maximum(*np.array(lengths).T)
    share = longer.sum() / count
    assert all(longer[part].sum() <= share + longer.max() for part in micro_batches)


def test_a_micro_batch_has_its_own_sentences() -> None:
    layout = GroupedLayout(numbered(LENGTHS), 60, 3)
    update = next(stream_of(1))
    sentences = [numbers(layout.batch(part)) for part in layout.micro_batches(update)]
    assert len(sentences) == 3
    assert sorted(n for part in sentences for n in part) == sorted(update.tolist())


def test_evaluation_has_every_sentence_once() -> None:
    batches = list(GroupedLayout(numbered(LENGTHS[:3]), 50).evaluation_batches(numbered(LENGTHS)))
    assert Counter(n for batch in batches for n in numbers(batch)) == Counter(range(97))
    assert all(max(batch.used) <= 50 for batch in batches)


def test_sources_of_equal_length_need_no_mask() -> None:
    assert LengthGroups.of(np.array([2, 2, 5])).groups == ((2, 2), (1, 5))
    rows = SourceRows.of(
        queries=np.array([3, 3, 4]), keys=np.array([2, 2, 6]), rows=np.array([1, 0, 2])
    )
    assert [tuple(group) for group in rows.groups] == [(2, 3, 2, False), (1, 4, 6, False)]
    assert torch.equal(rows.index[0, :2], torch.tensor([2, 3]))


def test_all_tensors_of_a_batch_move_to_a_device() -> None:
    batch = make_batch(pairs_of([(3, 4), (5, 2)]))
    moved = batch.to(torch.device("meta"))
    assert isinstance(moved.cross, SourceRows)
    for tensor in (
        *(moved.source.tokens, moved.target.positions, moved.labels),
        *(moved.cross.index, moved.cross.place, moved.cross.real),
    ):
        assert tensor.device.type == "meta"
