"""Check the types of JSON values that were read from a file."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

Made = TypeVar("Made")

LARGEST = 1e300  # larger numbers overflow in later arithmetic
WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    dict: "an object",
    list: "a list",
    tuple: "a list",
}


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a JSON value has a type, such as `dict[str, list[int]]` or `float | None`.

    A whole number is also a float, a bool is not an int, and a tuple is a list of that length.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inner)
    if origin in (list, tuple):
        hints = inner if origin is tuple and inner[-1] is not ... else inner[:1] * _length(value)
        return isinstance(value, list) and len(value) == len(hints) and all(map(fits, value, hints))
    if origin is not None:  # a dict or another mapping
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if hint is float:
        return type(value) in (int, float) and abs(value) < LARGEST
    # `dataclass_from_json` checks the fields of a dataclass that is inside another.
    kind = dict if dataclasses.is_dataclass(hint) else hint
    return kind is Any or type(value) is kind


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def describe_type(hint: Any) -> str:
    """Name a type for people."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(describe_type, inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple and inner[-1] is not ...:
        return f"a list of {len(inner)}, each {describe_type(inner[0])}"
    if origin in (list, tuple):
        return "a list" + ("" if inner[0] is Any else f", each item {describe_type(inner[0])}")
    if origin is not None:
        return "an object" + ("" if inner[1] is Any else f", each value {describe_type(inner[1])}")
    return WORDS.get(hint, "an object")


def check_fields(content: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise a TypeError that names the first field of another type than expected.

    A field that is missing counts as null, so `str | None` means an optional text.
    """
    for name, hint in expected.items():
        value = content.get(name)
        if not fits(value, hint):
            found = f"{value!r:.60}" if name in content else "missing"
            raise TypeError(f"{name} is {found}: expected {describe_type(hint)}")


def dataclass_from_json(kind: type[Made], content: Any) -> Made:
    """Make a dataclass of a JSON object; raise a TypeError where a field is wrong or unknown."""
    if not isinstance(content, dict):
        raise TypeError(f"{content!r:.60}: expected an object")
    hints = typing.get_type_hints(kind)
    fields = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := content.keys() - fields.keys():
        raise TypeError(f"{min(unknown)!r:.60} is unknown")
    check_fields(content, {n: h for n, h in hints.items() if n in content or _needed(fields[n])})
    return kind(**content)


def _needed(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing
