"""What became of each key of a foreign configuration: taken, changed or not taken, once each."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadInput, BadSetting

Fate = Literal["taken", "changed", "not taken"]
UNKNOWN = "not known to this converter: see what it does, and whether a setting here does it"


@dataclass(frozen=True, slots=True)
class Given:
    """A key as the file writes it, and its value."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one key."""

    key: str
    value: Any
    fate: Fate
    note: str


@dataclass(slots=True)
class Ledger:
    """The keys of a configuration by their plain names, and what has become of them so far.

    A plain name is the same whether a key stood on a command line or in a file: `max_tokens` for
    --max-tokens and for dataset.max_tokens.
    """

    toolkit: str
    given: Mapping[str, Given]
    entries: dict[str, Entry] = field(default_factory=dict)
    settings: dict[str, tuple[Any, str]] = field(default_factory=dict)  # value, where it is from

    def value(self, name: str, default: Any = None) -> Any:
        """Return what a key says, or what the toolkit takes where it is silent."""
        found = self.given.get(name)
        return default if found is None or found.value is None else found.value

    def key(self, *names: str) -> str:
        """Return the first of these that the file has, as it is written there, or nothing."""
        return next((self.given[name].key for name in names if name in self.given), "")

    def first(self, *names: str) -> str:
        """Return the first of these names that the file has, else the last of them."""
        return next((name for name in names if self.value(name) is not None), names[-1])

    def number(self, name: str, default: float) -> float:
        """Return a number; of a list, or of numbers between commas, the first."""
        value = self.value(name, default)
        if isinstance(value, list | tuple) and value:
            value = value[0]
        if isinstance(value, str):
            value = value.partition(",")[0].strip("[]( ")
        try:
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise BadInput(
                f"{self.key(name)} = {self.value(name)!r:.60}: expected a number; where it is a "
                "variable of the shell, write its value"
            )
        return number

    def whole(self, name: str, default: int) -> int:
        """Return a whole number."""
        number = self.number(name, default)
        if number != int(number):
            raise BadInput(f"{self.key(name)} = {number!r}: expected a whole number")
        return int(number)

    def take_betas(self, name: str) -> None:
        """Take Adam's two numbers over, from a list or from a text such as (0.9, 0.98)."""
        value = self.value(name, [0.9, 0.999])
        parts = value.strip("()[] ").split(",") if isinstance(value, str) else value
        try:
            beta1, beta2 = map(float, parts)
        except (TypeError, ValueError):
            raise BadInput(
                f"{self.key(name)} = {value!r:.60}: expected two numbers, such as 0.9, 0.98"
            ) from None
        self.set("beta1", beta1, self.key(name))
        self.set("beta2", beta2, self.key(name))
        self.taken(name, f"beta1 = {beta1}, beta2 = {beta2}")

    def flag(self, name: str, default: bool = False) -> bool:
        """Return whether something is on."""
        value = self.value(name, default)
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        found = words.get(str(value).lower())
        if found is None:
            raise BadInput(f"{self.key(name)} = {value!r:.60}: expected true or false")
        return found

    def word(self, name: str, default: str) -> str:
        """Return a word, in lower case."""
        return str(self.value(name, default)).strip().lower()

    def taken(self, name: str, note: str = "") -> None:
        """Record that a key means the same here."""
        self._enter(name, "taken", note)

    def changed(self, name: str, note: str) -> None:
        """Record that a key has become something else, and why."""
        self._enter(name, "changed", note)

    def left(self, name: str, note: str) -> None:
        """Record that a key has no place here, and why."""
        self._enter(name, "not taken", note)

    def _enter(self, name: str, fate: Fate, note: str) -> None:
        if name in self.given:
            assert name not in self.entries, f"{name} is accounted for twice"
            found = self.given[name]
            self.entries[name] = Entry(found.key, found.value, fate, note)

    def set(self, setting: str, value: Any, origin: str = "") -> None:
        """Write a setting of the recipe, where from; without a key it is the toolkit's default."""
        self.settings[setting] = (value, origin or f"the default of {self.toolkit}")

    def take(self, name: str, setting: str, value: Any) -> None:
        """Write a setting that means what a key means."""
        self.set(setting, value, self.key(name))
        self.taken(name, f"{setting} = {value}")

    def take_rate(self, name: str, peak: float, d_model: int, warmup: int) -> None:
        """Write the factor on Eq. 3 (paper 5.3) that has this rate at its peak."""
        scale = peak * math.sqrt(d_model * warmup)
        self.set("lr_scale", scale, f"{self.key(name) or 'the rate'} * sqrt(d_model * warmup)")
        self.changed(name, f"lr_scale = {scale}: Eq. 3 has its peak, {peak}, at step {warmup}")

    def leave_unless(self, name: str, usual: Any, note: str, same: str = "so it is here") -> None:
        """Record a key that has no place here unless it says what is so here anyway."""
        if name in self.given:
            value = self.value(name, usual)
            alike = value == usual or str(value).lower() == str(usual).lower()
            with contextlib.suppress(TypeError, ValueError):
                alike = alike or float(value) == float(usual)
            if alike:
                self.taken(name, same)
            else:
                self.left(name, note)

    def finish(self, reasons: Mapping[str, str], prefixes: Mapping[str, str]) -> list[Entry]:
        """Return what became of all keys, in the order of the file; what is left has a reason."""
        for name in self.given:
            if name not in self.entries:
                parts = [note for prefix, note in prefixes.items() if name.startswith(prefix)]
                self.left(name, reasons.get(name) or next(iter(parts), UNKNOWN))
        return [self.entries[name] for name in self.given]

    def check(self) -> None:
        """Refuse settings that no model or no training here can have."""
        known = set(ModelConfig.__dataclass_fields__)
        values = {name: value for name, (value, _) in self.settings.items()}
        try:
            ModelConfig(**{name: value for name, value in values.items() if name in known})
            TrainConfig(
                **{
                    name: value
                    for name, value in values.items()
                    if name not in known and value != "none"
                }
            )
        except BadSetting as error:
            raise BadInput(
                f"this configuration of {self.toolkit} makes no model here: {error}"
            ) from None


def each(note: str, names: str) -> dict[str, str]:
    """Return one note for several names, written with spaces between."""
    return dict.fromkeys(names.split(), note)
