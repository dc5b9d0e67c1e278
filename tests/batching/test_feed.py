"""Updates come in the same order, each with its place, whether or not they are made ahead."""

import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from models import pairs_of, part_of
from transduce.batching.packed import Ints
from transduce.batching.prefetch import AHEAD, Feed, Update
from transduce.batching.updates import Grouped, Place, Updates

LAYOUT = Grouped(part_of(pairs_of([(2 + i % 7, 2 + (i * i) % 11) for i in range(97)])), 60, 2)


def make(sentences: Ints, place: Place, epochs: float) -> Update:
    """Do what the engine does."""
    batches = [LAYOUT.batch(piece) for piece in LAYOUT.pieces(sentences)]
    return Update(sentences, 1, batches, False, LAYOUT, place, epochs)


def feed(
    *,
    ahead: bool,
    place: Place | None = None,
    make: Callable[[Ints, Place, float], Update] = make,
) -> Feed:
    return Feed(Updates(LAYOUT, seed=3, place=place or Place()), make, ahead=ahead)


def waits_until(condition: Callable[[], bool]) -> bool:
    """Give a thread the time that it may need."""
    for _ in range(500):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_made_ahead_or_not_the_updates_are_the_same() -> None:
    with closing(feed(ahead=True)) as ahead, closing(feed(ahead=False)) as plain:
        for _ in range(3 * plain.updates.per_epoch()):
            one, other = next(ahead), next(plain)
            assert one.sentences.tolist() == other.sentences.tolist()
            assert (one.place, one.epochs) == (other.place, other.epochs)
            assert (one.used, one.places) == (other.used, other.places)
            assert [len(batch.order) for batch in one.batches] == [
                len(batch.order) for batch in other.batches
            ]


@pytest.mark.parametrize("ahead", [True, False])
def test_an_update_knows_the_place_after_it_and_the_passes_that_end_with_it(ahead: bool) -> None:
    with closing(feed(ahead=ahead)) as stream:
        count = Updates(LAYOUT, seed=3).per_epoch()
        found = [next(stream) for _ in range(2 * count + 1)]
    assert [(one.place.epoch, one.place.update) for one in found] == [
        *((0, number) for number in range(1, count)),
        (1, 0),
        *((1, number) for number in range(1, count)),
        (2, 0),
        (2, 1),
    ]
    assert found[count - 1].epochs == 1.0
    assert found[2 * count - 1].epochs == 2.0
    for number, one in enumerate(found, 1):
        assert one.epochs == pytest.approx(number / count)


@pytest.mark.parametrize("ahead", [True, False])
def test_from_the_place_of_an_update_the_stream_goes_on_as_it_did(ahead: bool) -> None:
    count = Updates(LAYOUT, seed=3).per_epoch()
    with closing(feed(ahead=ahead)) as stream:
        whole = [next(stream) for _ in range(2 * count)]
    for stop in (1, count - 1, count, count + 1):
        with closing(feed(ahead=ahead, place=whole[stop - 1].place)) as stream:
            for expected in whole[stop:]:
                found = next(stream)
                assert found.sentences.tolist() == expected.sentences.tolist()
                assert (found.place, found.epochs) == (expected.place, expected.epochs)


def test_the_thread_is_so_many_updates_ahead_and_no_more() -> None:
    made: list[Place] = []

    def counted(sentences: Ints, place: Place, epochs: float) -> Update:
        made.append(place)
        return make(sentences, place, epochs)

    with closing(feed(ahead=True, make=counted)) as stream:
        next(stream)
        assert waits_until(lambda: len(made) == AHEAD + 2)  # one waits for room
        next(stream)
        assert waits_until(lambda: len(made) == AHEAD + 3)
        time.sleep(0.05)
        assert len(made) == AHEAD + 3


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_reaches_the_caller_after_what_was_made_before_it(ahead: bool) -> None:
    def failing(sentences: Ints, place: Place, epochs: float) -> Update:
        if place == Place(0, 4):
            raise ValueError("the fourth cannot be made")
        return make(sentences, place, epochs)

    with closing(feed(ahead=ahead, make=failing)) as stream:
        assert [next(stream).place.update for _ in range(3)] == [1, 2, 3]
        with pytest.raises(ValueError, match="the fourth cannot be made"):
            next(stream)


def test_a_feed_that_nobody_reads_starts_no_thread() -> None:
    """A run whose log cannot be opened fails after its feed was made, and closes none."""
    before = threading.active_count()
    stream = feed(ahead=True)
    time.sleep(0.05)
    assert threading.active_count() == before
    stream.close()


@pytest.mark.parametrize("taken", [1, AHEAD])
def test_closing_ends_the_thread_though_nobody_takes_what_it_made(taken: int) -> None:
    stream = feed(ahead=True)
    for _ in range(taken):
        next(stream)
    assert waits_until(stream.ready.full)
    assert stream.thread is not None
    began = time.monotonic()
    stream.close()
    assert not stream.thread.is_alive()
    assert time.monotonic() - began < 5
    stream.close()  # twice is once


def test_places_and_tokens_of_an_update_are_those_of_its_pieces() -> None:
    with closing(feed(ahead=False)) as stream:
        update = next(iter(stream))
    assert len(update.batches) == 2
    source, target = LAYOUT.lengths
    assert update.used == (source[update.sentences].sum(), target[update.sentences].sum())
    assert update.places == update.used  # there is no filler
