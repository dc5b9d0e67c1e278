"""The interface of LibreTranslate, for the programs that speak it."""

from collections.abc import Iterable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from transduce.translation import Segment
from transduce.web.guard import visitor_of
from transduce.web.languages import name_of_language
from transduce.web.problems import Problem, in_words, json_response, shown, unknown_field
from transduce.web.requests import FORM, JSON, body_of, content_type, parsed, while_there
from transduce.web.schemas import LibreRequest
from transduce.web.served import Served
from transduce.web.service import Service, Translated, aside, changed

AUTO = "auto"


async def asked(request: Request, service: Service) -> LibreRequest:
    """Read a request, JSON or a form."""
    kind = content_type(request, JSON, FORM)
    body = await body_of(request, service.limits)
    wanted = parsed(body, LibreRequest) if kind == JSON else _of_form(body)
    visitor_of(request).show(wanted.api_key.encode())
    return wanted


async def translate(request: Request, service: Service) -> Response:
    """Answer as LibreTranslate does."""
    wanted = await asked(request, service)
    if wanted.format != "text":
        raise Problem(400, f"format = {shown(wanted.format)}: expected text; HTML is not taken")
    served = choose(service.served.values(), wanted.source, wanted.target)
    search = served.translator.config.search
    nbest = 1 + wanted.alternatives
    config = changed(search, max(search.beam, nbest), None, nbest)
    texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
    work = service.translate(served, texts, config, visitor_of(request).client)
    translated = await while_there(request, work, service.limits.timeout)
    write = partial(ranked, served, translated, nbest)
    written = await aside(write, sum(one.characters for one in translated))
    answer: dict[str, Any] = {"translatedText": [best for best, *_ in written]}
    if wanted.alternatives:
        answer["alternatives"] = [others for _, *others in written]
    if wanted.source == AUTO:
        found = {"language": served.languages[0], "confidence": 0.0}
        answer["detectedLanguage"] = [found] * len(texts)
    if isinstance(wanted.q, str):
        answer = {name: value[0] for name, value in answer.items()}
    return json_response(answer)


def languages(served: Iterable[Served]) -> list[dict[str, Any]]:
    """Return the languages, each with those that it can be translated to."""
    targets: dict[str, list[str]] = {}
    for one in served:
        source, target = one.languages
        targets.setdefault(target, [])
        if target not in targets.setdefault(source, []):
            targets[source].append(target)
    return [
        {"code": code, "name": name_of_language(code), "targets": targets[code]}
        for code in sorted(targets)
    ]


def choose(served: Iterable[Served], source: str, target: str) -> Served:
    """Return the first model for a pair of languages; auto: the one that writes the target."""
    pairs = {one.languages: one for one in reversed([*served])}
    fitting = [pair for pair in pairs if pair[1] == target and source in (pair[0], AUTO)]
    if len(fitting) == 1:
        return pairs[fitting[0]]
    known = ", ".join(f"{left} to {right}" for left, right in reversed(pairs))
    if fitting:
        raise Problem(
            400, f"source = auto fits several: say which of {known} is meant by giving source"
        )
    raise Problem(
        400,
        f"there is no model from {source[:60]} to {target[:60]}: there is {known or 'none at all'}",
    )


def ranked(served: Served, translated: Iterable[Translated], nbest: int) -> list[list[str]]:
    """Return the translations of each text, the best first, each once.

    One has each sentence's candidate of its rank, or the last there is.
    """
    found = []
    for one in translated:
        lines = [*zip(map(served.translator.segments, one.works), one.ends, strict=True)]
        found.append([*dict.fromkeys(_of_rank(lines, rank) for rank in range(nbest))])
    return found


def _of_rank(lines: Iterable[tuple[list[Segment], str]], rank: int) -> str:
    written = []
    for segments, end in lines:
        written += [
            one.gap + one.candidates[min(rank, len(one.candidates) - 1)].text for one in segments
        ]
        written.append(end)
    return "".join(written)


def _of_form(body: bytes) -> LibreRequest:
    """Read a form; q may stand in it several times."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "the form is not UTF-8: expected a form as browsers send it") from None
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from None
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in LibreRequest.model_fields:
            raise Problem(400, unknown_field(name, LibreRequest.model_fields))
        if name == "q":
            fields.setdefault("q", []).append(value)
        elif name in fields:
            raise Problem(400, f"{name} stands twice in the form: expected it once")
        else:
            fields[name] = value
    if len(fields.get("q", ())) == 1:
        (fields["q"],) = fields["q"]
    number = fields.get("alternatives", "0")
    fields["alternatives"] = int(number) if number.isdecimal() and len(number) < 9 else number
    try:
        return LibreRequest.model_validate(fields)
    except ValidationError as error:
        raise Problem(400, in_words(error, LibreRequest)) from None
