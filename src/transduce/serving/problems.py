"""Error answers: a status and one sentence, as JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from transduce.errors import did_you_mean

SHOWN = 60  # characters of a value that a message quotes

# Descriptions of expected values, by pydantic's error type.
EXPECTED = {
    "string_type": "text",
    "string_unicode": "text that can be encoded as UTF-8",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
}


class Problem(Exception):
    """An error answer."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers

    def response(self) -> Response:
        """Return the answer."""
        return json_response({"error": self.message}, self.status, self.headers)


def retry_later(status: int, message: str, seconds: int) -> Problem:
    """Return an answer with Retry-After."""
    plural = "s" * (seconds > 1)
    return Problem(
        status, f"{message}: try again in {seconds} second{plural}", {"Retry-After": str(seconds)}
    )


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return compact JSON in UTF-8."""
    content = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A settings file may contain a lone surrogate, which UTF-8 cannot encode.
    encoded = content.encode("utf-8", "replace")
    return Response(encoded, status, headers, media_type="application/json")


def describe(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe the first error in one sentence: the field, the value, and what was expected."""
    first = error.errors(include_url=False)[0]
    kind, value = first["type"], first["input"]
    if kind == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']}"
    field = ".".join(map(str, first["loc"]))
    if not field:
        return "the body is not an object: expected fields and their values in { }"
    if kind == "extra_forbidden":
        return unknown_field(field, model.model_fields)
    if kind == "missing":
        return f"{field} is missing: expected {model.model_fields[field].description}"
    limit = first.get("ctx", {})
    expected = {
        "greater_than_equal": f"at least {limit.get('ge')}",
        "less_than_equal": f"at most {limit.get('le')}",
        "literal_error": str(limit.get("expected")),
        "too_long": f"at most {limit.get('max_length')} items",
        "string_too_long": f"at most {limit.get('max_length')} characters",
        "string_too_short": "text that is not empty",
    }.get(kind) or EXPECTED.get(kind, first["msg"])
    return f"{field} = {quote(value)}: expected {expected}"


def unknown_field(name: str, fields: Iterable[str]) -> str:
    """Return the message for an unknown field, with a suggestion or the list of fields."""
    return f"there is no field {name[:SHOWN]}." + (
        did_you_mean(name[:SHOWN], fields) or f" The fields are: {', '.join(fields)}"
    )


def quote(value: Any) -> str:
    """Return the beginning of a value as JSON."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
