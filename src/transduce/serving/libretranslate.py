"""LibreTranslate's API, for its clients."""

from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from transduce.documents.formats import extensions
from transduce.serving.detection import AUTO, detected_languages, to_json
from transduce.serving.directions import choose_direction
from transduce.serving.forms import read_fields
from transduce.serving.html_texts import translate_html
from transduce.serving.languages import language_name
from transduce.serving.libretranslate_schemas import DetectRequest, LibreFields, LibreRequest
from transduce.serving.limits import Limits
from transduce.serving.middleware import admission_of
from transduce.serving.models import ServedModel
from transduce.serving.paragraphs import TranslatedText
from transduce.serving.problems import Problem, describe, json_response
from transduce.serving.requests import run_while_connected
from transduce.serving.service import Service, in_background, search_config

LIBRE = "LibreTranslate"  # a section of the API's description
NEED_COLUMNS = {".csv", ".tsv"}  # which LibreTranslate's clients cannot give
FRONTEND_TIMEOUT = 500  # milliseconds after the last keystroke: LibreTranslate's default

R = TypeVar("R", bound=LibreFields)


async def read_request(request: Request, service: Service, schema: type[R]) -> R:
    """Read a request, and check the key in its body if no header has one."""
    fields = await read_fields(request, service.limits)
    key = fields.get("api_key")
    admission_of(request).show_key(key.encode("utf-8", "replace") if isinstance(key, str) else b"")
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        raise Problem(400, describe(error, schema)) from None


async def translate(request: Request, service: Service) -> Response:
    """Answer POST /translate."""
    parameters = await read_request(request, service, LibreRequest)
    texts = [parameters.q] if isinstance(parameters.q, str) else parameters.q
    html = parameters.format == "html"
    model, detected = await choose_direction(
        service.models, texts, parameters.source, parameters.target, html=html
    )
    search = model.translator.config.search
    nbest = 1 + parameters.alternatives
    config = search_config(search, max(search.beam, nbest), None, nbest)
    client = admission_of(request).client
    if html:  # has no alternatives: tags are placed in the best translation
        pages = translate_html(service, model, texts, config, client=client)
        translated_pages = await run_while_connected(request, pages, service.limits.timeout)
        ranked = [[page.text] for page in translated_pages]
    else:
        work = service.translate(model, texts, config, client)
        translated = await run_while_connected(request, work, service.limits.timeout)
        rank = partial(ranked_texts, model, translated, nbest)
        ranked = await in_background(rank, sum(text.characters for text in translated))
    answer: dict[str, Any] = {"translatedText": [best for best, *_ in ranked]}
    if parameters.alternatives:
        answer["alternatives"] = [others for _, *others in ranked]
    if detected is not None:
        answer["detectedLanguage"] = [to_json(detected)] * len(texts)
    if isinstance(parameters.q, str):
        answer = {name: value[0] for name, value in answer.items()}
    return json_response(answer)


async def detect(request: Request, service: Service) -> Response:
    """Answer POST /detect."""
    parameters = await read_request(request, service, DetectRequest)
    texts = [parameters.q] if isinstance(parameters.q, str) else parameters.q
    service.check(texts)
    return json_response(await detected_languages(texts, [*service.models.values()]))


def frontend_settings(
    models: Iterable[ServedModel], limits: Limits, *, needs_key: bool
) -> dict[str, Any]:
    """Return the settings of LibreTranslate's own page; some clients read them."""
    pairs = [pair for model in models for pair in model.pairs]
    target = pairs[0][1] if pairs else ""
    return {
        "apiKeys": needs_key,
        "keyRequired": needs_key,
        "charLimit": limits.characters,
        "frontendTimeout": FRONTEND_TIMEOUT,
        "filesTranslation": bool(limits.document_bytes),
        "supportedFilesFormat": [
            extension
            for extension in (extensions() if limits.document_bytes else ())
            if extension not in NEED_COLUMNS
        ],
        "suggestions": False,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": language_name(target)},
        },
    }


def languages(models: Iterable[ServedModel]) -> list[dict[str, Any]]:
    """Return the languages, each with its target languages."""
    targets: dict[str, list[str]] = {}
    for source, target in (pair for model in models for pair in model.pairs):
        targets.setdefault(target, [])
        if target not in targets.setdefault(source, []):
            targets[source].append(target)
    return [
        {"code": code, "name": language_name(code), "targets": targets[code]}
        for code in sorted(targets)
    ]


def ranked_texts(
    model: ServedModel, translated: Iterable[TranslatedText], nbest: int
) -> list[list[str]]:
    """Return the distinct translations of each text, best first.

    Translation k joins the k-th candidate of each sentence, or the last one if there are fewer.
    """
    texts = []
    for text in translated:
        lines = text.sentences(model.translator)
        texts.append([*dict.fromkeys(text.join(lines, rank) for rank in range(nbest))])
    return texts
