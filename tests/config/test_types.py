"""Values are checked against type hints, and types are named for people."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from transduce.settings.types import check_fields, dataclass_from_json, describe_type, fits


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1", int),
        ("1", float),
        ("null", str | None),
        ('"a"', Literal["a", "b"]),
        ("[1, 2]", list[int]),
        ("[]", tuple[int, ...]),
        ('["a", 1]', tuple[str, int]),
        ('{"a": [1]}', dict[str, list[int]]),
        ("{}", dict[str, Any]),
    ],
)
def test_a_value_of_the_type_is_accepted(text: str, hint: Any) -> None:
    assert fits(json.loads(text), hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("true", int),
        ("1.5", int),
        ("NaN", float),
        ("Infinity", float),
        ("1" + 400 * "0", float),
        ("1", Literal[True]),
        ('["a"]', list[int]),
        ('["a"]', tuple[str, int]),
        ('[1, "a"]', tuple[int, ...]),
        ('{"a": 1}', dict[str, str]),
        ("[]", dict[str, Any]),
        ('"ab"', list[str]),
    ],
)
def test_a_value_of_another_type_is_rejected(text: str, hint: Any) -> None:
    assert not fits(json.loads(text), hint)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (tuple[str, str], "a list of 2, each text"),
        (tuple[int, ...], "a list, each item a whole number"),
        (list[float], "a list, each item a number"),
        (dict[str, bool] | None, "an object, each value true or false or none"),
        (Literal["a", "b"], "'a' or 'b'"),
    ],
)
def test_types_are_named_for_people(hint: Any, expected: str) -> None:
    assert describe_type(hint) == expected


def test_the_first_wrong_field_is_named() -> None:
    check_fields({"a": 1}, {"a": int, "b": str | None})
    with pytest.raises(TypeError, match=r"^b is missing: expected text$"):
        check_fields({"a": 1}, {"a": int, "b": str})
    with pytest.raises(TypeError, match=r"^a is 'x': expected a whole number$"):
        check_fields({"a": "x"}, {"a": int})


@dataclass
class Point:
    x: int
    y: int = 0


def test_a_dataclass_is_made_from_its_fields_only() -> None:
    assert dataclass_from_json(Point, {"x": 1}) == Point(1, 0)
    wrong: list[Any] = [[], {"y": 1}, {"x": "1"}, {"x": 1, "z": 2}]
    for content in wrong:
        with pytest.raises(TypeError):
            dataclass_from_json(Point, content)
