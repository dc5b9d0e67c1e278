"""Random choices from a seed, the same on every machine and Python version."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Random choices; uses only `random()`, whose numbers are stable across Python versions."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def pick(self, options: Sequence[T]) -> T:
        """Pick an option; all are equally likely."""
        return options[int(self.random() * len(options))]

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random() < share


def weighted(weights: Mapping[T, int]) -> tuple[T, ...]:
    """Repeat each option by its weight, for `Dice.pick`."""
    return tuple(option for option, weight in weights.items() for _ in range(weight))
