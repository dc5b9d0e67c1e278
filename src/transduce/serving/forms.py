"""The parameters of a LibreTranslate request: JSON, forms and the query string.

Starlette's form parser needs python-multipart and supports files, which are not needed here.
"""

import json
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from transduce.serving.limits import Limits
from transduce.serving.problems import Problem
from transduce.serving.requests import FORM, JSON, media_type, read_body, require_type

MULTIPART = "multipart/form-data"
TYPES = (JSON, FORM, MULTIPART)
# A match begins only at the start of a line, so matching takes linear time.
NAME = re.compile(rb'^content-disposition:[^\r\n]*;[ \t]*name="([^"\r\n]*)"', re.I | re.M)
FILE = re.compile(rb"^content-disposition:[^\r\n]*;[ \t]*filename\*?=", re.I | re.M)


async def read_fields(request: Request, limits: Limits) -> dict[str, Any]:
    """Return the parameters of a request; those in the body override those in the query."""
    kind = media_type(request)
    body = await read_body(request, limits)
    fields = _first_values(_url_decoded(request.scope["query_string"], "query"))
    if kind == JSON or kind.endswith("+json"):
        return fields | _json_fields(body)
    if kind == FORM:
        return fields | _first_values(_url_decoded(body, "form"))
    if kind == MULTIPART:
        return fields | _first_values(_parts(body, request.headers["content-type"]))
    if body:
        require_type(request, *TYPES)
    return fields


def _json_fields(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, f"the body is not JSON: {reason}") from None
    if not isinstance(value, dict):
        raise Problem(400, "the body is not an object: expected fields and their values in { }")
    return value


def _url_decoded(encoded: bytes, source: str) -> list[tuple[str, str]]:
    """Decode application/x-www-form-urlencoded."""
    try:
        return parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise _not_utf8(source) from None
    except ValueError as error:
        raise Problem(400, f"the {source} cannot be parsed: {error}") from None


def _parts(body: bytes, content_type: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a multipart form; files are skipped."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    if not boundary:
        raise Problem(400, "the form cannot be parsed: its Content-Type has no boundary")
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    for part in (b"\r\n" + body).split(delimiter)[1:]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = NAME.search(head)
        if name and not FILE.search(head):
            try:
                yield name[1].decode(), value.decode()
            except UnicodeDecodeError:
                raise _not_utf8("form") from None


def _not_utf8(source: str) -> Problem:
    return Problem(400, f"the {source} is not UTF-8: expected a {source} as browsers send it")


def _first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the first value of each field; `q` becomes a list if it has several."""
    fields: dict[str, Any] = {}
    texts = []
    for name, value in pairs:
        fields.setdefault(name, value)
        if name == "q":
            texts.append(value)
    return fields | {"q": texts} if len(texts) > 1 else fields
