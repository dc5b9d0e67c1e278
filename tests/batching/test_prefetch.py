"""Updates come in the same order, with or without prefetching, and know the next position."""

import threading
import time
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest

from models import pairs_of, part_of
from transduce.batching.layouts import GroupedLayout
from transduce.batching.packed import Ints
from transduce.batching.prefetch import AHEAD, Prefetcher, Update
from transduce.corpus.updates import DataPosition, Updates

PART = part_of(pairs_of([(2 + i % 7, 2 + (i * i) % 11) for i in range(97)]))
LAYOUT = GroupedLayout(PART, 60, 2)


def deal(_: int, random: np.random.Generator) -> list[Ints]:
    return LAYOUT.updates(random)


def make(sentences: Ints, position: DataPosition, epochs: float, _: int) -> Update:
    """Prepare an update as training does."""
    batches = [LAYOUT.batch(micro_batch) for micro_batch in LAYOUT.micro_batches(sentences)]
    return Update(sentences, PART, 1, batches, False, LAYOUT, position, epochs)


def prefetcher(
    *,
    ahead: bool,
    position: DataPosition | None = None,
    make: Callable[[Ints, DataPosition, float, int], Update] = make,
) -> Prefetcher:
    updates = Updates(deal, seed=3, position=position or DataPosition())
    return Prefetcher(updates, make, ahead=ahead)


def becomes_true(condition: Callable[[], bool]) -> bool:
    """Wait up to five seconds for a thread."""
    for _ in range(500):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_prefetched_updates_are_the_same() -> None:
    with closing(prefetcher(ahead=True)) as ahead, closing(prefetcher(ahead=False)) as plain:
        for _ in range(3 * plain.updates.per_epoch()):
            update, expected = next(ahead), next(plain)
            assert update.sentences.tolist() == expected.sentences.tolist()
            assert (update.next_position, update.epochs) == (
                expected.next_position,
                expected.epochs,
            )
            assert (update.used, update.places) == (expected.used, expected.places)
            assert [len(batch.order) for batch in update.batches] == [
                len(batch.order) for batch in expected.batches
            ]


@pytest.mark.parametrize("ahead", [True, False])
def test_an_update_knows_the_next_position_and_the_epochs_after_it(ahead: bool) -> None:
    with closing(prefetcher(ahead=ahead)) as stream:
        count = Updates(deal, seed=3).per_epoch()
        updates = [next(stream) for _ in range(2 * count + 1)]
    positions = [update.next_position for update in updates]
    assert [(position.epoch, position.update) for position in positions] == [
        *((0, number) for number in range(1, count)),
        (1, 0),
        *((1, number) for number in range(1, count)),
        (2, 0),
        (2, 1),
    ]
    assert updates[count - 1].epochs == 1.0
    assert updates[2 * count - 1].epochs == 2.0
    for number, update in enumerate(updates, 1):
        assert update.epochs == pytest.approx(number / count)


@pytest.mark.parametrize("ahead", [True, False])
def test_the_stream_continues_exactly_from_a_position(ahead: bool) -> None:
    count = Updates(deal, seed=3).per_epoch()
    with closing(prefetcher(ahead=ahead)) as stream:
        updates = [next(stream) for _ in range(2 * count)]
    for stop in (1, count - 1, count, count + 1):
        position = updates[stop - 1].next_position
        with closing(prefetcher(ahead=ahead, position=position)) as stream:
            for expected in updates[stop:]:
                update = next(stream)
                assert update.sentences.tolist() == expected.sentences.tolist()
                assert (update.next_position, update.epochs) == (
                    expected.next_position,
                    expected.epochs,
                )


def test_the_thread_prefetches_a_limited_number_of_updates() -> None:
    prepared: list[DataPosition] = []

    def recording(sentences: Ints, position: DataPosition, epochs: float, epoch: int) -> Update:
        prepared.append(position)
        return make(sentences, position, epochs, epoch)

    with closing(prefetcher(ahead=True, make=recording)) as stream:
        next(stream)
        assert becomes_true(lambda: len(prepared) == AHEAD + 2)  # one waits for a free slot
        next(stream)
        assert becomes_true(lambda: len(prepared) == AHEAD + 3)
        time.sleep(0.05)
        assert len(prepared) == AHEAD + 3


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_is_raised_after_the_updates_prepared_before_it(ahead: bool) -> None:
    def failing(sentences: Ints, position: DataPosition, epochs: float, epoch: int) -> Update:
        if position == DataPosition(0, 4):
            raise ValueError("the fourth update fails")
        return make(sentences, position, epochs, epoch)

    with closing(prefetcher(ahead=ahead, make=failing)) as stream:
        assert [next(stream).next_position.update for _ in range(3)] == [1, 2, 3]
        with pytest.raises(ValueError, match="the fourth update fails"):
            next(stream)


def test_a_prefetcher_that_is_never_read_starts_no_thread() -> None:
    """A run whose log cannot be opened fails after its prefetcher was created."""
    before = threading.active_count()
    stream = prefetcher(ahead=True)
    time.sleep(0.05)
    assert threading.active_count() == before
    stream.close()


@pytest.mark.parametrize("taken", [1, AHEAD])
def test_closing_stops_the_thread_while_updates_are_waiting(taken: int) -> None:
    stream = prefetcher(ahead=True)
    for _ in range(taken):
        next(stream)
    assert becomes_true(stream.ready.full)
    assert stream.thread is not None
    began = time.monotonic()
    stream.close()
    assert not stream.thread.is_alive()
    assert time.monotonic() - began < 5
    stream.close()  # closing twice is harmless


def test_an_update_counts_the_tokens_of_its_micro_batches() -> None:
    with closing(prefetcher(ahead=False)) as stream:
        update = next(iter(stream))
    assert len(update.batches) == 2
    sides = PART.source, PART.target
    assert update.used == tuple(side.lengths_of(update.sentences).sum() for side in sides)
    assert update.places == update.used  # no padding
