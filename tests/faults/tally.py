"""Counts of injected faults and their outcomes."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """Faults of one kind: the guarantee held, in one of several ways, or was broken."""

    promise: str
    seed: int
    held: Counter[str] = field(default_factory=Counter)  # by outcome
    broken: list[str] = field(default_factory=list)  # how to reproduce it
    figures: dict[str, float | str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic, repr=False)

    @property
    def tried(self) -> int:
        return self.held.total() + len(self.broken)

    def hold(self, outcome: str) -> None:
        self.held[outcome] += 1

    def fail(self, what: str) -> None:
        """Count a fault that broke the guarantee, and print it at once."""
        self.broken.append(what)
        print(f"BROKEN: {what}", flush=True)

    def summary(self) -> str:
        """Return the lines for docs/results.md."""
        ways = "; ".join(f"{outcome} {count:,}" for outcome, count in self.held.most_common())
        figures = "".join(f"\n  {name}: {value}" for name, value in self.figures.items())
        return (
            f"{self.promise}\n  {self.tried - len(self.broken):,} of {self.tried:,} held "
            f"(seed {self.seed}, {time.monotonic() - self.began:.0f} s): {ways}{figures}"
        )

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "promise": self.promise,
            "seed": self.seed,
            "tried": self.tried,
            "held": dict(self.held),
            "broken": self.broken,
            "figures": self.figures,
        }
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
