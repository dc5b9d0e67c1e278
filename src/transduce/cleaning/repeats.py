"""Which pairs repeat earlier ones: tables of 64-bit hashes, 11 to 23 bytes per key.

Two different texts have the same hash with a probability of about 4e-5 among 36 million pairs.
"""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
FULL = 0.7  # share of used slots from which a table grows
FIRST_SIZE = 1 << 12
CHUNK = 1 << 18  # keys moved at once when a table grows


class KeyTable:
    """A hash table with open addressing that adds many keys at once, and counts them."""

    def __init__(self) -> None:
        self._slots: Keys = np.zeros(FIRST_SIZE, np.uint64)  # 0: empty
        self._counts = np.zeros(FIRST_SIZE, np.uint32)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, keys: Keys) -> NDArray[np.int64]:
        """Add keys; return for each how often it has been added, this time included."""
        unique, inverse, amounts = np.unique(
            np.maximum(keys, np.uint64(1)), return_inverse=True, return_counts=True
        )
        inverse = inverse.reshape(-1)
        while self._used + len(unique) > FULL * len(self._slots):
            self._grow()
        places = self._places(unique)
        before = self._counts[places].astype(np.int64)
        self._counts[places] += amounts.astype(np.uint32)
        order = np.argsort(inverse, kind="stable")
        starts = np.cumsum(amounts) - amounts
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - np.repeat(starts, amounts)
        result: NDArray[np.int64] = before[inverse] + rank + 1
        return result

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which keys have been added."""
        keys = np.maximum(keys, np.uint64(1))
        found = np.zeros(len(keys), np.bool_)
        pending = np.arange(len(keys))
        places = self._first_places(keys)
        while len(pending):
            slots = self._slots[places[pending]]
            found[pending] = slots == keys[pending]
            pending = pending[(slots != 0) & ~found[pending]]
            places[pending] = (places[pending] + 1) & (len(self._slots) - 1)
        return found

    def _first_places(self, keys: Keys) -> NDArray[np.int64]:
        return (keys & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _places(self, keys: Keys) -> NDArray[np.int64]:
        """Return the slots of keys that differ from each other; claim slots for new ones."""
        places = self._first_places(keys)
        pending = np.arange(len(keys))
        while len(pending):
            at = places[pending]
            empty = self._slots[at] == 0
            self._slots[at[empty]] = keys[pending[empty]]  # of several keys for a slot, one wins
            settled = self._slots[at] == keys[pending]
            self._used += int(np.count_nonzero(empty & settled))
            pending = pending[~settled]
            places[pending] = (places[pending] + 1) & (len(self._slots) - 1)
        return places

    def _grow(self) -> None:
        slots, counts = self._slots, self._counts
        self._slots = np.zeros(2 * len(slots), np.uint64)
        self._counts = np.zeros(2 * len(slots), np.uint32)
        self._used = 0
        for begin in range(0, len(slots), CHUNK):
            part = slots[begin : begin + CHUNK]
            used = part != 0
            self._counts[self._places(part[used])] = counts[begin : begin + CHUNK][used]
