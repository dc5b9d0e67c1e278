"""The settings of a run for which no preset is named, by the number of pairs and the device.

The table was measured with 10,000, 29,000, 100,000 and 560,000 pairs (docs/results.md). The fewer
pairs, the more regularisation and the more passes over the data; a CPU trains a model that fits
into about 20 minutes. The vocabulary also follows from the size of the text
(`subwords.default_vocabulary_size`).

Differs: the paper has one setting for 4.5 million pairs. A preset that is named is never changed.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from transduce.config import apply_settings
from transduce.presets import Preset, find_preset
from transduce.settings.base import Value, read_value


@dataclass(frozen=True, slots=True)
class Row:
    """The preset for at most this many pairs, and the settings that differ from it."""

    pairs: float
    preset: str
    settings: Mapping[str, float]

    def adapted_to(self, given: Mapping[str, Value]) -> "Row":
        """Return the row with the settings that are given, and without those they exclude."""
        known = {*self.settings, *(("simcut",) if "rdrop" in self.settings else ())}
        names = sorted(known & given.keys())
        values = {name: read_value(given[name], int | float | None, name) for name in names}
        settings = {
            name: value for name, value in {**self.settings, **values}.items() if value is not None
        }
        if settings.get("simcut") or settings.get("P_drop") == 0:
            settings.pop("rdrop", None)
        if "average" not in given and settings.get("average", 0) > settings.get("keep", math.inf):
            del settings["average"]
        return dataclasses.replace(self, settings=settings)

    def to_preset(self) -> Preset:
        """Return the preset with the settings of this row."""
        preset = find_preset(self.preset)
        model, train = apply_settings(self.settings, preset.model, preset.train)
        return Preset(model=model, train=train)

    def __str__(self) -> str:
        changes = ", ".join(f"{name} {value:g}" for name, value in self.settings.items())
        return f"preset {self.preset}" + (f" with {changes}" if changes else "")


REGULARISED = {"P_drop": 0.3, "rdrop": 5, "batch_tokens": 6_000, "steps": 4_500}
FREQUENT_CHECKPOINTS = {"save_every": 100, "keep": 10, "average": 10}  # for runs of a minute
GPU = (
    Row(60_000, "small", REGULARISED | FREQUENT_CHECKPOINTS),
    Row(200_000, "small", {"P_drop": 0.3, "batch_tokens": 8_000}),
    Row(1_000_000, "base", {"P_drop": 0.2, "steps": 20_000, "cooldown": 0.4}),
    Row(math.inf, "base", {}),
)
CPU = (
    Row(200_000, "tiny", {"batch_tokens": 1_000, "steps": 10_000, "warmup": 800}),
    Row(math.inf, "small", {}),
)


def rows_for(device: str) -> tuple[Row, ...]:
    """Return the table for a device: `cuda`, `cpu` or `mps`."""
    return GPU if device == "cuda" else CPU


def choose_row(pairs: int, device: str) -> Row:
    """Return the row for this number of pairs on a device."""
    return next(row for row in rows_for(device) if pairs <= row.pairs)
