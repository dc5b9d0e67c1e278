"""The keys of a foreign configuration: their values and outcomes.

Each key is recorded once: taken, changed or not taken, with a note.
"""

import contextlib
import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

from transduce.errors import BadInput

Outcome = Literal["taken", "changed", "not taken"]
UNKNOWN = "not known to this converter: check what it does, and whether a setting here does it"
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Given:
    """A key as the file writes it, and its value."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcome of one key: taken, changed or not taken."""

    key: str
    value: Any
    outcome: Outcome
    note: str


@dataclass(slots=True)
class Keys:
    """The keys of a configuration by their plain names, their outcomes, and the resulting settings.

    A plain name is the same on a command line and in a file: `max_tokens` for --max-tokens and for
    dataset.max_tokens.
    """

    toolkit: str
    given: Mapping[str, Given]
    entries: dict[str, Entry] = field(default_factory=dict)
    settings: dict[str, tuple[Any, str]] = field(default_factory=dict)  # value, origin

    def value(self, name: str, default: Any = None) -> Any:
        """Return the value of a key, or the toolkit's default."""
        given = self.given.get(name)
        return default if given is None or given.value is None else given.value

    def written(self, *names: str) -> str:
        """Return the first of these keys that is set, as written in the file, or "" if none is."""
        return next((self.given[name].key for name in names if name in self.given), "")

    def number(self, name: str, default: float) -> float:
        """Return a number; for a list or comma-separated numbers, the first."""
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
                f"{self.written(name)} = {self.value(name)!r:.60}: expected a number; replace "
                "shell variables by their values"
            )
        return number

    def integer(self, name: str, default: int) -> int:
        """Return a whole number."""
        number = self.number(name, default)
        if number != int(number):
            raise BadInput(f"{self.written(name)} = {number!r}: expected a whole number")
        return int(number)

    def flag(self, name: str) -> bool:
        """Return whether an option is on; the default is off."""
        value = self.value(name, default=False)
        flag = BOOLEANS.get(str(value).lower())
        if flag is None:
            raise BadInput(f"{self.written(name)} = {value!r:.60}: expected true or false")
        return flag

    def word(self, name: str, default: str) -> str:
        """Return a word, in lower case."""
        return str(self.value(name, default)).strip().lower()

    def taken(self, name: str, note: str) -> None:
        """Record that a key means the same here."""
        self._record(name, "taken", note)

    def changed(self, name: str, note: str) -> None:
        """Record that a key became something else, and why."""
        self._record(name, "changed", note)

    def dropped(self, name: str, note: str) -> None:
        """Record that a key has no counterpart here, and why."""
        self._record(name, "not taken", note)

    def _record(self, name: str, outcome: Outcome, note: str) -> None:
        if name in self.given:
            assert name not in self.entries, f"{name} is recorded twice"
            given = self.given[name]
            self.entries[name] = Entry(given.key, given.value, outcome, note)

    def set(self, setting: str, value: Any, origin: str = "") -> None:
        """Write a setting of the recipe with its origin: keys, or else the toolkit's default."""
        self.settings[setting] = (value, origin or f"the default of {self.toolkit}")

    def take(self, name: str, setting: str, value: Any, origin: str = "") -> None:
        """Write a setting that means the same as a key; `origin` is used if the key is not set."""
        self.set(setting, value, self.written(name) or origin)
        self.taken(name, f"{setting} = {value}")

    def take_positive(self, name: str, setting: str) -> None:
        """Take over a whole number; 0 or less means the preset's default."""
        if name in self.given:
            number = self.integer(name, 0)
            if number > 0:
                self.take(name, setting, number)
            else:
                self.taken(name, f"none, so the preset's {setting}")

    def drop_unless(self, name: str, expected: Any, note: str) -> None:
        """Drop a key, unless it has the value that is fixed here."""
        if name not in self.given:
            return
        value = self.value(name, expected)
        same = value == expected or str(value).lower() == str(expected).lower()
        with contextlib.suppress(TypeError, ValueError):
            same = same or float(value) == float(expected)
        if same:
            self.taken(name, "the same here")
        else:
            self.dropped(name, note)

    def finish(self, notes: "KeyNotes") -> list[Entry]:
        """Record the remaining keys, and return all outcomes in the order of the file."""
        for name in self.given:
            if name in self.entries:
                continue
            if name in notes.fixed:
                self.drop_unless(name, *notes.fixed[name])
            else:
                self.dropped(name, notes.reason(name))
        return [self.entries[name] for name in self.given]


@dataclass(frozen=True, slots=True)
class KeyNotes:
    """The TOML file of a toolkit: keys that are not converted, and departures from the paper."""

    departures: list[str]  # by default
    fixed: dict[str, tuple[Any, str]]  # the only supported value, and a note for others
    dropped: dict[str, str]  # a note for each key, or for each prefix ending in a star
    flags: frozenset[str] = frozenset()  # options without a value

    def reason(self, name: str) -> str:
        """Return why a key is dropped; the longest matching prefix applies."""
        if name in self.dropped:
            return self.dropped[name]
        patterns = [p for p in self.dropped if p.endswith("*") and name.startswith(p[:-1])]
        return self.dropped[max(patterns, key=len)] if patterns else UNKNOWN


@functools.cache
def read_notes(toolkit: str) -> KeyNotes:
    """Read the TOML file of a toolkit."""
    text = resources.files(__package__).joinpath(f"{toolkit}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    return KeyNotes(
        departures=content["departures"],
        fixed={key: (value, note) for key, (value, note) in content["fixed"].items()},
        dropped={
            name: note for note, names in content["dropped"].items() for name in names.split()
        },
        flags=frozenset(content.get("flags", "").split()),
    )
