"""The page that describes the API, in a real browser."""

from pathlib import Path
from typing import TYPE_CHECKING

from browsing import PHONE, opened
from serving import listening, scripted
from transduce.serving.app import create_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_the_api_is_described_on_a_phone_too(browser: "Browser", tiny_run: Path) -> None:
    served, _ = scripted(tiny_run)
    with (
        listening(create_app([served])) as (host, port),
        opened(browser, size=PHONE, dark=True) as page,
    ):
        page.goto(f"http://{host}:{port}/docs")
        translate = page.locator("#post-api-translate")
        translate.wait_for()
        assert translate.locator("pre").inner_text().startswith(f"curl http://{host}:{port}/api/tr")
        assert "at least 1, at most 16" in translate.inner_text()
        translate.get_by_text("Errors").click()
        assert "The queue is full; see Retry-After." in translate.inner_text()
        assert page.locator(".operation").count() == page.locator("#contents a").count() >= 10
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
