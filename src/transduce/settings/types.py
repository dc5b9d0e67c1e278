"""Check settings and JSON values against type hints."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

T = TypeVar("T")

LARGEST_FLOAT = 1e300  # larger numbers overflow in later arithmetic
UNIONS = (types.UnionType, typing.Union)
NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "none",
    dict: "an object",
    list: "a list",
    tuple: "a list",
}


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value matches a type such as `dict[str, list[int]]` or `float | None`.

    An integer matches `float`, but NaN and infinity do not. A bool does not match `int`. A list
    matches a tuple type of the same length, because JSON has no tuples.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return any(fits(value, alternative) for alternative in arguments)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin in (list, tuple):
        return isinstance(value, list) and _items_fit(value, origin, arguments)
    if origin is not None:  # a dict or another mapping
        return isinstance(value, dict) and all(fits(item, arguments[1]) for item in value.values())
    return hint is Any or _has_plain_type(value, hint)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, the values of a Literal, or the type itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (*UNIONS, Literal) else (hint,)


def _items_fit(items: list[Any], origin: Any, arguments: tuple[Any, ...]) -> bool:
    any_length = origin is list or arguments[-1] is ...
    hints = arguments[:1] * len(items) if any_length else arguments
    return len(items) == len(hints) and all(map(fits, items, hints))


def _has_plain_type(value: Any, hint: Any) -> bool:
    if isinstance(value, bool):  # a subclass of int in Python
        return hint is bool
    if hint is float:
        return isinstance(value, int | float) and abs(value) < LARGEST_FLOAT
    # The fields of a nested dataclass are checked by its own `dataclass_from_json` call.
    return isinstance(value, dict if dataclasses.is_dataclass(hint) else hint)


def describe_type(hint: Any) -> str:
    """Describe a type in words, for messages."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return " or ".join(map(describe_type, arguments))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple and arguments[-1] is not ...:
        return f"a list of {len(arguments)}, each {describe_type(arguments[0])}"
    if origin in (list, tuple):
        item = arguments[0]
        return "a list" + ("" if item is Any else f", each item {describe_type(item)}")
    if origin is not None:
        item = arguments[1]
        return "an object" + ("" if item is Any else f", each value {describe_type(item)}")
    return NAMES.get(hint, "an object")


def check_fields(content: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise a TypeError that names the first field whose type is not the expected one.

    A missing field counts as None, so `str | None` is an optional string.
    """
    for name, hint in expected.items():
        value = content.get(name)
        if not fits(value, hint):
            actual = f"{value!r:.60}" if name in content else "missing"
            raise TypeError(f"{name} is {actual}: expected {describe_type(hint)}")


def dataclass_from_json(kind: type[T], content: Any) -> T:
    """Create a dataclass from a JSON object; raise a TypeError if a field is wrong or unknown."""
    if not isinstance(content, dict):
        raise TypeError(f"{content!r:.60}: expected an object")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := content.keys() - fields.keys():
        raise TypeError(f"{min(unknown)!r:.60} is unknown")
    hints = {
        name: hint
        for name, hint in typing.get_type_hints(kind).items()
        if name in content or _is_required(fields[name])
    }
    check_fields(content, hints)
    return kind(**content)


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing
