"""How fast something grows: powers fitted to measurements, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

POINTS = 4  # the largest: what `upper` looks at
# Student's t: half of 95% lies beyond it on each side, for 1, 2, … degrees of freedom.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, slots=True)
class Power:
    """y grows as x^exponent, between two x."""

    exponent: float
    low: float  # of the 95% interval; NaN where two points leave no doubt to measure
    high: float
    first: float  # x
    last: float

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ({self.low:.2f} to {self.high:.2f})"


def power(x: Sequence[float], y: Sequence[float]) -> Power | None:
    """Fit a power by least squares of the logarithms; two points are the least there can be.

    The interval is Student's: it knows how far the points lie from the line, and nothing else.
    """
    if len(x) < 2:
        return None
    log_x, log_y = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    away = log_x - log_x.mean()
    exponent = float(away @ log_y / (away @ away))
    rest = log_y - log_y.mean() - exponent * away
    free = len(x) - 2
    wide = math.nan
    if free:
        error = math.sqrt(float(rest @ rest) / free / float(away @ away))
        wide = error * T_95[min(free, len(T_95)) - 1]
    return Power(exponent, exponent - wide, exponent + wide, min(x), max(x))


def upper(x: Sequence[float], y: Sequence[float]) -> Power | None:
    """Fit a power to the last few points, where what does not grow is small."""
    return power(x[-POINTS:], y[-POINTS:])
