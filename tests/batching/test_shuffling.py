"""Training sees the sentences in random order: within an epoch, and in every epoch another."""

from collections.abc import Callable

import numpy as np
import pytest

from models import part_of, realistic, sentence
from transduce.batching.layouts import GroupedLayout, Layout
from transduce.batching.packed import Ints
from transduce.batching.static import PackedLayout
from transduce.corpus.token_files import Split

LAYOUTS: dict[str, Callable[[Split], Layout]] = {
    "grouped": lambda split: GroupedLayout(split, 100),
    "packed": lambda split: PackedLayout(split, 100, longest=40),
}


@pytest.fixture(scope="module")
def split() -> Split:
    return part_of([(sentence(s, 0), sentence(t, 0)) for s, t in realistic(2_000, longest=40)])


def epoch_of(layout: Layout, seed: int) -> list[Ints]:
    return layout.updates(np.random.default_rng(seed))


@pytest.mark.parametrize("name", LAYOUTS)
def test_long_and_short_updates_come_in_random_order(name: str, split: Split) -> None:
    """Sorted by length, updates would go from short to long sentences within each pool."""
    updates = epoch_of(LAYOUTS[name](split), 1)
    lengths = [split.target.lengths[update].mean() for update in updates]
    assert len(lengths) > 50
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.3
    neighbours = np.corrcoef(lengths[:-1], lengths[1:])[0, 1]
    assert abs(neighbours) < 0.3


@pytest.mark.parametrize("name", LAYOUTS)
def test_sentences_meet_others_in_every_epoch(name: str, split: Split) -> None:
    """With unshuffled pools, every epoch would have the same updates in another order."""
    layout = LAYOUTS[name](split)
    first, second = ({frozenset(update.tolist()) for update in epoch_of(layout, n)} for n in (1, 2))
    assert len(first & second) < 0.2 * len(first)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_seed_gives_the_same_updates_in_the_same_order(name: str, split: Split) -> None:
    layout = LAYOUTS[name](split)
    first, second = ([update.tolist() for update in epoch_of(layout, 1)] for _ in range(2))
    assert first == second
