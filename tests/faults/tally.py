"""What a trial of faults tells: how many there were, and what each came to."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """The faults of one kind: each held its promise, in one of several ways, or did not."""

    promise: str
    seed: int
    held: Counter[str] = field(default_factory=Counter)  # by what came of it
    broken: list[str] = field(default_factory=list)  # what is needed to see it again
    figures: dict[str, float | str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic, repr=False)

    @property
    def tried(self) -> int:
        return self.held.total() + len(self.broken)

    def hold(self, outcome: str) -> None:
        self.held[outcome] += 1

    def fail(self, what: str) -> None:
        """Tally a fault that broke the promise; say it at once, for the long form is long."""
        self.broken.append(what)
        print(f"BROKEN: {what}", flush=True)

    def told(self) -> str:
        """Return the lines that docs/results.md records."""
        ways = "; ".join(f"{outcome} {count:,}" for outcome, count in self.held.most_common())
        figures = "".join(f"\n  {name}: {value}" for name, value in self.figures.items())
        return (
            f"{self.promise}\n  {self.tried - len(self.broken):,} of {self.tried:,} held "
            f"(seed {self.seed}, {time.monotonic() - self.began:.0f} s): {ways}{figures}"
        )

    def keep(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        known = {
            "promise": self.promise,
            "seed": self.seed,
            "tried": self.tried,
            "held": dict(self.held),
            "broken": self.broken,
            "figures": self.figures,
        }
        path.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
