"""The interface of LibreTranslate, for its clients."""

from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from transduce.serving.forms import fields_of
from transduce.serving.languages import name_of_language
from transduce.serving.limits import Limits
from transduce.serving.middleware import visitor_of
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem, in_words, json_response, shown
from transduce.serving.requests import while_there
from transduce.serving.schemas import DetectRequest, LibreFields, LibreRequest
from transduce.serving.service import Service, Translated, aside, changed
from transduce.translation.translation import TranslatedSentence

AUTO = "auto"
FRONTEND_TIMEOUT = 500  # milliseconds to wait after the last key: LibreTranslate's default

R = TypeVar("R", bound=LibreFields)


async def asked(request: Request, service: Service, model: type[R]) -> R:
    """Read a request, and check its key if no header has one."""
    fields = await fields_of(request, service.limits)
    visitor_of(request).show(_key_in(fields))
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise Problem(400, in_words(error, model)) from None


def _key_in(fields: dict[str, Any]) -> bytes:
    key = fields.get("api_key")
    return key.encode("utf-8", "replace") if isinstance(key, str) else b""


async def translate(request: Request, service: Service) -> Response:
    """Answer as LibreTranslate does."""
    wanted = await asked(request, service, LibreRequest)
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
        answer["detectedLanguage"] = [_undetected(served.languages[0])] * len(texts)
    if isinstance(wanted.q, str):
        answer = {name: value[0] for name, value in answer.items()}
    return json_response(answer)


async def detect(request: Request, service: Service) -> Response:
    """Answer with the languages that the served models translate from.

    The text is not looked at, so the confidence is 0.
    """
    wanted = await asked(request, service, DetectRequest)
    service.take([wanted.q] if isinstance(wanted.q, str) else wanted.q)
    sources = dict.fromkeys(one.languages[0] for one in service.served.values())
    return json_response([_undetected(language) for language in sources])


def _undetected(language: str) -> dict[str, Any]:
    return {"confidence": 0.0, "language": language}


def frontend_settings(
    served: Iterable[ServedModel], limits: Limits, *, needs_key: bool
) -> dict[str, Any]:
    """Return the settings that LibreTranslate has for its own page; some clients read them."""
    pairs = [one.languages for one in served]
    target = pairs[0][1] if pairs else ""
    return {
        "apiKeys": needs_key,
        "keyRequired": needs_key,
        "charLimit": limits.characters,
        "frontendTimeout": FRONTEND_TIMEOUT,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "suggestions": False,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": name_of_language(target)},
        },
    }


def languages(served: Iterable[ServedModel]) -> list[dict[str, Any]]:
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


def choose(served: Iterable[ServedModel], source: str, target: str) -> ServedModel:
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


def ranked(served: ServedModel, translated: Iterable[Translated], nbest: int) -> list[list[str]]:
    """Return the translations of each text, the best first, each once.

    One has each sentence's candidate of its rank, or the last there is.
    """
    found = []
    for one in translated:
        lines = [*zip(map(served.translator.sentences, one.works), one.ends, strict=True)]
        found.append([*dict.fromkeys(_of_rank(lines, rank) for rank in range(nbest))])
    return found


def _of_rank(lines: Iterable[tuple[list[TranslatedSentence], str]], rank: int) -> str:
    written = []
    for segments, end in lines:
        written += [
            one.gap + one.candidates[min(rank, len(one.candidates) - 1)].text for one in segments
        ]
        written.append(end)
    return "".join(written)
