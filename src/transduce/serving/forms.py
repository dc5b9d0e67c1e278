"""The parameters of a LibreTranslate request: JSON, forms and the query string."""

import json
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from transduce.serving.limits import Limits
from transduce.serving.problems import Problem
from transduce.serving.requests import FORM, JSON, body_of, media_type

MULTIPART = "multipart/form-data"
TYPES = (JSON, FORM, MULTIPART)
# A match begins only at the start of a line, so the time is linear in the length of a part's head.
NAME = re.compile(rb'^content-disposition:[^\r\n]*;[ \t]*name="([^"\r\n]*)"', re.I | re.M)
FILE = re.compile(rb"^content-disposition:[^\r\n]*;[ \t]*filename\*?=", re.I | re.M)


async def fields_of(request: Request, limits: Limits) -> dict[str, Any]:
    """Return the parameters of a request; those of its body come before those of its query."""
    kind = media_type(request)
    body = await body_of(request, limits)
    fields = _once(_decoded(request.scope["query_string"], "query"))
    if kind == JSON or kind.endswith("+json"):
        return fields | _of_json(body)
    if kind == FORM:
        return fields | _once(_decoded(body, "form"))
    if kind == MULTIPART:
        return fields | _once(_parts(body, request.headers["content-type"]))
    if body:
        raise Problem(
            415, f"Content-Type = {kind[:60] or 'nothing'}: expected {' or '.join(TYPES)}"
        )
    return fields


def _of_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        why = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, f"the body is not JSON: {why}") from None
    if not isinstance(found, dict):
        raise Problem(400, "the body is not an object: expected fields and their values in { }")
    return found


def _decoded(encoded: bytes, what: str) -> list[tuple[str, str]]:
    """Decode what browsers call application/x-www-form-urlencoded."""
    try:
        return parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Problem(
            400, f"the {what} is not UTF-8: expected a {what} as browsers send it"
        ) from None
    except ValueError as error:
        raise Problem(400, f"the {what} cannot be read: {error}") from None


def _parts(body: bytes, content_type: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a multipart form; files are skipped."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    if not boundary:
        raise Problem(400, "the form cannot be read: its Content-Type has no boundary")
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    for part in (b"\r\n" + body).split(delimiter)[1:]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = NAME.search(head)
        if name and not FILE.search(head):
            try:
                yield name[1].decode(), value.decode()
            except UnicodeDecodeError:
                raise Problem(
                    400, "the form is not UTF-8: expected a form as browsers send it"
                ) from None


def _once(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return a field's first value; `q` is a list if it has several."""
    fields: dict[str, Any] = {}
    texts = []
    for name, value in pairs:
        fields.setdefault(name, value)
        if name == "q":
            texts.append(value)
    return fields | {"q": texts} if len(texts) > 1 else fields
