"""Chance from a seed, the same on every machine and every Python."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A source of choices; it uses `random()` alone, whose numbers no version of Python changes."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def pick(self, options: Sequence[T]) -> T:
        """Pick one, all being equally likely."""
        return options[int(self.random() * len(options))]

    def chance(self, share: float) -> bool:
        """Say yes in this share of cases."""
        return self.random() < share


def weighted(weights: Mapping[T, int]) -> tuple[T, ...]:
    """Write weights as repetitions, to be picked from."""
    return tuple(option for option, weight in weights.items() for _ in range(weight))
