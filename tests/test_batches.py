"""Batches are packed, full, exact in their order, and split among processes without overlap."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models import pairs_of
from transduce.batches import (
    Batch,
    Batches,
    CrossView,
    Place,
    SelfView,
    group,
    in_order,
    make_batch,
)
from transduce.corpus import Part, Side
from transduce.errors import BadRun
from transduce.subwords import BOS, EOS


def part_of(lengths: list[tuple[int, int]]) -> Part:
    """A part whose sentences' first word tells their number."""
    sides = []
    for side in (0, 1):
        sentences = [
            np.append(np.full(pair[side] - 1, 4 + number), EOS).astype("<u2")
            for number, pair in enumerate(lengths)
        ]
        offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)])
        sides.append(Side(np.concatenate(sentences), offsets))
    return Part(*sides)


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
def test_every_pair_stands_in_one_batch_and_none_is_overfull(
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
def test_packing_loses_nothing_and_shifts_the_target_by_one(lengths: list[tuple[int, int]]) -> None:
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


def test_similar_lengths_stand_together() -> None:
    random = np.random.default_rng(0)
    source, target = random.integers(2, 60, (2, 5000))
    groups = group(source, target, 1000, np.random.default_rng(1))
    spread = np.mean([np.ptp(target[indices]) for indices in groups])
    assert spread < 3  # of 58


def test_an_epoch_is_shuffled_anew_from_the_seed() -> None:
    part = part_of(LENGTHS)

    def epochs(seed: int) -> list[list[int]]:
        batches = Batches(part, batch_tokens=60, seed=seed)
        return [
            [n for _ in range(batches.batches_per_epoch()) for n in numbers(next(batches))]
            for _ in range(2)
        ]

    first, second = epochs(1)
    assert sorted(first) == sorted(second) == list(range(97))
    assert first != second
    assert epochs(1) == [first, second]
    assert epochs(2)[0] != first


def test_the_place_is_exact_wherever_the_stream_was_left() -> None:
    part = part_of(LENGTHS)
    whole = Batches(part, batch_tokens=60, seed=3)
    stream, places = [], []
    for _ in range(3 * whole.batches_per_epoch()):
        places.append(whole.place)
        stream.append(numbers(next(whole)))
    for start in range(0, len(stream), 7):
        resumed = Batches(part, batch_tokens=60, seed=3, place=places[start])
        rest = [numbers(batch) for batch in itertools.islice(resumed, len(stream) - start)]
        assert rest == stream[start:]


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_the_stream_without_overlap(world: int) -> None:
    part = part_of(LENGTHS)
    single = Batches(part, batch_tokens=60, seed=1)
    count = 2 * single.batches_per_epoch() // world
    alone = [numbers(next(single)) for _ in range(count * world)]
    shared = [
        [numbers(batch) for batch in itertools.islice(stream, count)]
        for stream in (
            Batches(part, batch_tokens=60, seed=1, rank=rank, world=world) for rank in range(world)
        )
    ]
    assert [one for step in zip(*shared, strict=True) for one in step] == alone


def test_all_processes_agree_on_the_place() -> None:
    part = part_of(LENGTHS)
    streams = [Batches(part, batch_tokens=60, seed=1, rank=rank, world=3) for rank in range(3)]
    for _ in range(20):
        for stream in streams:
            next(stream)
        assert len({stream.place for stream in streams}) == 1


def test_evaluation_passes_once_over_everything() -> None:
    seen = Counter(n for batch in in_order(part_of(LENGTHS), 50) for n in numbers(batch))
    assert seen == Counter(range(97))


def test_a_damaged_place_is_refused() -> None:
    assert Place.from_json(Place(3, 4).to_json()) == Place(3, 4)
    for value in (None, {}, {"epoch": -1, "batch": 0}, {"epoch": "1", "batch": 0}, [1, 2]):
        with pytest.raises(BadRun, match="place in the data is damaged"):
            Place.from_json(value)


def test_views_of_equal_lengths_need_no_mask() -> None:
    assert SelfView.of(np.array([2, 2, 5])).groups == ((2, 2), (1, 5))
    view = CrossView.of(
        queries=np.array([3, 3, 4]), keys=np.array([2, 2, 6]), rows=np.array([1, 0, 2])
    )
    assert [tuple(one) for one in view.groups] == [(2, 3, 2, False), (1, 4, 6, False)]
    assert torch.equal(view.index[0, :2], torch.tensor([2, 3]))


def test_a_batch_moves_to_a_device_whole() -> None:
    batch = make_batch(pairs_of([(3, 4), (5, 2)]))
    moved = batch.to(torch.device("meta"))
    for tensor in (
        *(moved.source.tokens, moved.target.positions, moved.labels),
        *(moved.cross.index, moved.cross.place, moved.cross.real),
    ):
        assert tensor.device.type == "meta"
