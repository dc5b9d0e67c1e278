"""The FastAPI app and its routes."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import RedirectResponse

from transduce import __version__
from transduce.errors import did_you_mean
from transduce.serving import libretranslate, runs, schemas, static_files
from transduce.serving.access import Access
from transduce.serving.connections import IdleConnections
from transduce.serving.directions import choose_direction, find_model
from transduce.serving.document_routes import add_documents
from transduce.serving.documents import Documents
from transduce.serving.forms import TYPES
from transduce.serving.glossaries import make_preparation
from transduce.serving.html_texts import TranslatedHtml, translate_html
from transduce.serving.inspections import Inspections
from transduce.serving.libretranslate import LIBRE
from transduce.serving.libretranslate_schemas import (
    Detected,
    DetectRequest,
    FrontendSettings,
    Language,
    LibreAnswer,
    LibreRequest,
)
from transduce.serving.limits import BEAM, GLOSSARY, KEEP, NBEST, Limits
from transduce.serving.metrics import Metrics
from transduce.serving.middleware import HEALTH, ServiceMiddleware, admission_of
from transduce.serving.models import ServedModel
from transduce.serving.paragraphs import TranslatedText
from transduce.serving.problems import Problem, json_response
from transduce.serving.reloading import RELOAD, Reloads, add_reloading
from transduce.serving.requests import JSON, read_json, run_while_connected
from transduce.serving.schemas import described_body
from transduce.serving.service import Service, in_background, search_config
from transduce.translation.translation import TranslatedSentence

DESCRIPTION = "Translation and attention weights of models trained with transduce."
ERRORS = {
    400: "The body cannot be parsed, or a value is invalid.",
    401: "The key is missing or unknown.",
    403: "The request comes from a page of another site.",
    404: "No such model or file.",
    408: "The body did not arrive in time.",
    413: "The text is too long.",
    415: "The type of the body is not supported.",
    429: "Rate limit exceeded; see Retry-After.",
    503: "The queue is full; see Retry-After.",
    504: "The answer took too long.",
}
RARE_ERRORS = {
    409: "The run folder cannot be loaded; the old weights stay in service.",
    501: "The library that identifies languages is not installed.",
}
REFUSALS = (401, 403, 429)  # any request may get one
LANGUAGES, SETTINGS = "/languages", "/frontend/settings"  # LibreTranslate's; they need no key
Responses = dict[int | str, dict[str, Any]]


def create_app(
    models: Sequence[ServedModel],
    watched: Sequence[Path] = (),
    limits: Limits | None = None,
    access: Access | None = None,
) -> FastAPI:
    """Return the app that serves these models and shows the runs in these folders."""
    limits, access = limits or Limits(), access or Access()
    metrics = Metrics()
    service = Service(models, limits, metrics, log_texts=access.log_texts)
    inspections, documents = Inspections(models, limits), Documents(service)
    reloads = Reloads(service, inspections, access.say)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        inspections.load()
        yield
        ended = [each.close() for each in (service, inspections, documents, reloads)]
        app.state.ended = all(ended)

    app = FastAPI(
        title="transduce",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service, app.state.ended = service, True
    app.state.connections, app.state.reloads = IdleConnections(), reloads
    _add_translation(app, service, documents, show_examples=access.show_examples)
    add_documents(app, service, documents, _errors(*ERRORS, 501))
    _add_inspection(app, service, inspections)
    _add_libretranslate(app, service, access)
    refusals = _errors(*(status for status in ERRORS if status not in (503, 504)), 409)
    add_reloading(app, reloads, limits, refusals)
    run_routes = runs.router(watched, show_samples=access.show_examples)
    app.include_router(run_routes)
    _add_state(app, metrics)
    _add_pages(app, has_models=bool(models))
    paths = {route.path for route in (*app.routes, *run_routes.routes) if hasattr(route, "path")}
    _add_middleware(app, paths, metrics, limits, access)
    return app


def _add_middleware(
    app: FastAPI, paths: Collection[str], metrics: Metrics, limits: Limits, access: Access
) -> None:
    posts = {
        route.path: route.endpoint
        for route in app.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    }
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _bad_query)
    app.add_exception_handler(HTTPException, partial(_no_route, paths))
    app.add_middleware(
        ServiceMiddleware,
        metrics=metrics,
        paths=paths,
        # The pages ask for a key themselves; reloading needs a key of its own.
        free={"/", "/openapi.json", LANGUAGES, SETTINGS, RELOAD, *static_files.files()},
        posts=posts,
        limits=limits,
        access=access,
        connections=app.state.connections,
    )
    if access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key"],
            expose_headers=["Retry-After", "Content-Disposition"],
        )


def _add_translation(
    app: FastAPI, service: Service, documents: Documents, *, show_examples: bool
) -> None:
    limits = service.limits
    bounds = {
        "characters": limits.characters,
        "texts": limits.texts,
        "beam": BEAM,
        "nbest": NBEST,
        "glossary": GLOSSARY,
        "keep": KEEP,
    }

    @app.post(
        "/api/translate",
        tags=["translation"],
        response_model=schemas.TranslateAnswer,
        responses=_errors(*ERRORS, 501),
        openapi_extra=described_body(schemas.TranslateRequest, JSON),
    )
    async def translate(request: Request) -> Response:
        """Translate a text: each line is a paragraph, and its sentences are translated one by one.

        HTML keeps its tags. Sentences of concurrent requests are searched together.
        """
        start = time.perf_counter()
        parameters = await read_json(request, limits, schemas.TranslateRequest)
        texts, html = [parameters.text], parameters.format == "html"
        pair = parameters.source, parameters.target
        model, _ = await choose_direction(
            service.models, texts, *pair, name=parameters.model, html=html
        )
        search = model.translator.config.search
        config = search_config(search, parameters.beam, parameters.alpha, parameters.nbest)
        client = admission_of(request).client
        how = await make_preparation(parameters, model, split=parameters.split, tag=parameters.tag)
        options: dict[str, Any] = {"client": client, "how": how, "guard": parameters.guard}
        if html:
            pages = translate_html(service, model, texts, config, **options)
            (page,) = await run_while_connected(request, pages, limits.timeout)
            return await in_background(partial(_html_answer, model, page, start), len(page.text))
        work = service.translate(model, texts, config, **options)
        (translated,) = await run_while_connected(request, work, limits.timeout)
        answer = partial(_answer, model, translated, start)
        return await in_background(answer, translated.characters)

    @app.get(
        "/api/models",
        tags=["translation"],
        response_model=schemas.ModelsAnswer,
        responses=_errors(*REFUSALS),
    )
    async def list_models() -> Response:
        """List the served models and the limits of requests."""
        further: dict[str, Any] = {"documents": documents.to_json()}
        if not show_examples:
            further["examples"] = []
        models = [each for model in service.models.values() for each in model.directions()]
        described = [{**model.to_json(), **further} for model in models]
        return json_response({"models": described, "limits": bounds})


def _answer(model: ServedModel, translated: TranslatedText, start: float) -> Response:
    """Return the answer to a request that began at `start`."""
    lines = translated.sentences(model.translator)
    return _lines_answer(model, translated.join(lines), lines, start)


def _html_answer(model: ServedModel, translated: TranslatedHtml, start: float) -> Response:
    units = [
        [TranslatedSentence("", unit.source, unit.candidates, unit.terms, unit.flags, unit.spans)]
        for unit in translated.translations
    ]
    return _lines_answer(model, translated.text, units, start)


def _lines_answer(
    model: ServedModel, text: str, lines: Sequence[Sequence[TranslatedSentence]], start: float
) -> Response:
    answer = {
        "model": model.name,
        "text": text,
        "milliseconds": round((time.perf_counter() - start) * 1000, 1),
        "paragraphs": [{"segments": [item.to_json() for item in line]} for line in lines],
    }
    return json_response(answer)


def _add_inspection(app: FastAPI, service: Service, inspections: Inspections) -> None:
    async def inspected(request: Request) -> dict[str, Any]:
        parameters = await read_json(request, service.limits, schemas.InspectRequest)
        service.check([parameters.source, parameters.target or ""])
        model = find_model(service.models, parameters.model)
        client = admission_of(request).client
        work = inspections.inspect(model, parameters.source, parameters.target, client)
        inspection = await run_while_connected(request, work, service.limits.timeout)
        return await asyncio.to_thread(inspection.to_json)  # the JSON may have megabytes

    @app.post(
        "/api/inspect",
        tags=["inspection"],
        response_model=schemas.Inspection,
        responses=_errors(*ERRORS),
        openapi_extra=described_body(schemas.InspectRequest, JSON),
    )
    async def inspect(request: Request) -> Response:
        """Return the attention weights of every head for a sentence and its translation."""
        return await asyncio.to_thread(json_response, await inspected(request))

    @app.post(
        "/api/explorer.html",
        tags=["inspection"],
        response_class=Response,
        responses={
            200: {
                "description": "A self-contained HTML document.",
                "content": {"text/html": {"schema": {"type": "string"}}},
            },
            **_errors(*ERRORS),
        },
        openapi_extra=described_body(schemas.InspectRequest, JSON),
    )
    async def explorer(request: Request) -> Response:
        """Return an HTML document that draws the attention weights."""
        from transduce.inspection.explorer_page import render_explorer

        inspection = await inspected(request)
        headers = {"Content-Disposition": 'attachment; filename="attention.html"'}
        title = f"{inspection['model']}: attention"
        html = await asyncio.to_thread(render_explorer, inspection, title=title)
        return Response(html, headers=headers, media_type="text/html")


def _add_libretranslate(app: FastAPI, service: Service, access: Access) -> None:
    refusals = _errors(*ERRORS, 501)

    @app.post(
        "/translate",
        tags=[LIBRE],
        response_model=LibreAnswer,
        responses=refusals,
        openapi_extra=described_body(LibreRequest, *TYPES),
    )
    async def libre_translate(request: Request) -> Response:
        """Translate as LibreTranslate does. Parameters may be in the query string too."""
        return await libretranslate.translate(request, service)

    @app.post(
        "/detect",
        tags=[LIBRE],
        response_model=list[Detected],
        responses=refusals,
        openapi_extra=described_body(DetectRequest, *TYPES),
    )
    async def libre_detect(request: Request) -> Response:
        """Detect the language of a text, among the languages of the models."""
        return await libretranslate.detect(request, service)

    @app.get(
        LANGUAGES,
        tags=[LIBRE],
        response_model=list[Language],
        responses=_errors(*REFUSALS),
    )
    async def list_languages() -> Response:
        """List the languages as LibreTranslate does."""
        return json_response(libretranslate.languages(service.models.values()))

    @app.get(
        SETTINGS,
        tags=[LIBRE],
        response_model=FrontendSettings,
        responses=_errors(*REFUSALS),
    )
    async def list_settings() -> Response:
        """Return the settings of LibreTranslate's own page."""
        models, needs_key = service.models.values(), access.keys is not None
        settings = libretranslate.frontend_settings(models, service.limits, needs_key=needs_key)
        return json_response(settings)


