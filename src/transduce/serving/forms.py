"""The parameters of a LibreTranslate request: JSON, forms and the query string.

Starlette's form parser needs python-multipart, and stores large files on the disk.
"""

import json
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request

from transduce.serving.limits import Limits
from transduce.serving.problems import Problem
from transduce.serving.requests import FORM, JSON, media_type, read_body, require_type

MULTIPART = "multipart/form-data"
MAX_PARTS = 10_000
TYPES = (JSON, FORM, MULTIPART)
# A match begins only at the start of a line, so matching takes linear time.
NAME = re.compile(rb'^content-disposition:[^\r\n]*;[ \t]*name="([^"\r\n]*)"', re.I | re.M)
FILE = re.compile(
    rb"^content-disposition:[^\r\n]*;[ \t]*filename"
    rb"(?:\*=utf-8'[^'\r\n]*'(?P<encoded>[^;\r\n]*)|\*?=(?P<plain>\"(?:[^\"\\\r\n]|\\.)*\"|[^;\r\n]*))",
    re.I | re.M,
)
MAX_NAME = 100  # characters of a file's name


class Upload(NamedTuple):
    """A file in a form."""

    name: str
    content: bytes


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
        parts = _parts(body, request.headers["content-type"])
        return fields | _first_values((k, v) for k, v in parts if isinstance(v, str))
    if body:
        require_type(request, *TYPES)
    return fields


async def read_form(request: Request, limits: Limits) -> tuple[dict[str, list[str]], list[Upload]]:
    """Return the texts of each field of a multipart form, and the files in its field `file`."""
    require_type(request, MULTIPART)
    body = await read_body(
        request, limits, size=limits.document_bytes + limits.body, seconds=limits.uploading
    )
    fields: dict[str, list[str]] = {}
    files = []
    for name, value in _parts(body, request.headers["content-type"]):
        if isinstance(value, str):
            fields.setdefault(name, []).append(value)
        elif name == "file":
            files.append(value)
    return fields, files


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
    """Decode application/x-www-form-urlencoded; `curl -d` does not encode letters beyond ASCII."""
    try:
        return parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise _not_utf8(source) from None
    except ValueError as error:
        raise Problem(400, f"the {source} cannot be parsed: {error}") from None


def _parts(body: bytes, content_type: str) -> Iterator[tuple[str, str | Upload]]:
    """Yield the fields of a multipart form."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    if not boundary:
        raise Problem(400, "the form cannot be parsed: its Content-Type has no boundary")
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    parts = (b"\r\n" + body).split(delimiter, MAX_PARTS + 1)
    if len(parts) > MAX_PARTS + 1:
        raise Problem(400, f"the form has more than {MAX_PARTS:,} fields: send less at once")
    for part in parts[1:]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = NAME.search(head)
        if not name:
            continue
        try:
            file = FILE.search(head)
            yield name[1].decode(), Upload(_file_name(file), value) if file else value.decode()
        except UnicodeDecodeError:
            raise _not_utf8("form") from None


def _file_name(match: re.Match[bytes]) -> str:
    """Return the name of a file in a form, without folders and control characters."""
    if match["encoded"] is not None:
        name = unquote(match["encoded"].decode("ascii"), errors="strict")
    else:
        plain = match["plain"].decode()
        # Browsers escape three characters in this way, curl with a backslash.
        name = re.sub(r"\\([\\\"])", r"\1", plain[1:-1]) if plain[:1] == '"' else plain.strip()
        name = re.sub("%(22|0A|0D)", lambda escaped: unquote(escaped[0]), name, flags=re.I)
    name = name.replace("\\", "/").rpartition("/")[2]
    name = "".join(letter for letter in name if letter.isprintable()).strip(" .")
    path = PurePath(name or "document")
    return path.stem[: MAX_NAME - len(path.suffix[:20])] + path.suffix[:20]


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
