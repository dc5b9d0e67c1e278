"""The service as an app: its paths, and what they answer."""

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
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from transduce import __version__
from transduce.errors import did_you_mean
from transduce.serving import libretranslate, pages, runs, schemas
from transduce.serving.access import Access
from transduce.serving.connections import Idle
from transduce.serving.forms import TYPES
from transduce.serving.inspections import Inspections
from transduce.serving.limits import BEAM, NBEST, Limits
from transduce.serving.metrics import Metrics
from transduce.serving.middleware import HEALTH, ServiceMiddleware, visitor_of
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem, json_response
from transduce.serving.requests import JSON, body_of, parsed, require_json, while_there
from transduce.serving.service import Service, aside, changed

DESCRIPTION = "Translation by the Transformer of “Attention Is All You Need”, and a look inside."
ERRORS = {
    400: "A body that cannot be read, or a value that does not fit.",
    401: "A key is needed, or the one that came is not known.",
    403: "A page of another site has asked.",
    404: "No such model.",
    408: "The body did not arrive in time.",
    413: "More text than is taken at once.",
    415: "A body of another type.",
    429: "More than one client may ask for; Retry-After says when to come again.",
    503: "The queue is full; Retry-After says when to come again.",
    504: "The answer took too long.",
}
REFUSALS = (401, 403, 429)  # whatever is asked
LIBRE = "LibreTranslate"
LANGUAGES, SETTINGS = "/languages", "/frontend/settings"  # of LibreTranslate; they need no key
Responses = dict[int | str, dict[str, Any]]


