"""What is measured for Table 1, and what came of it."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from transduce.errors import BadSetting
from transduce.experiments.fits import Power, upper
from transduce.experiments.measuring import Passed
from transduce.experiments.table1_layers import Kind
from transduce.settings.base import MAXIMUM


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is measured."""

    n: tuple[int, ...]
    d: tuple[int, ...] = (512, 1024)
    k: int = 3
    r: int = 32
    batch: int | None = None  # None: what suits the device
    seconds: float = 80.0  # for all measurements of time together

    def check(self) -> None:
        """Refuse what cannot be measured."""
        for n in self.n:
            _require(2 <= n <= 1 << 20, f"--n {n}", f"2 to {1 << 20:,} tokens")
        for d in self.d:
            even = 2 <= d <= MAXIMUM["d_model"] and d % 2 == 0
            _require(even, f"--d {d}", f"an even number, at most {MAXIMUM['d_model']:,}")
        most = MAXIMUM["kernel"]
        _require(2 <= self.k <= most, f"--k {self.k}", f"a width of 2 to {most:,}")
        most = MAXIMUM["max_len"]
        _require(3 <= self.r <= most, f"--r {self.r}", f"3 to {most:,} tokens, to reach both ways")
        _require(0 < self.seconds < math.inf, f"--seconds {self.seconds:g}", "more than 0")
        if self.batch is not None:
            most = 1 << 16
            _require(1 <= self.batch <= most, f"--batch {self.batch}", f"1 to {most:,} sentences")


def _require(condition: bool, found: str, expected: str) -> None:
    if not condition:
        raise BadSetting(f"{found:.60}: expected {expected}")


@dataclass(slots=True)
class Row:
    """One layer of one width, over n."""

    kind: Kind
    projected: bool  # attention with its projections, which are position-wise
    d: int
    n: list[int] = field(default_factory=list)
    passes: list[Passed] = field(default_factory=list)
    ended: Literal["", "time", "memory"] = ""  # for want of what, before the last n

    @property
    def name(self) -> str:
        """As tables and pictures call it."""
        return f"{self.kind}{' + projections' if self.projected else ''}"

    def power(self, what: str) -> Power | None:
        """Fit how time (seconds, forward, backward) or memory grows with large n."""
        return upper(self.n, [float(getattr(one, what)) for one in self.passes])


@dataclass(slots=True)
class Paths:
    """The longest paths of one kind of layer, over n."""

    name: str
    said: str  # by the paper, O()
    n: list[int]
    lengths: list[int]


@dataclass(slots=True)
class Counted:
    """Operations of a forward pass, by formula and as torch counts them."""

    kind: Kind
    n: list[int]
    formula: list[int]
    torch: list[int]


@dataclass(slots=True)
class Measured:
    """All of it."""

    plan: Plan
    device: str
    batch: int
    precision: str
    packed: bool  # attention by our packed kernels
    rows: list[Row]
    paths: list[Paths]
    counted: list[Counted]
    machine: dict[str, Any]

    @property
    def attention(self) -> str:
        """Which kernels compute attention."""
        return "our packed kernels" if self.packed else "torch's fused kernels"
