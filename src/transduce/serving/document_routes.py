"""The routes for documents: our own and LibreTranslate's."""

import asyncio
import dataclasses
import json
import time
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import ValidationError

from transduce.serving.detection import AUTO
from transduce.serving.directions import choose_direction, fitting
from transduce.serving.documents import Documents, Place, Translated, document_options
from transduce.serving.downloads import DOWNLOADS
from transduce.serving.forms import MULTIPART, Upload, read_form
from transduce.serving.glossaries import make_preparation
from transduce.serving.libretranslate import LIBRE
from transduce.serving.libretranslate_schemas import LibreFileAnswer, LibreFileRequest
from transduce.serving.middleware import admission_of
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem, describe, json_response
from transduce.serving.requests import run_while_connected
from transduce.serving.schemas import DocumentAnswer, DocumentRequest, described_body
from transduce.serving.service import Service
from transduce.text.languages import UNKNOWN

Responses = dict[int | str, dict[str, Any]]


def add_documents(
    app: FastAPI, service: Service, documents: Documents, refusals: Responses
) -> None:
    """Add the routes."""

    @app.post(
        "/api/documents",
        tags=["translation"],
        response_model=DocumentAnswer,
        responses=refusals,
        openapi_extra=described_body(DocumentRequest, MULTIPART),
    )
    async def translate_document(request: Request) -> Response:
        """Translate a document: Word, HTML, subtitles and others. Its `url` has the result."""
        start = time.perf_counter()
        with documents.place(admission_of(request).client) as place:
            parameters, upload = _parsed(*await read_form(request, service.limits))
            work = _translate(documents, place, upload, parameters)
            model, translated = await run_while_connected(request, work, service.limits.timeout)
        url = documents.downloads.add(translated.file)
        answer = await asyncio.to_thread(_answer, translated, model.name, url, start)
        return json_response(answer)

    @app.post(
        "/translate_file",
        tags=[LIBRE],
        response_model=LibreFileAnswer,
        responses=refusals,
        openapi_extra=described_body(LibreFileRequest, MULTIPART),
    )
    async def libre_translate_file(request: Request) -> Response:
        """Translate a document as LibreTranslate does."""
        admission = admission_of(request)
        with documents.place(admission.client) as place:
            fields, files = await read_form(request, service.limits)
            values = {name: texts[0] for name, texts in fields.items()}
            admission.show_key(values.get("api_key", "").encode("utf-8", "replace"))
            upload = _only(files)
            try:
                parameters = LibreFileRequest.model_validate({**values, "file": upload.name})
            except ValidationError as error:
                raise Problem(400, describe(error, LibreFileRequest)) from None
            common = parameters.model_dump(include={"file", "source", "target"})
            own = DocumentRequest.model_validate(common)
            work = _translate(documents, place, upload, own)
            _, translated = await run_while_connected(request, work, service.limits.timeout)
        path = documents.downloads.add(translated.file)
        return json_response({"translatedFileUrl": _absolute(request, path)})

    _add_downloads(app, documents, {status: refusals[status] for status in (403, 404, 429)})


def _add_downloads(app: FastAPI, documents: Documents, refusals: Responses) -> None:
    @app.get(
        DOWNLOADS + "{identifier}",
        tags=["translation"],
        response_class=Response,
        responses={
            200: {"description": "The file.", "content": {"application/octet-stream": {}}},
            **refusals,
        },
    )
    async def download(identifier: str) -> Response:
        """Return a translated document. Its address is secret, and needs no key."""
        return documents.downloads.find(identifier).response()


async def _translate(
    documents: Documents, place: Place, upload: Upload, parameters: DocumentRequest
) -> tuple[ServedModel, Translated]:
    """Translate a document; return the model in its direction, too."""
    models, limits = documents.service.models, documents.limits
    name, source, target = parameters.model, parameters.source, parameters.target
    options = partial(
        document_options, limits=limits, columns=parameters.columns, keys=parameters.keys
    )
    texts: list[str] = []
    if source == AUTO:
        first, pair = fitting(models, name, None, target)[0]
        readable = dataclasses.replace(options(first), languages=(UNKNOWN[0], pair[1]))
        texts = await documents.texts(place, upload, readable)
    model, _ = await choose_direction(models, texts, source, target, name=name)
    how = await make_preparation(parameters, model)
    search = model.translator.config.search
    translated = await documents.translate(
        *(place, model, upload, options(model), search), how=how, guard=parameters.guard
    )
    return model, translated


def _parsed(fields: dict[str, list[str]], files: list[Upload]) -> tuple[DocumentRequest, Upload]:
    """Parse the fields of a form."""
    upload = _only(files)
    values: dict[str, Any] = {name: texts[0] for name, texts in fields.items()}
    if "keep" in fields:
        values["keep"] = fields["keep"]
    if values.get("glossary", "")[:1] in ("{", "["):
        try:
            values["glossary"] = json.loads(values["glossary"])
        except (ValueError, RecursionError):
            raise Problem(400, "glossary is not JSON, but begins with { or [") from None
    try:
        return DocumentRequest.model_validate({**values, "file": upload.name}), upload
    except ValidationError as error:
        raise Problem(400, describe(error, DocumentRequest)) from None


def _only(files: list[Upload]) -> Upload:
    if len(files) != 1:
        found = "is missing" if not files else f"is there {len(files)} times"
        raise Problem(400, f"file {found}: expected one document, with its file name")
    return files[0]


def _answer(translated: Translated, model: str, url: str, start: float) -> dict[str, Any]:
    return {
        "model": model,
        "name": translated.file.name,
        "url": url,
        "bytes": len(translated.file.content),
        "texts": len(translated.translations),
        "characters": translated.characters,
        "milliseconds": round((time.perf_counter() - start) * 1000, 1),
        "not_translated": translated.document.left_alone,
        "remarks": translated.remarks(),
    }


def _absolute(request: Request, path: str) -> str:
    """Return the address of a path, as the client or its proxy has named this service."""
    url = request.url
    forwarded = request.headers.get("x-forwarded-proto", "")
    scheme = forwarded if forwarded in ("http", "https") else url.scheme
    return str(url.replace(scheme=scheme, path=path, query="", fragment=""))
