"""The base class of the three configurations, and parsing of values given as text."""

import dataclasses
import difflib
import functools
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from transduce.errors import BadSetting
from transduce.settings.aliases import ALIASES
from transduce.settings.types import alternatives, describe_type, fits

Value = str | int | float | bool | None  # a setting's value, or its text on the command line
T = TypeVar("T")
Rule = tuple[Callable[[Any], bool], str]  # returns whether a value is valid; what is expected

# Limits far beyond what can be trained or searched: larger values are mistakes and could exhaust
# memory.
MAXIMUM = {
    **dict.fromkeys(("N", "N_decoder", "h", "kernel", "beam"), 1_000),
    "nbest": 10_000,
    "threads": 1_024,
    **dict.fromkeys(("d_model", "d_k", "d_v", "max_len"), 1 << 15),
    **dict.fromkeys(("d_ff", "extra"), 1 << 20),
    **dict.fromkeys(("vocabulary", "source_vocabulary", "target_vocabulary"), 1 << 24),
    **dict.fromkeys(("batch_tokens", "accumulate"), 1 << 31),
    "alpha": 10,  # the penalty of the longest output must fit into float32
    "temperature": 1_000_000,
    "data_temperature": 1_000,
}
MAX_INT = (1 << 63) - 1  # for all other integers: torch and numpy store them as int64


def at_least(minimum: float) -> Rule:
    """Return the rule that a value is at least `minimum`."""
    return (lambda value: value >= minimum), f"at least {minimum:g}"


POSITIVE: Rule = (lambda value: value > 0), "more than 0"
FRACTION: Rule = (lambda value: 0 <= value < 1), "a number from 0 up to, but not including, 1"


def setting(default: T, meaning: str, paper: str = "") -> T:
    """Declare a field of a configuration: its default, its meaning and its section in the paper.

    `transduce settings` and the documentation print the meaning.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "paper": paper})


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingInfo:
    """The description of one setting, as `transduce settings` shows it."""

    name: str
    group: str  # model, training or search
    default: Value
    values: str  # the type, or the permitted values
    meaning: str
    paper: str  # the section of the paper; empty if it is not in the paper
    aliases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the description as a JSON object."""
        return dataclasses.asdict(self)


class Settings:
    """A frozen configuration, checked when it is created and stored as JSON."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, values that are too large, and bad combinations."""
        for name, hint in field_types(type(self)).items():
            value = getattr(self, name)
            maximum = MAXIMUM.get(name, MAX_INT if isinstance(value, int) else math.inf)
            if isinstance(value, int | float) and value != math.inf and value > maximum:
                raise BadSetting(f"{name} = {value!r:.60}: expected at most {maximum:,}")
            if not fits(value, hint):
                raise BadSetting(f"{name} = {value!r}: expected {describe_type(hint)}")
            if hint is float:
                object.__setattr__(self, name, float(value))
        self.check()

    def check(self) -> None:
        """Refuse values that are out of range or incompatible with each other."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed and everything checked. Aliases work too."""
        known = describe_fields(type(self), "")
        return dataclasses.replace(self, **canonical_names(changes, known))  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Create the settings from a JSON object."""
        if not isinstance(value, dict):
            raise BadSetting(f"expected an object of settings, found {type(value).__name__}")
        known = describe_fields(cls, "")
        for name in value:
            if name not in known:
                raise BadSetting(f"there is no setting {name}.{suggest_name(name, known)}")
        return cls(**value)

    def _check_each(self, names: str, rule: Rule) -> None:
        """Check the settings in `names`, separated by spaces; None is always valid."""
        valid, expected = rule
        for name in names.split():
            value = getattr(self, name)
            self._require(value is None or valid(value), name, expected)

    def _require(self, condition: bool, name: str, expected: str) -> None:
        if not condition:
            raise BadSetting(f"{name} = {getattr(self, name)!r}: expected {expected}")


def describe_fields(kind: type, group: str) -> Mapping[str, SettingInfo]:
    """Return the descriptions of all fields of a configuration class, by name."""
    return _describe_fields(kind, group)


# Cached, because it is called whenever a setting is changed.
@functools.cache
def _describe_fields(kind: Any, group: str) -> Mapping[str, SettingInfo]:
    hints, defaults = field_types(kind), kind().to_json()
    return {
        field.name: SettingInfo(
            name=field.name,
            group=group,
            default=defaults[field.name],
            values=describe_type(hints[field.name]),
            meaning=field.metadata["meaning"],
            paper=field.metadata["paper"],
            aliases=tuple(ALIASES.get(field.name, "").split()),
        )
        for field in dataclasses.fields(kind)
    }


def canonical_names(settings: Mapping[str, T], known: Mapping[str, SettingInfo]) -> dict[str, T]:
    """Replace aliases with canonical names; refuse unknown names and repeated settings."""
    canonical: dict[str, T] = {}
    by_alias = _by_alias(known)
    for given, value in settings.items():
        name = given if given in known else by_alias.get(_normalized(given), given)
        if name not in known:
            raise BadSetting(
                f"there is no setting {given}.{suggest_name(given, known)} "
                "`transduce settings` lists all of them"
            )
        if name in canonical:
            raise BadSetting(f"{name} is set twice, once as {given}: set it once")
        canonical[name] = value
    return canonical


def suggest_name(name: str, known: Mapping[str, SettingInfo]) -> str:
    """Return a hint such as " Did you mean dropout, which is P_drop?", or ""."""
    by_alias = _by_alias(known)
    matches = difflib.get_close_matches(str(name), [*known, *by_alias], n=1, cutoff=0.5)
    if not matches:
        return ""
    match = matches[0]
    return f" Did you mean {match}{f', which is {by_alias[match]}' if match in by_alias else ''}?"


def alias_notes(settings: Iterable[str], known: Mapping[str, SettingInfo]) -> list[str]:
    """Return one line for each alias in `settings`, saying which setting it stands for."""
    by_alias = _by_alias(known)
    used = {
        given: by_alias[_normalized(given)] for given in settings if _normalized(given) in by_alias
    }
    return [
        f"{given} is called {name} here: {known[name].meaning}"
        for given, name in used.items()
        if given not in known
    ]


def _by_alias(known: Mapping[str, SettingInfo]) -> dict[str, str]:
    return {alias: info.name for info in known.values() for alias in info.aliases}


def _normalized(name: str) -> str:
    return str(name).replace("-", "_").lower()


def format_value(value: Value) -> str:
    """Format a value as text that --set accepts."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def read_value(value: Any, hint: Any, name: str) -> Any:
    """Check a value given in Python, or parse it if it is text from the command line."""
    if isinstance(value, str):
        return parse_value(value, hint, name)
    if not isinstance(value, bool) and isinstance(value, numbers.Real):  # NumPy's numbers as well
        value = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not fits(value, hint):
        raise BadSetting(f"{name} = {value!r:.60}: expected {describe_type(hint)}")
    return value


def parse_value(text: str, hint: Any, name: str) -> Any:
    """Parse a setting's value as typed on the command line."""
    kinds = alternatives(hint)
    if types.NoneType in kinds and text.lower() == "none":
        return None
    for kind in kinds:
        try:
            if kind is bool:
                return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
            if kind in (int, float):
                return kind(text.replace("_", ""))
        except (KeyError, ValueError):
            continue
        if isinstance(kind, str) and text == kind:
            return text
    raise BadSetting(f"{name} = {text!r}: expected {describe_type(hint)}")


def field_types(kind: type) -> Mapping[str, Any]:
    """Return the type of each field of a configuration class, by name."""
    return _field_types(kind)


@functools.cache
def _field_types(kind: Any) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