def _add_state(app: FastAPI, metrics: Metrics) -> None:
    @app.get(HEALTH, tags=["state"], response_model=schemas.Health)
    async def health() -> Response:
        """Return ok: the service is running."""
        return json_response({"status": "ok"})

    @app.get(
        "/metrics",
        tags=["state"],
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
            **_errors(*REFUSALS),
        },
    )
    async def exposition() -> Response:
        """Return metrics for Prometheus."""
        return Response(metrics.exposition(), media_type=metrics.content_type)


def _add_pages(app: FastAPI, *, has_models: bool) -> None:
    files = static_files.files()
    if not has_models:

        async def to_runs(_: Request) -> Response:
            return RedirectResponse("/runs")

        files.pop("/", None)
        app.add_route("/", to_runs, include_in_schema=False)
    for path, file in files.items():
        app.add_route(path, file.__call__, include_in_schema=False)


def _errors(*statuses: int) -> Responses:
    known = ERRORS | RARE_ERRORS
    return {status: {"model": schemas.Error, "description": known[status]} for status in statuses}


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _bad_query(_: Request, error: Exception) -> Response:
    """Answer invalid query parameters."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return Problem(400, f"{first['loc'][-1]}: {first['msg'].lower()}").response()


async def _no_route(paths: Collection[str], request: Request, error: Exception) -> Response:
    """Answer an unknown path or method."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:60]
    if error.status_code == 404:
        hint = did_you_mean(path, paths, cutoff=0.85) or " /docs describes the API."
        return Problem(404, f"there is no {path}.{hint}").response()
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"{path} does not support {request.method[:20]}: use {allowed}"
        return Problem(405, message, error.headers).response()
    return Problem(error.status_code, str(error.detail), error.headers).response()
