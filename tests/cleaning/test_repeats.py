"""The table of hashes counts exactly as a dictionary does."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transduce.cleaning.repeats import KeyTable

KEYS = st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=60)


@given(st.lists(KEYS, max_size=5))
def test_keys_are_counted_in_order(blocks: list[list[int]]) -> None:
    table, expected = KeyTable(), Counter[int]()
    for block in blocks:
        counts = table.add(np.array(block, np.uint64)).tolist()
        for key, count in zip(block, counts, strict=True):
            expected[max(key, 1)] += 1  # 0 marks an empty slot
            assert count == expected[max(key, 1)]
    assert len(table) == len(expected)


def test_a_table_grows() -> None:
    keys = np.random.default_rng(1).integers(1, 2**63, 30_000).astype(np.uint64)
    keys[:500] &= np.uint64(0xFF)  # many that begin at the same slots
    keys = np.maximum(keys, np.uint64(1))
    table = KeyTable()
    for block in np.split(keys, 30):
        table.add(block)
    assert len(table) == len(np.unique(keys))
    assert table.contains(keys).all()
    assert not table.contains(keys + np.uint64(2**63)).any()
    assert (table.add(np.unique(keys)) >= 2).all()
