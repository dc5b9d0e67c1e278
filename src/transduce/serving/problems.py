"""What goes wrong, told to the client: a status and one sentence that helps, as JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from transduce.errors import did_you_mean

SHOWN = 60  # characters of a value that a sentence shows

# What pydantic expected, by its name for the mistake.
EXPECTED = {
    "string_type": "text",
    "texts_type": "text, or a list of texts",
    "string_unicode": "text that can be written as UTF-8",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "finite_number": "a number that is finite",
    "bool_type": "true or false",
    "list_type": "a list",
    "missing": "a value: it is missing",
}


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None):
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers

    def response(self) -> Response:
        """Return the answer."""
        return json_response({"error": self.sentence}, self.status, self.headers)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return JSON, in UTF-8 and without spaces."""
    content = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half of a character, as a settings file may hold, is no text that can be sent.
    encoded = content.encode("utf-8", "replace")
    return Response(encoded, status, headers, media_type="application/json")


def in_words(error: ValidationError, model: type[BaseModel]) -> str:
    """Say the first mistake in one sentence: which field, what was found, what was expected."""
    first = error.errors(include_url=False)[0]
    kind, where, found = first["type"], first["loc"], first["input"]
    if kind == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']}"
    field = ".".join(map(str, where))
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
    }.get(kind) or EXPECTED.get(kind, first["msg"])
    return f"{field} = {shown(found)}: expected {expected}"


def unknown_field(name: str, known: Iterable[str]) -> str:
    """Say that there is no such field, and which was meant or which there are."""
    return f"there is no field {name[:SHOWN]}." + (
        did_you_mean(name[:SHOWN], known) or f" The fields are: {', '.join(known)}"
    )


def shown(value: Any) -> str:
    """Write a value of a request in a sentence, no more of it than people read."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
