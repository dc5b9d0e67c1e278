"""The base of the three configurations: described fields, type checks, JSON, values as text."""

import dataclasses
import difflib
import functools
import numbers
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from transduce.errors import BadSetting
from transduce.settings.aliases import ALIASES

Value = str | int | float | bool | None  # a setting's value, or the text of it
T = TypeVar("T")

# Far beyond what can be trained or searched. A larger value is a mistake or an attack on memory.
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
}
MAX_INT = (1 << 63) - 1  # of every other whole number: torch and numpy hold no more


def setting(default: T, meaning: str, paper: str = "") -> T:
    """Declare a field of a configuration: its default, its meaning and the paper's section.

    `transduce settings` and the documentation show the meaning, which stands nowhere else.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "paper": paper})


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingInfo:
    """One setting, as `transduce settings` shows it."""

    name: str
    group: str  # model, training or search
    default: Value
    values: str  # the type, or the permitted values
    meaning: str
    paper: str  # the section of the paper; empty if the paper does not have it
    aliases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the setting as a JSON object."""
        return dataclasses.asdict(self)


class Settings:
    """A configuration: frozen, checked when made, JSON on disk."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, then values that make no sense."""
        for name, hint in field_types(type(self)).items():
            value = getattr(self, name)
            if not fits(value, hint):
                raise BadSetting(f"{name} = {value!r}: expected {words(hint)}")
            if hint is float:
                object.__setattr__(self, name, float(value))
            most = MAXIMUM.get(name, MAX_INT if isinstance(value, int) else value)
            if value is not None and value > most:
                raise BadSetting(f"{name} = {value!r:.60}: expected at most {most:,}")
        self.check()

    def check(self) -> None:
        """Refuse values that make no sense together."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed, all of them checked. Aliases are accepted."""
        known = describe_fields(type(self), "")
        return dataclasses.replace(self, **canonical_names(changes, known))  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make the settings from a JSON object."""
        if not isinstance(value, dict):
            raise BadSetting(f"expected an object of settings, found {type(value).__name__}")
        known = describe_fields(cls, "")
        for name in value:
            if name not in known:
                raise BadSetting(f"there is no setting {name}.{suggest_name(name, known)}")
        return cls(**value)

    def _require(self, condition: bool, name: str, expected: str) -> None:
        if not condition:
            raise BadSetting(f"{name} = {getattr(self, name)!r}: expected {expected}")


def describe_fields(kind: type, group: str) -> Mapping[str, SettingInfo]:
    """Return the description of every field of a configuration class, by name."""
    return _described_fields(kind, group)


# Cached, because every change of a setting needs them.
@functools.cache
def _described_fields(kind: Any, group: str) -> Mapping[str, SettingInfo]:
    types_of, defaults = field_types(kind), kind().to_json()
    return {
        field.name: SettingInfo(
            name=field.name,
            group=group,
            default=defaults[field.name],
            values=words(types_of[field.name]),
            meaning=field.metadata["meaning"],
            paper=field.metadata["paper"],
            aliases=tuple(ALIASES.get(field.name, "").split()),
        )
        for field in dataclasses.fields(kind)
    }


def canonical_names(settings: Mapping[str, T], known: Mapping[str, SettingInfo]) -> dict[str, T]:
    """Replace aliases by the settings' own names; refuse unknown names and repeated settings."""
    found: dict[str, T] = {}
    own = {alias: one.name for one in known.values() for alias in one.aliases}
    for given, value in settings.items():
        name = given if given in known else own.get(_alias(given), given)
        if name not in known:
            raise BadSetting(
                f"there is no setting {given}.{suggest_name(given, known)} "
                "`transduce settings` lists all of them"
            )
        if name in found:
            raise BadSetting(f"{name} is set twice, once as {given}: set it once")
        found[name] = value
    return found


def suggest_name(name: str, known: Mapping[str, SettingInfo]) -> str:
    """Return a hint such as " Did you mean dropout, which is P_drop?", or nothing."""
    own = {alias: one.name for one in known.values() for alias in one.aliases}
    near = difflib.get_close_matches(str(name), [*known, *own], n=1, cutoff=0.5)
    if not near:
        return ""
    meant = f"{near[0]}, which is {own[near[0]]}" if near[0] in own else near[0]
    return f" Did you mean {meant}?"


def alias_notes(settings: Iterable[str], known: Mapping[str, SettingInfo]) -> list[str]:
    """Return one line for each alias among some names, saying which setting it is."""
    own = {alias: one for one in known.values() for alias in one.aliases}
    used = {given: own[_alias(given)] for given in settings if _alias(given) in own}
    return [
        f"{given} is called {one.name} here: {one.meaning}"
        for given, one in used.items()
        if given not in known
    ]


def _alias(name: str) -> str:
    return str(name).replace("-", "_").lower()


def format_value(value: Value) -> str:
    """Write a value as --set reads it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def read_value(value: Any, hint: Any, name: str) -> Any:
    """Check a value given in Python, or read it from the text typed on the command line."""
    if isinstance(value, str):
        return parse_value(value, hint, name)
    if not isinstance(value, bool) and isinstance(value, numbers.Real):  # NumPy's numbers too
        value = int(value) if isinstance(value, numbers.Integral) else float(value)
    if not fits(value, hint):
        raise BadSetting(f"{name} = {value!r:.60}: expected {words(hint)}")
    return value


def parse_value(text: str, hint: Any, name: str) -> Any:
    """Read a setting's value as typed on the command line."""
    wanted = alternatives(hint)
    if types.NoneType in wanted and text.lower() == "none":
        return None
    for kind in wanted:
        try:
            if kind is bool:
                return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
            if kind in (int, float):
                return kind(text.replace("_", ""))
        except (KeyError, ValueError):
            continue
        if isinstance(kind, str) and text == kind:
            return text
    raise BadSetting(f"{name} = {text!r}: expected {words(hint)}")


def field_types(kind: type) -> Mapping[str, Any]:
    """Return the types of the fields of a configuration class, by name."""
    return _hints(kind)


@functools.cache
def _hints(kind: Any) -> Mapping[str, Any]:
    found = typing.get_type_hints(kind)
    return {field.name: found[field.name] for field in dataclasses.fields(kind)}


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, the values of a literal, or the one type."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union, Literal):
        return typing.get_args(hint)
    return (hint,)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of a setting."""
    if typing.get_origin(hint) is Literal:
        return isinstance(value, str) and value in typing.get_args(hint)
    kinds = alternatives(hint)
    if isinstance(value, bool):  # to Python a bool is an int
        return bool in kinds
    if float in kinds and isinstance(value, int | float):
        return abs(value) <= sys.float_info.max  # neither NaN nor infinite
    return isinstance(value, kinds)


def words(hint: Any) -> str:
    """Describe the type of a setting in words."""
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return " or ".join(names.get(kind, "none") for kind in alternatives(hint))
