"""The service conforms to its OpenAPI description."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from serving import scripted
from transduce.serving.app import create_app
from transduce.serving.limits import Limits

schemathesis = pytest.importorskip("schemathesis")

PATHS = (
    *("/api/translate", "/api/models", "/api/inspect", "/api/explorer.html", "/translate"),
    *("/detect", "/frontend/settings", "/languages", "/api/runs", "/api/runs/data", "/health"),
    *("/metrics", "/api/reload", "/api/documents", "/translate_file"),
    "/download_file/{identifier}",
)

ASKING = {
    "/api/translate",
    "/api/inspect",
    "/api/explorer.html",
    "/translate",
    "/detect",
    "/api/reload",
}


@pytest.fixture(scope="module")
def operations(tiny_run: Path) -> Iterator[dict[str, Any]]:
    """The OpenAPI description of the service."""
    served, _ = scripted(tiny_run)
    app = create_app([served], limits=Limits(characters=2_000))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    yield {item.ok().path: item.ok() for item in schema.get_all_operations()}
    assert app.state.service.close()


def test_every_path_is_tried(operations: dict[str, Any]) -> None:
    assert sorted(operations) == sorted(PATHS)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_every_answer_is_as_described(operations: dict[str, Any], path: str, mode: str) -> None:
    if mode == "negative" and path not in ASKING:
        return  # an empty request cannot be invalid

    @settings(
        max_examples=25,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operations[path].as_strategy(schemathesis.GenerationMode(mode)))
    def check(case: Any) -> None:
        # The description cannot express unknown model names, or that nbest is at most the beam.
        case.call_and_validate(excluded_checks=[schemathesis.checks.positive_data_acceptance])

    check()
