"""Loading the run folders of served models again, while the service goes on."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI, Request, Response

from transduce.errors import TransduceError
from transduce.serving import schemas
from transduce.serving.directions import named_model
from transduce.serving.inspections import Inspections
from transduce.serving.keys import key_in
from transduce.serving.limits import Limits
from transduce.serving.logs import logger
from transduce.serving.middleware import admission_of
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem, json_response
from transduce.serving.requests import JSON, read_json
from transduce.serving.service import Service

RELOAD = "/api/reload"
SHOWN = 12  # digits of a version in messages


class Reloads:
    """Replaces models one after the other. Each is loaded beside the old one, in a thread."""

    def __init__(
        self, service: Service, inspections: Inspections, say: Callable[[str], None]
    ) -> None:
        """`say` prints what was reloaded."""
        self._service, self._inspections, self._say = service, inspections, say
        self._one_at_a_time = asyncio.Lock()
        self._loading: Future[ServedModel] | None = None

    async def reload(self, name: str | None = None) -> list[dict[str, Any]]:
        """Reload a model, or all; raise a Problem if one cannot be loaded.

        A model that cannot be loaded stays in service as it is; the others are replaced.
        """
        service = self._service
        names = (
            [named_model(service.models, name)[0].name] if name is not None else [*service.models]
        )
        async with self._one_at_a_time:
            reloaded, failures = [], []
            for model in [service.models[name] for name in names]:
                try:
                    new = await self._load(model)
                except Problem as problem:
                    service.metrics.reloads.labels(model.name, "failed").inc()
                    failures.append(problem.message)
                    self._say(f"warning: {problem.message}")
                    continue
                service.serve(new)
                self._inspections.replace(new)
                service.metrics.reloads.labels(model.name, "replaced").inc()
                self._say(f"{new.name}: reloaded, weights {new.version[:SHOWN]}")
                reloaded.append(
                    {"name": new.name, "version": new.version, "previous": model.version}
                )
        if failures:
            raise Problem(409, "; ".join(failures))
        return reloaded

    async def reload_all(self) -> None:
        """Reload all models; failures have been reported."""
        with contextlib.suppress(Problem):
            await self.reload()

    def close(self) -> bool:
        """Return whether no model is being loaded."""
        return self._loading is None or self._loading.done()

    async def _load(self, model: ServedModel) -> ServedModel:
        executor = ThreadPoolExecutor(1, thread_name_prefix="reload")
        self._loading = executor.submit(model.load_again)
        executor.shutdown(wait=False)
        try:
            return await asyncio.wrap_future(self._loading)
        except (TransduceError, OSError) as error:
            reason = str(error)
        except Exception as error:
            logger.error("%s cannot be loaded", model.name, exc_info=error)
            reason = "it cannot be loaded: see the log of the service"
        raise Problem(
            409, f"{model.name} was not reloaded, and its old weights stay in service: {reason}"
        )


def add_reloading(
    app: FastAPI, reloads: Reloads, limits: Limits, refusals: dict[int | str, dict[str, Any]]
) -> None:
    """Add the route."""

    @app.post(
        RELOAD,
        tags=["state"],
        response_model=schemas.ReloadAnswer,
        responses=refusals,
        openapi_extra=schemas.described_body(schemas.ReloadRequest, JSON),
    )
    async def reload(request: Request) -> Response:
        """Load the run folders of models again; needs an administrator's key.

        Requests in progress are answered with the old weights.
        """
        admission_of(request).require_admin(key_in(request.scope["headers"]))
        parameters = await read_json(request, limits, schemas.ReloadRequest)
        return json_response({"models": await reloads.reload(parameters.model)})
