"""The grid of a sweep: which values of which settings, and how many seeds."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transduce import config as configuration
from transduce.errors import BadSetting

MOST_SEEDS = 1_000


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values of settings, as text in the form of --set, and the number of seeds."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seeds: int = 1

    def __post_init__(self) -> None:
        """Refuse a wrong number of seeds."""
        if type(self.seeds) is not int or not 1 <= self.seeds <= MOST_SEEDS:
            raise BadSetting(f"seeds = {self.seeds!r:.60}: expected 1 to {MOST_SEEDS:,}")

    @property
    def size(self) -> int:
        """The number of runs."""
        return self.seeds * math.prod(len(values) for values in self.values.values())

    def combinations(self) -> list[dict[str, str]]:
        """Return the settings of each combination of values; the last setting varies fastest."""
        products = itertools.product(*self.values.values())
        return [dict(zip(self.values, values, strict=True)) for values in products]


def parse_table(table: Mapping[str, Any]) -> Grid:
    """Read the table [sweep] of a recipe: lists of values, and seeds."""
    texts = {}
    for name, values in table.items():
        if name == "seeds":
            continue
        if not isinstance(values, list) or not values:
            raise BadSetting(f"sweep.{name} = {values!r:.60}: expected values, such as [0.1, 0.3]")
        for value in values:
            if not isinstance(value, str | int | float):
                raise BadSetting(f"sweep.{name} = {value!r:.60}: expected numbers, text or true")
        texts[name] = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    return make_grid(texts, table.get("seeds", 1))


def parse_options(options: Sequence[str], seeds: int) -> Grid:
    """Parse options such as P_drop=0.1,0.3."""
    texts: dict[str, list[str]] = {}
    for option in options:
        name, equals, values = option.partition("=")
        if not equals or not name.strip():
            raise BadSetting(f"--set {option}: expected NAME=VALUE,VALUE, such as P_drop=0.1,0.3")
        if name.strip() in texts:
            raise BadSetting(f"--set {option}: {name.strip()} is given twice: list all its values")
        texts[name.strip()] = [value.strip() for value in values.split(",")]
    return make_grid(texts, seeds)


def make_grid(texts: Mapping[str, Sequence[str]], seeds: int) -> Grid:
    """Check names and values, and replace aliases."""
    values: dict[str, tuple[str, ...]] = {}
    for given, each in texts.items():
        (name,) = configuration.canonical_settings({given: ""})
        if name in values:
            raise BadSetting(f"{given} is another name of {name}, which is given too: give one")
        if name == "seed":
            raise BadSetting("seed is not swept as a setting: give the number of seeds, --seeds 3")
        if "" in each or any("," in value for value in each):
            raise BadSetting(
                f"{name} = {','.join(each)}: expected values with single commas between them"
            )
        if len(set(each)) < len(each):
            raise BadSetting(f"{name} = {','.join(each)}: a value is given twice")
        values[name] = tuple(each)
    return Grid(values=values, seeds=seeds)