def create_app(
    served: Sequence[ServedModel],
    watched: Sequence[Path] = (),
    limits: Limits | None = None,
    access: Access | None = None,
) -> FastAPI:
    """Return the app that serves these models and shows these runs."""
    limits, access = limits or Limits(), access or Access()
    measures = Metrics()
    service = Service(served, limits, measures, log_texts=access.log_texts)
    inspections = Inspections(served, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        inspections.load()
        yield
        app.state.ended = all([service.close(), inspections.close()])

    app = FastAPI(
        title="transduce",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service, app.state.ended, app.state.idle = service, True, Idle()
    _add_translation(app, service, show_examples=access.show_examples)
    _add_inspection(app, service, inspections)
    _add_libretranslate(app, service, access)
    of_runs = runs.router(watched, show_samples=access.show_examples)
    app.include_router(of_runs)
    _add_state(app, measures)
    _add_pages(app, has_models=bool(served))
    known = {route.path for route in (*app.routes, *of_runs.routes) if hasattr(route, "path")}
    _guard(app, known, measures, limits, access)
    return app


def _guard(
    app: FastAPI, known: Collection[str], measures: Metrics, limits: Limits, access: Access
) -> None:
    """Answer what goes wrong, and stand before everything."""
    answers = {route.path: route for route in app.routes if isinstance(route, APIRoute)}
    posts = {
        path: route.endpoint for path, route in answers.items() if "POST" in (route.methods or ())
    }
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _bad_query)
    app.add_exception_handler(HTTPException, partial(_no_answer, known))
    app.add_middleware(
        ServiceMiddleware,
        measures=measures,
        known=known,
        # The pages ask for a key themselves.
        free={"/", "/openapi.json", LANGUAGES, SETTINGS, *dict(pages.files())},
        posts=posts,
        limits=limits,
        access=access,
        idle=app.state.idle,
    )


def _add_translation(app: FastAPI, service: Service, *, show_examples: bool) -> None:
    limits = service.limits
    bounds = {"characters": limits.characters, "texts": limits.texts, "beam": BEAM, "nbest": NBEST}
    described = [one.to_json() for one in service.served.values()]
    if not show_examples:
        described = [{**one, "examples": []} for one in described]
    models = {"models": described, "limits": bounds}

    @app.post(
        "/api/translate",
        tags=["translation"],
        response_model=schemas.TranslateAnswer,
        responses=_errors(*ERRORS),
        openapi_extra=_body(schemas.TranslateRequest, JSON),
    )
    async def translate(request: Request) -> Response:
        """Translate a text: its lines are paragraphs, whose sentences are searched one by one.

        Sentences of requests that come together are searched together.
        """
        begin = time.perf_counter()
        require_json(request)
        wanted = parsed(await body_of(request, limits), schemas.TranslateRequest)
        served = service.find(wanted.model)
        search = served.translator.config.search
        config = changed(search, wanted.beam, wanted.alpha, wanted.nbest)
        client = visitor_of(request).client
        work = service.translate(served, [wanted.text], config, client, split=wanted.split)
        (translated,) = await while_there(request, work, limits.timeout)
        text, paragraphs = await service.written(served, translated)
        milliseconds = round((time.perf_counter() - begin) * 1000, 1)
        answer = {
            "model": served.name,
            "text": text,
            "milliseconds": milliseconds,
            "paragraphs": paragraphs,
        }
        return await aside(partial(json_response, answer), translated.characters)

    @app.get(
        "/api/models",
        tags=["translation"],
        response_model=schemas.ModelsAnswer,
        responses=_errors(*REFUSALS),
    )
    async def list_models() -> Response:
        """List the models that are served, and what may be asked of them."""
        return json_response(models)


def _add_inspection(app: FastAPI, service: Service, inspections: Inspections) -> None:
    async def inspected(request: Request) -> dict[str, Any]:
        require_json(request)
        wanted = parsed(await body_of(request, service.limits), schemas.InspectRequest)
        service.take([wanted.source, wanted.target or ""])
        served = service.find(wanted.model)
        client = visitor_of(request).client
        work = inspections.inspect(served, wanted.source, wanted.target, client)
        found = await while_there(request, work, service.limits.timeout)
        return await asyncio.to_thread(found.to_json)  # it may be megabytes, and others wait

    @app.post(
        "/api/inspect",
        tags=["inspection"],
        response_model=schemas.Inspection,
        responses=_errors(*ERRORS),
        openapi_extra=_body(schemas.InspectRequest, JSON),
    )
    async def inspect(request: Request) -> Response:
        """Return what every attention head looks at while a sentence is translated."""
        return await asyncio.to_thread(json_response, await inspected(request))

    @app.post(
        "/api/explorer.html",
        tags=["inspection"],
        response_class=Response,
        responses={
            200: {
                "description": "An HTML document that needs nothing else.",
                "content": {"text/html": {"schema": {"type": "string"}}},
            },
            **_errors(*ERRORS),
        },
        openapi_extra=_body(schemas.InspectRequest, JSON),
    )
    async def explorer(request: Request) -> Response:
        """Return the same as a document to keep, which draws it."""
        from transduce.inspection.explorer_page import render_explorer

        found = await inspected(request)
        headers = {"Content-Disposition": 'attachment; filename="attention.html"'}
        title = f"{found['model']}: attention"
        written = await asyncio.to_thread(render_explorer, found, title=title)
        return Response(written, headers=headers, media_type="text/html")


def _add_libretranslate(app: FastAPI, service: Service, access: Access) -> None:
    refusals = _errors(*(one for one in ERRORS if one != 404))

    @app.post(
        "/translate",
        tags=[LIBRE],
        response_model=schemas.LibreAnswer,
        responses=refusals,
        openapi_extra=_body(schemas.LibreRequest, *TYPES),
    )
    async def libre_translate(request: Request) -> Response:
        """Translate as LibreTranslate does. Parameters may be in the query string too."""
        return await libretranslate.translate(request, service)

    @app.post(
        "/detect",
        tags=[LIBRE],
        response_model=list[schemas.Detected],
        responses=refusals,
        openapi_extra=_body(schemas.DetectRequest, *TYPES),
    )
    async def libre_detect(request: Request) -> Response:
        """List the languages that the models translate from. The text is not looked at."""
        return await libretranslate.detect(request, service)

    served = service.served.values()
    languages = libretranslate.languages(served)
    settings = libretranslate.frontend_settings(
        served, service.limits, needs_key=access.keys is not None
    )

    @app.get(
        LANGUAGES,
        tags=[LIBRE],
        response_model=list[schemas.Language],
        responses=_errors(*REFUSALS),
    )
    async def list_languages() -> Response:
        """List the languages as LibreTranslate does."""
        return json_response(languages)

    @app.get(
        SETTINGS,
        tags=[LIBRE],
        response_model=schemas.FrontendSettings,
        responses=_errors(*REFUSALS),
    )
    async def list_settings() -> Response:
        """Return what LibreTranslate tells its own page."""
        return json_response(settings)


def _add_state(app: FastAPI, measures: Metrics) -> None:
    @app.get(HEALTH, tags=["state"], response_model=schemas.Health)
    async def health() -> Response:
        """Tell that the service is there."""
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
    async def metrics() -> Response:
        """Return counters and times for Prometheus."""
        return Response(measures.written(), media_type=measures.content_type)


def _add_pages(app: FastAPI, *, has_models: bool) -> None:
    found = dict(pages.files())
    if not has_models:

        async def to_runs(_: Request) -> Response:
            return RedirectResponse("/runs")

        found.pop("/", None)
        app.add_route("/", to_runs, include_in_schema=False)
    for path, file in found.items():
        app.add_route(path, file.__call__, include_in_schema=False)


def _body(model: type[BaseModel], *types: str) -> dict[str, Any]:
    """Return how OpenAPI describes a body, which the path reads by itself."""
    schema = model.model_json_schema()
    content = {kind: {"schema": schema} for kind in types}
    return {"requestBody": {"required": True, "content": content}}


def _errors(*statuses: int) -> Responses:
    return {one: {"model": schemas.Error, "description": ERRORS[one]} for one in statuses}


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _bad_query(_: Request, error: Exception) -> Response:
    """Answer where a path's own parameters do not fit."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return Problem(400, f"{first['loc'][-1]}: {first['msg'].lower()}").response()


async def _no_answer(known: Collection[str], request: Request, error: Exception) -> Response:
    """Answer where there is no such path, or no such method."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:60]
    if error.status_code == 404:
        hint = did_you_mean(path, known, cutoff=0.85) or " /docs shows what there is."
        return Problem(404, f"there is no {path}.{hint}").response()
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        sentence = f"{path} does not take {request.method[:20]}: use {allowed}"
        return Problem(405, sentence, error.headers).response()
    return Problem(error.status_code, str(error.detail), error.headers).response()
