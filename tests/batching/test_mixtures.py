"""Several corpora: how often each sentence is seen per epoch."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import part_of, realistic, sentence
from transduce.batching.layouts import GroupedLayout, Layout
from transduce.batching.packed import Ints
from transduce.batching.static import PackedLayout
from transduce.corpus.updates import Mixture

CORPORA = st.lists(
    st.tuples(st.integers(1, 40), st.floats(0.01, 9).map(lambda weight: round(weight, 2))),
    min_size=1,
    max_size=4,
)


def counts_in_epoch(mixture: Mixture, seed: int) -> Ints:
    drawn = mixture.draw(np.random.default_rng(seed))
    if drawn is None:
        return np.ones(sum(mixture.sizes), dtype=np.int64)
    return np.bincount(drawn, minlength=sum(mixture.sizes))


@given(CORPORA, st.integers(0, 1_000))
def test_a_sentence_is_seen_as_often_as_its_weight_says(
    corpora: list[tuple[int, float]], seed: int
) -> None:
    """Each floor(w) or one more time; the whole corpus n w times, rounded up or down."""
    mixture = Mixture(tuple(n for n, _ in corpora), tuple(w for _, w in corpora))
    counts = np.split(counts_in_epoch(mixture, seed), np.cumsum(mixture.sizes)[:-1])
    for (size, weight), seen in zip(corpora, counts, strict=True):
        assert len(seen) == size
        assert set(seen) <= {math.floor(weight), math.ceil(weight)}
        assert abs(seen.sum() - size * weight) < 1


def test_over_many_epochs_every_sentence_is_seen_in_proportion_to_its_weight() -> None:
    """Fixed rounding would see 2 of 5 in every epoch; a fixed subset would never change."""
    mixture = Mixture((5, 3), (0.5, 2.3))
    epochs = 4_000
    mean = sum(counts_in_epoch(mixture, seed) for seed in range(epochs)) / epochs
    assert mean == pytest.approx([0.5] * 5 + [2.3] * 3, abs=0.05)


def test_with_all_weights_1_nothing_is_drawn() -> None:
    random = np.random.default_rng(3)
    assert Mixture((5, 3), (1.0, 1.0)).draw(random) is None
    assert random.random() == np.random.default_rng(3).random()


@pytest.mark.parametrize("name", ["grouped", "packed"])
def test_an_epoch_has_the_drawn_sentences_with_their_copies(name: str) -> None:
    split = part_of([(sentence(s, 0), sentence(t, 0)) for s, t in realistic(300, longest=40)])
    layout: Layout = GroupedLayout(split, 200)
    if name == "packed":
        layout = PackedLayout(split, 200, longest=40)
    random = np.random.default_rng(1)
    drawn = Mixture((200, 100), (0.3, 3.0)).draw(random)
    assert drawn is not None
    updates = layout.updates(random, drawn)
    assert sorted(np.concatenate(updates)) == sorted(drawn)
    for update in updates:
        assert split.target.lengths_of(update).sum() <= 200
        assert [layout.batch(micro_batch).used for micro_batch in layout.micro_batches(update)]
