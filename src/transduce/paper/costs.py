"""What is measured for Table 1, and what came of it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from transduce.errors import BadSetting
from transduce.paper.fits import Power, upper
from transduce.paper.layers import Kind
from transduce.paper.measuring import Passed


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
            if n < 2:
                raise BadSetting(f"--n {n}: expected 2 tokens or more")
        for d in self.d:
            if d < 2 or d % 2:
                raise BadSetting(f"--d {d}: expected an even number")
        if self.k < 2:
            raise BadSetting(f"--k {self.k}: expected a width of 2 or more, to reach anything")
        if self.r < 3:
            raise BadSetting(f"--r {self.r}: expected 3 tokens or more, to reach both ways")
        if self.seconds <= 0:
            raise BadSetting(f"--seconds {self.seconds:g}: expected more than 0")
        if self.batch is not None and self.batch < 1:
            raise BadSetting(f"--batch {self.batch}: expected 1 sentence or more")


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
    attention: str  # whose kernels
    rows: list[Row]
    paths: list[Paths]
    counted: list[Counted]
    machine: dict[str, Any]
